"""The episodes of one block as a batch: one batched environment call per step.

An episode's explorer sees its own steps and the memory as it was when the block began, nothing
else; so what it does depends on its seed alone, not on its neighbours or on the number of workers.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import NamedTuple

from msgspec import Struct

from coevolve.environments.client import EnvSession, Fault, Pool
from coevolve.environments.protocol import ActionResult
from coevolve.exploration.episode import Explorer, ExplorerEpisode, step_of
from coevolve.exploration.memory import Lesson, Memory
from coevolve.exploration.plans import Plan
from coevolve.exploration.settings import ExploreSettings
from coevolve.records import Call, Exploration, Start, Step, Usage, content_id


class FinishedEpisode(Struct, frozen=True):
    """A finished episode, as the journal keeps it."""

    exploration: Exploration
    lessons: list[Lesson]
    opened: str  # State in which it began


class PlanResult(NamedTuple):
    """What became of a plan: its episode, or None where it was dropped."""

    plan: Plan
    episode: FinishedEpisode | None
    fault: str = ""  # The environment's fault; of an episode: why it ended before its first action
    lost: bool = False  # A model gave no reply


class _Running(Struct):
    """A session in the middle of its episode."""

    plan: Plan
    start: Start
    session: EnvSession
    here: ExplorerEpisode
    explorer: Explorer
    pending: Call | None  # The call to make next, None at the end

    def advance(self, result: ActionResult, max_steps: int) -> None:
        """Takes up one executed call and asks the explorer for the next one."""
        step = step_of(self.pending, result)
        self.here.record(step)
        over = result.fatal or len(self.here.steps) >= max_steps
        try:
            self.pending = None if over else self.explorer.send(step)
        except StopIteration:
            self.pending = None


def run_programs(
    pool: Pool, plans: list[Plan], memory: Memory, settings: ExploreSettings
) -> Iterator[PlanResult]:
    """Runs the plans with the explorers of their modes; yields each as soon as it is over."""
    running: list[_Running] = []
    for plan, start, session in open_sessions(pool, plans, settings):
        if isinstance(session, Fault):
            yield PlanResult(plan, None, session.message)
        else:
            here = ExplorerEpisode(session.opened, memory, random.Random(seed_of(plan, settings)))
            explorer = plan.explorer(here)
            running.append(_Running(plan, start, session, here, explorer, next(explorer, None)))
    sessions = [episode.session for episode in running]
    while running:
        for e in running:
            if e.pending is None:
                found = exploration_of(pool, e.plan, e.start, e.here.steps, settings)
                opened = e.session.opened.state
                yield PlanResult(e.plan, FinishedEpisode(found, e.here.lessons, opened))
        acting = [episode for episode in running if episode.pending is not None]
        answers = pool.step([(episode.session, 0, [episode.pending]) for episode in acting])
        running = []
        for episode, answer in zip(acting, answers, strict=True):
            if isinstance(answer, Fault):
                yield PlanResult(episode.plan, None, answer.message)
            else:
                episode.advance(answer[0], settings.max_actions)
                running.append(episode)
    pool.close(sessions)


def open_sessions(
    pool: Pool, plans: list[Plan], settings: ExploreSettings
) -> list[tuple[Plan, Start, EnvSession | Fault]]:
    """Each plan with a fresh start state of its own, and a session in it."""
    starts = [
        pool.start(seed_of(plan, settings), [plan.app] if plan.app else None) for plan in plans
    ]
    return list(zip(plans, starts, pool.open(starts), strict=True))


def seed_of(plan: Plan, settings: ExploreSettings) -> str:
    """The seed of everything random in an episode."""
    return f"{settings.seed}-{settings.iteration}-{plan.key}"


def exploration_of(
    pool: Pool,
    plan: Plan,
    start: Start,
    steps: list[Step],
    settings: ExploreSettings,
    usage: Usage = Usage(),
) -> Exploration:
    """The record of a finished episode; `visited` is for the memory to say."""
    actions = [step.action for step in steps]
    content = ("exploration", pool.name, start, plan.context, plan.mode, plan.round, actions)
    return Exploration(
        id=content_id(*content),
        env=pool.name,
        env_version=pool.description.version,
        mode=plan.mode,
        round=plan.round,
        iteration=settings.iteration,
        seed=seed_of(plan, settings),
        context=plan.context,
        rollouts=plan.rollouts,
        usage=usage,
        start=start,
        steps=steps,
    )
