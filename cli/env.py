"""`coevolve env`: environments, their installation, their health, their own tasks."""

from __future__ import annotations

import sys
from itertools import islice
from typing import Annotated

import typer

from coevolve import __version__
from coevolve.environments import install, registry
from coevolve.environments.check import check as run_checks
from coevolve.environments.client import Pool
from coevolve.errors import Unreachable, UsageError
from coevolve.options import Option
from coevolve_cli import env_files, env_install
from coevolve_cli.stage_options import Output, Streams

HELP = "List, install and check environments; print their tasks."
Name = Annotated[
    str,
    typer.Argument(
        metavar="NAME|COMMAND",
        help="desk, bfcl, appworld, or the command line of an environment of yours.",
    ),
]


class SplitOptions(Streams, frozen=True, kw_only=True):
    split: Annotated[str | None, Option(metavar="NAME")] = None
    """Which of its splits; the error of a call without this option lists them."""
    limit: Annotated[int | None, Option(default="all", ge=0)] = None
    """The first N tasks only."""


def list_(io: Output) -> None:
    """Print the environments that coevolve knows by name, as JSON lines: those that play, then what
    else can be installed."""
    with io.listing("env list") as s:
        for name, own in registry.BUILT_IN.items():
            if own.recipe:
                s.write(_installable(name, install.RECIPES[own.recipe]))
            else:
                where = str(registry.WORKERS / name)
                s.write({"name": name, "version": __version__, "installed": True, "where": where})
        for name, recipe in install.RECIPES.items():
            if recipe.purpose:
                s.write(_installable(name, recipe) | {"for": recipe.purpose})


def _installable(name: str, recipe: install.InstallRecipe) -> dict[str, object]:
    return {
        "name": name,
        "version": recipe.version,
        "installed": install.installed(recipe.name),
        "where": str(install.directory(recipe)),
    }


def check(name: Name, io: Output) -> None:
    """Start an environment and check that it keeps the protocol; one JSON line a check, exit 69 if
    one failed."""
    failed = total = 0
    with io.listing("env check") as s:
        for result in run_checks(name):
            s.write(result)
            s.flush()
            total += 1
            failed += result.result != "ok"
    if failed:
        raise Unreachable(f"{name}: {failed} of {total} checks failed")
    print(f"env check: {name} is usable, {total} checks passed", file=sys.stderr)


def tasks(name: Name, io: SplitOptions) -> None:
    """Print an environment's own tasks as task records."""
    with Pool(name) as pool:
        if io.split is None:
            raise UsageError(f"--split is missing; {name} has: {pool.splits()}")
        with io.stage("env tasks", None, reads=False) as s:
            for task in islice(pool.tasks(io.split), io.limit):
                s.write(task)


COMMANDS = {
    "list": list_,
    "install": env_install.install_,
    "check": check,
    "tasks": tasks,
    "export": env_files.export,
    "import": env_files.import_,
}
