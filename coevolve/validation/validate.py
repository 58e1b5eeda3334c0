"""Tasks in, verdicts out: the stage `validate`, the most valuable one (without it the paper's loop is worse than static data).

Each task is replayed in fresh sessions and judged by a gate (`gates`), then by controls (`controls`). A synthetic task that is one
of the environment's held-out ones is invalid by any gate (`contamination`). An agent may try what is valid (`solver`). A fault of the environment
is verdict `error`, never `invalid`, and is not journalled; a task that the environment refuses as a bad request is `invalid`; an
action that runs out of time is `timeout`. Order is kept, and the verdicts are the same for any number of workers. The stage stops
with Unreachable where every task so far met a fault (`env_faults`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
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
from coevolve.validation.contamination import HeldOut
from coevolve.validation.controls import Control, controls
from coevolve.validation.gates import Gate, GateFailure
from coevolve.validation.solver import Solver, attempt

CHUNK = 64
"""Tasks judged at a time."""
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
    """One verdict per task, in order. `environment` gives the running pool of a task's `env`; `solver` tries what passes."""
    journal, env_faults = journal or Journal(None, {}), env_faults or FaultCounter(WHAT)
    remaining = iter(tasks)
    held_out: dict[str, HeldOut] = {}
    while chunk := list(islice(remaining, CHUNK)):
        verdicts = [journal.get(task.id, Verdict) for task in chunk]
        for env in sorted(
            {task.env for task, verdict in zip(chunk, verdicts, strict=True) if verdict is None}
        ):
            missing = [
                place
                for place, task in enumerate(chunk)
                if task.env == env and verdicts[place] is None
            ]
            if env not in held_out:
                held_out[env] = HeldOut(environment(env))
            asked = [chunk[place] for place in missing]
            environment(env).compare([task.env_version for task in asked])
            judged = _judge(asked, environment(env), gate, held_out[env])
            if solver:
                judged = attempt(asked, judged, environment(env), solver)
            for place, verdict in zip(missing, judged, strict=True):
                verdicts[place] = verdict
                if verdict.verdict != "error":
                    journal.put(verdict.task_id, verdict)
        for verdict in verdicts:
            env_faults.add(
                verdict.reason if verdict.verdict == "error" else None,
                answered=bool(verdict.replays),
            )
        env_faults.stop()
        yield from verdicts


def validity(verdict: Verdict) -> Validity:
    """What a task keeps of its verdict."""
    return Validity(
        verdict.verdict,
        verdict.gate,
        {"replays": len(verdict.replays), "controls": verdict.controls},
    )


def _judge(tasks: list[Task], pool: Pool, gate: Gate, held_out: HeldOut) -> list[Verdict]:
    work = _paper if gate == "paper" else _strict
    return run_replays(pool, gather_replays([work(task, pool, held_out) for task in tasks]))


def _paper(task: Task, pool: Pool, held_out: HeldOut) -> ReplayCoroutine[Verdict]:
    (episode,) = yield [ReplayJob(task.start, task.solution, task)]
    if isinstance(episode, Fault):
        return _fault(task, "paper", episode)
    failure = gates.paper(episode) or _contaminated(task, episode, held_out)
    return _verdict(task, "paper", pool, [episode], failure, {})


def _strict(task: Task, pool: Pool, held_out: HeldOut) -> ReplayCoroutine[Verdict]:
    failure = gates.form(task)
    if failure:
        return _verdict(task, "strict", pool, [], failure, {})
    replays = yield [ReplayJob(task.start, task.solution, task)] * 2
    for episode in replays:
        if isinstance(episode, Fault):
            return _fault(task, "strict", episode)
    failure = gates.strict(task, pool.tools, replays, pool.description.code) or _contaminated(
        task, replays[0], held_out
    )
    if failure:
        return _verdict(task, "strict", pool, replays, failure, {})
    return (yield from _controlled(task, pool, replays))


def _contaminated(task: Task, episode: ReplayedEpisode, held_out: HeldOut) -> GateFailure | None:
    touched = held_out.touches(task, episode)
    return GateFailure("invalid", touched) if touched else None


def _controlled(task: Task, pool: Pool, replays: list[ReplayedEpisode]) -> ReplayCoroutine[Verdict]:
    tried = controls(task, replays[0].opened, pool.description, pool.tools)
    episodes = iter((yield [control.job for control in tried if control.job]))
    scores: dict[str, float | None] = {}
    passed: list[Control] = []
    for control in tried:
        episode = next(episodes) if control.job else None
        if isinstance(episode, Fault):
            return _fault(task, "strict", episode)
        scores[control.name] = episode.graded.score if episode else None
        if control.succeeds and not episode.graded.success:
            failure = GateFailure("invalid", f"order: {control.name!r} does not succeed")
            return _verdict(task, "strict", pool, replays, failure, scores)
        if episode and episode.graded.success and not control.succeeds:
            passed.append(control)
    informing = gates.informing(task, pool.tools, replays[0])
    failure = next(
        (_passed(c) for c in passed if c.dropped is None or c.dropped not in informing), None
    )
    return _verdict(task, "strict", pool, replays, failure, scores)


def _passed(control: Control) -> GateFailure:
    if control.dropped is None:
        return GateFailure("trivial", f"control {control.name!r} succeeds")
    return GateFailure("invalid", f"redundant call: {control.name!r} succeeds")


def _fault(task: Task, gate: Gate, fault: Fault) -> Verdict:
    if fault.kind == "bad_request":
        return Verdict(
            task_id=task.id,
            verdict="invalid",
            gate=gate,
            reason=f"the environment refuses it: {fault.message}",
        )
    return Verdict(task_id=task.id, verdict="error", gate=gate, reason=fault.message)


def _verdict(
    task: Task,
    gate: Gate,
    pool: Pool,
    replays: list[ReplayedEpisode],
    failure: GateFailure | None,
    scores: dict[str, float | None],
) -> Verdict:
    job = ReplayJob(task.start, task.solution)
    return Verdict(
        task_id=task.id,
        verdict=failure.verdict if failure else "valid",
        gate=gate,
        replays=[
            {
                "success": episode.graded.success,
                "score": episode.graded.score,
                "failure": episode.failure,
                "outcome": effects_digest(pool.tools, job, episode),
            }
            for episode in replays
        ],
        controls=scores,
        reward=gates.reward(replays[0]) if replays else 0.0,
        reason=failure.reason if failure else "",
    )
