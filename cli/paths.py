"""No file is named for two ends of a command: what would empty an input, or mix two outputs, is
refused (exit 2)."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable
from typing import Any

from coevolve import jsonl
from coevolve.errors import UsageError
from coevolve.options import Settings, fields


def check_paths(arguments: dict[str, Any], groups: Iterable[Settings]) -> None:
    """Before anything is opened: no side output is empty, standard output, an input, or named for
    another output too.

    `-o` may be an input: it is replaced whole, at the end. Devices and pipes may be named as often
    as one likes.
    """
    named = [
        (field, path)
        for group in groups
        for field in fields(type(group)).values()
        for path in _paths(getattr(group, field.name))
        if field.option.file
    ]
    inputs = [*_paths(arguments.get("files")), *(p for f, p in named if f.option.file == "in")]
    taken = {_identity(path) for path in inputs if path != "-"}
    taken |= {_identity(path) for field, path in named if field.option.file == "main"}
    for field, path in named:
        if field.option.file != "out":
            continue
        if not path or jsonl.is_stdout(path):
            raise UsageError(f"{field.flag} takes the name of a file, not {path!r}")
        identity = _identity(path)
        if identity and identity in taken:
            raise UsageError(f"{path} is named twice; {field.flag} needs a file of its own")
        taken.add(identity)


def _paths(value: object) -> list[str]:
    return [value] if isinstance(value, str) else list(value) if isinstance(value, list) else []


def _identity(path: str) -> object:
    """Equal for two names of one file; None for a device, a pipe, a directory."""
    try:
        found = os.stat(path)
    except (OSError, ValueError):
        return os.path.realpath(path)
    return (found.st_dev, found.st_ino) if stat.S_ISREG(found.st_mode) else None
