"""The report of a run directory of `shell/train_loop.sh`, iteration by iteration.

Read are ``RUN/iterations/NNN/{tasks,signals,explorations,candidates,valid,merged}.jsonl``,
``RUN/metrics.jsonl`` (means over the steps of an iteration) and ``RUN/evaluations/*.jsonl``. What
is not there is None, never 0. A directory of single stages that called models
(``RUN/model_calls.jsonl``) is a run without iterations.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import TypeVar

import msgspec
from msgspec import Struct

from coevolve import jsonl
from coevolve.errors import BadInput, UsageError
from coevolve.models.spending import RECORD
from coevolve.records import Evaluation
from coevolve.statistics import mean

T = TypeVar("T")


class IterationReport(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One iteration of the loop; None where the run does not say."""

    iteration: int
    tasks: int | None = None  # Size of the training set
    steps: int | None = None  # Optimiser steps
    success: float | None = None  # Mean success of the training rollouts
    informative: float | None = None  # Share of groups with a gradient
    made: float | None = None  # Share of the batches' tasks that the loop made
    kl: float | None = None
    signals: dict[str, int] | None = None  # Signals by kind
    explored: int | None = None
    abstracted: int | None = None
    valid: int | None = None
    merged: int | None = None  # New tasks that entered the set


class StepMetrics(Struct, frozen=True):
    """One line of the metrics: one optimiser step."""

    iteration: int
    success_mean: float | None = None
    informative_share: float | None = None
    made_share: float | None = None
    kl: float | None = None


class _Id(Struct, frozen=True):
    id: str


class _Kind(Struct, frozen=True):
    kind: str


def read(run: str) -> list[IterationReport]:
    """The iterations of a run, in order. Raises UsageError where there is no run."""
    folder = Path(run)
    if not folder.is_dir():
        raise UsageError(f"{run}: no such run directory")
    metrics: dict[int, list[StepMetrics]] = defaultdict(list)
    for step in appended(folder / "metrics.jsonl", StepMetrics):
        metrics[step.iteration].append(step)
    names = [path.name for path in (folder / "iterations").glob("*")]
    numbers = {int(name) for name in names if name.isdecimal()} | metrics.keys()
    if not numbers and not (folder / RECORD).exists():
        expected = f"neither iterations/ nor metrics.jsonl nor {RECORD}"
        raise UsageError(f"{run}: {expected}; is it the directory of a run?")
    return [_iteration(folder, number, metrics[number]) for number in sorted(numbers)]


def appended(path: Path, type_: type[T]) -> Iterator[T]:
    """The records of a file to which runs append; a torn last line of a killed one is dropped."""
    lines = path.read_bytes().split(b"\n") if path.exists() else []
    for number, line in enumerate(lines[:-1], 1):
        try:
            yield msgspec.json.decode(line, type=type_)
        except msgspec.MsgspecError as error:
            raise BadInput(str(path), number, str(error)) from None


def evaluations(run: str) -> dict[str, list[Evaluation]]:
    """Evaluations by the name of their file, sorted."""
    paths = sorted((Path(run) / "evaluations").glob("*.jsonl"))
    return {path.stem: _records(path, Evaluation) for path in paths}


def _iteration(run: Path, number: int, metrics: list[StepMetrics]) -> IterationReport:
    here = run / "iterations" / f"{number:03d}"
    kinds = _records(here / "signals.jsonl", _Kind)
    return IterationReport(
        iteration=number,
        tasks=_count(here / "tasks.jsonl"),
        steps=len(metrics) or None,
        success=_mean([m.success_mean for m in metrics]),
        informative=_mean([m.informative_share for m in metrics]),
        made=_mean([m.made_share for m in metrics]),
        kl=_mean([m.kl for m in metrics]),
        signals=None if kinds is None else dict(sorted(Counter(s.kind for s in kinds).items())),
        explored=_count(here / "explorations.jsonl"),
        abstracted=_count(here / "candidates.jsonl"),
        valid=_count(here / "valid.jsonl"),
        merged=_new(here / "tasks.jsonl", here / "merged.jsonl"),
    )


def _mean(values: list[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return mean(known) if known else None


def _count(path: Path) -> int | None:
    """Non-empty lines."""
    if not path.exists():
        return None
    with open(path, "rb", buffering=jsonl.BUFFER) as stream:
        return sum(1 for line in stream if line.strip())


def _new(before: Path, after: Path) -> int | None:
    """Tasks of the second file that are not in the first."""
    if not (before.exists() and after.exists()):
        return None
    old, new = ({task.id for task in _records(path, _Id)} for path in (before, after))
    return len(new - old)


def _records(path: Path, type_: type[T]) -> list[T] | None:
    return [line.record for line in jsonl.read([str(path)], type_)] if path.exists() else None
