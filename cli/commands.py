"""The registry of verbs, each imported only when it runs, and the Typer application over it.

`--help` builds its list from `COMMANDS` and imports no verb. A verb is a module of this package
with a function `command` (its options are the classes of settings in its signature, its help the
docstring), or with the `COMMANDS` of a group.
"""

from __future__ import annotations

import importlib
from typing import Annotated

import typer
from typer.core import TyperCommand, TyperGroup

from coevolve import __version__
from coevolve_cli.base_command import BaseCommand

COMMANDS = {
    "train": "Train the policy with GRPO for one iteration; print its rollouts.",
    "rollout": "Run a policy on tasks; print the rollouts.",
    "extract-signals": "Read rollouts, print the policy's weaknesses as signals.",
    "explore": "Explore an environment, around signals or unguided; print explorations.",
    "abstract": "Turn explorations into candidate tasks with solutions.",
    "validate": "Keep the tasks that execution confirms and controls do not pass.",
    "merge": "Merge new tasks into a task set.",
    "evaluate": "Measure success: intervals, kinds, difficulty, pass@k, paired differences.",
    "bootstrap": "Build the laptop policy from a seed.",
    "env": "List, install and check environments; print their tasks.",
    "loop": "Check the settings of the whole loop, shell/train_loop.sh.",
    "doctor": "Print what is installed where, and what each command lacks.",
    "report": "Print the table of a run, iteration by iteration.",
    "schema": "Print the JSON Schema of a record type.",
}


class CommandGroup(BaseCommand, TyperGroup):
    """A group whose commands are given."""


class RootGroup(CommandGroup):
    """A group whose commands come from `COMMANDS`."""

    _listing = False

    def list_commands(self, ctx: typer.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: typer.Context, name: str):  # noqa: ANN201 - the type's home moved between Typer releases
        if name not in COMMANDS:
            return None
        if self._listing:
            return TyperCommand(name, short_help=COMMANDS[name], callback=lambda: None)
        return _load(name)

    def format_help(self, ctx: typer.Context, formatter) -> None:  # noqa: ANN001
        self._listing = True
        try:
            super().format_help(ctx, formatter)
        finally:
            self._listing = False

    def resolve_command(self, ctx: typer.Context, args: list[str]):  # noqa: ANN201
        if args and args[0] not in COMMANDS and not args[0].startswith("-"):
            from coevolve.options import nearest

            hint = nearest(args[0], COMMANDS) or ". See coevolve --help."
            ctx.fail(f"No such command {args[0]!r}{hint}")
        return super().resolve_command(ctx, args)


def _load(name: str):
    from coevolve_cli.options import build

    module = importlib.import_module(f"coevolve_cli.{name.replace('-', '_')}")
    keeps_rest = getattr(module, "KEEPS_REST", False)
    if hasattr(module, "COMMANDS"):
        return CommandGroup(
            name=name,
            help=module.HELP,
            no_args_is_help=True,
            rich_markup_mode=None,
            context_settings={"help_option_names": ["-h", "--help"]},
            commands={
                sub: build(f"{name} {sub}", c, keeps_rest=keeps_rest)
                for sub, c in module.COMMANDS.items()
            },
        )
    return build(name, module.command, keeps_rest=keeps_rest)


def _version(value: bool) -> None:
    if value:
        print(f"coevolve {__version__}")
        raise typer.Exit


app = typer.Typer(
    cls=RootGroup,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Agent–data co-evolution: train a policy, read its weaknesses, explore, synthesise tasks,
    validate, merge, repeat.

    Stages read and write JSON lines; `-` or no file is standard input. Every option can also be set
    by COEVOLVE_<COMMAND>_<OPTION>. COEVOLVE_DEBUG=1 shows tracebacks.
    """
