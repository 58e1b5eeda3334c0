"""Lines that are no records, and records that a stage refuses: counted, limited, and kept with the
reason (--rejects)."""

from __future__ import annotations

import contextlib
from typing import IO, Any

from coevolve import jsonl
from coevolve.errors import BadInput, UsageError
from coevolve.jsonl import BadLine


class Rejected:
    """Collects them for one run of a stage.

    `limit` is a number of bad lines, or a percentage of all lines (`5%`); None: no limit.
    """

    def __init__(self, name: str, path: str | None, *, skip: bool, limit: str | None):
        self.skip, self.count = skip, 0
        self._name, self._path = name, path
        self._most, self._percent = _limit(limit)
        self._open = contextlib.ExitStack()
        self._file: IO[bytes] | None = None
        if path is not None:
            jsonl.is_special(path)  # refuses a directory
            with jsonl.writing(path):
                stream = self._open.enter_context(open(path, "wb"))
                self._file = self._open.enter_context(jsonl.packed(stream, path))

    def append(self, bad: BadLine) -> None:
        """A bad line. Raises BadInput beyond a limit in lines."""
        self.count += 1
        raw = bad.raw.decode("utf-8", "replace")
        self.keep({"where": bad.where, "line": bad.number, "reason": bad.reason, "raw": raw})
        if not self._percent and self.count > self._most:
            reason = f"{bad.reason} (more than {self._most:g} bad lines)"
            raise BadInput(bad.where, bad.number, reason)

    def keep(self, entry: dict[str, Any]) -> None:
        if self._file:
            with jsonl.writing(self._path):
                self._file.write(jsonl.encode(entry))
                self._file.flush()

    def finish(self, read: int) -> None:
        """After the last of `read` good lines. Raises BadInput beyond a limit in percent."""
        total = read + self.count
        if self._percent and 100 * self.count > self._most * total:
            reason = f"{self.count} of {total} lines are bad, more than {self._most:g}%"
            raise BadInput(self._name, None, reason)

    def close(self) -> None:
        if self._file:
            with jsonl.writing(self._path):
                self._open.close()


def _limit(text: str | None) -> tuple[float, bool]:
    """The number, and whether it is a percentage."""
    if text is None:
        return float("inf"), False
    try:
        return float(text.removesuffix("%")), text.endswith("%")
    except ValueError:
        raise UsageError(f"--max-errors takes a number or a percentage, not {text!r}") from None
