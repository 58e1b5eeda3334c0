"""`coevolve env`: which environments there are, their installation, their health, their own tasks."""

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
from coevolve_cli import env_files, env_install
from coevolve_cli.streams import Output, Quiet, stage

_HELP = {"help_option_names": ["-h", "--help"]}
app = typer.Typer(
    add_completion=False,
    rich_markup_mode=None,
    no_args_is_help=True,
    context_settings=_HELP,
    help="List, install and check environments; print their tasks.",
    epilog="\b\nExamples:\n"
    "  coevolve env list\n"
    "  coevolve env install bfcl\n"
    "  coevolve env check 'python my_env.py'\n"
    "  coevolve env tasks desk --split heldout > heldout.jsonl",
)

Name = Annotated[
    str,
    typer.Argument(
        metavar="NAME|COMMAND",
        help="desk, bfcl, appworld, or the command line of an environment of yours.",
    ),
]


def _examples(*lines: str) -> str:
    return "\b\nExamples:\n" + "\n".join(f"  {line}" for line in lines)


@app.command(
    "list",
    epilog=_examples("coevolve env list | jq -r 'select(.installed).name'"),
    context_settings=_HELP,
)
def list_(output: Output = "-") -> None:
    """Print the environments that coevolve knows by name, as JSON lines: those that play, then what else can be installed."""
    with stage("env list", None, output, quiet=True, reads=False) as s:
        for name, own in registry.BUILT_IN.items():
            s.write(_installable(name, install.RECIPES[own.recipe]) if own.recipe else _own(name))
        for name, recipe in install.RECIPES.items():
            if recipe.purpose:
                s.write(_installable(name, recipe) | {"for": recipe.purpose})


def _own(name: str) -> dict[str, object]:
    return {
        "name": name,
        "version": __version__,
        "installed": True,
        "where": str(registry.WORKERS / name),
    }


def _installable(name: str, recipe: install.InstallRecipe) -> dict[str, object]:
    installed = install.installed(recipe.name)
    return {
        "name": name,
        "version": recipe.version,
        "installed": installed,
        "where": str(install.directory(recipe)),
    }


app.command(
    "install",
    epilog=_examples(
        "coevolve env install bfcl", "coevolve env install appworld --data data-0.1.0.bundle"
    ),
    context_settings=_HELP,
)(env_install.install_)


@app.command(
    "check",
    epilog=_examples("coevolve env check bfcl", "coevolve env check 'python my_env.py'"),
    context_settings=_HELP,
)
def check(name: Name, output: Output = "-") -> None:
    """Start an environment and check that it keeps the protocol; one JSON line a check, exit 69 if one failed."""
    failed = total = 0
    with stage("env check", None, output, quiet=True, reads=False) as s:
        for result in run_checks(name):
            s.write(result)
            s.flush()
            total += 1
            failed += result.result != "ok"
    if failed:
        raise Unreachable(f"{name}: {failed} of {total} checks failed")
    print(f"env check: {name} is usable, {total} checks passed", file=sys.stderr)


@app.command(
    "tasks",
    epilog=_examples("coevolve env tasks bfcl --split base --limit 5"),
    context_settings=_HELP,
)
def tasks(
    name: Name,
    split: Annotated[
        str | None,
        typer.Option(
            "--split", help="Which of its splits; without it, they are listed.", show_default=False
        ),
    ] = None,
    limit: Annotated[
        int | None, typer.Option("--limit", min=0, help="At most so many.", show_default=False)
    ] = None,
    output: Output = "-",
    quiet: Quiet = False,
) -> None:
    """Print an environment's own tasks as task records."""
    with Pool(name) as pool:
        if split is None:
            raise UsageError(f"--split is missing; {name} has: {pool.splits()}")
        with stage("env tasks", None, output, quiet=quiet, reads=False) as s:
            for task in islice(pool.tasks(split), limit):
                s.write(task)


app.command(
    "export",
    epilog=_examples("coevolve env export bfcl tasks.jsonl --to official"),
    context_settings=_HELP,
)(env_files.export)
app.command(
    "import",
    epilog=_examples("coevolve env import bfcl official > tasks.jsonl"),
    context_settings=_HELP,
)(env_files.import_)
