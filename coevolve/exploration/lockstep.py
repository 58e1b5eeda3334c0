"""The episodes of one block, side by side: one batched environment call per step.

An episode's explorer sees its own steps and the memory as it was when the block began, nothing else; so what it does depends
on its seed alone, not on its neighbours or on the number of workers.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import NamedTuple

from msgspec import Struct

from coevolve.environments.client import EnvSession, Fault, Pool
from coevolve.environments.protocol import ActionResult
from coevolve.exploration.memory import Lesson, Memory
from coevolve.exploration.plans import Plan
from coevolve.exploration.settings import ExploreSettings
from coevolve.exploration.situation import Explorer, Situation
from coevolve.records import Action, Call, Exploration, Start, Step, Usage, content_id


class Finished(Struct, frozen=True):
    """A finished episode, as the journal keeps it."""

    exploration: Exploration
    lessons: list[Lesson]
    opened: str
    """State in which it began."""


class Done(NamedTuple):
    """A plan and what became of it: the episode, or the fault of the environment for which it was dropped, or lost because
    a model gave no reply. `fault` of an episode says why it ended before its first action."""

    plan: Plan
    episode: Finished | None
    fault: str = ""
    lost: bool = False


class _Live(Struct):
    """A session in the middle of its episode; `pending` is the call to make next, None at the end."""

    plan: Plan
    start: Start
    session: EnvSession
    here: Situation
    explorer: Explorer
    pending: Call | None


def run(pool: Pool, plans: list[Plan], memory: Memory, settings: ExploreSettings) -> Iterator[Done]:
    """Runs the plans; yields each as soon as it is over."""
    live = []
    for plan, opened in _open(pool, plans, memory, settings):
        if isinstance(opened, Fault):
            yield Done(plan, None, opened.message)
        else:
            live.append(opened)
    sessions = [episode.session for episode in live]
    while live:
        for episode in live:
            if episode.pending is None:
                yield Done(episode.plan, _finish(pool, episode, settings))
        live = [episode for episode in live if episode.pending is not None]
        answers = pool.step([(episode.session, 0, [episode.pending]) for episode in live])
        for episode, answer in zip(live, answers, strict=True):
            if isinstance(answer, Fault):
                yield Done(episode.plan, None, answer.message)
            else:
                _advance(episode, answer[0], settings.max_actions)
        live = [e for e, answer in zip(live, answers, strict=True) if not isinstance(answer, Fault)]
    pool.close(sessions)


def _open(
    pool: Pool, plans: list[Plan], memory: Memory, settings: ExploreSettings
) -> Iterator[tuple[Plan, _Live | Fault]]:
    for plan, start, session in zip(plans, *open_sessions(pool, plans, settings), strict=True):
        if isinstance(session, Fault):
            yield plan, session
            continue
        here = Situation(session.opened, memory, random.Random(seed_of(plan, settings)))
        explorer = plan.explorer(here)
        yield plan, _Live(plan, start, session, here, explorer, next(explorer, None))


def open_sessions(
    pool: Pool, plans: list[Plan], settings: ExploreSettings
) -> tuple[list[Start], list[EnvSession | Fault]]:
    """Each plan's own fresh start state, and a session in it."""
    starts = [
        pool.start(seed_of(plan, settings), [plan.app] if plan.app else None) for plan in plans
    ]
    return starts, pool.open(starts)


def seed_of(plan: Plan, settings: ExploreSettings) -> str:
    """What all of an episode's chance depends on."""
    return f"{settings.seed}-{settings.iteration}-{plan.key}"


def _advance(episode: _Live, result: ActionResult, most: int) -> None:
    """Takes up one executed call and asks the explorer for the next one."""
    step = step_of(episode.pending, result)
    episode.here.record(step)
    over = result.fatal or len(episode.here.steps) >= most
    episode.pending = None if over else _next(episode.explorer, step)


def _next(explorer: Explorer, step: Step) -> Call | None:
    try:
        return explorer.send(step)
    except StopIteration:
        return None


def step_of(action: Action, result: ActionResult) -> Step:
    return Step(
        turn=0,
        action=action,
        observation=result.observation,
        error=result.error or result.fatal,
        effects=result.effects,
        state=result.state,
    )


def _finish(pool: Pool, episode: _Live, settings: ExploreSettings) -> Finished:
    exploration = exploration_of(pool, episode.plan, episode.start, episode.here.steps, settings)
    return Finished(exploration, episode.here.lessons, episode.session.opened.state)


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
    return Exploration(
        id=content_id(
            "exploration", pool.name, start, plan.context, plan.mode, plan.round, actions
        ),
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
