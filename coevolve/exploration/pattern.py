"""A weak pattern and its repetition on fresh ground.

A `WeakPattern` is a run of executed calls that worked: the solution of a signal's task, or the part
of a trajectory that holds a rare bigram. `repeat` executes it in another start state: an argument
that the pattern took from an earlier output is taken from the same place of the new output; every
other one is drawn again by its type from what a user of the new state knows, equal values staying
equal; content that nobody lists is kept.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from typing import Any, NamedTuple

from coevolve.environments.client import Fault, Pool
from coevolve.environments.protocol import Tool
from coevolve.environments.replay import ReplayJob, replay
from coevolve.exploration.context import UNKNOWN_TOOL
from coevolve.exploration.episode import ExplorerEpisode, outcome_of, step_of
from coevolve.exploration.memory import WORKED, goals_of, is_goal, recipe_of
from coevolve.exploration.schemas import fits, properties
from coevolve.grounding.sources import ValueSource, at, output, sources
from coevolve.records import Call, Signal, Step, Task, Trajectory, canonical

Origin = dict[tuple, ValueSource]  # Path in a call's arguments → where the value came from
Renamed = dict[bytes, Any]  # Canonical old value → the new one in its place
MAX_DRAWS = 2  # Draws of the arguments of one call, before the repetition gives up


class WeakPattern(NamedTuple):
    """Executed calls without errors, where their arguments came from, and the tools it is about."""

    steps: list[Step] = []
    sources: list[Origin] = []
    goals: list[str] = []


def patterns_of(signals: list[Signal], pool: Pool) -> list[WeakPattern]:
    """Each signal's pattern: around its bigram in the evidence, else its task's solution executed
    in the task's own start state, else a successful trajectory of the evidence."""
    patterns = [evidence_of(signal, pool.tools) for signal in signals]
    to_replay = {
        place: signal.task
        for place, signal in enumerate(signals)
        if signal.task and signal.task.solution
        if not any(around(trajectory, signal.pattern) for trajectory in signal.evidence)
    }
    replayed = _replay(list(to_replay.values()), pool)
    for place, steps in zip(to_replay, replayed, strict=True):
        if steps:
            patterns[place] = pattern_of(steps, patterns[place].goals, pool.tools)
    return patterns


def _replay(tasks: list[Task], pool: Pool) -> list[list[Step]]:
    """The solutions' steps with their observations; [] where the environment failed."""
    found: list[list[Step]] = []
    episodes = replay(pool, [ReplayJob(task.start, task.solution) for task in tasks])
    for task, episode in zip(tasks, episodes, strict=True):
        turns = (
            () if isinstance(episode, Fault) else zip(task.solution, episode.results, strict=True)
        )
        found.append([step_of(*pair) for turn in turns for pair in zip(*turn, strict=False)])
    return found


def pattern_of(steps: list[Step], goals: list[str], tools: Mapping[str, Tool]) -> WeakPattern:
    """The pattern of executed steps; failed ones, unknown tools and code are left out."""
    kept = [step for step in _worked(steps) if step.action.tool in tools]
    apps = {name: tool.app for name, tool in tools.items() if tool.app}
    return WeakPattern(kept, sources(kept, apps), goals)


def _worked(steps: list[Step]) -> list[Step]:
    return [step for step in steps if step.error is None and isinstance(step.action, Call)]


def evidence_of(signal: Signal, tools: Mapping[str, Tool]) -> WeakPattern:
    """The pattern in a signal's evidence: around its bigram, else a successful trajectory."""
    goals = [name for name in signal.pattern if name in tools and is_goal(tools[name])]
    if signal.kind == UNKNOWN_TOOL:
        # The tool that was meant is the aim, be it one that only looks things up.
        goals = [name for name in signal.pattern[1:] if name in tools]
    if not goals and signal.task:
        goals = goals_of(signal.task, dict(tools))
    for trajectory in signal.evidence:
        if steps := around(trajectory, signal.pattern):
            return pattern_of(steps, goals, tools)
    won = next((trajectory.steps for trajectory in signal.evidence if trajectory.success), [])
    return pattern_of(won, goals, tools)


def around(trajectory: Trajectory, bigram: list[str]) -> list[Step]:
    """The steps that worked, up to the bigram and the first effect after it; [] without it."""
    if len(bigram) < 2:
        return []
    steps = _worked(trajectory.steps)
    names = ["^", *(step.action.tool for step in steps), "$"]
    for i in range(len(names) - len(bigram) + 1):
        if names[i : i + len(bigram)] == bigram:
            last = min(i + len(bigram) - 2, len(steps) - 1)
            end = next((j for j in range(last, len(steps)) if steps[j].effects), last)
            return steps[: end + 1]
    return []


def repeat(
    here: ExplorerEpisode, pattern: WeakPattern, cut: int | None = None
) -> Generator[Call, Step, bool]:
    """Executes the pattern, or its first `cut` calls; False at a call that keeps failing."""
    outputs: list[Any] = []
    renamed: Renamed = {}
    for step, origin in list(zip(pattern.steps, pattern.sources, strict=True))[:cut]:
        tool = here.tools.get(step.action.tool)
        if tool is None:
            return False
        for _ in range(MAX_DRAWS):
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
    here: ExplorerEpisode,
    tool: Tool,
    call: Call,
    origin: Origin,
    outputs: list[Any],
    renamed: Renamed,
) -> Call:
    """The call with arguments re-bound or drawn again; `renamed` maps old values to new ones."""
    observed = {path[:1] for path, source in origin.items() if source.step is not None}

    def rebuilt(path: tuple, value: Any) -> Any:
        source = origin.get(path)
        if source and source.step is not None:
            return _observed(outputs, source, value)
        if len(path) == 1 and path not in observed:
            return _redrawn(here, tool, path[0], value, renamed)
        if isinstance(value, dict):
            return {key: rebuilt((*path, key), member) for key, member in value.items()}
        if isinstance(value, list):
            return [rebuilt((*path, place), member) for place, member in enumerate(value)]
        return value

    arguments = {name: rebuilt((name,), value) for name, value in call.arguments.items()}
    return Call(tool.name, arguments)


def _observed(outputs: list[Any], source: ValueSource, old: Any) -> Any:
    try:
        return at(outputs[source.step], source.path)
    except (KeyError, IndexError, TypeError):
        return old


def _redrawn(here: ExplorerEpisode, tool: Tool, name: str, old: Any, renamed: Renamed) -> Any:
    """Another value of the same kind; the one that an equal old value got before, where it fits."""
    schema = properties(tool).get(name, {})
    key = canonical(old)
    if key not in renamed or not fits(renamed[key], schema):
        choices = here.known.given(tool, name) or schema.get("enum") or [old]
        renamed[key] = here.known.choose(here.rng, tool.app, choices)
    return renamed[key]


def _note(here: ExplorerEpisode, pattern: WeakPattern) -> None:
    """The lesson of a repetition that went through."""
    tools, done = here.memory.tools, here.steps[-len(pattern.steps) :]
    outcomes = [outcome_of(step, tools[step.action.tool]) for step in done]
    worked = [outcome for outcome in outcomes if outcome in WORKED]
    for goal in pattern.goals:
        if recipe := recipe_of([step.action for step in done], goal, tools):
            here.note(tools[goal], recipe, worked[-1] if worked else "nothing")
