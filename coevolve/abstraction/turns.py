"""Groups the calls of a slice into the turns of a conversation.

A *clause* is a call that the user asks for in words: one that people ask for and that does more
than inform a later call. A clause that reaches a goal (its own effect or checked response, or the
effect of the helper that completes it) ends a turn; other clauses (go into a folder) open the turn
of the next goal of their app. A call that informs stands in the first turn that uses it; a helper
that completes a pending change stands in that change's turn, any other in the turn of the next
clause.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from coevolve.abstraction.goals import GoalSlice, asked_for
from coevolve.abstraction.trace import ExplorationTrace


class TurnPlan(NamedTuple):
    """The calls of one turn, by their indices in the exploration."""

    calls: list[int]
    clauses: list[int]  # The calls that are asked for in words, the goal last

    @property
    def goal(self) -> int:
        """The call that ends the turn."""
        return self.clauses[-1]


def plan_turns(trace: ExplorationTrace, found: GoalSlice) -> list[TurnPlan] | None:
    """The turns, in the executed order of their goals; None if nobody asks for some goal."""
    clauses = _clauses(trace, found)
    completed = {clause: _completion(trace, found, clause, clauses) for clause in clauses}
    ends = [clause for clause in clauses if completed[clause] is not None]
    if not ends or not set(found.goals) <= set(completed.values()):
        return None
    turns = [TurnPlan([], []) for _ in ends]
    for clause in clauses:
        turns[_turn_of(trace, clause, ends)].clauses.append(clause)
    if any(turn.goal not in ends for turn in turns):
        return None
    place = _places(trace, found, turns, completed)
    for index in found.calls:
        turns[place[index]].calls.append(index)
    order = [index for turn in turns for index in turn.calls]
    in_time = all(
        order.index(informant) < order.index(index)
        for index in order
        for informant in trace.informants(index)
    )
    return turns if in_time else None


def _turn_of(trace: ExplorationTrace, clause: int, ends: list[int]) -> int:
    """The turn of a clause; one without a goal opens the turn of the next goal of its app."""
    app = trace.tool(clause).app
    later = [number for number, end in enumerate(ends) if end >= clause]
    own = [number for number in later if trace.tool(ends[number]).app == app]
    return (own or later or [len(ends) - 1])[0]


def _clauses(trace: ExplorationTrace, found: GoalSlice) -> list[int]:
    informing = {step for index in found.calls for step in trace.informants(index)}
    wanted = {*found.goals, *found.core, *(i for i, r in found.results.items() if r.effects)}
    return [
        index
        for index in found.calls
        if asked_for(trace.tool(index)) and (index not in informing or index in wanted)
    ]


def _completion(
    trace: ExplorationTrace, found: GoalSlice, clause: int, clauses: list[int]
) -> int | None:
    """The step at which the clause reaches its goal: itself, or the helper of its app whose effects
    follow it before the next clause of that app; None for a clause without a goal."""
    if found.results[clause].effects or clause in found.goals:
        return clause
    for index in found.calls:
        if index > clause and trace.tool(index).app == trace.tool(clause).app:
            if index in clauses:
                return None
            if found.results[index].effects:
                return index
    return None


def _places(
    trace: ExplorationTrace,
    found: GoalSlice,
    turns: list[TurnPlan],
    completed: Mapping[int, int | None],
) -> dict[int, int]:
    """Number of the turn of each call."""
    place = {clause: number for number, turn in enumerate(turns) for clause in turn.clauses}
    users = {index: [] for index in found.calls}
    for index in found.calls:
        for informant in trace.informants(index):
            users[informant].append(index)
    # from the last call to the first, so that the users of a call are placed before it
    for index in sorted(found.calls, reverse=True):
        if index in place:
            continue
        later = (n for n, turn in enumerate(turns) if index <= completed[turn.goal])
        used = [place[user] for user in users[index]]
        place[index] = min(used) if used else next(later, len(turns) - 1)
    return place
