"""A weak pattern and its repetition on fresh ground.

A `Pattern` is a run of executed calls that worked: the solution of a signal's task, or the part of a trajectory that holds a
rare bigram. `repeat` executes it in another start state: an argument that the pattern took from an earlier output is taken
from the same place of the new output; every other one is drawn again by its type from what a user of the new state knows,
equal values staying equal; content that nobody lists is kept.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from typing import Any, NamedTuple

from coevolve.environments.protocol import Tool
from coevolve.exploration.arguments import fits, properties
from coevolve.exploration.memory import WORKED, Recipe, goals_of, is_goal, recipe_of
from coevolve.exploration.situation import Situation, outcome_of
from coevolve.provenance import Source, at, output, sources
from coevolve.records import Call, Signal, Step, Trajectory, canonical

TRIES = 2
"""Draws of the arguments of one call, before the repetition gives up."""


class Pattern(NamedTuple):
    """Executed calls without errors, where their arguments came from, and the tools it is about."""

    steps: list[Step] = []
    sources: list[dict[tuple, Source]] = []
    goals: list[str] = []


def pattern_of(steps: list[Step], goals: list[str], tools: Mapping[str, Tool]) -> Pattern:
    """The pattern of executed steps; failed ones, unknown tools and code are left out."""
    kept = [
        s
        for s in steps
        if s.error is None and isinstance(s.action, Call) and s.action.tool in tools
    ]
    return Pattern(
        kept, sources(kept, {name: tool.app for name, tool in tools.items() if tool.app}), goals
    )


def evidence_of(signal: Signal, tools: Mapping[str, Tool]) -> Pattern:
    """The pattern in a signal's own evidence: around its bigram of tools where it has one, else a successful trajectory."""
    task_goals = goals_of(signal.task, dict(tools)) if signal.task else []
    goals = [
        name for name in signal.pattern if name in tools and is_goal(tools[name])
    ] or task_goals
    for trajectory in signal.evidence:
        if steps := around(trajectory, signal.pattern):
            return pattern_of(steps, goals, tools)
    won = next((trajectory.steps for trajectory in signal.evidence if trajectory.success), [])
    return pattern_of(won, goals, tools)


def around(trajectory: Trajectory, bigram: list[str]) -> list[Step]:
    """The steps that worked, up to the bigram's last one and on to the first effect after it; [] where it does not occur."""
    if len(bigram) < 2:
        return []
    steps = [
        step for step in trajectory.steps if step.error is None and isinstance(step.action, Call)
    ]
    names = ["^", *(step.action.tool for step in steps), "$"]
    for i in range(len(names) - len(bigram) + 1):
        if names[i : i + len(bigram)] == bigram:
            last = min(i + len(bigram) - 2, len(steps) - 1)
            end = next((j for j in range(last, len(steps)) if steps[j].effects), last)
            return steps[: end + 1]
    return []


def repeat(
    here: Situation, pattern: Pattern, cut: int | None = None
) -> Generator[Call, Step, bool]:
    """Executes the pattern (or its first `cut` calls) with new values. Ends with False at a call that keeps failing."""
    outputs: list[Any] = []
    renamed: dict[bytes, Any] = {}
    for step, origin in list(zip(pattern.steps, pattern.sources, strict=True))[:cut]:
        tool = here.tools.get(step.action.tool)
        if tool is None:
            return False
        for _ in range(TRIES):
            trial = dict(renamed)
            done = yield _rebound(here, tool, step.action, origin, outputs, trial)
            if done.error is None:
                break
        else:
            return False
        renamed = trial
        outputs.append(output(done.observation))
    if cut is None:
        _note(here, pattern)
    return bool(pattern.steps)


def _rebound(
    here: Situation,
    tool: Tool,
    call: Call,
    origin: dict[tuple, Source],
    outputs: list[Any],
    renamed: dict[bytes, Any],
) -> Call:
    """The call with observed arguments re-bound and given ones drawn again; `renamed` maps old values to new ones."""

    def rebuilt(path: tuple, value: Any) -> Any:
        source = origin.get(path)
        if source and source.step is not None:
            return _observed(outputs, source, value)
        if len(path) == 1 and not any(
            where[:1] == path and found.step is not None for where, found in origin.items()
        ):
            return _redrawn(here, tool, path[0], value, renamed)
        if isinstance(value, dict):
            return {key: rebuilt((*path, key), member) for key, member in value.items()}
        if isinstance(value, list):
            return [rebuilt((*path, place), member) for place, member in enumerate(value)]
        return value

    return Call(
        tool.name, {name: rebuilt((name,), value) for name, value in call.arguments.items()}
    )


def _observed(outputs: list[Any], source: Source, old: Any) -> Any:
    try:
        return at(outputs[source.step], source.path)
    except (KeyError, IndexError, TypeError):
        return old


def _redrawn(here: Situation, tool: Tool, name: str, old: Any, renamed: dict[bytes, Any]) -> Any:
    """Another value of the same kind; the one that an equal old value got before, where it fits."""
    schema = properties(tool).get(name, {})
    key = canonical(old)
    if key not in renamed or not fits(renamed[key], schema):
        choices = here.known.given(tool.name, name, schema) or schema.get("enum") or [old]
        renamed[key] = here.rng.choices(
            choices, [here.known.weight(tool.app, value) for value in choices]
        )[0]
    return renamed[key]


def _note(here: Situation, pattern: Pattern) -> None:
    """The lesson of a repetition that went through."""
    done = here.steps[-len(pattern.steps) :]
    calls = [step.action for step in done]
    for goal in pattern.goals:
        recipe = recipe_of(calls, goal, here.memory.tools)
        if recipe:
            outcomes = [outcome_of(step, here.memory.tools[step.action.tool]) for step in done]
            worked = [outcome for outcome in outcomes if outcome in WORKED]
            here.note(here.memory.tools[goal], Recipe(*recipe), worked[-1] if worked else "nothing")
