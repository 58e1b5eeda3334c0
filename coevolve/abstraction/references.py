"""Gives the phrase by which a request refers to a part of an earlier output.

A tool's `Language` has phrases over the arguments of its call (`refer`) and over the row that the
value stands in (`rows`, `facts`); a tool without language is referred to by its description. A
member of a list is referred to by its place.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from coevolve.environments.protocol import Tool
from coevolve.grounding.sources import at, output
from coevolve.grounding.texts import ORDINALS
from coevolve.records import Call, Step

ROW_SLOT = re.compile(r"\{([\w.]+)\}")
"""A slot of a phrase over a row: a key of it, or a path of keys."""


class OutputPhrase(NamedTuple):
    """A phrase for a part of an output: a template over the call's arguments or the value's row."""

    template: str
    bare: bool
    """The phrase is one argument (the name behind an id) or the name of a row: a look-up by key."""
    row: tuple | None = None  # Path to the object whose keys the template has as slots


def reference(tools: Mapping[str, Tool], step: Step, path: tuple, app: str) -> OutputPhrase | None:
    """The phrase of a request of `app` for a part of a step's output; None where nobody would refer
    to it. The bare name behind a key stands for its row only in the app that both belong to."""
    tool = tools.get(step.action.tool)
    if tool is None:
        return None
    if row := _row(tool, step, path):
        return row
    names = [key for key in path if isinstance(key, str)]
    places = [key for key in path if isinstance(key, int)]
    if len(places) > 1 or (places and places[0] >= len(ORDINALS)):
        return None
    template = _template(tool, step.action, names)
    if template is None:
        return None
    bare = template in {f"{{{name}}}" for name in step.action.arguments}
    if bare and (tool.app != app or places):
        return None
    if places:
        whole = at(output(step.observation), path[: path.index(places[0])])
        template = f"the {ORDINALS[places[0]] if len(whole) > 1 else 'only one'} of {template}"
    return OutputPhrase(template, bare)


def _row(tool: Tool, step: Step, path: tuple) -> OutputPhrase | None:
    """The phrase over the value's row; None where the language or the row lacks its words."""
    key = path[-1] if path else None
    if tool.language is None or not isinstance(key, str):
        return None
    template = tool.language.rows.get(key) or tool.language.facts.get(key)
    if template is None or row_words(template, output(step.observation), path[:-1]) is None:
        return None
    return OutputPhrase(template, key in tool.language.rows, path[:-1])


def row_words(template: str, parsed: Any, row: tuple) -> dict[str, str] | None:
    """The row's texts for the slots of a phrase; None where the row lacks one."""
    words = {}
    for slot in ROW_SLOT.findall(template):
        try:
            words[slot] = at(parsed, (*row, *slot.split(".")))
        except (KeyError, IndexError, TypeError):
            return None
    return words if all(isinstance(word, str) and word.strip() for word in words.values()) else None


def _template(tool: Tool, call: Call, names: Sequence[str]) -> str | None:
    if tool.language:
        keys = (".".join(names), names[-1] if names else "")
        return next((tool.language.refer[key] for key in keys if key in tool.language.refer), None)
    what = " ".join(names[-1].replace("_", " ").split()) if names else "answer"
    slots = ", ".join(f"{name}: {{{name}}}" for name in call.arguments)
    return f"the {what} from this: {described(tool)}" + (f" ({slots})" if slots else "")


def described(tool: Tool) -> str:
    """The first sentence of the tool's description, as a clause."""
    first = tool.description.strip().split("\n")[0].split(". ")[0].rstrip(".")
    return first[:1].lower() + first[1:]
