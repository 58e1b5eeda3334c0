"""Journals of work that costs something: what is finished is kept, whatever kills the process.

A `Journal` is an append-only file of ``{"key": ..., "value": ...}`` lines, beside the output it serves. A rerun finds its
finished episodes there and runs only the rest. The first line holds the configuration; a journal of another configuration is
refused with the names of the settings that differ. A torn last line is dropped with a warning. One process at a time.
"""

from __future__ import annotations

import fcntl
import os
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from coevolve.errors import Partial, UsageError, WriteFailed
from coevolve.jsonl import encode, warn

T = TypeVar("T")


def home() -> Path:
    """$COEVOLVE_HOME, where installed environments and the journal of model calls are."""
    return Path(os.environ.get("COEVOLVE_HOME") or Path.home() / ".local" / "share" / "coevolve")


class Journal:
    """`path=None` keeps nothing (stdout without a run directory), with the same interface."""

    def __init__(self, path: str | os.PathLike[str] | None, config: dict[str, Any]):
        self.path = Path(path) if path else None
        self._found: dict[str, msgspec.Raw] = {}
        self._file = None
        self.reused = 0
        if self.path:
            self._open(config)

    def _open(self, config: dict[str, Any]) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        try:
            self._file = open(self.path, "a+b")
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise Partial(
                f"{self.path}: another process is writing this journal; wait for it, or choose another -o"
            ) from None
        except OSError as error:
            raise WriteFailed(f"{self.path}: cannot write: {error.strerror}") from error
        self._file.seek(0)
        lines = self._file.read().split(b"\n")
        whole = sum(len(line) + 1 for line in lines[:-1])
        if lines[-1]:
            warn(f"{self.path}: dropped a torn last line")
        self._file.truncate(whole)
        entries = [line for line in lines[:-1] if line]
        if entries:
            self._check(msgspec.json.decode(entries[0]).get("config"), config)
            for entry in entries[1:]:
                pair = msgspec.json.decode(entry, type=_Entry)
                self._found[pair.key] = pair.value
        else:
            self._append({"config": config})

    def _check(self, old: Any, new: dict[str, Any]) -> None:
        new = msgspec.json.decode(msgspec.json.encode(new))
        if old == new:
            return
        names = sorted(k for k in {*(old or {}), *new} if (old or {}).get(k) != new.get(k))
        raise UsageError(
            f"{self.path}: was begun with other settings ({', '.join(names)}). Use the same ones, or delete it to start anew"
        )

    def _append(self, value: object) -> None:
        try:
            self._file.write(encode(value))
            self._file.flush()
        except OSError as error:
            raise WriteFailed(f"{self.path}: cannot write: {error.strerror}") from error

    def get(self, key: str, type_: type[T]) -> T | None:
        """The value kept under the key, or None."""
        raw = self._found.get(key)
        if raw is None:
            return None
        self.reused += 1
        return msgspec.json.decode(raw, type=type_)

    def put(self, key: str, value: object) -> None:
        if self._file:
            self._append({"key": key, "value": value})

    def close(self, finished: bool) -> None:
        """Ends the journal; a finished one is removed, its output holds everything."""
        if not self._file:
            return
        if finished:
            self.path.unlink(missing_ok=True)
        self._file.close()
        self._file = None


class _Entry(msgspec.Struct):
    key: str
    value: msgspec.Raw
