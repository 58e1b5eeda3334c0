"""`coevolve abstract [EXPLORATIONS]`: executed calls become tasks."""

from __future__ import annotations

from collections import Counter
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from coevolve.abstraction.abstract import CHUNK, WHAT, abstract
from coevolve.abstraction.candidates import FAULT, Reject
from coevolve.environments.faults import FaultCounter
from coevolve.environments.client import Pools
from coevolve.records import Exploration
from coevolve.runs import Journal, journal_path
from coevolve_cli.model_options import Model, ModelOptions, Prompts, Temperature, with_model_options
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
from coevolve_cli.versions import AnyVersion

if TYPE_CHECKING:
    from coevolve.abstraction.model_writer import ModelWriter
    from coevolve.models.service import Models

EXAMPLES = """
  coevolve explore --env desk --mode curious --episodes 50 | coevolve abstract > candidates.jsonl
  coevolve abstract explorations.jsonl --rejects rejects.jsonl -o candidates.jsonl
  coevolve abstract explorations.jsonl --model MODEL --base-url http://localhost:8000/v1 -o candidates.jsonl
"""


@with_model_options
def command(
    ctx: typer.Context,
    files: Files = None,
    output: Output = "-",
    per_exploration: Annotated[
        int, typer.Option("--per-exploration", min=1, help="Tasks from one exploration at most.")
    ] = 4,
    model: Model = None,
    per_context: Annotated[
        int,
        typer.Option(
            "--per-context",
            min=1,
            help="With --model: tasks from all rounds of one context at most.",
        ),
    ] = 4,
    min_confidence: Annotated[
        float,
        typer.Option(
            "--min-confidence", min=0, max=1, help="With --model: least confidence of its own."
        ),
    ] = 0.5,
    temperature: Temperature = None,
    prompts: Prompts = None,
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
    """Turn explorations into candidate tasks: goals minimised by execution, a request in words, the solution.

    With --model a model writes them, and each is checked against what was executed. Every solution has been executed as it stands. What gave no task goes to --rejects, with the reason.
    """
    if dry:
        dry_run(ctx, explorations_at_a_time=CHUNK)
        return
    path = journal_path(output, Path(run) / "abstract.journal" if run else None)
    reasons: Counter[str] = Counter()
    env_faults, finished = FaultCounter(WHAT), False
    with models.service("abstract", run=run, quiet=quiet) if model else nullcontext() as served:
        writer = _writer(served, model, per_context, min_confidence, temperature, prompts)
        about = writer.identity if writer else {"seed": seed, "per_exploration": per_exploration}
        journal = Journal(path, {"command": "abstract", **about})
        try:
            faults = Faults(on_error, max_errors, rejects)
            with (
                stage("abstract", files, output, faults, quiet=quiet, exit_status=exit_status) as s,
                Pools(workers, env, any_version=any_version) as pools,
            ):

                def reject(rejected: Reject) -> None:
                    reasons[rejected.reason] += 1
                    s.keep_reject(msgspec.to_builtins(rejected))

                explorations = (line.record for line in s.read(Exploration))
                if writer:
                    from coevolve.abstraction.model_writer import write

                    tasks = write(
                        explorations,
                        pools,
                        writer,
                        journal=journal,
                        env_faults=env_faults,
                        reject=reject,
                    )
                else:
                    tasks = abstract(
                        explorations,
                        pools,
                        per_exploration=per_exploration,
                        seed=seed,
                        journal=journal,
                        env_faults=env_faults,
                        reject=reject,
                    )
                for task in tasks:
                    s.write(task)
                _note(s.note, reasons.copy(), journal.reused)
            if served:
                served.kept = s.written
            finished = not reasons["no_reply"] and not env_faults.lost
        finally:
            journal.close(finished)
    env_faults.end()


def _writer(
    served: Models | None,
    model: str | None,
    per_context: int,
    min_confidence: float,
    temperature: float | None,
    prompts: str | None,
) -> ModelWriter | None:
    if served is None:
        return None
    from coevolve.abstraction.model_writer import ModelWriter

    return ModelWriter(served, model, per_context, min_confidence, temperature, prompts)


def _note(note, reasons: Counter[str], reused: int) -> None:  # noqa: ANN001
    faults = reasons.pop(FAULT, 0)
    if reasons:
        note(
            f"rejected {reasons.total()} ({', '.join(f'{reason} {n}' for reason, n in sorted(reasons.items()))})"
        )
    if faults:
        note(f"dropped {faults} for faults of the environment")
    if reused:
        note(f"resumed {reused}")
