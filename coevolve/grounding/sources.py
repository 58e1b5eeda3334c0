"""Finds where each argument of an executed call came from.

`sources` compares the arguments of every step with the outputs of earlier ones. An argument that
equals a part of an earlier output was *observed* there, unless an earlier call (or the very call
that gave the output) already held the value: then the output only echoes what the actor knew.
Everything else is *given*. Steps that failed are no source.

Equality is JSON's: 10 and 10.0 are one number, 10 and "10" are not equal, true is no number. Truth
values, null, integers below 10 and strings of one or two letters are equal by chance too often:
they count as observed only where the names agree (`ticket_id` with `id` or `ticket_id`). Of several
parts that fit, one with an agreeing name wins, then one of the same app, then the earliest. An
observation that is not JSON is one text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import msgspec

from coevolve.records import Step


class ValueSource(NamedTuple):
    """Index of the earlier step and the path into its parsed output; a given value has None."""

    step: int | None
    path: tuple


GIVEN = ValueSource(None, ())


class _ObservedPart(NamedTuple):
    source: ValueSource
    words: tuple[str, ...]
    app: str


def output(observation: str) -> Any:
    """The parsed JSON of an observation, or its text where it is none."""
    try:
        return msgspec.json.decode(observation)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return observation


def sources(
    steps: list[Step], apps: Mapping[str, str] | None = None
) -> list[dict[tuple, ValueSource]]:
    """Per step: path of each argument → its source. A list or object that equals an observed one is
    one path, else its members are followed. `apps` maps tools to apps. Code has no arguments."""
    parts: dict[Any, list[_ObservedPart]] = {}
    held: dict[Any, set[tuple[str, ...]]] = {}
    found: list[dict[tuple, ValueSource]] = []
    for index, step in enumerate(steps):
        found.append({})
        if isinstance(step.action, str):
            continue
        app = (apps or {}).get(step.action.tool) or step.action.tool.partition(".")[0]
        found[-1].update(_arguments(step.action.arguments, (), parts, app))
        for path, value in parts_of(step.action.arguments):
            if not isinstance(value, list | dict):
                held.setdefault(identity(value), set()).add(_words_of(path))
        for path, part in parts_of(output(step.observation)) if step.error is None else ():
            same, words = identity(part), _words_of(path)
            known = held.get(same, ())
            if not known or (trivial(part) and not any(_agree(words, other) for other in known)):
                parts.setdefault(same, []).append(
                    _ObservedPart(ValueSource(index, path), words, app)
                )
    return found


def at(value: Any, path: tuple) -> Any:
    """The part that a path leads to; raises KeyError, IndexError or TypeError without one."""
    for key in path:
        value = value[key]
    return value


def parts_of(value: Any, path: tuple = ()) -> Iterator[tuple[tuple, Any]]:
    """(path, part) of all parts of a parsed output, the whole first."""
    yield path, value
    if isinstance(value, (list, dict)):
        for key, member in _members(value):
            yield from parts_of(member, (*path, key))


def trivial(value: Any) -> bool:
    """Whether a value is too common for its equality to mean anything."""
    if value is None or isinstance(value, bool):
        return True
    if isinstance(value, (int, float)):
        return abs(value) < 10 and float(value).is_integer()
    return len(value) < (3 if isinstance(value, str) else 1)


def identity(value: Any) -> Any:
    """A hashable form in which equal JSON values, and only those, are equal."""
    if isinstance(value, dict):
        return "object", tuple(sorted((key, identity(member)) for key, member in value.items()))
    if isinstance(value, list):
        return "list", tuple(identity(member) for member in value)
    kind = {bool: "truth", str: "text"}.get(type(value), "number")
    return kind, value


def words_of(name: str) -> tuple[str, ...]:
    """The words of an identifier: `orderId`, `order_id` → ("order", "id")."""
    return tuple(word.lower() for word in re.findall(r"[A-Z]?[a-z]+|[A-Z]+|\d+", name))


def alike(a: tuple, b: tuple) -> bool:
    """Whether the last names on two paths agree, as `receiver_email` and `email` do."""
    return _agree(_words_of(a), _words_of(b))


def _arguments(
    value: Any, path: tuple, parts: Mapping[Any, list[_ObservedPart]], app: str
) -> Iterator[tuple[tuple, ValueSource]]:
    if path:
        source = _best(value, _words_of(path), parts.get(identity(value), ()), app)
        if source or not isinstance(value, (list, dict)) or not value:
            yield path, source or GIVEN
            return
    for key, member in _members(value):
        yield from _arguments(member, (*path, key), parts, app)


def _best(value: Any, words: tuple[str, ...], parts: Any, app: str) -> ValueSource | None:
    fitting = [part for part in parts if not trivial(value) or _agree(words, part.words)]

    def rank(part: _ObservedPart) -> tuple:
        return not _agree(words, part.words), part.app != app, part.source.step

    return min(fitting, key=rank).source if fitting else None


def _members(value: Any) -> Iterator[tuple[Any, Any]]:
    return iter(value.items()) if isinstance(value, dict) else iter(enumerate(value))


def last_name(path: tuple) -> str:
    """The last name on a path: ("orderIds", 0) → "orderIds"; "" where it has none."""
    return next((key for key in reversed(path) if isinstance(key, str)), "")


def _words_of(path: tuple) -> tuple[str, ...]:
    return words_of(last_name(path))


def _agree(a: tuple[str, ...], b: tuple[str, ...]) -> bool:
    """One name ends with the other: `ticket_id` and `id`."""
    short, long = sorted((a, b), key=len)
    return bool(short) and long[len(long) - len(short) :] == short
