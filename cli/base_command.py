"""What all commands and groups have in common: values that Typer leaves alone, examples after the
help."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import typer

EXAMPLES = Path(__file__).with_name("examples.toml")


def examples(name: str) -> list[str]:
    """The command lines that end the help of `merge` or `env list`; of `coevolve` itself for an
    empty name."""
    return tomllib.loads(EXAMPLES.read_text())[name].splitlines()


class BaseCommand:
    """Mixed into Typer's commands and groups."""

    def get_params(self, ctx: typer.Context) -> list[Any]:
        """The parameters, which keep their texts: coevolve.options converts and checks them."""
        params = super().get_params(ctx)
        for parameter in params:
            # Typer's own conversion imports pydantic, which takes longer than a filter runs.
            parameter.process_value = _Kept(parameter)
        return params

    def format_epilog(self, ctx: typer.Context, formatter: Any) -> None:
        lines = examples(ctx.command_path.partition(" ")[2])
        formatter.write("\nExamples:\n" + "".join(f"  {line}\n" for line in lines))


class _Kept:
    """A parameter's way from its text to its value: the text itself, after its callback."""

    def __init__(self, parameter: Any):
        self._parameter = parameter

    def __call__(self, ctx: typer.Context, value: Any) -> Any:
        parameter, callback = self._parameter, self._parameter.callback
        if parameter.nargs != 1 or getattr(parameter, "multiple", False):
            return value if isinstance(value, list | tuple) else ()
        return callback(ctx, parameter, value) if callback and value else value
