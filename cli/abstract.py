"""`coevolve abstract [EXPLORATIONS]`: executed calls become tasks."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from coevolve.abstraction.abstract import CHUNK, abstract
from coevolve.abstraction.candidates import FAULT, Reject
from coevolve.environments.pools import Pools
from coevolve.records import Exploration
from coevolve.runs import Journal
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
    Workers,
    dry_run,
    stage,
)

EXAMPLES = """
  coevolve explore --env desk --mode curious --episodes 50 | coevolve abstract > candidates.jsonl
  coevolve abstract explorations.jsonl --rejects rejects.jsonl -o candidates.jsonl
"""


def command(
    ctx: typer.Context,
    files: Files = None,
    output: Output = "-",
    per_exploration: Annotated[
        int, typer.Option("--per-exploration", min=1, help="Tasks from one exploration at most.")
    ] = 4,
    seed: Seed = 0,
    workers: Workers = 1,
    env: Env = None,
    run: RunDir = None,
    rejects: Rejects = None,
    on_error: OnError = "fail",
    max_errors: MaxErrors = None,
    exit_status: ExitStatus = False,
    quiet: Quiet = False,
    config: Config = None,
    dry: DryRun = False,
) -> None:
    """Turn explorations into candidate tasks: goals minimised by execution, a request in words, the solution.

    Every solution has been executed as it stands. What gave no task goes to --rejects, with the reason.
    """
    if dry:
        dry_run(ctx, explorations_at_a_time=CHUNK)
        return
    path = f"{output}.journal" if output != "-" else Path(run) / "abstract.journal" if run else None
    journal = Journal(path, {"command": "abstract", "seed": seed, "per_exploration": per_exploration})
    finished = False
    try:
        faults = Faults(on_error, max_errors, rejects)
        with (
            stage("abstract", files, output, faults, quiet=quiet, exit_status=exit_status) as s,
            Pools(workers, env) as pools,
        ):
            reasons: Counter[str] = Counter()

            def reject(rejected: Reject) -> None:
                reasons[rejected.reason] += 1
                s.keep_reject(msgspec.to_builtins(rejected))

            explorations = (line.record for line in s.read(Exploration))
            for task in abstract(
                explorations, pools, per_exploration=per_exploration, seed=seed, journal=journal, reject=reject
            ):
                s.write(task)
            _note(s.note, reasons, journal.reused)
        finished = True
    finally:
        journal.close(finished)


def _note(note, reasons: Counter[str], reused: int) -> None:  # noqa: ANN001
    faults = reasons.pop(FAULT, 0)
    if reasons:
        note(f"rejected {reasons.total()} ({', '.join(f'{reason} {n}' for reason, n in sorted(reasons.items()))})")
    if faults:
        note(f"dropped {faults} for faults of the environment")
    if reused:
        note(f"resumed {reused}")
