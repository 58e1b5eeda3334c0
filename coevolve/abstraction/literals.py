"""Can a solver that has only the query find every value of a solution?

An argument is grounded if the user's words so far, or what the environment shows before them, *say* it; if an earlier call of
the solution *shows* it; or if there is nothing to find: a truth value, null, nothing, the parameter's default, one of a choice
of at most `FEW` ways, all of a list's choices. A longer enum is of things (cities, currencies), and the query says which. What
a user of the start state would know counts only if the query says it.

Saying is judged by meaning as far as a program can: letters of any case, straight or curly quotes, `1,500` for 1500.0 and
``three`` for 3 (`numbers`), ``July 4th, 2025`` for 2025-07-04, ``parking brake`` for parkingBrake, and a path by its parts. Of
code the constants are judged that it passes to tools (`code_literals`).
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from coevolve.abstraction.code_literals import spoken
from coevolve.environments.numbers import says_number
from coevolve.environments.protocol import Tool
from coevolve.environments.said import is_number, mentions, said
from coevolve.provenance import at, identity, output, sources, trivial
from coevolve.records import Call, Step

FEW = 4
"""Members of an enum that is a choice of ways (on, off, auto), which a request makes without naming one."""
_DATE = re.compile(r"(\d{4})-(\d\d)-(\d\d)")
_MONTHS = (
    "January February March April May June July August September October November December".split()
)
_QUOTES = str.maketrans("‘’“”–", "''\"\"-")


class Unseen(NamedTuple):
    """An argument that nothing gives."""

    turn: int
    name: str
    """Tool and path, with dots between them."""
    value: Any


def unseen(
    steps: Sequence[Step], queries: Sequence[str], observation: str, tools: Mapping[str, Tool]
) -> Iterator[Unseen]:
    """The ungrounded arguments of an executed solution. `observation` is what the environment shows at the start."""
    shown: list[str] = []
    apps = {name: tool.app for name, tool in tools.items()}
    for step, found in zip(steps, sources(list(steps), apps), strict=True):
        text = "\n".join([*queries[: step.turn + 1], observation])
        if isinstance(step.action, Call):
            given = [path for path, source in found.items() if source.step is None]
            calls = [(step.action.tool, step.action.arguments, given)]
        else:
            calls = [
                (tool, said, [(name,) for name in said])
                for tool, said in spoken(step.action, tools)
            ]
        for tool, arguments, paths in calls:
            for path in paths:
                if not _grounded(tools[tool], arguments, path, text, shown):
                    yield Unseen(step.turn, ".".join([tool, *map(str, path)]), at(arguments, path))
        shown.append(_told(step.observation))


def _grounded(
    tool: Tool, arguments: dict[str, Any], path: tuple, text: str, shown: Sequence[str]
) -> bool:
    value = at(arguments, path)
    return (
        _nothing_to_find(value, arguments[path[0]], path, tool)
        or said(arguments, path, tool, text)
        or says(text, value)
        or _shows(shown, text, value)
    )


def _nothing_to_find(value: Any, argument: Any, path: tuple, tool: Tool) -> bool:
    schema = tool.parameters.get("properties", {}).get(path[0], {})
    options, members = (_identities(s.get("enum")) for s in (schema, schema.get("items", {})))
    choice = len(options) <= FEW and identity(value) in options
    everything = bool(members) and members == _identities(argument)
    return value is None or isinstance(value, bool) or value in ([], {}, "") or choice or everything


def _identities(values: Any) -> set[Any]:
    return {identity(value) for value in values} if isinstance(values, list) else set()


def says(text: str, value: Any) -> bool:
    """Whether a text says a value, in the form that people give to it."""
    if isinstance(value, str):
        text = _plain(text)
        return any(mentions(text, _plain(form)) for form in _forms(value))
    return is_number(value) and says_number(text, value)


def _plain(text: str) -> str:
    return " ".join(unicodedata.normalize("NFKC", text).translate(_QUOTES).split())


def _forms(value: str) -> Iterator[str]:
    yield value
    yield value.strip().rstrip(".!?") or value
    if re.fullmatch(r"\w+", value):
        yield re.sub(r"(?<=[a-z])(?=[A-Z])|_", " ", value)
    if date := _DATE.fullmatch(value):
        year, month, day = (int(part) for part in date.groups())
        if 1 <= month <= 12:
            for name in (_MONTHS[month - 1], _MONTHS[month - 1][:3]):
                for number in (str(day), _ordinal(day)):
                    yield from (f"{name} {number}, {year}", f"{name} {number} {year}")
                    yield from (
                        f"{number} {name} {year}",
                        f"{number} of {name} {year}",
                        f"{number} of {name}, {year}",
                    )


def _ordinal(day: int) -> str:
    return f"{day}{'th' if 10 < day < 14 else {1: 'st', 2: 'nd', 3: 'rd'}.get(day % 10, 'th')}"


def _told(observation: str) -> str:
    """The names and values of an output, a line each, so that a list's numbers stand apart; the text of what is no JSON."""
    parts, lines = [output(observation)], []
    for part in parts:
        if isinstance(part, dict | list):
            parts += [*part, *part.values()] if isinstance(part, dict) else part
        else:
            lines.append(part if isinstance(part, str) else json.dumps(part))
    return "\n".join(lines)


def _shows(shown: Sequence[str], text: str, value: Any) -> bool:
    """Whether an earlier observation mentions the value, or it is a path of parts that were said or shown."""
    if trivial(value) or not isinstance(value, str | int | float):
        return False
    if any(says(observation, value) for observation in shown):
        return True
    parts = (
        [part for part in value.split("/") if part not in ("", ".", "..")]
        if isinstance(value, str)
        else []
    )
    return (
        "/" in str(value)
        and bool(parts)
        and all(any(says(t, part) for t in (text, *shown)) for part in parts)
    )
