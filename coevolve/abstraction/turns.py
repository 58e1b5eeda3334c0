"""From the calls of a slice to the turns of a conversation.

A *clause* is a call that the user asks for in words: one that people ask for and that does more than inform a later call. A
clause that reaches a goal (its own effect or checked response, or the effect of the helper that completes it) ends a turn; other
clauses (go into a folder) open the turn of the next goal of their app. A call that informs stands in the first turn that uses it; a helper
that completes a pending change stands in that change's turn, any other in the turn of the next clause.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from coevolve.abstraction.goals import Slice, asked_for
from coevolve.abstraction.grounding import Trace
from coevolve.environments.protocol import Tool


class Turn(NamedTuple):
    calls: list[int]
    clauses: list[int]
    """Asked for in words, the goal last."""

    @property
    def goal(self) -> int:
        return self.clauses[-1]


def compose(trace: Trace, tools: Mapping[str, Tool], found: Slice) -> list[Turn] | None:
    """The turns, in the executed order of their goals; None if some goal is nothing that a user asks for."""
    clauses = _clauses(trace, tools, found)
    completed = {clause: _completion(tools, found, clause, clauses) for clause in clauses}
    ends = [clause for clause in clauses if completed[clause] is not None]
    if not ends or not set(found.goals) <= set(completed.values()):
        return None
    turns = [Turn([], []) for _ in ends]
    for clause in clauses:
        turns[_turn_of(tools, found, clause, ends)].clauses.append(clause)
    if any(turn.goal not in ends for turn in turns):
        return None
    place = _places(trace, found, turns, completed)
    for index in found.calls:
        turns[place[index]].calls.append(index)
    return turns if _informed_in_time(trace, turns) else None


def _turn_of(tools: Mapping[str, Tool], found: Slice, clause: int, ends: list[int]) -> int:
    """A clause without a goal opens the turn of the next goal of its app, whose hidden state it sets."""
    app = tools[found.calls[clause].tool].app
    later = [number for number, end in enumerate(ends) if end >= clause]
    own = [number for number in later if tools[found.calls[ends[number]].tool].app == app]
    return (own or later or [len(ends) - 1])[0]


def _clauses(trace: Trace, tools: Mapping[str, Tool], found: Slice) -> list[int]:
    consumed = {source.step for index in found.calls for source in trace.links[index].values()}
    return [
        index
        for index, call in found.calls.items()
        if asked_for(tools[call.tool])
        and (
            index not in consumed
            or found.results[index].effects
            or index in found.goals
            or index in found.core
        )
    ]


def _completion(
    tools: Mapping[str, Tool], found: Slice, clause: int, clauses: list[int]
) -> int | None:
    """The step at which the clause reaches its goal: itself, or the helper of its app whose effects follow it before the next
    clause of that app; None for a clause without a goal."""
    if found.results[clause].effects or clause in found.goals:
        return clause
    app = tools[found.calls[clause].tool].app
    for index, call in found.calls.items():
        if index > clause and tools[call.tool].app == app:
            if index in clauses:
                return None
            if found.results[index].effects:
                return index
    return None


def _places(
    trace: Trace, found: Slice, turns: list[Turn], completed: Mapping[int, int | None]
) -> dict[int, int]:
    """Index of the turn of each call; from the last call to the first, so that who uses a call is placed before it."""
    place = {clause: number for number, turn in enumerate(turns) for clause in turn.clauses}
    users = {index: [] for index in found.calls}
    for index in found.calls:
        for source in trace.links[index].values():
            users[source.step].append(index)
    for index in sorted(found.calls, reverse=True):
        if index in place:
            continue
        if users[index]:
            place[index] = min(place[user] for user in users[index])
        else:
            place[index] = _helper_place(index, turns, completed)
    return place


def _helper_place(index: int, turns: list[Turn], completed: Mapping[int, int | None]) -> int:
    for number, turn in enumerate(turns):
        if index <= completed[turn.goal]:
            return number
    return len(turns) - 1


def _informed_in_time(trace: Trace, turns: list[Turn]) -> bool:
    order = {
        index: position
        for position, index in enumerate(index for turn in turns for index in turn.calls)
    }
    return all(
        order[source.step] < order[index]
        for index in order
        for source in trace.links[index].values()
    )
