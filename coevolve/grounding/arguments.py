"""Whether a solver who has only the request can know an argument of a call: the one verdict on it.

- `stated`: it stands in the user's turns so far or in what the environment shows before them, in a
  form that people use (`texts`) or in the environment's words for it (`Language.words`);
- `free`: it needs no statement, being null, nothing, the parameter's default, a truth value, one of
  a choice of at most `FEW_CHOICES` ways, or all of a list's choices;
- `shown`: it stands in the output of an earlier call, or is a path of stated and shown parts;
- `unknown`: none of these.

A truth value or a choice of an optional parameter is not free where the schema has another default
or the environment has words for it: a solver who is told nothing leaves it out. A truth value that
departs from its default is stated by a word of the parameter's name (`overwrite`). What a user of
the start state would know counts only where the request states it.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

from coevolve.environments.protocol import Tool
from coevolve.grounding.sources import GIVEN, ValueSource, at, identity, trivial
from coevolve.grounding.texts import mentions, plain, states

FEW_CHOICES = 4
"""Members of an enum of ways (on, off, auto); a longer one is of things (cities, currencies)."""


class Grounding(NamedTuple):
    """The verdict on a value."""

    kind: Literal["stated", "free", "shown", "unknown"]
    steps: frozenset[int] = frozenset()  # Indices of the earlier steps that show it


STATED, FREE, UNKNOWN = Grounding("stated"), Grounding("free"), Grounding("unknown")


def grounded(
    arguments: dict[str, Any],
    path: tuple,
    tool: Tool,
    text: str,
    shown: Sequence[str] = (),
    source: ValueSource = GIVEN,
) -> Grounding:
    """The verdict on the part of a call's arguments at `path`. `text` has the user's turns so far,
    `shown` the earlier outputs by step, `source` is where the value was first seen."""
    value, whole = at(arguments, path), arguments[path[0]]
    if is_default(tool, path[0], whole):
        return FREE
    if _stated(value, whole, path[0], tool, text):
        return STATED
    if source.step is not None:
        return Grounding("shown", frozenset([source.step]))
    if _free(value, whole, path[0], tool):
        return FREE
    if isinstance(value, dict | list):
        keys = value if isinstance(value, dict) else range(len(value))
        members = [grounded(arguments, (*path, key), tool, text, shown) for key in keys]
        return _joined(members)
    return evidence(value, text, shown)


def is_default(tool: Tool, name: str, value: Any) -> bool:
    """Whether the schema gives an argument this value where a call leaves it out."""
    schema = tool.parameters.get("properties", {}).get(name, {})
    return "default" in schema and identity(schema["default"]) == identity(value)


def _stated(value: Any, whole: Any, name: str, tool: Tool, text: str) -> bool:
    words = tool.language.words.get(name, {}) if tool.language else {}
    phrases = [words[key] for key in (json_key(value), json_key(whole)) if key in words]
    if states(text, value) or any(mentions(plain(text), plain(phrase)) for phrase in phrases):
        return True
    if not isinstance(value, bool):
        return False
    schema = tool.parameters.get("properties", {}).get(name)
    departs = value if schema is None else schema.get("default") is (not value)
    words_of_name = [word for word in name.split("_") if len(word) > 2]
    return departs and any(mentions(text, word) for word in words_of_name)


def _free(value: Any, whole: Any, name: str, tool: Tool) -> bool:
    """Whether there is nothing to find."""
    properties = tool.parameters.get("properties", {})
    schema = properties.get(name, {})
    members = _identities(schema.get("items", {}).get("enum"))
    if value is None or value in ([], {}, "") or (members and members == _identities(whole)):
        return True
    if isinstance(value, bool):
        if name not in properties or (tool.read_only and not tool.checked):
            return not value or tool.read_only  # a look-up has its own way of asking
        choice = True
    else:
        ways = _identities(schema.get("enum"))
        choice = identity(value) in ways and len(ways) <= FEW_CHOICES
    worded = tool.language is not None and name in tool.language.words
    required = name in tool.parameters.get("required", [])
    return choice and (required or not worded and "default" not in schema)


def _joined(members: Sequence[Grounding]) -> Grounding:
    """The verdict on a list or an object: its worst member's."""
    kinds = {member.kind for member in members}
    worst = next(kind for kind in ("unknown", "shown", "stated", "free") if kind in kinds)
    return Grounding(worst, frozenset().union(*(member.steps for member in members)))


def evidence(value: Any, text: str, shown: Sequence[str]) -> Grounding:
    """The verdict on a value without a parameter, or, for a path, on its parts."""
    if states(text, value):
        return STATED
    if trivial(value):
        return UNKNOWN
    if (step := _shown_by(shown, value)) is not None:
        return Grounding("shown", frozenset([step]))
    path = value.split("/") if isinstance(value, str) and "/" in value else []
    parts = [part for part in path if part not in ("", ".", "..")]
    steps = {_shown_by(shown, part) for part in parts if not states(text, part)}
    if not parts or None in steps:
        return UNKNOWN
    return Grounding("shown", frozenset(steps)) if steps else STATED


def _shown_by(shown: Sequence[str], value: Any) -> int | None:
    """The first output that states the value."""
    return next((step for step, output in enumerate(shown) if states(output, value)), None)


def _identities(values: Any) -> set[Any]:
    return {identity(value) for value in values} if isinstance(values, list) else set()


def json_key(value: Any) -> str:
    """The JSON text under which `Language.words` has a value."""
    return json.dumps(value, separators=(",", ":"))
