"""Goals of an exploration, each reduced by execution to the calls that it needs.

A goal is a call that changed the state, or a call whose response the verifier compares (`checked`). `minimise` starts from the
calls that inform its arguments and the latest state-changing calls of its app, takes more until a fresh session reproduces the
goal, then drops calls one by one while it stays reproduced: every call works and the goal has the same effects (or, without
effects, the same response). Observed arguments take their value from the replay itself, so that a dropped call may renumber ids.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from coevolve.abstraction.grounding import Trace
from coevolve.environments.client import Fault
from coevolve.environments.protocol import ActionResult, Description, Tool
from coevolve.environments.replay import ReplayCoroutine, ReplayJob
from coevolve.provenance import at, output
from coevolve.records import Call, canonical

GOALS_PER_EXPLORATION = 24
GOALS_PER_TOOL = 3


class EnvironmentFault(Exception):
    """The environment could not be asked; the exploration is left for a rerun."""


class Slice(NamedTuple):
    """Steps of an exploration, executed by themselves in a fresh session."""

    goals: tuple[int, ...]
    core: frozenset[int]
    """Kept for what they do, apart from the goals; the rest of `calls` informs them."""
    calls: dict[int, Call]
    """By index in the exploration, in executed order, with the arguments of this execution."""
    results: dict[int, ActionResult]


def find(trace: Trace, tools: Mapping[str, Tool], description: Description) -> list[int]:
    """Steps that are goals: one per distinct outcome, a few per tool."""
    harmless = {
        canonical(Call(call["tool"], call.get("arguments", {}))) for call in description.harmless
    }
    seen, per_tool, found = set(), Counter(), []
    for index, step in enumerate(trace.steps):
        if (
            trace.problems[index] == "failed"
            or isinstance(step.action, str)
            or step.action.tool not in tools
        ):
            continue
        if not step.effects and (
            not tools[step.action.tool].checked or canonical(step.action) in harmless
        ):
            continue
        outcome = canonical(step.effects or step.action)
        asked = _asked(trace, tools, index)
        if (
            outcome not in seen
            and per_tool[asked] < GOALS_PER_TOOL
            and len(found) < GOALS_PER_EXPLORATION
        ):
            seen.add(outcome)
            per_tool[asked] += 1
            found.append(index)
    return found


def _asked(trace: Trace, tools: Mapping[str, Tool], index: int) -> str:
    """The tool that people would name for this effect: its own, or the last one before it that is asked for."""
    app = tools[trace.steps[index].action.tool].app
    for step in reversed(trace.steps[: index + 1]):
        tool = tools.get(step.action.tool) if isinstance(step.action, Call) else None
        if (
            tool
            and tool.app == app
            and step.error is None
            and asked_for(tool)
            and not tool.read_only
        ):
            return tool.name
    return trace.steps[index].action.tool


def asked_for(tool: Tool) -> bool:
    """Whether people ask for it. Where the environment says nothing of its language, they may ask for anything."""
    return tool.language is None or bool(tool.language.do)


def minimise(
    trace: Trace,
    tools: Mapping[str, Tool],
    goals: tuple[int, ...],
    cores: Sequence[frozenset[int]] = (),
) -> ReplayCoroutine:
    """The smallest slice found that reproduces the goals, or None. `cores` are tried first, in order."""
    for core in (*cores, *_cores(trace, tools, max(goals))):
        found = yield from execute(trace, goals, core)
        if found:
            return (yield from _shrink(trace, found))
    return None


def _cores(trace: Trace, tools: Mapping[str, Tool], goal: int) -> Iterator[frozenset[int]]:
    working = [
        i for i in range(goal) if trace.problems[i] not in ("failed", "code", "unknown_tool")
    ]
    changing = [i for i in working if trace.changed[i]]
    app = tools[trace.steps[goal].action.tool].app
    own = [i for i in changing if tools[trace.steps[i].action.tool].app == app]
    size, tried = 0, set()
    while size < len(own):
        yield frozenset(own[len(own) - size :])
        size = size * 2 or 1
    for core in (frozenset(own), frozenset(changing), frozenset(working)):
        if core not in tried:
            tried.add(core)
            yield core


def _shrink(trace: Trace, found: Slice) -> ReplayCoroutine:
    """Drops calls, the earliest first, until no single one can go."""
    again = True
    while again:
        again = kept = False
        for index in sorted(found.core):
            smaller = yield from execute(trace, found.goals, found.core - {index})
            if smaller:
                found, again = smaller, again or kept
            else:
                kept = True
    return found


def execute(trace: Trace, goals: tuple[int, ...], core: frozenset[int]) -> ReplayCoroutine:
    """The slice of `core`, the goals and what informs them, or None if it does not reproduce the goals."""
    order = informed(trace, core | set(goals))
    if any(trace.problems[i] == "failed" for i in order):
        return None
    done = yield from bind(trace, [order])
    if done is None:
        return None
    calls, results = done
    found = Slice(goals, core, calls, results)
    return found if all(reproduced(trace, found, goal) for goal in goals) else None


def informed(trace: Trace, wanted: set[int] | frozenset[int]) -> list[int]:
    """The wanted steps and, transitively, those whose outputs their arguments came from, in order."""
    closed, open_ = set(), sorted(wanted)
    while open_:
        index = open_.pop()
        if index not in closed:
            closed.add(index)
            open_.extend(source.step for source in trace.links[index].values())
    return sorted(closed)


def bind(trace: Trace, turns: Sequence[Sequence[int]]) -> ReplayCoroutine:
    """Executes steps, turn by turn, observed arguments taken from this execution: (calls, results) by index, or None if a
    call fails. Values settle from the first call on, so that as many executions as calls always suffice."""
    order = [index for turn in turns for index in turn]
    calls = {index: trace.steps[index].action for index in order}
    for _ in order:
        (episode,) = yield [
            ReplayJob(trace.start, [[calls[index] for index in turn] for turn in turns])
        ]
        if isinstance(episode, Fault):
            raise EnvironmentFault(episode.message)
        results = dict(zip(order, episode.flat, strict=False))
        bound = _rebound(trace, calls, results)
        if bound == calls:
            return (calls, results) if len(results) == len(order) and not episode.failure else None
        if bound is None:
            return None
        calls = bound
    return None


def _rebound(
    trace: Trace, calls: dict[int, Call], results: dict[int, ActionResult]
) -> dict[int, Call] | None:
    """The calls with observed arguments as these results have them; None if one is not to be seen."""
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
            arguments = _with(arguments, path, value)
        bound[index] = Call(call.tool, arguments)
    return bound


def _with(value: Any, path: tuple, member: Any) -> Any:
    """A copy in which `path` leads to `member`."""
    if not path:
        return member
    copy = value.copy()
    copy[path[0]] = _with(value[path[0]], path[1:], member)
    return copy


def reproduced(trace: Trace, found: Slice, goal: int) -> bool:
    """Whether the goal did in the slice what it did in the exploration, up to the new names of observed things."""
    step, result = trace.steps[goal], found.results[goal]
    if step.effects:
        return (
            _renamed(trace, found, canonical(step.effects).decode())
            == canonical(result.effects).decode()
        )
    return not result.effects and _renamed(trace, found, step.observation) == result.observation


def _renamed(trace: Trace, found: Slice, text: str) -> str:
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
