"""Writes a slice's calls as one program, and the turns of its request as one: tasks of environments
whose actions are code.

Each call becomes a statement; a call whose output a later argument takes is given a name, and the
argument says where in that output it stands. What the request names (`Language.rows`) is found by
that name, as whoever solves the task has to find it: no place in a list is written that the request
doesn't state, and no condition whose words aren't in the clause for its goal. Logging in and the
like come from the environment (`CodeSyntax`). The call that ends a program goes to its end.
"""

from __future__ import annotations

import keyword
from collections.abc import Sequence
from typing import Any

from coevolve.abstraction.goals import GoalSlice, informed
from coevolve.abstraction.references import ROW_SLOT, reference
from coevolve.abstraction.request_writer import Unwritable
from coevolve.abstraction.trace import ExplorationTrace
from coevolve.abstraction.turns import TurnPlan
from coevolve.environments.programs import call_text, program, python_literal
from coevolve.environments.protocol import CodeSyntax
from coevolve.grounding.programs import unknown_constants
from coevolve.grounding.sources import ValueSource, at, output

_RESERVED = {*keyword.kwlist, *"apis print next row list dict set str file id type".split()}


def one_request(turns: Sequence[str]) -> str:
    """The turns as the sentences of one request."""
    first, *rest = (turn.strip() for turn in turns)
    sentences = [first, *(f"Also, {turn}" for turn in rest)]
    ended = (s if s.endswith((".", "?", "!")) else f"{s}." for s in sentences)
    return " ".join(f"{sentence[:1].upper()}{sentence[1:]}" for sentence in ended)


def write_program(
    trace: ExplorationTrace,
    found: GoalSlice,
    turns: Sequence[TurnPlan],
    query: Sequence[str],
    code: CodeSyntax,
) -> str:
    """The program of the calls of these turns, in order. Raises Unwritable if it would end twice,
    needs a place in a list, or looks up what its turn does not state."""
    order = [index for turn in turns for index in turn.calls]
    ends = [index for index in order if found.calls[index].tool in code.ends]
    if len(ends) > 1:
        raise Unwritable("ends_twice")
    used = set().union(*(trace.informants(index) for index in order))
    writer = _ProgramWriter(trace, found, code)
    order = [*(index for index in order if index not in ends), *ends]
    statements = {index: writer.statement(index, named=index in used) for index in order}
    for turn, text in zip(turns, query, strict=True):
        # a change in an earlier turn, with what informs it, is that turn's to state
        for index in informed(trace, turn.calls, lambda step: trace.tool(step).read_only):
            if unknown_constants(statements[index], trace.tools, text, code):
                raise Unwritable("unstated_lookup")
    return program(code, list(statements.values()), ended=bool(ends))


def check_apart(trace: ExplorationTrace, found: GoalSlice, turns: Sequence[TurnPlan]) -> None:
    """Raises Unwritable where a later turn removes or overwrites what an earlier one made."""
    made: dict[int, tuple[set[str], set[str]]] = {}
    for turn in turns:
        for index in turn.calls:
            call, effects = found.calls[index], found.results[index].effects
            removed = {effect.entity for effect in effects if effect.op == "remove"}
            written = {effect.field for effect in effects if effect.op == "set"}
            for step in sorted((trace.informants(index) - set(turn.calls)) & made.keys()):
                arguments, entities = made[step]
                if entities & removed:
                    raise Unwritable("cancels")
                if arguments & call.arguments.keys() & written:
                    raise Unwritable("overwrites")
            if added := {effect.entity for effect in effects if effect.op == "add"}:
                made[index] = set(call.arguments), added


class _ProgramWriter:
    def __init__(self, trace: ExplorationTrace, found: GoalSlice, code: CodeSyntax):
        self._trace, self._found, self._code = trace, found, code
        self._names: dict[int, str] = {}

    def statement(self, index: int, *, named: bool) -> str:
        call = self._found.calls[index]
        arguments = {n: self._expression(index, (n,), v) for n, v in call.arguments.items()}
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
            members = (self._expression(index, (*path, n), v) for n, v in enumerate(value))
            return f"[{', '.join(members)}]"
        if isinstance(value, dict):
            values = {k: self._expression(index, (*path, k), v) for k, v in value.items()}
            return f"{{{', '.join(f'{python_literal(k)}: {v}' for k, v in values.items())}}}"
        return python_literal(value)

    def _observed(self, index: int, source: ValueSource) -> str:
        """Where an earlier output has the value: in the row of that name, where the request names
        one. Raises Unwritable where it is found by its place alone."""
        parsed = output(self._found.results[source.step].observation)
        app, step = self._trace.tool(index).app, self._trace.steps[source.step]
        phrase = reference(self._trace.tools, step, source.path, app)
        name = self._names[source.step]
        places = [n for n, key in enumerate(source.path) if isinstance(key, int)]
        if phrase and phrase.row and places:
            inner = phrase.row[places[-1] + 1 :]
            tests = []
            for slot in dict.fromkeys(ROW_SLOT.findall(phrase.template)):
                keys = slot.split(".")
                wanted = python_literal(at(parsed, (*phrase.row, *keys)))
                tests.append(f"row{_subscripts((*inner, *keys))} == {wanted}")
            rows = _rows(name, source.path, places)
            chosen = _subscripts((*inner, source.path[-1]))
            return f"next(row for {rows} if {' and '.join(tests)}){chosen}"
        if any(source.path[place] for place in places):
            raise Unwritable("by_place")
        return f"{name}{_subscripts(source.path)}"

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
    """`row in songs`, or `group in groups for row in group["members"]` for lists in rows."""
    loops, whole, begin = [], name, 0
    for number, place in enumerate(places):
        one = "row" if place == places[-1] else f"part_{number + 1}" if number else "part"
        loops.append(f"{one} in {whole}{_subscripts(path[begin:place])}")
        whole, begin = one, place + 1
    return " for ".join(loops)


def _subscripts(path: Sequence[Any]) -> str:
    return "".join(f"[{python_literal(key)}]" for key in path)
