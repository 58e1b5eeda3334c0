"""No file is named for two ends of a command: what would empty an input, or mix two outputs, is refused (exit 2)."""

from __future__ import annotations

import os
import stat
from typing import Any

from coevolve import jsonl
from coevolve.errors import UsageError

INPUTS = ("files", "tasks", "tools", "into", "exclude", "against", "weak_by", "prices", "config")
SIDE_OUTPUTS = ("rejects", "verdicts", "history", "rollouts")


def check_paths(arguments: dict[str, Any]) -> None:
    """Before anything is opened: no side output is empty, standard output, an input, or named for another output too.

    `-o` may be an input: it is replaced whole, at the end. Devices and pipes may be named as often as one likes.
    """
    taken = {
        _identity(path) for name in INPUTS for path in _paths(arguments.get(name)) if path != "-"
    } - {None}
    outputs = {_identity(path) for path in _paths(arguments.get("output"))} - {None}
    for name in SIDE_OUTPUTS:
        for path in _paths(arguments.get(name)):
            if not path or jsonl.is_stdout(path):
                raise UsageError(f"--{name} takes the name of a file, not {path!r}")
            identity = _identity(path)
            if identity in taken | outputs:
                raise UsageError(f"{path} is named twice; --{name} needs a file of its own")
            outputs |= {identity} - {None}


def _paths(value: str | list[str] | None) -> list[str]:
    return [value] if isinstance(value, str) else list(value or [])


def _identity(path: str) -> object:
    """Equal for two names of one file; None for a device, a pipe, a directory."""
    try:
        found = os.stat(path)
    except (OSError, ValueError):
        return os.path.realpath(path)
    return (found.st_dev, found.st_ino) if stat.S_ISREG(found.st_mode) else None
