"""Lines that are no records, and records that a stage refuses: counted, limited, and kept with the reason (--rejects)."""

from __future__ import annotations

import contextlib
from typing import IO, Any, NamedTuple

from coevolve import jsonl
from coevolve.errors import BadInput, UsageError
from coevolve.jsonl import BadLine


class Faults(NamedTuple):
    """What to do with lines that are no records."""

    on_error: str = "fail"
    max_errors: str | None = None
    rejects: str | None = None


class Rejected:
    """Collects bad lines and rejected records; enforces the limits."""

    def __init__(self, faults: Faults, name: str):
        self.skip = faults.on_error == "skip"
        self.count = 0
        self._limit, self._percent = _limit(faults.max_errors)
        self._name, self._path = name, faults.rejects
        self._open = contextlib.ExitStack()
        self._file: IO[bytes] | None = None
        if self._path is not None:
            jsonl.is_special(self._path)  # refuses a directory
            with jsonl.writing(self._path):
                stream = self._open.enter_context(open(self._path, "wb"))
                self._file = self._open.enter_context(jsonl.packed(stream, self._path))

    def append(self, bad: BadLine) -> None:
        self.count += 1
        self.keep(
            {
                "where": bad.where,
                "line": bad.number,
                "reason": bad.reason,
                "raw": bad.raw.decode("utf-8", "replace"),
            }
        )
        if self._limit is not None and not self._percent and self.count > self._limit:
            raise BadInput(
                bad.where, bad.number, f"{bad.reason} (more than {self._limit:g} bad lines)"
            )

    def keep(self, entry: dict[str, Any]) -> None:
        if self._file:
            with jsonl.writing(self._path):
                self._file.write(jsonl.encode(entry))
                self._file.flush()

    def finish(self, read: int) -> None:
        total = read + self.count
        if (
            self._percent
            and self._limit is not None
            and total
            and 100 * self.count > self._limit * total
        ):
            raise BadInput(
                self._name,
                None,
                f"{self.count} of {total} lines are bad, more than {self._limit:g}%",
            )

    def close(self) -> None:
        if self._file:
            with jsonl.writing(self._path):
                self._open.close()


def _limit(text: str | None) -> tuple[float | None, bool]:
    if text is None:
        return None, False
    try:
        return float(text.removesuffix("%")), text.endswith("%")
    except ValueError:
        raise UsageError(f"--max-errors takes a number or a percentage, not {text!r}") from None
