"""`coevolve validate [TASKS]`: keeps the tasks that execution confirms."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from typing import Annotated, ClassVar

import msgspec

from coevolve import jsonl
from coevolve.environments.client import Pools
from coevolve.environments.faults import FaultCounter
from coevolve.jsonl import Line
from coevolve.options import Option, Samples, Seed, Settings
from coevolve.records import Task, Verdict
from coevolve.runs import Journal, journal_path
from coevolve.validation.solver import Solver
from coevolve.validation.validate import CHUNK, WHAT, validate, validity
from coevolve_cli.model_options import PlayerOptions
from coevolve_cli.options import Files, Invocation
from coevolve_cli.stage_options import RunStreams
from coevolve_cli.streams import Stage


class ValidateSettings(Settings, frozen=True, kw_only=True):
    PANEL: ClassVar[str] = "Validation"

    gate: Annotated[
        str,
        Option(
            choices={
                "strict": "its solution succeeds twice, and every control fails",
                "paper": "its solution succeeds or has a positive reward",
            }
        ),
    ] = "strict"
    """What makes a task valid."""
    samples: Samples = 4
    min_solved: Annotated[int, Option(ge=0)] = 0
    """With --model and --gate strict: so many attempts must succeed."""
    seed: Seed = 0
    verdicts: Annotated[str | None, Option(file="out")] = None
    """Every verdict goes here."""


def command(
    files: Files,
    settings: ValidateSettings,
    solver: PlayerOptions,
    io: RunStreams,
    call: Invocation,
) -> None:
    """Replay each task's solution twice in fresh sessions, run controls that must fail, print the
    valid tasks.

    Doing nothing, one harmless call per turn, and the solution less one call must all fail. With
    --model an agent that sees only the request then tries the valid ones: its solve rate is their
    difficulty; --gate paper asks for a success or a positive reward of some attempt.
    """
    if call.dry_run:
        work = {"tasks_at_a_time": CHUNK, "replays_per_task": 2 if settings.gate == "strict" else 1}
        return call.plan(**work, attempts_per_task=settings.samples if solver.model else 0)
    env_faults, finished = FaultCounter(WHAT), False
    with solver.player("validate", io) as (player, served):
        agent, about = None, {}
        if player.model is not None:
            tries = settings.samples, settings.min_solved, settings.seed
            agent = Solver(player.policy(served), *tries, player.max_actions)
            about = {**player.identity(agent.policy), "attempts": agent[1:]}
        path = journal_path(io.output, io.in_run("validate.journal"))
        journal = Journal(path, {"command": "validate", "gate": settings.gate, **about})
        try:
            with (
                io.stage("validate", files) as s,
                Pools(io.workers, io.env, any_version=io.any_version) as pools,
                jsonl.atomic(settings.verdicts) if settings.verdicts else nullcontext() as kept,
            ):
                lines: deque[Line[Task]] = deque()
                how = {"gate": settings.gate, "solver": agent, "journal": journal}
                verdicts = validate(_tasks(s, lines), pools, env_faults=env_faults, **how)
                reasons = _sift(s, verdicts, lines, kept.write if kept else None)
                if journal.reused:
                    s.note(f"resumed {journal.reused}")
                if reasons and not kept:
                    (reason, count), *_ = reasons.most_common(1)
                    s.note(f"most frequent reason ({count}): {reason}; --verdicts FILE keeps all")
            if served:
                served.kept = s.written
            finished = not env_faults.lost
        finally:
            journal.close(finished)
    env_faults.end()


def _tasks(s: Stage, lines: deque[Line[Task]]) -> Iterator[Task]:
    for line in s.read(Task):
        lines.append(line)
        yield line.record


def _sift(
    s: Stage,
    verdicts: Iterator[Verdict],
    lines: deque[Line[Task]],
    keep: Callable[[bytes], object] | None,
) -> Counter[str]:
    """Writes the valid tasks, sets the others aside, and returns the reasons of those others."""
    counts: Counter[str] = Counter()
    reasons: Counter[str] = Counter()
    for verdict in verdicts:
        line = lines.popleft()
        counts[verdict.verdict] += 1
        if keep:
            keep(jsonl.encode(verdict))
        if verdict.verdict == "valid":
            difficulty = {"difficulty": verdict.attempts} if verdict.attempts else {}
            s.write_raw(jsonl.splice(line.raw, validity=validity(verdict), **difficulty))
            continue
        reasons[verdict.reason] += 1
        reason = f"{verdict.verdict}: {verdict.reason}"
        s.keep_reject({"reason": reason, "task": msgspec.to_builtins(line.record)})
    others = [f"{name} {n}" for name, n in sorted(counts.items()) if name != "valid"]
    if counts:
        s.note(", ".join(others) or "all valid")
    return reasons
