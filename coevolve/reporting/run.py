"""A run directory of `shell/train_loop.sh`, iteration by iteration. What is not there is None, never 0.

Read are ``RUN/iterations/NNN/{tasks,signals,explorations,candidates,valid,merged}.jsonl``, ``RUN/metrics.jsonl`` (means over the
steps of an iteration) and ``RUN/evaluations/*.jsonl``. A torn last line of metrics, as a killed run leaves it, is passed over.
A directory of single stages that called models (``RUN/model_calls.jsonl``) is a run without iterations.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from pathlib import Path

import msgspec
from msgspec import Struct

from coevolve import jsonl
from coevolve.errors import BadInput, UsageError
from coevolve.models.spending import RECORD
from coevolve.records import Evaluation
from coevolve.statistics import mean


class Iteration(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One iteration of the loop; None where the run does not say."""

    iteration: int
    tasks: int | None = None
    """Size of the training set."""
    steps: int | None = None
    success: float | None = None
    """Mean success of the training rollouts."""
    informative: float | None = None
    """Share of groups with a gradient."""
    made: float | None = None
    """Share of the batches' tasks that the loop made."""
    kl: float | None = None
    signals: dict[str, int] | None = None
    explored: int | None = None
    abstracted: int | None = None
    valid: int | None = None
    merged: int | None = None
    """New tasks that entered the set."""


class Metric(Struct, frozen=True):
    iteration: int
    success_mean: float | None = None
    informative_share: float | None = None
    made_share: float | None = None
    kl: float | None = None


class _Id(Struct, frozen=True):
    id: str


class _Kind(Struct, frozen=True):
    kind: str


def read(run: str) -> list[Iteration]:
    """The iterations of a run, in order. Raises UsageError where there is no run."""
    folder = Path(run)
    if not folder.is_dir():
        raise UsageError(f"{run}: no such run directory")
    metrics = _metrics(folder / "metrics.jsonl")
    numbers = {
        int(path.name) for path in (folder / "iterations").glob("*") if path.name.isdecimal()
    }
    if not numbers and not metrics and not (folder / RECORD).exists():
        raise UsageError(
            f"{run}: neither iterations/ nor metrics.jsonl nor {RECORD}; is it the directory of a run?"
        )
    return [
        _iteration(folder, number, metrics.get(number, []))
        for number in sorted(numbers | metrics.keys())
    ]


def evaluations(run: str) -> dict[str, list[Evaluation]]:
    """Evaluations by the name of their file, sorted."""
    paths = sorted((Path(run) / "evaluations").glob("*.jsonl"))
    return {
        path.stem: [line.record for line in jsonl.read([str(path)], Evaluation)] for path in paths
    }


def _iteration(run: Path, number: int, metrics: list[Metric]) -> Iteration:
    here = run / "iterations" / f"{number:03d}"
    return Iteration(
        iteration=number,
        tasks=_count(here / "tasks.jsonl"),
        steps=len(metrics) or None,
        success=_mean([m.success_mean for m in metrics]),
        informative=_mean([m.informative_share for m in metrics]),
        made=_mean([m.made_share for m in metrics]),
        kl=_mean([m.kl for m in metrics]),
        signals=_kinds(here / "signals.jsonl"),
        explored=_count(here / "explorations.jsonl"),
        abstracted=_count(here / "candidates.jsonl"),
        valid=_count(here / "valid.jsonl"),
        merged=_new(here / "merged.jsonl", here / "tasks.jsonl"),
    )


def _metrics(path: Path) -> dict[int, list[Metric]]:
    found: dict[int, list[Metric]] = defaultdict(list)
    lines = path.read_bytes().split(b"\n") if path.exists() else []
    for number, line in enumerate(lines[:-1], 1):
        try:
            metric = msgspec.json.decode(line, type=Metric)
        except msgspec.DecodeError as error:
            raise BadInput(str(path), number, str(error)) from None
        found[metric.iteration].append(metric)
    return dict(found)


def _mean(values: list[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return mean(known) if known else None


def _count(path: Path) -> int | None:
    """Non-empty lines."""
    if not path.exists():
        return None
    with open(path, "rb", buffering=jsonl.BUFFER) as stream:
        return sum(1 for line in stream if line.strip())


def _kinds(path: Path) -> dict[str, int] | None:
    if not path.exists():
        return None
    return dict(
        sorted(Counter(line.record.kind for line in jsonl.read([str(path)], _Kind)).items())
    )


def _new(after: Path, before: Path) -> int | None:
    if not (after.exists() and before.exists()):
        return None
    return len(_ids(after) - _ids(before))


def _ids(path: Path) -> set[str]:
    return {line.record.id for line in jsonl.read([str(path)], _Id)}
