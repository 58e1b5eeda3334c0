"""`coevolve bootstrap -o DIR`: builds the laptop policy from a seed."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from coevolve.environments.client import Pool
from coevolve_cli.streams import Config, DryRun, Quiet, Seed, Workers, dry_run, progress

EXAMPLES = """
  coevolve bootstrap -o runs/policy
  coevolve bootstrap -o runs/policy --seed 1 --steps 2000
  coevolve evaluate --model runs/policy --env desk --split dev
"""
STEPS_PER_SECOND = 13
"""On one core of a laptop."""


def command(
    ctx: typer.Context,
    output: Annotated[
        str,
        typer.Option(
            "--output", "-o", metavar="DIR", help="Directory to make.", show_default=False
        ),
    ],
    env: Annotated[
        str,
        typer.Option("--env", metavar="NAME|COMMAND", help="An environment with a split `demos`."),
    ] = "desk",
    steps: Annotated[int, typer.Option("--steps", min=1, help="Optimiser steps.")] = 1600,
    batch: Annotated[int, typer.Option("--batch", min=1, help="Demonstrations per step.")] = 16,
    learning_rate: Annotated[float, typer.Option("--lr", help="Peak learning rate.")] = 3e-3,
    seed: Seed = 0,
    workers: Workers = 1,
    quiet: Quiet = False,
    config: Config = None,
    dry: DryRun = False,
) -> None:
    """Build the laptop policy: a tiny Llama in Hugging Face form, fine-tuned on an environment's demonstrations.

    Takes two to three minutes on one core. A directory that already holds the same policy is left as it is.
    """
    from coevolve.training import bootstrap

    settings = bootstrap.Settings(env, seed, steps, batch, learning_rate)
    if dry:
        dry_run(ctx, steps=steps, estimated_seconds=steps / STEPS_PER_SECOND)
        return
    with Pool(env, workers=workers) as pool, progress("bootstrap", steps, quiet=quiet) as advance:
        card = bootstrap.build(Path(output), pool, settings, advance)
    if not quiet:
        print(f"bootstrap: {output}: {_summary(card)}", file=sys.stderr)


def _summary(card: dict[str, Any]) -> str:
    success = card["success"]
    measured = (
        f"success {success['mean']:.2f} on {success['tasks']} tasks of {success['split']}"
        if success
        else "not measured"
    )
    return f"{card['parameters']} parameters, {card['demonstrations']} demonstrations, {measured}"
