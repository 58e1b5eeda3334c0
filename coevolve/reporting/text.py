"""A run as a table of text, for people. `-` is what the run does not say."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from coevolve.records import Evaluation
from coevolve.reporting.run import Iteration

ABSENT = "-"


def lines(
    iterations: Sequence[Iteration], evaluations: Mapping[str, Sequence[Evaluation]]
) -> Iterator[str]:
    """Iterations and evaluations, as far as there are any."""
    if iterations:
        yield from aligned(_rows(iterations))
    if evaluations:
        yield ""
        yield from aligned(_evaluation_rows(evaluations))


def _rows(iterations: Sequence[Iteration]) -> list[list[str]]:
    kinds = sorted({kind for it in iterations for kind in it.signals or {}})
    header = ["iteration", "tasks", "success", "informative", "made", *kinds]
    rows = [[*header, "explored", "abstracted", "valid", "merged"]]
    for it in iterations:
        signals = [ABSENT if it.signals is None else str(it.signals.get(kind, 0)) for kind in kinds]
        shares = [_share(it.success), _share(it.informative), _share(it.made)]
        stages = [_number(n) for n in (it.explored, it.abstracted, it.valid, it.merged)]
        rows.append([str(it.iteration), _number(it.tasks), *shares, *signals, *stages])
    return rows


def _evaluation_rows(evaluations: Mapping[str, Sequence[Evaluation]]) -> list[list[str]]:
    rows = [["evaluation", "group", "tasks", "success", "95 % interval", "difference"]]
    for name, records in evaluations.items():
        for e in records:
            if e.by in ("overall", "base"):
                interval = f"[{e.low:.3f}, {e.high:.3f}]"
                rows.append(
                    [name, e.group, str(e.tasks), f"{e.success:.3f}", interval, _difference(e)]
                )
    return rows


def _difference(e: Evaluation) -> str:
    if e.difference is None or e.difference_low is None or e.difference_high is None:
        return ABSENT
    return f"{100 * e.difference:+.1f} [{100 * e.difference_low:+.1f}, {100 * e.difference_high:+.1f}] points"


def aligned(rows: list[list[str]]) -> Iterator[str]:
    """Columns as wide as their widest cell; the first to the left, the others to the right."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        cells = [
            row[0].ljust(widths[0]),
            *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True)),
        ]
        yield "  ".join(cells).rstrip()


def _share(value: float | None) -> str:
    return ABSENT if value is None else f"{value:.3f}"


def _number(value: int | None) -> str:
    return ABSENT if value is None else str(value)
