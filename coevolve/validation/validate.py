"""Tasks in, verdicts out: the stage `validate`, the most valuable one (without it the paper's loop is worse than static data).

Each task is replayed in fresh sessions and judged by a gate (`gates`), then by controls (`controls`). A fault of the environment
is verdict `error`, never `invalid`, and is not journalled; an action that runs out of time is `timeout`. Order is kept, and the
verdicts are the same for any number of workers. When more than half of a chunk meets faults, the stage stops with Unreachable.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import islice

from coevolve.environments.client import Fault, Pool
from coevolve.environments.replay import Episode, Job, Work, outcome, run, together
from coevolve.errors import Unreachable
from coevolve.records import Task, Validity, Verdict
from coevolve.runs import Journal
from coevolve.validation import gates
from coevolve.validation.controls import Control, controls
from coevolve.validation.gates import Failure, Gate

CHUNK = 64
"""Tasks judged at a time."""


def validate(
    tasks: Iterable[Task],
    environment: Callable[[str], Pool],
    *,
    gate: Gate = "strict",
    journal: Journal | None = None,
) -> Iterator[Verdict]:
    """One verdict per task, in order. `environment` gives the running pool of a task's `env`."""
    journal = journal or Journal(None, {})
    remaining = iter(tasks)
    while chunk := list(islice(remaining, CHUNK)):
        verdicts = [journal.get(task.id, Verdict) for task in chunk]
        for env in sorted({task.env for task, verdict in zip(chunk, verdicts, strict=True) if verdict is None}):
            missing = [place for place, task in enumerate(chunk) if task.env == env and verdicts[place] is None]
            judged = _judge(env, [chunk[place] for place in missing], environment(env), gate)
            for place, verdict in zip(missing, judged, strict=True):
                verdicts[place] = verdict
                if verdict.verdict != "error":
                    journal.put(verdict.task_id, verdict)
        yield from verdicts


def validity(verdict: Verdict) -> Validity:
    """What a task keeps of its verdict."""
    return Validity(verdict.verdict, verdict.gate, {"replays": len(verdict.replays), "controls": verdict.controls})


def _judge(env: str, tasks: list[Task], pool: Pool, gate: Gate) -> list[Verdict]:
    work = _paper if gate == "paper" else _strict
    verdicts = run(pool, together([work(task, pool) for task in tasks]))
    faults = [verdict for verdict in verdicts if verdict.verdict == "error"]
    if len(faults) * 2 > len(verdicts):
        raise Unreachable(f"{env}: {len(faults)} of {len(verdicts)} tasks met a fault: {faults[0].reason}")
    return verdicts


def _paper(task: Task, pool: Pool) -> Work[Verdict]:
    (episode,) = yield [Job(task.start, task.solution, task)]
    if isinstance(episode, Fault):
        return _fault(task, "paper", episode)
    return _verdict(task, "paper", pool, [episode], gates.paper(episode), {})


def _strict(task: Task, pool: Pool) -> Work[Verdict]:
    failure = gates.form(task)
    if failure:
        return _verdict(task, "strict", pool, [], failure, {})
    replays = yield [Job(task.start, task.solution, task)] * 2
    for episode in replays:
        if isinstance(episode, Fault):
            return _fault(task, "strict", episode)
    failure = gates.strict(task, pool.tools, replays)
    if failure:
        return _verdict(task, "strict", pool, replays, failure, {})
    return (yield from _controlled(task, pool, replays))


def _controlled(task: Task, pool: Pool, replays: list[Episode]) -> Work[Verdict]:
    tried = controls(task, replays[0].opened, pool.description)
    episodes = iter((yield [control.job for control in tried if control.job]))
    scores: dict[str, float | None] = {}
    passed: list[Control] = []
    for control in tried:
        episode = next(episodes) if control.job else None
        if isinstance(episode, Fault):
            return _fault(task, "strict", episode)
        scores[control.name] = episode.graded.score if episode else None
        if episode and episode.graded.success:
            passed.append(control)
    informing = gates.informing(task, pool.tools, replays[0])
    failure = next((_passed(c) for c in passed if c.dropped is None or c.dropped not in informing), None)
    return _verdict(task, "strict", pool, replays, failure, scores)


def _passed(control: Control) -> Failure:
    if control.dropped is None:
        return Failure("trivial", f"control {control.name!r} succeeds")
    return Failure("invalid", f"redundant call: {control.name!r} succeeds")


def _fault(task: Task, gate: Gate, fault: Fault) -> Verdict:
    return Verdict(task_id=task.id, verdict="error", gate=gate, reason=fault.message)


def _verdict(
    task: Task,
    gate: Gate,
    pool: Pool,
    replays: list[Episode],
    failure: Failure | None,
    scores: dict[str, float | None],
) -> Verdict:
    job = Job(task.start, task.solution)
    return Verdict(
        task_id=task.id,
        verdict=failure.verdict if failure else "valid",
        gate=gate,
        replays=[
            {
                "success": episode.graded.success,
                "score": episode.graded.score,
                "failure": episode.failure,
                "outcome": outcome(pool.tools, job, episode),
            }
            for episode in replays
        ],
        controls=scores,
        reward=gates.reward(replays[0]) if replays else 0.0,
        reason=failure.reason if failure else "",
    )
