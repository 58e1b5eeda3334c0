"""The verl part of `coevolve train`: what its options mean, and its dry run. No command of its own."""

from __future__ import annotations

import importlib.util
import sys
from typing import Any

import orjson
import typer

from coevolve.doctor import VERL_INSTALL
from coevolve.errors import MissingDependency, UsageError
from coevolve.records import Task
from coevolve.training.verl import driver
from coevolve.training.verl.driver import Options
from coevolve.training.verl.preflight import plan, refuse, refuse_at_once
from coevolve.training.verl.settings import Settings, preset, presets, resolve

HOW = ("workers", "save_every", "max_env_errors", "call_timeout", "episode_timeout", "step_timeout", "wait_timeout", "stall_timeout", "restart", "any_version")  # fmt: skip


def options(ctx: typer.Context, given: dict[str, Any]) -> tuple[Options, Settings]:
    """How to run, and what to train. Raises UsageError, MissingDependency."""
    if importlib.util.find_spec("verl") is None:
        raise MissingDependency("verl", VERL_INSTALL)
    if not ctx.params["preset"]:
        raise UsageError(
            f"--backend verl needs a --preset: {', '.join(presets())}, or a TOML file like theirs"
        )
    chosen = preset(ctx.params["preset"])
    settings = resolve(
        {name: given[name] for name in Settings.__struct_fields__ if name in given}, chosen
    )
    keep = ctx.params["keep_checkpoints"] or Options._field_defaults["keep_checkpoints"]
    how = {name: ctx.params[name] for name in HOW}
    checks = {"check_at_once": refuse_at_once, "check": refuse}
    return Options(chosen, ctx.meta["overrides"], keep_checkpoints=keep, **checks, **how), settings


def end(run: str, dry: bool) -> str:
    """Ends the run's trainer, or says what that would be."""
    return driver.running(run) if dry else driver.stop(run)


def dry_run(
    tasks: list[Task],
    settings: Settings,
    run: str,
    env: str | None,
    chosen: Options,
    iteration: int | None,
) -> None:
    """Prints the plan as JSON on stderr, if nothing speaks against it; `env` is None where nothing names one."""
    notes = driver.rehearse(tasks, settings, run, env or "desk", chosen, iteration=iteration)
    planned = plan(settings, chosen, run, env or "desk")
    planned["work"]["tasks"] = len(tasks)
    planned["notes"] += notes
    print(orjson.dumps(planned, option=orjson.OPT_INDENT_2).decode(), file=sys.stderr)
