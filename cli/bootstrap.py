"""`coevolve bootstrap -o DIR`: builds the laptop policy from a seed."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any, ClassVar

from coevolve.environments.client import Pool
from coevolve.options import Advanced, Option, Settings
from coevolve.training.settings import BootstrapSettings
from coevolve_cli.options import Invocation
from coevolve_cli.stage_options import Workers
from coevolve_cli.streams import progress

STEPS_PER_SECOND = 13  # Optimiser steps on one core of a laptop


class BootstrapOutput(Settings, frozen=True, kw_only=True):
    PANEL: ClassVar[str] = "Output"

    output: Annotated[str, Option(metavar="DIR", short="-o", file="main")]
    """Directory to make."""
    workers: Workers = 1
    quiet: Annotated[bool, Advanced(short="-q")] = False
    """Print no progress and no summary."""


def command(settings: BootstrapSettings, to: BootstrapOutput, call: Invocation) -> None:
    """Build the laptop policy: a tiny Llama in Hugging Face form, fine-tuned on an environment's
    demonstrations.

    Takes two to three minutes on one core. A directory that already holds the same policy is left
    as it is.
    """
    if call.dry_run:
        return call.plan(steps=settings.steps, estimated_seconds=settings.steps / STEPS_PER_SECOND)
    from coevolve.training import bootstrap

    with (
        Pool(settings.env, workers=to.workers) as pool,
        progress("bootstrap", settings.steps, quiet=to.quiet) as advance,
    ):
        card = bootstrap.build(Path(to.output), pool, settings, advance)
    if not to.quiet:
        print(f"bootstrap: {to.output}: {_summary(card)}", file=sys.stderr)


def _summary(card: dict[str, Any]) -> str:
    success = card["success"]
    measured = (
        f"success {success['mean']:.2f} on {success['tasks']} tasks of {success['split']}"
        if success
        else "not measured"
    )
    return f"{card['parameters']} parameters, {card['demonstrations']} demonstrations, {measured}"
