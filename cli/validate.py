"""`coevolve validate [TASKS]`: keeps the tasks that execution confirms."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterator
from contextlib import ExitStack, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from coevolve import jsonl
from coevolve.environments.faults import FaultCounter
from coevolve.environments.client import Pools
from coevolve.errors import UsageError
from coevolve.jsonl import Line
from coevolve.records import Task
from coevolve.runs import Journal, journal_path
from coevolve.validation.solver import Solver
from coevolve.validation.validate import CHUNK, WHAT, validate, validity
from coevolve_cli.model_options import ModelOptions, with_model_options
from coevolve_cli.streams import (
    Config,
    DryRun,
    Env,
    ExitStatus,
    Faults,
    Files,
    MaxErrors,
    OnError,
    Output,
    Quiet,
    Rejects,
    RunDir,
    Seed,
    Stage,
    Workers,
    dry_run,
    stage,
)
from coevolve_cli.versions import AnyVersion

if TYPE_CHECKING:
    from coevolve.models.service import Models

EXAMPLES = """
  coevolve abstract explorations.jsonl | coevolve validate > tasks.jsonl
  coevolve validate candidates.jsonl --verdicts verdicts.jsonl -o tasks.jsonl
  coevolve validate candidates.jsonl --gate paper | wc -l
  coevolve validate candidates.jsonl --solver MODEL --trials 4 --base-url http://localhost:8000/v1 -o tasks.jsonl
"""


@with_model_options
def command(
    ctx: typer.Context,
    files: Files = None,
    output: Output = "-",
    gate: Annotated[
        str,
        typer.Option(
            "--gate", metavar="strict|paper", help="paper: success, or any positive reward."
        ),
    ] = "strict",
    verdicts: Annotated[
        str | None,
        typer.Option(
            "--verdicts", metavar="FILE", help="Every verdict goes here.", show_default=False
        ),
    ] = None,
    solver: Annotated[
        str | None,
        typer.Option(
            "--solver",
            metavar="NAME",
            help="An agent that sees only the query tries what is valid: a model at --base-url, else as --policy of rollout (READY.json, too).",
            show_default=False,
        ),
    ] = None,
    trials: Annotated[
        int,
        typer.Option(
            "--trials", min=1, help="Attempts of --solver; its solve rate is the difficulty."
        ),
    ] = 4,
    min_solved: Annotated[
        int,
        typer.Option(
            "--min-solved", min=0, help="With --solver and strict: this many attempts must succeed."
        ),
    ] = 0,
    temperature: Annotated[
        float, typer.Option("--temperature", min=0, help="Of --solver; 0 is greedy.")
    ] = 1.0,
    seed: Seed = 0,
    workers: Workers = 1,
    env: Env = None,
    any_version: AnyVersion = False,
    run: RunDir = None,
    rejects: Rejects = None,
    on_error: OnError = "fail",
    max_errors: MaxErrors = None,
    exit_status: ExitStatus = False,
    quiet: Quiet = False,
    config: Config = None,
    dry: DryRun = False,
    *,
    models: ModelOptions,
) -> None:
    """Replay each task's solution twice in fresh sessions, run controls that must fail, print the valid tasks.

    Doing nothing, one harmless call per turn, and the solution less one call must all fail. With --solver an agent then
    tries the valid ones from the query alone; --gate paper asks for a success or a positive reward of some attempt.
    """
    if gate not in ("strict", "paper"):
        raise UsageError(f"--gate takes strict or paper, not {gate!r}")
    if dry:
        attempts = trials if solver else 0
        dry_run(
            ctx,
            tasks_at_a_time=CHUNK,
            replays_per_task=2 if gate == "strict" else 1,
            attempts_per_task=attempts,
        )
        return
    path = journal_path(output, Path(run) / "validate.journal" if run else None)
    env_faults, finished = FaultCounter(WHAT), False
    with (
        models.if_at_server("validate", run=run, quiet=quiet) if solver else nullcontext() as served
    ):
        agent = _solver(solver, served, temperature, trials, min_solved, seed)
        about = (
            {"solver": agent.policy.name, "temperature": temperature, "attempts": agent[1:]}
            if agent
            else {}
        )
        journal = Journal(path, {"command": "validate", "gate": gate, **about})
        try:
            faults = Faults(on_error, max_errors, rejects)
            with (
                stage("validate", files, output, faults, quiet=quiet, exit_status=exit_status) as s,
                ExitStack() as stack,
            ):
                pools = stack.enter_context(Pools(workers, env, any_version=any_version))
                record = (
                    stack.enter_context(jsonl.atomic(verdicts)).write
                    if verdicts
                    else lambda line: None
                )
                reasons = _validate(s, pools, gate, agent, journal, env_faults, record)
                if reasons and not verdicts:
                    (reason, count), *_ = reasons.most_common(1)
                    s.note(f"most frequent reason ({count}): {reason}; --verdicts FILE keeps all")
            if served:
                served.kept = s.written
            finished = not env_faults.lost
        finally:
            journal.close(finished)
    env_faults.end()


def _solver(
    name: str | None, served: Models | None, temperature: float, trials: int, least: int, seed: int
) -> Solver | None:
    if name is None:
        return None
    from coevolve.agents.rollout import make_policy

    return Solver(make_policy(name, models=served, temperature=temperature), trials, least, seed)


def _validate(
    s: Stage,
    pools: Pools,
    gate: str,
    solver: Solver | None,
    journal: Journal,
    env_faults: FaultCounter,
    record: Callable[[bytes], object],
) -> Counter[str]:
    """Returns the reasons of what is not valid."""
    waiting: deque[Line[Task]] = deque()
    counts: Counter[str] = Counter()
    reasons: Counter[str] = Counter()

    def tasks() -> Iterator[Task]:
        for line in s.read(Task):
            waiting.append(line)
            yield line.record

    for verdict in validate(
        tasks(), pools, gate=gate, solver=solver, journal=journal, env_faults=env_faults
    ):
        line = waiting.popleft()
        counts[verdict.verdict] += 1
        record(jsonl.encode(verdict))
        if verdict.verdict == "valid":
            difficulty = {"difficulty": verdict.attempts} if verdict.attempts else {}
            s.write_raw(jsonl.splice(line.raw, validity=validity(verdict), **difficulty))
        else:
            reasons[verdict.reason] += 1
            s.keep_reject(
                {
                    "reason": f"{verdict.verdict}: {verdict.reason}",
                    "task": msgspec.to_builtins(line.record),
                }
            )
    if counts:
        s.note(
            ", ".join(f"{name} {n}" for name, n in sorted(counts.items()) if name != "valid")
            or "all valid"
        )
    if journal.reused:
        s.note(f"resumed {journal.reused}")
    return reasons
