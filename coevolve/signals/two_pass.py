"""Rollout lines that can be read twice: in place where they lie in a plain file, else from a copy.

Standard input and compressed files are copied while they are read the first time (on `TMPDIR`,
removed at the end). A line that turns out to be bad when it is read in full is rejected like one
that is bad at first sight: once.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterable, Iterator
from typing import IO

from coevolve.errors import WriteFailed
from coevolve.jsonl import BUFFER, Line
from coevolve.signals.counts import LinePlace
from coevolve.signals.views import RolloutEvidence, RolloutHead, in_full

MAX_OPEN = 64
"""Files that are kept open in the second pass."""


class TwoPassReader:
    """A context manager around the lines of a first pass; `read` is the second. `reject` is told of
    each bad line, and may raise."""

    def __init__(self, lines: Iterable[Line[RolloutHead]], reject: Callable[[Line, str], None]):
        self._lines, self._reject = lines, reject
        self._files: list[tuple[str, bool]] = []
        """Name, and whether the lines lie in a plain file of this name."""
        self._copy: IO[bytes] | None = None
        self._copied = 0
        """Bytes."""
        self._open: dict[int, IO[bytes]] = {}
        self._rejected: set[LinePlace] = set()

    def __enter__(self) -> TwoPassReader:
        return self

    def __exit__(self, *_: object) -> None:
        for stream in [*self._open.values(), *([self._copy] if self._copy else [])]:
            stream.close()

    def __iter__(self) -> Iterator[tuple[Line[RolloutHead], LinePlace]]:
        """The first pass: each line with the place at which it can be read again."""
        index: dict[str, int] = {}
        for line in self._lines:
            file = index.get(line.where)
            if file is None:
                file = index[line.where] = len(self._files)
                self._files.append((line.where, _is_plain(line.where)))
            offset = line.offset if self._files[file][1] else self._keep(line.raw)
            yield line, LinePlace(file, offset, line.number)

    def _keep(self, raw: bytes) -> int:
        try:
            if self._copy is None:
                self._copy = tempfile.TemporaryFile(prefix="coevolve-", buffering=BUFFER)
            offset = self._copied
            self._copied += self._copy.write(raw) + self._copy.write(b"\n")
        except OSError as error:
            raise WriteFailed(f"temporary copy of the input (TMPDIR): {error.strerror}") from error
        return offset

    def read(self, place: LinePlace) -> RolloutEvidence | None:
        """The second pass: one rollout in full; None where the line is bad beyond its head."""
        if place in self._rejected:
            return None
        stream = self._stream(place.file)
        stream.seek(place.offset)
        raw = stream.readline().removeprefix(b"\xef\xbb\xbf").strip()
        try:
            return in_full(raw)
        except (ValueError, RecursionError) as error:
            self._rejected.add(place)
            where = self._files[place.file][0]
            self._reject(Line(None, raw, where, place.line, place.offset), str(error))
            return None

    def _stream(self, file: int) -> IO[bytes]:
        name, plain = self._files[file]
        if not plain:
            return self._copy
        stream = self._open.pop(file, None) or open(name, "rb")
        self._open[file] = stream  # the last one used stands last
        if len(self._open) > MAX_OPEN:
            self._open.pop(next(iter(self._open))).close()
        return stream


def _is_plain(where: str) -> bool:
    """Whether the lines lie in a file as they were read. `stdin` is what the standard input is
    called, whatever the folder holds."""
    return where != "stdin" and os.path.isfile(where) and not where.endswith((".gz", ".zst"))
