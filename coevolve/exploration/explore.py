"""`explore`: signals in, explorations out; by programs, or by a model (`model_explorer`).

Episodes run in blocks of `BLOCK`; between blocks the shared memory learns. Everything is a pure
function of the inputs and `ExploreSettings`, whatever the number of workers. A finished episode
goes to the journal at once and is not run again. An episode that did from the same start state what
another did is left out. One that meets a fault of the environment is dropped and counted; the run
stops where every one was (`env_faults`), and where every one ended before the model's first action,
as with a context too small for the tools. An action that ends its session (`ActionResult.fatal`)
ends its episode only.

Source: paper §3 (exploration: rounds × steps from a context), CuES (visited states, untried actions
first), and laptop experiments (coverage of the inventory does most of the work, so guided mode
always mixes it in).
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

from msgspec.structs import replace

from coevolve.environments.client import Pool
from coevolve.errors import Unreachable, UsageError
from coevolve.exploration.batch import FinishedEpisode, run_programs
from coevolve.exploration.context import ContextSignals, choose, has_aim, merge
from coevolve.exploration.memory import Memory
from coevolve.exploration.pattern import WeakPattern, patterns_of
from coevolve.exploration.plans import MAX_AIMS, Plan, coverage, guided, unguided
from coevolve.exploration.reflection import Reflection, RefusedReflection
from coevolve.exploration.settings import ExploreSettings
from coevolve.exploration.stats import ExplorationStats
from coevolve.models.chat import BadReply
from coevolve.records import Exploration, Signal, Task
from coevolve.runs import Journal

if TYPE_CHECKING:
    from coevolve.exploration.model_explorer import ModelExplorer

BLOCK = 8  # Episodes between two updates of the shared memory; part of what decides the output
MODEL_BLOCK = 32  # The same with a model, whose episodes wait for replies most of the time


def explore(
    signals: Iterable[Signal],
    pool: Pool,
    settings: ExploreSettings,
    *,
    tasks: Iterable[Task] = (),
    journal: Journal | None = None,
    stats: ExplorationStats | None = None,
    model: ModelExplorer | None = None,
    reject: Callable[[RefusedReflection], None] = lambda refused: None,
) -> Iterator[Exploration]:
    """Explorations in the order of their plans. `tasks` is what there is so far: coverage counts
    it, recipes come from it. `model` explores in place of the programs; `reject` takes its refused
    reflections.

    Raises UsageError for signals of another environment and, without a model, for an environment
    that takes nothing but code; Unreachable for one without tools, or when every episode meets a
    fault; with a model, what its calls raise, and CoevolveError when it acts in no episode.
    """
    calls = pool.description.actions == "calls"
    if not calls and pool.description.code is None and model is None:
        raise UsageError(f"{pool.name} takes code as actions: exploring it needs a model")
    if calls and not pool.tools:
        raise Unreachable(f"{pool.name}: describes no tools, there is nothing to explore")
    stats = stats or ExplorationStats()
    run = _Run(pool, settings, journal or Journal(None, {}), stats, model)
    for task in tasks:
        if task.env == pool.name:
            run.memory.learn_task(task)
    if settings.mode == "guided":
        run.read(list(signals), reject)
    written: set[str] = set()
    block = MODEL_BLOCK if model else BLOCK
    for begin in range(0, settings.episodes, block):
        for exploration in run.block(range(begin, min(begin + block, settings.episodes))):
            if exploration.id in written:
                stats.repeated += 1
            else:
                written.add(exploration.id)
                stats.add(exploration)
                yield exploration
        stats.stop()


class _Run:
    def __init__(
        self,
        pool: Pool,
        settings: ExploreSettings,
        journal: Journal,
        stats: ExplorationStats,
        model: ModelExplorer | None,
    ):
        self.pool, self.settings, self.journal, self.stats = pool, settings, journal, stats
        self.model, self.memory = model, Memory(pool.tools)
        self.contexts: list[ContextSignals] = []
        self.patterns: list[WeakPattern] = []
        self.reflections: list[Reflection | RefusedReflection | BadReply | None] = []
        """One for each context; None without a model."""

    def read(self, signals: list[Signal], reject: Callable[[RefusedReflection], None]) -> None:
        """Chooses the contexts, finds their patterns, and lets a model reflect on them."""
        pool, settings, stats = self.pool, self.settings, self.stats
        for signal in signals:
            if signal.env != pool.name:
                raise UsageError(f"signal {signal.id} is about {signal.env}, not {pool.name}")
        aimed = [signal for signal in signals if has_aim(signal)]
        merged = merge(aimed)
        stats.aimless = len(signals) - len(aimed)
        chosen = choose(merged, settings.episodes, settings.rounds, settings.max_contexts)
        stats.contexts, stats.crowded_out = len(chosen), len(merged) - len(chosen)
        self.contexts, self.patterns = chosen, patterns_of([c.lead for c in chosen], pool)
        self.reflections = [None] * len(chosen)
        if self.model:
            self.reflections = self.model.reflections(chosen, pool.tools)
        for reflection in self.reflections:
            if isinstance(reflection, RefusedReflection):
                stats.refused += 1
                reject(reflection)

    def block(self, indices: range) -> Iterator[Exploration]:
        """Runs the episodes that the journal lacks; then the memory learns from all, in order."""
        stats, plans = self.stats, self.plans(indices)
        finished = {plan.key: self.journal.get(plan.key, FinishedEpisode) for plan in plans}
        missing = [plan for plan in plans if finished[plan.key] is None]
        stats.lost += sum(plan.lost for plan in missing)
        runner = self.model.run if self.model else run_programs
        to_run = [plan for plan in missing if not plan.lost]
        for plan, episode, fault, lost in runner(self.pool, to_run, self.memory, self.settings):
            finished[plan.key] = episode
            if episode and fault:
                stats.idle, stats.why_idle = stats.idle + 1, fault
            elif episode:
                self.journal.put(plan.key, episode)
            elif lost:
                stats.lost += 1
            else:
                stats.env_faults.add(fault)
        for episode in filter(None, finished.values()):
            stats.env_faults.add(None)
            visited = self.memory.learn(episode.exploration, episode.lessons, episode.opened)
            yield replace(episode.exploration, visited=visited)
        stats.env_faults.stop()

    def plans(self, indices: range) -> list[Plan]:
        """The plans of one block, from the memory as it is: contexts' rounds, then coverage."""
        settings, memory = self.settings, self.memory
        if settings.mode in ("random", "curious"):
            return [unguided(settings.mode, index, memory) for index in indices]
        rng = random.Random(f"{settings.seed}-{settings.iteration}-plan-{indices[0]}")
        plans = []
        for index in indices[: max(0, len(self.contexts) * settings.rounds - indices[0])]:
            number, round_ = divmod(index, settings.rounds)
            context, pattern = self.contexts[number], self.patterns[number]
            plan = guided(context, pattern, index, round_, memory, rng)
            plans.append(self.reflected(plan, self.reflections[number]))
        return plans + coverage(indices[len(plans) :], memory, rng)

    def reflected(
        self, plan: Plan, reflection: Reflection | RefusedReflection | BadReply | None
    ) -> Plan:
        """The plan with a model's reflection in place of the facts, in a start state that has its
        tools; lost where the model gave no reply."""
        if isinstance(reflection, BadReply):
            return plan._replace(lost=True)
        if not isinstance(reflection, Reflection):
            return plan
        aim, tools = reflection.tools[:MAX_AIMS] or plan.context.aim, self.memory.tools
        app = next((tools[name].app for name in aim if name in tools), "")
        context = replace(plan.context, reflection=reflection.text(), aim=aim)
        return plan._replace(app=plan.app or app or None, context=context)
