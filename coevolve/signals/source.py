"""Rollout lines that can be read twice: in place where they lie in a plain file, else from a temporary copy.

Standard input and compressed files are copied while they are read the first time (on `TMPDIR`, removed at the end).
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Iterator
from typing import IO

import msgspec

from coevolve.errors import BadInput, WriteFailed
from coevolve.jsonl import BUFFER, Line
from coevolve.signals.tally import Place
from coevolve.signals.views import Full, Head

_full = msgspec.json.Decoder(Full)


class Source:
    """Context manager around the lines of a first pass; `read` is the second."""

    def __init__(self, lines: Iterable[Line[Head]]):
        self._lines = lines
        self._names: list[str] = []
        self._spool: IO[bytes] | None = None
        self._spooled = 0
        self._plain: dict[str, bool] = {}
        self._open: dict[int, IO[bytes]] = {}

    def __enter__(self) -> Source:
        return self

    def __exit__(self, *_: object) -> None:
        for stream in [*self._open.values(), *([self._spool] if self._spool else [])]:
            stream.close()

    def __iter__(self) -> Iterator[tuple[Line[Head], Place]]:
        """The first pass: each line with the place at which it can be read again."""
        for line in self._lines:
            if line.where not in self._plain:
                plain = os.path.isfile(line.where) and not line.where.endswith((".gz", ".zst"))
                self._names.append(line.where)
                self._plain[line.where] = plain
            index = self._names.index(line.where)
            offset = line.offset if self._plain[line.where] else self._copy(line.raw)
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

    def read(self, place: Place) -> Full:
        """The second pass: one rollout in full. A line that is bad beyond its head is `BadInput`."""
        where = self._names[place.file]
        stream = self._stream(place.file, where)
        stream.seek(place.offset)
        try:
            return _full.decode(stream.readline().removeprefix(b"\xef\xbb\xbf"))
        except ValueError as error:
            raise BadInput(where, place.line, str(error)) from None

    def _stream(self, index: int, where: str) -> IO[bytes]:
        if not self._plain[where]:
            return self._spool
        if index not in self._open:
            self._open[index] = open(where, "rb")
        return self._open[index]
