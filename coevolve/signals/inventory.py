"""The inventory of an environment: its tools and their apps, from its worker or from a file."""

from __future__ import annotations

import difflib
import os
from collections import Counter
from collections.abc import Collection
from typing import NamedTuple

import msgspec
from msgspec import Struct

from coevolve.errors import UsageError

# Of 128 BFCL and 457 AppWorld names this finds 99 % of camel-cased ones and plurals, and 90 % of
# those with a suffix such as `_by_name`.
NEAR = 0.75  # Least ratio of equal characters (`difflib`) at which a tool is near a name
MAX_NAME = 200  # Characters of a name that are compared, in quadratic time


class Inventory(NamedTuple):
    env: str | None  # The environment it belongs to; None: to whatever the rollouts name
    tools: dict[str, str]  # Tool → app (may be empty), in the order of the description

    @property
    def apps(self) -> list[str]:
        return sorted(set(self.tools.values()))

    def covers(self, env: str) -> bool:
        return self.env in (None, env)

    def coverage(self, called: Collection[str]) -> dict[str, float]:
        """The share of each app's tools that were called."""
        offered = Counter(self.tools.values())
        used = Counter(self.tools[tool] for tool in called if tool in self.tools)
        return {app: used[app] / count for app, count in offered.items()}

    def nearest(self, name: str) -> str | None:
        """The tool that a name was probably meant for: the one behind its prefix, else the most
        alike; None where none is near."""
        last = name.rpartition(".")[2]
        if last in self.tools:
            return last
        near = difflib.get_close_matches(name[:MAX_NAME], self.tools, 1, NEAR)
        return near[0] if near else None


def inventory(env: str | None, tools: dict[str, str]) -> Inventory:
    """An inventory in which tools without an app get the name before their first dot."""
    return Inventory(env, {name: app or name.split(".", 1)[0] for name, app in tools.items()})


class _Tool(Struct):
    name: str
    app: str = ""


class _Description(Struct):
    tools: list[_Tool]


def load(path: str | os.PathLike[str]) -> Inventory:
    """Reads a JSON file: a list of tools ({"name", "app"?}), or an object that holds such a list as
    `tools`, as a worker's `describe` gives."""
    try:
        with open(path, "rb") as stream:
            found = msgspec.json.decode(stream.read(), type=list[_Tool] | _Description)
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from error
    except msgspec.DecodeError as error:
        raise UsageError(f"{path}: no list of tools: {error}") from error
    tools = found.tools if isinstance(found, _Description) else found
    return inventory(None, {tool.name: tool.app for tool in tools})
