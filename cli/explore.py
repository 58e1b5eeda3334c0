"""`coevolve explore`: signals in, explorations out; by programs, or by a model."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from coevolve import jsonl
from coevolve.environments.client import Pool
from coevolve.environments.registry import recorded
from coevolve.errors import UsageError
from coevolve.exploration.explore import Tally, check, explore
from coevolve.exploration.plans import MODES, Settings
from coevolve.records import Signal, Task, content_id
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
    progress,
    stage,
)
from coevolve_cli.versions import AnyVersion

if TYPE_CHECKING:
    from coevolve.exploration.mind import Mind
    from coevolve.models.service import Models

EXAMPLES = """
  coevolve extract-signals rollouts.jsonl | coevolve explore --tasks tasks.jsonl > explorations.jsonl
  coevolve explore --env desk --mode coverage --episodes 48 --tasks tasks.jsonl -o explorations.jsonl
  coevolve explore --env bfcl --mode curious --episodes 300 --seed 1 | coevolve abstract | coevolve validate > tasks.jsonl
  coevolve explore signals.jsonl --model MODEL --base-url http://localhost:8000/v1 --max-calls 2000 -o explorations.jsonl
"""

D = Settings()
Mode = Annotated[
    str,
    typer.Option(
        "--mode", metavar="|".join(MODES), help="guided reads signals, the others nothing."
    ),
]
Episodes = Annotated[
    int, typer.Option("--episodes", min=1, help="Episodes in all, contexts' rounds included.")
]
Rounds = Annotated[
    int,
    typer.Option("--rounds", min=1, help="Episodes per context, each from another start state."),
]
Steps = Annotated[int, typer.Option("--steps", min=1, help="Actions per episode.")]
Tasks = Annotated[
    str | None,
    typer.Option("--tasks", metavar="FILE", help="The tasks so far: coverage aims elsewhere."),
]
MaxContexts = Annotated[
    int, typer.Option("--max-contexts", min=0, help="At most this many signalled tasks.")
]
Iteration = Annotated[
    int, typer.Option("--iteration", min=0, help="Iteration of the loop; part of the seed.")
]


@with_model_options
def command(
    ctx: typer.Context,
    files: Files = None,
    mode: Mode = D.mode,
    env: Env = None,
    any_version: AnyVersion = False,
    episodes: Episodes = D.episodes,
    rounds: Rounds = D.rounds,
    steps: Steps = D.steps,
    tasks: Tasks = None,
    max_contexts: MaxContexts = D.max_contexts,
    model: Model = None,
    temperature: Temperature = None,
    prompts: Prompts = None,
    iteration: Iteration = D.iteration,
    seed: Seed = D.seed,
    workers: Workers = 1,
    output: Output = "-",
    run: RunDir = None,
    on_error: OnError = "fail",
    max_errors: MaxErrors = None,
    rejects: Rejects = None,
    quiet: Quiet = False,
    exit_status: ExitStatus = False,
    config: Config = None,
    dry: DryRun = False,
    *,
    models: ModelOptions,
) -> None:
    """Explore an environment: around signals (guided), or unguided (random, curious, coverage).

    Guided, boundary signals get at most half of the episodes, forgetting an eighth, all other kinds together an eighth; coverage gets a quarter and what is left. The strongest signalled task is always served; the summary says how many found no room. With --model, refused reflections go to --rejects.
    """
    settings = Settings(mode, episodes, rounds, steps, max_contexts, seed, iteration)
    check(settings)
    guided, faults = mode == "guided", Faults(on_error, max_errors, rejects)
    if files and not guided:
        raise UsageError(f"--mode {mode} has no input; signals are read by --mode guided")
    if dry:
        return dry_run(
            ctx, episodes=episodes, actions=episodes * steps, model_calls=_calls(settings, model)
        )
    with (
        _service(models, model, run, quiet) as served,
        stage(
            "explore", files, output, faults, quiet=quiet, exit_status=exit_status, reads=guided
        ) as s,
    ):
        mind = _mind(served, model, temperature, prompts)
        signals = [line.record for line in s.read(Signal)] if guided else []
        known = [line.record for line in jsonl.read([tasks] if tasks else [], Task)]
        if guided and not signals:
            jsonl.warn("explore: no signals; every episode goes to coverage")
        with Pool(_env(env, signals), workers=workers, any_version=any_version) as pool:
            pool.compare(signal.task.env_version for signal in signals if signal.task)
            in_run = Path(run) / f"explore-{iteration}.journal" if run else None
            inputs = content_id([signal.id for signal in signals], [task.id for task in known])
            about = {
                "env": pool.name,
                "version": pool.description.version,
                "settings": settings,
                "inputs": inputs,
            }
            about |= {"mind": mind.identity} if mind else {}
            journal, tally = Journal(journal_path(output, in_run), about), Tally()
            with progress("explore", episodes, quiet=quiet) as advance:
                for exploration in explore(
                    signals,
                    pool,
                    settings,
                    tasks=known,
                    journal=journal,
                    tally=tally,
                    mind=mind,
                    reject=lambda refused: s.keep_reject(msgspec.to_builtins(refused)),
                ):
                    s.write(exploration)
                    advance(1)
        for note in tally.notes(journal.reused):
            s.note(note)
        if served:
            served.kept = s.written
    journal.close(finished=not tally.lost and not tally.env_faults.lost)
    tally.env_faults.end()


def _calls(settings: Settings, model: str | None) -> int:
    """At most, without retries."""
    return settings.episodes * settings.steps + settings.max_contexts if model else 0


def _service(
    models: ModelOptions, model: str | None, run: str | None, quiet: bool
) -> AbstractContextManager:
    return models.service("explore", run=run, quiet=quiet) if model else nullcontext()


def _mind(
    served: Models | None, model: str | None, temperature: float | None, prompts: str | None
) -> Mind | None:
    if served is None:
        return None
    from coevolve.exploration.mind import Mind

    return Mind(served, model, temperature=temperature, prompts=prompts)


def _env(env: str | None, signals: list[Signal]) -> str:
    names = sorted({recorded(signal.env, env) for signal in signals})
    if len(names) > 1 or (env and names and names != [env]):
        raise UsageError(
            f"the signals are of {', '.join(names)}{f', not {env}' if env else ''}; explore one environment at a time"
        )
    if env or names:
        return env or names[0]
    raise UsageError("no signal names an environment: give --env")
