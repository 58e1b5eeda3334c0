"""Finds the goals of an exploration and reduces each by execution to the calls that it needs.

A goal is a call that changed the state, or a call whose response the verifier compares (`checked`).
`minimise` starts from the calls that inform its arguments and the latest state-changing calls of
its app, takes more until a fresh session reproduces the goal, then drops calls one by one while it
stays reproduced: every call works and the goal has the same effects (or, without effects, the same
response). Observed arguments take their value from the replay itself, so that a dropped call may
renumber ids.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any, NamedTuple

from coevolve.abstraction.trace import ExplorationTrace
from coevolve.environments.client import Fault
from coevolve.environments.protocol import ActionResult, Description, Tool
from coevolve.environments.replay import ReplayCoroutine, ReplayedEpisode, ReplayJob
from coevolve.grounding.sources import at, output
from coevolve.records import Action, Call, Start, Task, canonical

GOALS_PER_EXPLORATION = 24
GOALS_PER_TOOL = 3


class EnvironmentFault(Exception):
    """The environment could not be asked; the exploration is left for a rerun."""


class GoalSlice(NamedTuple):
    """Steps of an exploration, executed by themselves in a fresh session."""

    goals: tuple[int, ...]
    core: frozenset[int]
    """Steps kept for what they do, apart from the goals; the rest of `calls` informs them."""
    calls: dict[int, Call]
    """By index in the exploration, in executed order, with the arguments of this execution."""
    results: dict[int, ActionResult]


def goals_of(trace: ExplorationTrace, description: Description) -> list[int]:
    """Steps that are goals: one per distinct outcome, `GOALS_PER_TOOL` per tool."""
    harmless = {
        canonical(Call(call["tool"], call.get("arguments", {}))) for call in description.harmless
    }
    seen, per_tool, found = set(), Counter(), []
    for index, step in enumerate(trace.steps):
        if trace.problems[index] in ("failed", "code", "unknown_tool"):
            continue
        checked = trace.tool(index).checked and canonical(step.action) not in harmless
        outcome, asked = canonical(step.effects or step.action), _asked(trace, index)
        if not (step.effects or checked) or outcome in seen or per_tool[asked] >= GOALS_PER_TOOL:
            continue
        seen.add(outcome)
        per_tool[asked] += 1
        found.append(index)
    return found[:GOALS_PER_EXPLORATION]


def _asked(trace: ExplorationTrace, index: int) -> str:
    """The tool that people name for an effect: its own, or the last before that is asked for."""
    own = trace.tool(index)
    for step in reversed(trace.steps[: index + 1]):
        tool = trace.tools.get(step.action.tool) if isinstance(step.action, Call) else None
        works = tool is not None and step.error is None and not tool.read_only
        if works and tool.app == own.app and asked_for(tool):
            return tool.name
    return own.name


def asked_for(tool: Tool) -> bool:
    """Whether people ask for a tool; all of them where the environment describes no language."""
    return tool.language is None or bool(tool.language.do)


def minimise(
    trace: ExplorationTrace, goals: tuple[int, ...], cores: Sequence[frozenset[int]] = ()
) -> ReplayCoroutine[GoalSlice | None]:
    """The smallest slice found that reproduces the goals, or None. `cores` are tried first."""
    for core in (*cores, *_cores(trace, max(goals))):
        found = yield from _execute_slice(trace, goals, core)
        if found:
            return (yield from _shrink(trace, found))
    return None


def _cores(trace: ExplorationTrace, goal: int) -> Iterator[frozenset[int]]:
    unusable = ("failed", "code", "unknown_tool")
    working = [i for i in range(goal) if trace.problems[i] not in unusable]
    changing = [i for i in working if trace.changed[i]]
    own = [i for i in changing if trace.tool(i).app == trace.tool(goal).app]
    size = 0
    while size < len(own):
        yield frozenset(own[len(own) - size :])
        size = size * 2 or 1
    yield from dict.fromkeys(map(frozenset, (own, changing, working)))


def _shrink(trace: ExplorationTrace, found: GoalSlice) -> ReplayCoroutine[GoalSlice]:
    """Drops calls, the earliest first, until no single one can go."""
    again = True
    while again:
        again = kept = False
        for index in sorted(found.core):
            smaller = yield from _execute_slice(trace, found.goals, found.core - {index})
            if smaller:
                # a call that was kept before this one went may be free to go now
                found, again = smaller, again or kept
            else:
                kept = True
    return found


def _execute_slice(
    trace: ExplorationTrace, goals: tuple[int, ...], core: frozenset[int]
) -> ReplayCoroutine[GoalSlice | None]:
    """The slice of `core`, the goals and what informs them; None if it loses a goal."""
    order = informed(trace, core | set(goals))
    if any(trace.problems[i] == "failed" for i in order):
        return None
    done = yield from execute_steps(trace, [order])
    found = GoalSlice(goals, core, *done) if done else None
    return found if found and all(_reproduced(trace, found, goal) for goal in goals) else None


def informed(
    trace: ExplorationTrace,
    wanted: Collection[int],
    follow: Callable[[int], bool] = lambda index: True,
) -> list[int]:
    """The wanted steps and, transitively, what informs them and `follow` takes, in order."""
    closed, waiting = set(), list(wanted)
    while waiting:
        index = waiting.pop()
        if index not in closed and (index in wanted or follow(index)):
            closed.add(index)
            waiting.extend(trace.informants(index))
    return sorted(closed)


def replayed(
    start: Start, turns: Sequence[Sequence[Action]], task: Task | None = None
) -> ReplayCoroutine[ReplayedEpisode]:
    """The episode of one replay. Raises EnvironmentFault."""
    (episode,) = yield [ReplayJob(start, turns, task)]
    if isinstance(episode, Fault):
        raise EnvironmentFault(episode.message)
    return episode


def execute_steps(
    trace: ExplorationTrace, turns: Sequence[Sequence[int]]
) -> ReplayCoroutine[tuple[dict[int, Call], dict[int, ActionResult]] | None]:
    """Executes steps in a fresh session, turn by turn, observed arguments taken from this
    execution: (calls, results) by index, or None if a call fails."""
    order = [index for turn in turns for index in turn]
    calls = {index: trace.steps[index].action for index in order}
    # values settle from the first call on, so that as many executions as calls always suffice
    for _ in order:
        episode = yield from replayed(trace.start, [[calls[i] for i in turn] for turn in turns])
        results = dict(zip(order, episode.flat, strict=False))
        bound = _rebound(trace, calls, results)
        if bound == calls:
            return (calls, results) if len(results) == len(order) and not episode.failure else None
        if bound is None:
            return None
        calls = bound
    return None


def _rebound(
    trace: ExplorationTrace, calls: dict[int, Call], results: dict[int, ActionResult]
) -> dict[int, Call] | None:
    """The calls with observed arguments as these results have them; None if one is missing."""
    bound = {}
    for index, call in calls.items():
        arguments = call.arguments
        for path, source in trace.links[index].items():
            if source.step not in results:
                return calls
            try:
                value = at(output(results[source.step].observation), source.path)
            except (KeyError, IndexError, TypeError):
                return None
            arguments = _replaced(arguments, path, value)
        bound[index] = Call(call.tool, arguments)
    return bound


def _replaced(value: Any, path: tuple, member: Any) -> Any:
    """A copy in which `path` leads to `member`."""
    if not path:
        return member
    copy = value.copy()
    copy[path[0]] = _replaced(value[path[0]], path[1:], member)
    return copy


def _reproduced(trace: ExplorationTrace, found: GoalSlice, goal: int) -> bool:
    """Whether the goal did what it did in the exploration, up to the names of observed things."""
    step, result = trace.steps[goal], found.results[goal]
    if step.effects:
        before, now = canonical(step.effects).decode(), canonical(result.effects).decode()
        return _renamed(trace, found, before) == now
    return not result.effects and _renamed(trace, found, step.observation) == result.observation


def _renamed(trace: ExplorationTrace, found: GoalSlice, text: str) -> str:
    names = {}
    for index, call in found.calls.items():
        for path in trace.links[index]:
            old, new = at(trace.steps[index].action.arguments, path), at(call.arguments, path)
            if old != new:
                names[str(old)] = str(new)
    if not names:
        return text
    pattern = "|".join(re.escape(name) for name in sorted(names, key=len, reverse=True))
    return re.sub(rf"(?<!\w)(?:{pattern})(?!\w)", lambda match: names[match[0]], text)
