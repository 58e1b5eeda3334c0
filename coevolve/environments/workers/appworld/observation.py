"""How an observation is cut that is longer than the policy is to read: its first and last
characters stay, with a note of how many were left out. The limit is the worker's
(COEVOLVE_APPWORLD_OBSERVATION)."""

from __future__ import annotations

import io

NOTE_CHARS = 100
"""A text that exceeds its limit by no more than this stays whole: the note takes room, too."""


class CellStream(io.TextIOBase):
    """The output of a cell: all of it, or its first and last characters with a note of the rest."""

    def __init__(self, keep: int):
        self._keep, self._head, self._tail, self._length = keep, io.StringIO(), "", 0

    def writable(self) -> bool:
        return True

    def write(self, text: str) -> int:
        if not isinstance(text, str):
            raise TypeError(f"string argument expected, got {type(text).__name__!r}")
        room = max(0, self._keep - self._head.tell())
        self._head.write(text[:room])
        self._tail = (self._tail + text[room:])[-self._keep :]
        self._length += len(text)
        return len(text)

    def text(self) -> str:
        left_out = self._length - self._head.tell() - len(self._tail)
        return _joined(self._head.getvalue(), left_out, self._tail)


def cut(text: str, limit: int) -> str:
    """Returns the text, or its first and last `limit` // 2 characters around the note."""
    half = limit // 2
    if len(text) <= limit + NOTE_CHARS:
        return text
    return _joined(text[:half], len(text) - 2 * half, text[-half:])


def _joined(head: str, left_out: int, tail: str) -> str:
    return head + (f"\n[… {left_out} characters …]\n" if left_out else "") + tail
