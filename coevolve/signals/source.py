"""Rollout lines that can be read twice: in place where they lie in a plain file, else from a temporary copy.

Standard input and compressed files are copied while they are read the first time (on `TMPDIR`, removed at the end). A line that
turns out to be bad when it is read in full is refused like one that is bad at first sight: once.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterable, Iterator
from typing import IO

import msgspec

from coevolve.errors import WriteFailed
from coevolve.jsonl import BUFFER, Line
from coevolve.signals.tally import Place
from coevolve.signals.views import Full, Head

_full = msgspec.json.Decoder(Full)
HANDLES = 64
"""Files that are kept open in the second pass."""


class Source:
    """Context manager around the lines of a first pass; `read` is the second. `refuse` is told of each bad line, and may raise."""

    def __init__(self, lines: Iterable[Line[Head]], refuse: Callable[[Line, str], None]):
        self._lines, self._refuse = lines, refuse
        self._index: dict[str, int] = {}
        self._names: list[str] = []
        self._plain: list[bool] = []
        self._spool: IO[bytes] | None = None
        self._spooled = 0
        self._open: dict[int, IO[bytes]] = {}
        self._refused: set[Place] = set()

    def __enter__(self) -> Source:
        return self

    def __exit__(self, *_: object) -> None:
        for stream in [*self._open.values(), *([self._spool] if self._spool else [])]:
            stream.close()

    def __iter__(self) -> Iterator[tuple[Line[Head], Place]]:
        """The first pass: each line with the place at which it can be read again."""
        for line in self._lines:
            index = self._index.get(line.where)
            if index is None:
                index = self._index[line.where] = len(self._names)
                self._names.append(line.where)
                self._plain.append(_is_plain(line.where))
            offset = line.offset if self._plain[index] else self._copy(line.raw)
            yield line, Place(index, offset, line.number)

    def _copy(self, raw: bytes) -> int:
        try:
            if self._spool is None:
                self._spool = tempfile.TemporaryFile(prefix="coevolve-", buffering=BUFFER)
            offset = self._spooled
            self._spooled += self._spool.write(raw) + self._spool.write(b"\n")
        except OSError as error:
            raise WriteFailed(f"temporary copy of the input (TMPDIR): {error.strerror}") from error
        return offset

    def read(self, place: Place) -> Full | None:
        """The second pass: one rollout in full; None where the line is bad beyond its head."""
        if place in self._refused:
            return None
        where = self._names[place.file]
        stream = self._stream(place.file, where)
        stream.seek(place.offset)
        raw = stream.readline().removeprefix(b"\xef\xbb\xbf").strip()
        try:
            return _full.decode(raw)
        except (ValueError, RecursionError) as error:
            self._refused.add(place)
            self._refuse(Line(None, raw, where, place.line, place.offset), str(error))
            return None

    def _stream(self, index: int, where: str) -> IO[bytes]:
        if not self._plain[index]:
            return self._spool
        stream = self._open.pop(index, None) or open(where, "rb")
        self._open[index] = stream  # the last one used stands last
        if len(self._open) > HANDLES:
            self._open.pop(next(iter(self._open))).close()
        return stream


def _is_plain(where: str) -> bool:
    """Whether the lines lie in a file as they were read. `stdin` is what the standard input is called, whatever the folder holds."""
    return where != "stdin" and os.path.isfile(where) and not where.endswith((".gz", ".zst"))


def why(raw: bytes, error: Exception) -> str:
    """Why a line cannot be counted, with the path in the whole record where it has one."""
    try:
        _full.decode(raw)
    except (ValueError, RecursionError) as found:
        return str(found)
    return str(error)
