"""Judges tasks by execution: the stage `validate`, the most valuable one (without it the paper's
loop is worse than static data).

Each task is replayed in fresh sessions and judged by a gate (`gates`), then by controls
(`controls`). A synthetic task that is one of the environment's held-out ones is invalid by any gate
(`contamination`). An agent may try what is valid (`solver`). A fault of the environment is verdict
`error`, never `invalid`, and is not journalled; a task that the environment refuses as a bad
request is `invalid`; an action that runs out of time is `timeout`. Order is kept, and the verdicts
are the same for any number of workers. The stage stops with Unreachable where every task so far met
a fault.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice

from coevolve.environments.client import Fault, Pool
from coevolve.environments.faults import FaultCounter
from coevolve.environments.replay import (
    ReplayCoroutine,
    ReplayedEpisode,
    ReplayJob,
    effects_digest,
    gather_replays,
    run_replays,
)
from coevolve.records import Task, Validity, Verdict
from coevolve.runs import Journal
from coevolve.validation import gates
from coevolve.validation.contamination import ContaminationIndex
from coevolve.validation.controls import controls
from coevolve.validation.gates import Gate, GateFailure
from coevolve.validation.solver import Solver, attempt

CHUNK = 64  # Tasks judged at a time
WHAT = "tasks"


def validate(
    tasks: Iterable[Task],
    environment: Callable[[str], Pool],
    *,
    gate: Gate = "strict",
    solver: Solver | None = None,
    journal: Journal | None = None,
    env_faults: FaultCounter | None = None,
) -> Iterator[Verdict]:
    """One verdict per task, in order. `environment` gives the running pool of a task's `env`;
    `solver` tries what passes."""
    journal, env_faults = journal or Journal(None, {}), env_faults or FaultCounter(WHAT)
    remaining = iter(tasks)
    held_out: dict[str, ContaminationIndex] = {}
    while chunk := list(islice(remaining, CHUNK)):
        verdicts = [journal.get(task.id, Verdict) for task in chunk]
        open_ = [place for place, verdict in enumerate(verdicts) if verdict is None]
        for env in sorted({chunk[place].env for place in open_}):
            places = [place for place in open_ if chunk[place].env == env]
            pool, asked = environment(env), [chunk[place] for place in places]
            if env not in held_out:
                held_out[env] = ContaminationIndex(pool)
            pool.compare([task.env_version for task in asked])
            judges = [_Judge(task, pool, gate, held_out[env]).verdict() for task in asked]
            judged = run_replays(pool, gather_replays(judges))
            if solver:
                judged = attempt(asked, judged, pool, solver)
            for place, verdict in zip(places, judged, strict=True):
                verdicts[place] = verdict
                if verdict.verdict != "error":
                    journal.put(verdict.task_id, verdict)
        for verdict in verdicts:
            fault = verdict.reason if verdict.verdict == "error" else None
            env_faults.add(fault, answered=bool(verdict.replays))
        env_faults.stop()
        yield from verdicts


def validity(verdict: Verdict) -> Validity:
    """The part of its verdict that a task keeps."""
    evidence = {"replays": len(verdict.replays), "controls": verdict.controls}
    return Validity(verdict.verdict, verdict.gate, evidence)


class _FaultMet(Exception):
    """A replay met a fault of the environment."""

    def __init__(self, fault: Fault):
        self.fault = fault
        super().__init__(fault.message)


class _Judge:
    """Judges one task by one gate."""

    def __init__(self, task: Task, pool: Pool, gate: Gate, held_out: ContaminationIndex):
        self._task, self._pool, self._gate, self._held_out = task, pool, gate, held_out
        self._replays: list[ReplayedEpisode] = []
        self._scores: dict[str, float | None] = {}

    def verdict(self) -> ReplayCoroutine[Verdict]:
        task, paper = self._task, self._gate == "paper"
        try:
            failure = yield from self._paper() if paper else self._strict()
        except _FaultMet as met:
            refused = met.fault.kind == "bad_request"
            reason = f"the environment refuses it: {met}" if refused else str(met)
            verdict = "invalid" if refused else "error"
            return Verdict(task_id=task.id, verdict=verdict, gate=self._gate, reason=reason)
        job, tools = ReplayJob(task.start, task.solution), self._pool.tools
        return Verdict(
            task_id=task.id,
            verdict=failure.verdict if failure else "valid",
            gate=self._gate,
            replays=[
                {
                    "success": episode.graded.success,
                    "score": episode.graded.score,
                    "failure": episode.failure,
                    "outcome": effects_digest(tools, job, episode),
                }
                for episode in self._replays
            ],
            controls=self._scores,
            reward=gates.reward(self._replays[0]) if self._replays else 0.0,
            reason=failure.reason if failure else "",
        )

    def _paper(self) -> ReplayCoroutine[GateFailure | None]:
        self._replays = yield from _episodes([self._job()])
        return gates.paper(self._replays[0]) or self._contaminated()

    def _strict(self) -> ReplayCoroutine[GateFailure | None]:
        if failure := gates.form(self._task):
            return failure
        self._replays = yield from _episodes([self._job()] * 2)
        code = self._pool.description.code
        failure = gates.strict(self._task, self._pool.tools, self._replays, code)
        return failure or self._contaminated() or (yield from self._controlled())

    def _job(self) -> ReplayJob:
        return ReplayJob(self._task.start, self._task.solution, self._task)

    def _contaminated(self) -> GateFailure | None:
        shared = self._held_out.shared(self._task, self._replays[0])
        return GateFailure("invalid", shared) if shared else None

    def _controlled(self) -> ReplayCoroutine[GateFailure | None]:
        pool, first = self._pool, self._replays[0]
        tried = controls(self._task, first.opened, pool.description, pool.tools)
        played = yield [control.job for control in tried if control.job]
        episodes, passed = iter(played), []
        for control in tried:
            if control.job is None:
                self._scores[control.name] = None
                continue
            episode = next(episodes)
            if isinstance(episode, Fault):
                raise _FaultMet(episode)
            self._scores[control.name] = episode.graded.score
            if control.succeeds and not episode.graded.success:
                return GateFailure("invalid", f"order: {control.name!r} does not succeed")
            if episode.graded.success and not control.succeeds:
                passed.append(control)
        informing = gates.informing(self._task, pool.tools, first)
        for control in passed:
            if control.dropped is None:
                return GateFailure("trivial", f"control {control.name!r} succeeds")
            # a verifier that looks at the state alone cannot see whether a value was looked up
            if control.dropped not in informing:
                return GateFailure("invalid", f"redundant call: {control.name!r} succeeds")
        return None


def _episodes(jobs: Sequence[ReplayJob]) -> ReplayCoroutine[list[ReplayedEpisode]]:
    """The episodes of replays. Raises _FaultMet."""
    episodes = yield list(jobs)
    for episode in episodes:
        if isinstance(episode, Fault):
            raise _FaultMet(episode)
    return episodes
