"""`coevolve explore`: signals in, explorations out; by programs, or by a model."""

from __future__ import annotations

from typing import Annotated

import msgspec

from coevolve import jsonl
from coevolve.environments.client import Pool
from coevolve.environments.registry import recorded
from coevolve.errors import UsageError
from coevolve.exploration.explore import explore
from coevolve.exploration.settings import ExploreSettings
from coevolve.exploration.stats import ExplorationStats
from coevolve.options import Option
from coevolve.records import Signal, Task, content_id
from coevolve.runs import Journal, journal_path
from coevolve_cli.model_options import WriterOptions
from coevolve_cli.options import Files, Invocation
from coevolve_cli.stage_options import RunStreams
from coevolve_cli.streams import progress


class ExploreStreams(RunStreams, frozen=True, kw_only=True):
    tasks: Annotated[str | None, Option(file="in")] = None
    """The tasks so far: coverage aims at other tools."""


def command(
    files: Files,
    settings: ExploreSettings,
    models: WriterOptions,
    io: ExploreStreams,
    call: Invocation,
) -> None:
    """Explore an environment: around signals (guided), or unguided (random, curious, coverage).

    Guided, boundary signals get at most half of the episodes, forgetting an eighth, all other kinds
    together an eighth; coverage gets a quarter and what is left. The strongest signalled task is
    always served; the summary says how many found no room. With --model, refused reflections go to
    --rejects.
    """
    guided = settings.mode == "guided"
    if files and not guided:
        raise UsageError(f"--mode {settings.mode} has no input; signals are read by --mode guided")
    if call.dry_run:
        actions = settings.episodes * settings.max_actions
        calls = actions + settings.max_contexts if models.model else 0  # at most, without retries
        return call.plan(episodes=settings.episodes, actions=actions, model_calls=calls)
    with (
        models.service("explore", io, needed=models.model is not None) as served,
        io.stage("explore", files, reads=guided) as s,
    ):
        explorer = None
        if served:
            from coevolve.exploration.model_explorer import ModelExplorer

            how = {"temperature": models.temperature, "prompts": models.prompt_files}
            explorer = ModelExplorer(served, models.model, **how)
        signals = [line.record for line in s.read(Signal)] if guided else []
        tasks = [line.record for line in jsonl.read([io.tasks] if io.tasks else [], Task)]
        if guided and not signals:
            jsonl.warn("explore: no signals; every episode goes to coverage")
        env = _env(io.env, signals)
        with Pool(env, workers=io.workers, any_version=io.any_version) as pool:
            pool.compare(signal.task.env_version for signal in signals if signal.task)
            about = {
                "env": pool.name,
                "version": pool.description.version,
                "settings": settings,
                "inputs": content_id(
                    [signal.id for signal in signals], [task.id for task in tasks]
                ),
            }
            about |= {"model": explorer.identity} if explorer else {}
            in_run = io.in_run(f"explore-{settings.iteration}.journal")
            journal, stats = Journal(journal_path(io.output, in_run), about), ExplorationStats()
            with progress("explore", settings.episodes, quiet=io.quiet) as advance:
                for exploration in explore(
                    signals,
                    pool,
                    settings,
                    tasks=tasks,
                    journal=journal,
                    stats=stats,
                    model=explorer,
                    reject=lambda refused: s.keep_reject(msgspec.to_builtins(refused)),
                ):
                    s.write(exploration)
                    advance(1)
        for note in stats.notes(journal.reused):
            s.note(note)
        if served:
            served.kept = s.written
    journal.close(finished=not stats.lost and not stats.env_faults.lost)
    stats.env_faults.end()


def _env(env: str | None, signals: list[Signal]) -> str:
    names = sorted({recorded(signal.env, env) for signal in signals})
    if len(names) > 1 or (env and names and names != [env]):
        other = f", not {env}" if env else ""
        raise UsageError(
            f"the signals are of {', '.join(names)}{other}; explore one environment at a time"
        )
    if env or names:
        return env or names[0]
    raise UsageError("no signal names an environment: give --env")
