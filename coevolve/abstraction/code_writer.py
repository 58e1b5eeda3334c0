"""A slice's calls as one program, and the turns of its request as one: how tasks look where actions are code.

Each call becomes a statement; a call whose output a later argument takes is given a name, and the argument says where in that output
it stands. What the request names (`Language.rows`) is found by that name, as whoever solves the task has to find it: no place in a
list is written that the request doesn't say, and no condition whose words aren't in the clause for its goal. Logging in and the like come from the environment (`protocol.Code`). The call that ends a program goes to its end.
"""

from __future__ import annotations

import keyword
from collections.abc import Mapping, Sequence
from typing import Any

from coevolve.abstraction.goals import Slice
from coevolve.abstraction.grounding import ROW_SLOT, Trace, reference
from coevolve.abstraction.turns import Turn
from coevolve.environments.programs import call_text, program, python_literal
from coevolve.environments.protocol import CodeSyntax, Tool
from coevolve.grounding.programs import unknown_constants
from coevolve.provenance import Source, at, output

_RESERVED = frozenset(
    [
        *keyword.kwlist,
        "apis",
        "print",
        "next",
        "row",
        "list",
        "dict",
        "set",
        "str",
        "file",
        "id",
        "type",
    ]
)
_ENDINGS = (".", "?", "!")


class Unwritable(Exception):
    """Why there is no program."""


def one_request(turns: Sequence[str]) -> str:
    """The turns as the sentences of one request."""
    first, *rest = (turn.strip() for turn in turns)
    sentences = [first, *(f"Also, {turn}" for turn in rest)]
    ended = (sentence if sentence.endswith(_ENDINGS) else f"{sentence}." for sentence in sentences)
    return " ".join(f"{sentence[:1].upper()}{sentence[1:]}" for sentence in ended)


def write(
    trace: Trace,
    tools: Mapping[str, Tool],
    found: Slice,
    turns: Sequence[Turn],
    query: Sequence[str],
    code: CodeSyntax,
) -> str:
    """The program of the calls of these turns, in order. Raises Unwritable where two calls would end it, where it needs a place in
    a list, and where what a turn's calls look up is not said in that turn."""
    order = [index for turn in turns for index in turn.calls]
    ends = [index for index in order if found.calls[index].tool in code.ends]
    if len(ends) > 1:
        raise Unwritable("ends_twice")
    used = {source.step for index in order for source in trace.links[index].values()}
    writer = _Program(trace, tools, found, code)
    statements = {
        i: writer.statement(i, named=i in used)
        for i in [*(i for i in order if i not in ends), *ends]
    }
    for turn, text in zip(turns, query, strict=True):
        for index in _looked_up(trace, tools, found, turn):
            if unknown_constants(statements[index], tools, text, code):
                raise Unwritable("unstated_lookup")
    return program(code, list(statements.values()), ended=bool(ends))


def check_apart(trace: Trace, found: Slice, turns: Sequence[Turn]) -> None:
    """Raises Unwritable where a later turn takes away a thing that an earlier one made, or overwrites what that one said of it."""
    made: dict[int, tuple[set[str], set[str]]] = {}
    for turn in turns:
        for index in turn.calls:
            call, effects = found.calls[index], found.results[index].effects
            earlier = {source.step for source in trace.links[index].values()} - set(turn.calls)
            for said, things in (made[step] for step in sorted(earlier & made.keys())):
                if things & {effect.entity for effect in effects if effect.op == "remove"}:
                    raise Unwritable("cancels")
                if (
                    said
                    & call.arguments.keys()
                    & {effect.field for effect in effects if effect.op == "set"}
                ):
                    raise Unwritable("overwrites")
            if things := {effect.entity for effect in effects if effect.op == "add"}:
                made[index] = set(call.arguments), things


def _looked_up(trace: Trace, tools: Mapping[str, Tool], found: Slice, turn: Turn) -> list[int]:
    """The turn's calls and the looks that inform them, transitively, whichever turn they are in."""
    closed, open_ = set(), list(turn.calls)
    while open_:
        index = open_.pop()
        if index not in closed and (
            index in turn.calls or tools[found.calls[index].tool].read_only
        ):
            closed.add(index)
            open_.extend(source.step for source in trace.links[index].values())
    return sorted(closed)


class _Program:
    def __init__(self, trace: Trace, tools: Mapping[str, Tool], found: Slice, code: CodeSyntax):
        self._trace, self._tools, self._found, self._code = trace, tools, found, code
        self._names: dict[int, str] = {}

    def statement(self, index: int, *, named: bool) -> str:
        call = self._found.calls[index]
        arguments = {
            name: self._expression(index, (name,), value) for name, value in call.arguments.items()
        }
        text = call_text(self._code, call.tool, arguments)
        if not named:
            return text
        self._names[index] = self._name(call.tool)
        return f"{self._names[index]} = {text}"

    def _expression(self, index: int, path: tuple, value: Any) -> str:
        links = self._trace.links[index]
        if path in links:
            return self._observed(index, links[path])
        if isinstance(value, list):
            return f"[{', '.join(self._expression(index, (*path, n), member) for n, member in enumerate(value))}]"
        if isinstance(value, dict):
            items = (
                f"{python_literal(k)}: {self._expression(index, (*path, k), member)}"
                for k, member in value.items()
            )
            return f"{{{', '.join(items)}}}"
        return python_literal(value)

    def _observed(self, index: int, source: Source) -> str:
        """Where an earlier output has the value: in the row of that name, where the request names one. Raises Unwritable where it
        is found by its place alone."""
        told, app = (
            output(self._found.results[source.step].observation),
            self._tools[self._found.calls[index].tool].app,
        )
        phrase = reference(self._tools, self._trace.steps[source.step], source.path, app)
        name = self._names[source.step]
        places = [n for n, key in enumerate(source.path) if isinstance(key, int)]
        if phrase and phrase.row and places:
            inner = phrase.row[places[-1] + 1 :]
            tests = [
                f"row{_path((*inner, *slot.split('.')))} == {python_literal(at(told, (*phrase.row, *slot.split('.'))))}"
                for slot in dict.fromkeys(ROW_SLOT.findall(phrase.template))
            ]
            rows, chosen = _rows(name, source.path, places), _path((*inner, source.path[-1]))
            return f"next(row for {rows} if {' and '.join(tests)}){chosen}"
        if any(source.path[place] for place in places):
            raise Unwritable("by_place")
        return f"{name}{_path(source.path)}"

    def _name(self, tool: str) -> str:
        """`songs` for `spotify.search_songs`, with a number where it is taken."""
        last = tool.rpartition(".")[2]
        base = last.partition("_")[2] or last
        taken = {*self._names.values(), *self._code.setup, *_RESERVED}
        name, number = base, 2
        while name in taken:
            name, number = f"{base}_{number}", number + 1
        return name


def _rows(name: str, path: Sequence[Any], places: Sequence[int]) -> str:
    """`row in songs`, or, for lists in the rows of others, `group in groups for row in group["members"]`."""
    loops, whole, begin = [], name, 0
    for number, place in enumerate(places):
        one = "row" if place == places[-1] else f"part_{number + 1}" if number else "part"
        loops.append(f"{one} in {whole}{_path(path[begin:place])}")
        whole, begin = one, place + 1
    return " for ".join(loops)


def _path(path: Sequence[Any]) -> str:
    return "".join(f"[{python_literal(key)}]" for key in path)
