"""Journals of work that costs something: what is finished is kept, whatever kills the process.

A `Journal` is an append-only file of ``{"key": ..., "value": ...}`` lines, beside the output it
serves. A rerun finds its finished episodes there and runs only the rest. The first line holds the
configuration; a journal of another configuration is refused with the names of the settings that
differ. A torn last line is dropped with a warning; any other damage is bad input that names the
file. One process at a time.
"""

from __future__ import annotations

import fcntl
import os
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from coevolve.errors import BadInput, Partial, UsageError
from coevolve.jsonl import encode, is_special, is_stdout, warn, writing

T = TypeVar("T")


def home() -> Path:
    """$COEVOLVE_HOME: the folder of installed environments and of the journal of model calls."""
    return Path(os.environ.get("COEVOLVE_HOME") or Path.home() / ".local" / "share" / "coevolve")


def journal_path(output: str, otherwise: Path | None = None) -> Path | None:
    """The journal's place: beside a regular file; for standard output `otherwise`; else nowhere."""
    if is_stdout(output):
        return otherwise
    return None if is_special(output) else Path(f"{output}.journal")


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
        with writing(self.path):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._file = open(self.path, "a+b")
            self._lock()
            self._file.seek(0)
            *lines, torn = self._file.read().split(b"\n")
        entries = [(number, line) for number, line in enumerate(lines, 1) if line]
        if entries:
            number, line = entries[0]
            self._check(self._decode(line, _Begun, number).config, config)
        for number, line in entries[1:]:
            pair = self._decode(line, _Entry, number)
            self._found[pair.key] = pair.value
        if torn:
            warn(f"{self.path}: dropped a torn last line")
            with writing(self.path):
                self._file.truncate(sum(len(line) + 1 for line in lines))
        if not entries:
            self._append({"config": config})

    def _lock(self) -> None:
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            reason = "another process is writing this journal; wait for it, or choose another -o"
            raise Partial(f"{self.path}: {reason}") from None

    def _decode(self, raw: bytes | msgspec.Raw, type_: type[T], number: int | None) -> T:
        try:
            return msgspec.json.decode(raw, type=type_)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            reason = f"damaged journal ({error}). Delete the file to start anew"
            raise BadInput(str(self.path), number, reason) from None

    def _check(self, old: dict[str, Any], new: dict[str, Any]) -> None:
        new = msgspec.json.decode(msgspec.json.encode(new))
        if old == new:
            return
        names = ", ".join(sorted(k for k in {*old, *new} if old.get(k) != new.get(k)))
        advice = "Use the same ones, or delete it to start anew"
        raise UsageError(f"{self.path}: was begun with other settings ({names}). {advice}")

    def _append(self, value: object) -> None:
        with writing(self.path):
            self._file.write(encode(value))
            self._file.flush()

    def get(self, key: str, type_: type[T]) -> T | None:
        """The value kept under the key, or None."""
        raw = self._found.get(key)
        if raw is None:
            return None
        value = self._decode(raw, type_, None)
        self.reused += 1
        return value

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


class _Begun(msgspec.Struct):
    config: dict[str, Any]


class _Entry(msgspec.Struct):
    key: str
    value: msgspec.Raw
