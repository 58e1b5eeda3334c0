"""--config FILE: TOML with a table per command. Whatever is misspelt is an error with a suggestion (exit 2)."""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Iterable
from typing import Any

import typer

from coevolve.errors import UsageError


def load_config(ctx: typer.Context, path: str | None) -> str | None:
    """Sets the defaults of this command from its table in a TOML file; flags and the environment win over it."""
    if not path:
        return path
    try:
        with open(path, "rb") as stream:
            tables = tomllib.load(stream)
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: {error}") from error
    table = _table(tables, ctx.info_name, path)
    names = {
        option.removeprefix("--"): p
        for p in ctx.command.params
        for option in p.opts
        if option.startswith("--")
    }
    for key, value in table.items():
        if key not in names:
            raise UsageError(f"{path}: unknown key {key!r} in [{ctx.info_name}]{_near(key, names)}")
        if not _fits(value, names[key].multiple):
            raise UsageError(f"{path}: {key} in [{ctx.info_name}] cannot be {value!r}")
    several = {
        key: value if isinstance(value, list) else [value]
        for key, value in table.items()
        if names[key].multiple
    }
    ctx.default_map = {names[key].name: value for key, value in {**table, **several}.items()}
    return path


def _table(tables: dict[str, Any], name: str, path: str) -> dict[str, Any]:
    """The command's table; every entry of the file has to be some command's."""
    from coevolve_cli.commands import COMMANDS

    for key, value in tables.items():
        if key not in COMMANDS:
            raise UsageError(f"{path}: [{key}] is no command{_near(key, COMMANDS)}")
        if not isinstance(value, dict):
            raise UsageError(f"{path}: {key} is no table; write [{key}] and its options below")
    return tables.get(name, {})


def _fits(value: object, multiple: bool) -> bool:
    return all(
        isinstance(v, str | int | float)
        for v in (value if multiple and isinstance(value, list) else [value])
    )


def _near(key: str, names: Iterable[str]) -> str:
    near = difflib.get_close_matches(key.replace("_", "-"), list(names), 1)
    return f". Did you mean {near[0]!r}?" if near else ""
