"""What stages share: inputs, the output that stdout is kept for, counts, progress.

    with stage("merge", files) as s:
        for line in s.read(Task):
            s.write(record)

stdout carries records only: `stage` takes fd 1 for the records and points fd 1 at stderr, so that
no library can print into the pipe. A named output appears whole or not at all. The last line on
stderr says what was read, written and skipped.
"""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Callable, Iterator
from typing import IO, Any, TypeVar

from coevolve import jsonl
from coevolve.errors import (
    WRITE_ERRORS,
    BadInput,
    NothingFound,
    PipeClosed,
    UsageError,
    WriteFailed,
)
from coevolve.jsonl import BadLine, Line
from coevolve_cli.rejects import Rejected

T = TypeVar("T")


class Stage:
    """One run of a command. Made by `stage`."""

    def __init__(
        self, name: str, files: list[str] | None, output: IO[bytes], rejected: Rejected, quiet: bool
    ):
        self.name, self.files, self.quiet = name, files or ["-"], quiet
        self.read_count = self.written = 0
        self.notes: list[str] = []
        self.inputs_opened = False
        self._output, self._rejected = output, rejected

    def read(self, type_: type[T], *, head: bool = False, unique: bool = True) -> Iterator[Line[T]]:
        """The records of the input, in order. With `unique`, an id met twice is a bad line."""
        self.inputs_opened = True
        bad = self._rejected if self._rejected.skip else None
        seen: set[str] = set()
        for line in jsonl.read(self.files, type_, head=head, bad=bad):
            id_ = getattr(line.record, "id", None) if unique else None
            if id_ is not None:
                if id_ in seen:
                    self._refuse(line, f"duplicate id {id_}")
                    continue
                seen.add(id_)
            self.read_count += 1
            yield line

    def reject(self, line: Line[Any], reason: str) -> None:
        """A line that `read` gave and that is no usable record: stops, or is set aside and not
        counted as read."""
        self._refuse(line, reason)
        self.read_count -= 1

    def _refuse(self, line: Line[Any], reason: str) -> None:
        if not self._rejected.skip:
            raise BadInput(line.where, line.number, reason)
        self._rejected.append(BadLine(line.where, line.number, reason, line.raw))

    def keep_reject(self, entry: dict[str, Any]) -> None:
        """Writes something the stage itself refused to --rejects; not a bad line."""
        self._rejected.keep(entry)

    def write(self, record: object) -> None:
        self.write_raw(jsonl.encode(record))

    def write_raw(self, line: bytes) -> None:
        """A whole line, newline included."""
        self._output.write(line)
        self.written += 1

    def flush(self) -> None:
        """Hands what is written so far to the next stage of the pipe."""
        self._output.flush()

    def note(self, text: str) -> None:
        """Added to the summary line."""
        self.notes.append(text)

    def summary(self) -> str:
        parts = (
            [f"read {self.read_count}{' (empty input)' if not self.read_count else ''}"]
            if self.inputs_opened
            else []
        )
        parts.append(f"wrote {self.written}")
        if self._rejected.count:
            parts.append(f"skipped {self._rejected.count}")
        return f"{self.name}: " + ", ".join(parts + self.notes)


def check_input(files: list[str] | None) -> None:
    """A command that would wait for a terminal's input says so instead."""
    if not files and sys.stdin is not None and sys.stdin.isatty():
        raise UsageError("no input: name a file or pipe records in (--help shows examples)")


@contextlib.contextmanager
def stage(
    name: str,
    files: list[str] | None,
    output: str = "-",
    *,
    reads: bool = True,
    quiet: bool = False,
    exit_status: bool = False,
    rejects: str | None = None,
    on_error: str = "fail",
    max_errors: str | None = None,
) -> Iterator[Stage]:
    """Opens output and rejects, counts, and reports. `reads=False` for a command without input."""
    if reads:
        check_input(files)
    rejected = Rejected(name, rejects, skip=on_error == "skip", limit=max_errors)
    try:
        with open_output(output) as out:
            s = Stage(name, files, out, rejected, quiet)
            yield s
            rejected.finish(s.read_count)
        if not quiet:
            with contextlib.suppress(
                OSError
            ):  # the records are out, whether anybody can be told or not
                print(s.summary(), file=sys.stderr, flush=True)
        if exit_status and not s.written:
            raise NothingFound(f"{name}: nothing written")
    finally:
        rejected.close()


@contextlib.contextmanager
def open_output(path: str) -> Iterator[IO[bytes]]:
    """Records to a file (atomic) or to stdout, which from here on is closed to everyone else.

    A closed pipe is PipeClosed (exit 141, no message); any other failed write is WriteFailed (exit
    74).
    """
    if not jsonl.is_stdout(path):
        _reserve_stdout().close()
        with jsonl.atomic(path) as stream:
            yield stream
        return
    stream = _reserve_stdout()
    try:
        yield stream
        stream.flush()
    except OSError as error:
        os.dup2(
            os.open(os.devnull, os.O_WRONLY), stream.fileno()
        )  # what is still buffered goes nowhere
        if isinstance(error, BrokenPipeError):
            raise PipeClosed(
                "output closed"
            ) from None  # Typer would turn a BrokenPipeError into exit 1
        if error.errno in WRITE_ERRORS:
            raise WriteFailed(f"cannot write output: {error.strerror}") from error
        raise
    finally:
        with contextlib.suppress(OSError):
            stream.close()


def _reserve_stdout() -> IO[bytes]:
    sys.stdout.flush()
    records = open(os.dup(1), "wb", buffering=jsonl.BUFFER)
    os.dup2(2, 1)
    return records


@contextlib.contextmanager
def progress(
    label: str, total: int | None = None, *, quiet: bool = False
) -> Iterator[Callable[[int], None]]:
    """Yields `advance(n)`: a bar where stderr is a terminal, else a plain line every 30 seconds in
    which something moved."""
    if quiet:
        yield lambda n=1: None
    elif sys.stderr.isatty():
        from rich.console import Console
        from rich.progress import Progress

        with Progress(console=Console(stderr=True), transient=True) as bar:
            task = bar.add_task(label, total=total)
            yield lambda n=1: bar.advance(task, n)
    else:
        yield _plain(label, total)


def _plain(label: str, total: int | None) -> Callable[[int], None]:
    done, last = 0, time.monotonic()

    def advance(n: int = 1) -> None:
        nonlocal done, last
        done += n
        if time.monotonic() - last >= 30:
            last = time.monotonic()
            print(f"{label}: {done}{f' of {total}' if total else ''}", file=sys.stderr, flush=True)

    return advance
