"""Replays: given actions in fresh sessions, many at once.

An episode holds what the environment did: errors and fatal results are data; after a fatal result
nothing more is done in that episode, so that it holds fewer results than actions. A fault of the
infrastructure takes the place of its episode. Sessions are closed, whatever happens.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import NamedTuple, TypeVar

from coevolve.environments.client import Fault, Pool
from coevolve.environments.protocol import ActionResult, Graded, Opened, Tool
from coevolve.records import Action, Start, Task, content_id

T = TypeVar("T")
AT_ONCE = 256  # Sessions open at a time, where the environment does not ask for fewer


class ReplayJob(NamedTuple):
    """Actions per turn from a start state; graded against the task where there is one."""

    start: Start
    turns: Sequence[Sequence[Action]]
    task: Task | None = None


class ReplayedEpisode(NamedTuple):
    """The results of one job."""

    opened: Opened
    results: list[list[ActionResult]]  # Per turn, per action
    graded: Graded | None = None

    @property
    def flat(self) -> list[ActionResult]:
        """The results of all turns."""
        return [result for turn in self.results for result in turn]

    @property
    def failure(self) -> str | None:
        """Kind of the first error or fatal result, None when every action worked."""
        return next((kind for r in self.flat if (kind := r.fatal or r.error)), None)


def replay(pool: Pool, jobs: Sequence[ReplayJob]) -> list[ReplayedEpisode | Fault]:
    """One episode per job, in order."""
    most = min(AT_ONCE, pool.description.limits.sessions or AT_ONCE)
    batches = (jobs[first : first + most] for first in range(0, len(jobs), most))
    return [episode for batch in batches for episode in _replay_batch(pool, batch)]


def _replay_batch(pool: Pool, jobs: Sequence[ReplayJob]) -> list[ReplayedEpisode | Fault]:
    queries = [job.task.query if job.task else None for job in jobs]
    sessions = pool.open([job.start for job in jobs], queries)
    try:
        done: list[ReplayedEpisode | Fault] = [
            s if isinstance(s, Fault) else ReplayedEpisode(s.opened, [[] for _ in job.turns])
            for s, job in zip(sessions, jobs, strict=True)
        ]
        for turn in range(max((len(job.turns) for job in jobs), default=0)):
            _replay_turn(pool, turn, jobs, sessions, done)
        _grade(pool, jobs, sessions, done)
        return done
    finally:
        pool.close([session for session in sessions if not isinstance(session, Fault)])


def _replay_turn(
    pool: Pool, turn: int, jobs: Sequence[ReplayJob], sessions: list, done: list
) -> None:
    going = [
        i
        for i, job in enumerate(jobs)
        if turn < len(job.turns) and job.turns[turn] and _goes_on(done[i])
    ]
    replies = pool.step([(sessions[i], turn, list(jobs[i].turns[turn])) for i in going])
    for i, reply in zip(going, replies, strict=True):
        if isinstance(reply, Fault):
            done[i] = reply
        else:
            done[i].results[turn].extend(reply)


def _goes_on(done: ReplayedEpisode | Fault) -> bool:
    return not isinstance(done, Fault) and not any(result.fatal for result in done.flat)


def _grade(pool: Pool, jobs: Sequence[ReplayJob], sessions: list, done: list) -> None:
    wanted = [i for i, job in enumerate(jobs) if job.task and not isinstance(done[i], Fault)]
    grades = pool.evaluate([(sessions[i], jobs[i].task) for i in wanted])
    for i, graded in zip(wanted, grades, strict=True):
        done[i] = graded if isinstance(graded, Fault) else done[i]._replace(graded=graded)


ReplayCoroutine = Generator[list[ReplayJob], "list[ReplayedEpisode | Fault]", T]
"""A computation that yields jobs, is sent their episodes, and returns its result."""


def gather_replays(coroutines: Sequence[ReplayCoroutine[T]]) -> ReplayCoroutine[list[T]]:
    """Runs several computations in step, so that what they want next is replayed in one batch.

    Returns their results in order.
    """
    results: dict[int, T] = {}
    waiting: dict[int, list[ReplayJob]] = {}

    def advance(index: int, episodes: list[ReplayedEpisode | Fault] | None) -> None:
        try:
            waiting[index] = coroutines[index].send(episodes)
        except StopIteration as end:
            waiting.pop(index, None)
            results[index] = end.value

    for index in range(len(coroutines)):
        advance(index, None)
    while waiting:
        wanted = dict(waiting)
        episodes = iter((yield [job for jobs in wanted.values() for job in jobs]))
        for index, jobs in wanted.items():
            advance(index, [next(episodes) for _ in jobs])
    return [results[index] for index in range(len(coroutines))]


def run_replays(pool: Pool, coroutine: ReplayCoroutine[T]) -> T:
    """Replays what a computation asks for until it returns."""
    episodes = None
    while True:
        try:
            jobs = coroutine.send(episodes)
        except StopIteration as end:
            return end.value
        episodes = replay(pool, jobs)


def checked_responses(
    tools: dict[str, Tool], actions: Sequence[Action], results: Sequence[ActionResult]
) -> list[str]:
    """Observations of the calls whose response the verifier compares."""
    names = (action if isinstance(action, str) else action.tool for action in actions)
    return [
        result.observation
        for name, result in zip(names, results, strict=False)
        if name in tools and tools[name].checked and not result.error
    ]


def effects_digest(tools: dict[str, Tool], job: ReplayJob, episode: ReplayedEpisode) -> str:
    """Digest of a task's achievement, `Task.effects`: effects and checked responses per turn."""
    turns = []
    for actions, results in zip(job.turns, episode.results, strict=True):
        effects = [effect for result in results for effect in result.effects]
        turns.append([effects, checked_responses(tools, actions, results)])
    return content_id(turns)
