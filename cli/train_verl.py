"""The verl part of `coevolve train`: what its options mean, and its dry run."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

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

if TYPE_CHECKING:
    from coevolve_cli.options import Invocation
    from coevolve_cli.stage_options import EnvStreams
    from coevolve_cli.train import OnStep, TrainOptions, VerlOptions


class VerlBackend(NamedTuple):
    """Training with verl, by a trainer that stays."""

    how: VerlRun
    settings: VerlSettings
    run: str
    iteration: int | None

    def dry_run(self, tasks: list[Task], env: str | None) -> None:
        """Prints the plan as JSON on stderr, if nothing speaks against it; `env` is None where
        nothing names one."""
        about = self.settings, self.run, env or "desk", self.how
        notes = driver.dry_run(tasks, *about, iteration=self.iteration)
        planned = plan(self.settings, self.how, self.run, env or "desk")
        planned["work"]["tasks"] = len(tasks)
        planned["notes"] += notes
        print(orjson.dumps(planned, option=orjson.OPT_INDENT_2).decode(), file=sys.stderr)

    def train(self, tasks: list[Task], env: str, on_step: OnStep | None) -> Path:
        """Returns the file of the rollouts."""
        about = self.settings, self.run, env, self.how
        return driver.train(tasks, *about, iteration=self.iteration, on_step=on_step)


def verl_backend(
    run: TrainOptions, verl: VerlOptions, io: EnvStreams, call: Invocation
) -> VerlBackend:
    """How to run, and what to train. Raises UsageError, MissingDependency."""
    if importlib.util.find_spec("verl") is None:
        raise MissingDependency("verl", VERL_INSTALL)
    if not verl.preset:
        raise UsageError(
            f"--backend verl needs a --preset: {', '.join(presets())}, or a TOML file like theirs"
        )
    chosen, names = preset(verl.preset), VerlSettings.__struct_fields__
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
    return VerlBackend(how, settings, run.run, run.iteration)
