"""The verl part of `coevolve train`: what its options mean, and its dry run."""

from __future__ import annotations

import importlib.util
import sys
from typing import TYPE_CHECKING

import orjson

from coevolve.doctor import VERL_INSTALL
from coevolve.errors import MissingDependency, UsageError
from coevolve.options import fields
from coevolve.records import Task
from coevolve.training.settings import VerlLimits
from coevolve.training.verl import driver
from coevolve.training.verl.driver import VerlRun
from coevolve.training.verl.preflight import plan, refuse, refuse_at_once
from coevolve.training.verl.settings import VerlSettings, preset, presets, resolve
from coevolve.training.verl.stop import stop

if TYPE_CHECKING:
    from coevolve_cli.options import Call
    from coevolve_cli.stage_options import EnvStreams
    from coevolve_cli.train import TrainOptions, VerlOptions


def options(
    run: TrainOptions, verl: VerlOptions, io: EnvStreams, call: Call
) -> tuple[VerlRun, VerlSettings]:
    """How to run, and what to train. Raises UsageError, MissingDependency."""
    if importlib.util.find_spec("verl") is None:
        raise MissingDependency("verl", VERL_INSTALL)
    if not verl.preset:
        raise UsageError(
            f"--backend verl needs a --preset: {', '.join(presets())}, or a TOML file like theirs"
        )
    chosen = preset(verl.preset)
    names = VerlSettings.__struct_fields__
    settings = resolve({n: value for n, value in call.given.items() if n in names}, chosen)
    how = VerlRun(
        preset=chosen,
        overrides=call.rest,
        workers=io.workers,
        any_version=io.any_version,
        save_every=run.save_every,
        max_env_errors=run.max_env_errors,
        check_at_once=refuse_at_once,
        check=refuse,
        **{name: getattr(verl, name) for name in fields(VerlLimits)},
        **({"keep_checkpoints": run.keep_checkpoints} if run.keep_checkpoints else {}),
    )
    return how, settings


def end(run: str, dry: bool) -> str:
    """Ends the run's trainer, or says what that would be."""
    return stop(run, dry_run=dry)


def dry_run(
    tasks: list[Task],
    settings: VerlSettings,
    run: str,
    env: str | None,
    chosen: VerlRun,
    iteration: int | None,
) -> None:
    """Prints the plan as JSON on stderr, if nothing speaks against it; `env` is None where nothing
    names one."""
    notes = driver.dry_run(tasks, settings, run, env or "desk", chosen, iteration=iteration)
    planned = plan(settings, chosen, run, env or "desk")
    planned["work"]["tasks"] = len(tasks)
    planned["notes"] += notes
    print(orjson.dumps(planned, option=orjson.OPT_INDENT_2).decode(), file=sys.stderr)
