"""`explore`: signals in, explorations out; by programs, or by a model (`mind`).

Episodes run in blocks of `BLOCK`; between blocks the shared memory learns. Everything is a pure function of the inputs and
`ExploreSettings`, whatever the number of workers. A finished episode goes to the journal at once and is not run again. An episode
that did from the same start state what another did is left out. One that meets a fault of the environment is dropped and
counted; the run stops where every one was (`env_faults`), and where every one ended before the model's first action, as with a
context too small for the tools. An action that ends its session (`Result.fatal`) ends its episode only.

Source: paper §3 (exploration: rounds × steps from a context), CuES (visited states, untried actions first), and
laptop experiments (coverage of the inventory does most of the work, so guided mode always mixes it in).
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

from msgspec.structs import replace

from coevolve.environments.client import Fault, Pool
from coevolve.environments.faults import FaultCounter
from coevolve.environments.replay import ReplayJob, replay
from coevolve.errors import CoevolveError, Unreachable, UsageError
from coevolve.exploration.context import Focus, choose, merge
from coevolve.exploration.lockstep import Done, Finished, run, step_of
from coevolve.exploration.memory import Memory
from coevolve.exploration.pattern import Pattern, around, evidence_of, pattern_of
from coevolve.exploration.plans import AIMS, Plan, coverage, guided, unguided
from coevolve.exploration.settings import ExploreSettings
from coevolve.records import Exploration, Signal, Step, Task
from coevolve.runs import Journal

if TYPE_CHECKING:
    from coevolve.exploration.mind import Mind
    from coevolve.exploration.reflection import Reflection, Refused

Run = Callable[[Pool, list[Plan], Memory, ExploreSettings], Iterator[Done]]
BLOCK = 8
"""Episodes between two updates of the shared memory; part of what decides the output."""
MIND_BLOCK = 32
"""The same with a model, whose episodes wait for replies most of the time."""


class Tally:
    """What a run did, for the summary line."""

    def __init__(self) -> None:
        self.by_mode: dict[str, Counter[str]] = {}
        self.contexts = self.crowded_out = self.lost = self.refused = self.repeated = self.idle = 0
        self.env_faults = FaultCounter("episodes")
        self.why = ""
        """What ended the last one of the `idle` episodes, which a model left before the first action."""

    def add(self, exploration: Exploration) -> None:
        steps = exploration.steps
        counts = {
            "episodes": 1,
            "steps": len(steps),
            "errors": sum(step.error is not None for step in steps),
            "effects": sum(bool(step.effects) for step in steps),
            "new states": exploration.visited,
        }
        self.by_mode.setdefault(exploration.mode, Counter()).update(counts)

    def stop(self) -> None:
        """Raises CoevolveError where the model acted in no episode so far."""
        if self.idle and not sum(counts["steps"] for counts in self.by_mode.values()):
            raise CoevolveError(
                f"all {self.idle} explorations ended before the first action, the last one: {self.why}"
            )

    def notes(self, resumed: int = 0) -> list[str]:
        """`12 contexts` and how many more found no room, one entry a mode (`guided: 24 episodes, 960 steps, …`), then what is out
        of the ordinary."""
        found = [f"{self.contexts} contexts"] if self.contexts else []
        if self.crowded_out:
            found.append(f"no room for {self.crowded_out} more signalled tasks")
        for mode, counts in self.by_mode.items():
            found.append(f"{mode}: " + ", ".join(f"{n} {what}" for what, n in counts.items()))
        if resumed:
            found.append(f"{resumed} episodes from the journal")
        if self.repeated:
            found.append(f"left out {self.repeated} that repeat another")
        if self.refused:
            found.append(f"{self.refused} reflections refused")
        if self.lost:
            found.append(f"lost {self.lost} episodes for want of a usable reply")
        if self.idle:
            found.append(f"{self.idle} episodes without an action")
        if self.env_faults.lost:
            found.append(
                f"dropped {self.env_faults.lost} episodes that met faults of the environment"
            )
        return found


def explore(
    signals: Iterable[Signal],
    pool: Pool,
    settings: ExploreSettings,
    *,
    tasks: Iterable[Task] = (),
    journal: Journal | None = None,
    tally: Tally | None = None,
    mind: Mind | None = None,
    reject: Callable[[Refused], None] = lambda refused: None,
) -> Iterator[Exploration]:
    """Explorations in the order of their plans. `tasks` is what there is so far: coverage counts it, recipes come from it.
    `mind` is the model that explores, in place of the programs; `reject` takes its refused reflections.

    Raises UsageError for an unknown mode, for signals of another environment and, without a model, for an environment that takes
    nothing but code; Unreachable for one without tools, or when every episode meets a fault; with a model, what its calls raise,
    and CoevolveError when it acts in no episode.
    """
    if pool.description.actions != "calls" and pool.description.code is None and mind is None:
        raise UsageError(f"{pool.name} takes code as actions: exploring it needs a model")
    if pool.description.actions == "calls" and not pool.tools:
        raise Unreachable(f"{pool.name}: describes no tools, there is nothing to explore")
    journal, tally, memory = journal or Journal(None, {}), tally or Tally(), Memory(pool.tools)
    for task in tasks:
        if task.env == pool.name:
            memory.learn_task(task)
    contexts = _contexts(signals, pool, settings, tally) if settings.mode == "guided" else []
    thoughts = _thoughts([focus for focus, _ in contexts], pool, tally, mind, reject)
    seen: set[str] = set()
    block, runs = (MIND_BLOCK, mind.run) if mind else (BLOCK, run)
    for begin in range(0, settings.episodes, block):
        indices = range(begin, min(begin + block, settings.episodes))
        plans = _plans(indices, contexts, thoughts, memory, settings)
        for exploration in _block(pool, plans, memory, settings, journal, tally, runs):
            if exploration.id in seen:
                tally.repeated += 1
            else:
                seen.add(exploration.id)
                tally.add(exploration)
                yield exploration
        tally.stop()


def _block(
    pool: Pool,
    plans: list[Plan],
    memory: Memory,
    settings: ExploreSettings,
    journal: Journal,
    tally: Tally,
    runs: Run,
) -> Iterator[Exploration]:
    """Runs the episodes that the journal does not have, then lets the memory learn from all of them, in order."""
    finished = {plan.key: journal.get(plan.key, Finished) for plan in plans}
    missing = [plan for plan in plans if finished[plan.key] is None]
    tally.lost += sum(plan.lost for plan in missing)
    for plan, episode, fault, lost in runs(
        pool, [plan for plan in missing if not plan.lost], memory, settings
    ):
        finished[plan.key] = episode
        if episode and fault:
            tally.idle, tally.why = tally.idle + 1, fault
        elif episode:
            journal.put(plan.key, episode)
        elif lost:
            tally.lost += 1
        else:
            tally.env_faults.add(fault)
    for episode in finished.values():
        if episode:
            tally.env_faults.add(None)
            visited = memory.learn(episode.exploration, episode.lessons, episode.opened)
            yield replace(episode.exploration, visited=visited)
    tally.env_faults.stop()


def _plans(
    indices: range,
    contexts: list[tuple[Focus, Pattern]],
    thoughts: list,
    memory: Memory,
    settings: ExploreSettings,
) -> list[Plan]:
    """The plans of one block, from the memory as it is: the contexts' rounds first, then coverage."""
    if settings.mode in ("random", "curious"):
        return [unguided(settings.mode, index, memory) for index in indices]
    rng = random.Random(f"{settings.seed}-{settings.iteration}-plan-{indices[0]}")
    rounds = settings.rounds
    aimed = [index for index in indices if index < len(contexts) * rounds]
    plans = [
        _reflected(
            guided(*contexts[index // rounds], index, index % rounds, memory, rng),
            thoughts[index // rounds],
            memory,
        )
        for index in aimed
    ]
    return plans + coverage([index for index in indices if index not in aimed], memory, rng)


def _reflected(plan: Plan, thought: Reflection | Exception | None, memory: Memory) -> Plan:
    """The plan with a model's reflection in place of the facts, in a start state that has its tools; lost where the model
    gave none."""
    if isinstance(thought, Exception):
        return plan._replace(lost=True)
    if thought is None:
        return plan
    aim = thought.tools[:AIMS] or plan.context.aim
    app = (
        plan.app
        or next((memory.tools[name].app for name in aim if name in memory.tools), "")
        or None
    )
    return plan._replace(app=app, context=replace(plan.context, reflection=thought.text(), aim=aim))


def _thoughts(
    found: list[Focus],
    pool: Pool,
    tally: Tally,
    mind: Mind | None,
    reject: Callable[[Refused], None],
) -> list[Reflection | Exception | None]:
    """What the model thinks of each context: None without one, and where its answer was refused."""
    if mind is None:
        return [None] * len(found)
    from coevolve.exploration.reflection import Refused

    thoughts = mind.reflections(found, pool.tools)
    for refused in (thought for thought in thoughts if isinstance(thought, Refused)):
        tally.refused += 1
        reject(refused)
    return [None if isinstance(thought, Refused) else thought for thought in thoughts]


def _contexts(
    signals: Iterable[Signal], pool: Pool, settings: ExploreSettings, tally: Tally
) -> list[tuple[Focus, Pattern]]:
    """The chosen contexts with their patterns."""
    found = list(signals)
    for signal in found:
        if signal.env != pool.name:
            raise UsageError(f"signal {signal.id} is about {signal.env}, not {pool.name}")
    merged = merge(found)
    chosen = choose(merged, settings.episodes, settings.rounds, settings.max_contexts)
    tally.contexts, tally.crowded_out = len(chosen), len(merged) - len(chosen)
    return list(zip(chosen, _patterns([focus.lead for focus in chosen], pool), strict=True))


def _patterns(signals: list[Signal], pool: Pool) -> list[Pattern]:
    """Each signal's pattern: around its bigram in the evidence, else its task's solution executed in the task's own start
    state, else a successful trajectory of the evidence."""
    patterns = [evidence_of(signal, pool.tools) for signal in signals]
    solved = [
        i
        for i, signal in enumerate(signals)
        if signal.task and signal.task.solution and not _holds_bigram(signal)
    ]
    for i, steps in zip(solved, _replay([signals[i].task for i in solved], pool), strict=True):
        if steps:
            patterns[i] = pattern_of(steps, patterns[i].goals, pool.tools)
    return patterns


def _holds_bigram(signal: Signal) -> bool:
    return any(around(trajectory, signal.pattern) for trajectory in signal.evidence)


def _replay(tasks: list[Task], pool: Pool) -> list[list[Step]]:
    """The solutions' steps with their observations; [] where the environment failed."""
    episodes = replay(pool, [ReplayJob(task.start, task.solution) for task in tasks])
    return [
        []
        if isinstance(episode, Fault)
        else [
            step_of(action, result)
            for actions, results in zip(task.solution, episode.results, strict=True)
            for action, result in zip(actions, results, strict=False)
        ]
        for task, episode in zip(tasks, episodes, strict=True)
    ]
