"""--config FILE: TOML with a table per command. What is misspelt is an error with a suggestion."""

from __future__ import annotations

from typing import Any

from coevolve.errors import UsageError
from coevolve.options import Field, nearest, read_toml

LOOP = "loop"  # The table of the loop itself: `coevolve loop check` knows its keys


def read(path: str, command: str, options: dict[str, Field]) -> dict[str, Any]:
    """The values of the command's table by their fields' names; `options` are by their keys."""
    tables = _tables(path)
    values = {}
    for key, value in tables.get(command, {}).items():
        if key not in options:
            raise UsageError(f"{path}: unknown key {key!r} in [{command}]{nearest(key, options)}")
        if options[key].repeats and not isinstance(value, list):
            value = [value]
        values[options[key].name] = options[key].parse(value, f"{path}: {key} in [{command}]")
    return values


def _tables(path: str) -> dict[str, dict[str, Any]]:
    """All tables of the file; each has to be some command's, or the loop's."""
    from coevolve_cli.commands import COMMANDS

    tables = read_toml(path)
    for key, value in tables.items():
        if key not in COMMANDS and key != LOOP:
            raise UsageError(f"{path}: [{key}] is no command{nearest(key, [*COMMANDS, LOOP])}")
        if not isinstance(value, dict):
            raise UsageError(f"{path}: {key} is no table; write [{key}] and its options below")
    return tables
