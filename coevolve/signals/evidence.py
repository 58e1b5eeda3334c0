"""The second pass: a chosen candidate becomes a signal with its task and trimmed trajectories.

Rollout lines are read twice: in place where they lie in a plain file; standard input and compressed
files from a copy that the first pass makes (on `TMPDIR`, removed at the end). Chat text is left out
and long observations are cut; what was cut is said in place. A rollout that turns out to be bad
beyond its head is rejected, once, and left out of the evidence; the signal stays.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterable, Iterator
from typing import IO

import msgspec

from coevolve.errors import CoevolveError, WriteFailed
from coevolve.jsonl import BUFFER, Line
from coevolve.records import Outcome, Signal, Step, Trajectory, content_id
from coevolve.signals.counts import LinePlace, RolloutColumns, hash_of
from coevolve.signals.rule import SignalCandidate
from coevolve.signals.views import RolloutEvidence, RolloutHead, in_full

MAX_OPEN = 64  # Files that are kept open in the second pass


class TwoPassReader:
    """A context manager: iterating is the first pass, `read` the second; `reject` may raise."""

    def __init__(self, lines: Iterable[Line[RolloutHead]], reject: Callable[[Line, str], None]):
        self._lines, self._reject = lines, reject
        self._files: list[tuple[str, bool]] = []
        """Name, and whether the lines lie in a plain file of this name."""
        self._copy: IO[bytes] | None = None
        self._copied = 0  # Bytes
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
    """Whether the lines lie in a file as they were read; standard input is called `stdin`."""
    return where != "stdin" and os.path.isfile(where) and not where.endswith((".gz", ".zst"))


def signal_of(
    candidate: SignalCandidate, rollouts: RolloutColumns, reader: TwoPassReader, max_chars: int
) -> Signal:
    """Reads the candidate's evidence, observations of at most `max_chars` characters. Its task is
    the one it is about, or that of the first trajectory."""
    c = candidate
    read = [found for row in c.rows if (found := _rollout(row, rollouts, reader)) is not None]
    about = c.task_id or (read[0].task_id if read else "")
    # Another family's pattern may read the same.
    content = ("signal", c.kind, c.env, about, c.pattern, c.iteration)
    return Signal(
        id=content_id(*content, *([c.family] if c.family else [])),
        kind=c.kind,
        task_id=about,
        env=c.env,
        iteration=c.iteration,
        strength=round(c.strength, 6),
        statistic=c.statistic,
        pattern=list(c.pattern),
        history=[Outcome(o.iteration, o.step, o.successes, o.trials) for o in c.history],
        evidence=[_trajectory(rollout, max_chars) for rollout in read],
        task=next((r.task for r in read if r.task_id == about and r.task is not None), None),
    )


def _rollout(row: int, rollouts: RolloutColumns, reader: TwoPassReader) -> RolloutEvidence | None:
    """None for a bad line. Raises CoevolveError where another rollout is there than before."""
    rollout = reader.read(rollouts.place(row))
    if rollout is not None and hash_of(rollout.id) != rollouts.id_hash[row]:
        raise CoevolveError("the input changed while it was being read; run the command again")
    return rollout


def _trajectory(rollout: RolloutEvidence, max_chars: int) -> Trajectory:
    success = bool(rollout.verdict)
    return Trajectory(
        rollout=rollout.id,
        success=success,
        score=float(success) if rollout.score is None else rollout.score,
        stop_reason=rollout.stop_reason,
        steps=[_trim(step, max_chars) for step in rollout.steps],
    )


def _trim(step: Step, limit: int) -> Step:
    text = step.observation
    if len(text) > limit:
        text = f"{text[:limit]} … ({len(text) - limit} more characters)"
    return msgspec.structs.replace(step, observation=text, message=None)
