"""A run as a table of text, for people; `-` stands for what the run does not say."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from coevolve.evaluation import in_points
from coevolve.records import Evaluation
from coevolve.reporting.run import IterationReport

ABSENT = "-"


def lines(
    iterations: Sequence[IterationReport], evaluations: Mapping[str, Sequence[Evaluation]]
) -> Iterator[str]:
    """Iterations and evaluations, as far as there are any."""
    if iterations:
        yield from aligned(_rows(iterations))
    if evaluations:
        yield ""
        yield from aligned(_evaluation_rows(evaluations))


def _rows(iterations: Sequence[IterationReport]) -> list[list[str]]:
    kinds = sorted({kind for it in iterations for kind in it.signals or {}})
    header = ["iteration", "tasks", "success", "informative", "made", *kinds]
    rows = [[*header, "explored", "abstracted", "valid", "merged"]]
    for it in iterations:
        shares = [_cell(share, ".3f") for share in (it.success, it.informative, it.made)]
        found = it.signals
        signals = [_cell(None if found is None else found.get(kind, 0)) for kind in kinds]
        stages = [_cell(count) for count in (it.explored, it.abstracted, it.valid, it.merged)]
        rows.append([str(it.iteration), _cell(it.tasks), *shares, *signals, *stages])
    return rows


def _evaluation_rows(evaluations: Mapping[str, Sequence[Evaluation]]) -> list[list[str]]:
    rows = [["evaluation", "group", "tasks", "success", "95 % interval", "difference"]]
    for name, records in evaluations.items():
        for e in records:
            if e.by in ("overall", "base"):
                success = [f"{e.success:.3f}", f"[{e.low:.3f}, {e.high:.3f}]"]
                rows.append([name, e.group, str(e.tasks), *success, in_points(e) or ABSENT])
    return rows


def aligned(rows: list[list[str]]) -> Iterator[str]:
    """Columns as wide as their widest cell; the first to the left, the others to the right."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        cells = [cell.rjust(width) for cell, width in zip(row, widths, strict=True)]
        yield "  ".join([row[0].ljust(widths[0]), *cells[1:]]).rstrip()


def _cell(value: float | None, form: str = "") -> str:
    return ABSENT if value is None else format(value, form)
