"""The cost of a run's models, by stage and per task that was kept, from RUN/model_calls.jsonl.

Each line there is one command's totals of one model; a stage that was stopped and rerun has
several, and paid in each of them for what it called itself. Cost is None as soon as one call's is;
tokens that a server did not count are estimates, and said so.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from coevolve.models.spending import RECORD, Spent, Totals
from coevolve.reporting.run import appended
from coevolve.reporting.text import ABSENT, aligned

COUNTS = ("calls", "prompt", "cached", "completion", "retries")


class StageTotals(msgspec.Struct):
    """Sums of what was paid by one stage and model, and the records that its last command wrote."""

    stage: str
    model: str
    paid: Spent
    kept: int | None = None


def read(run: str) -> list[StageTotals]:
    """Totals in the order in which stages first called; none where no model was called."""
    found: dict[tuple[str, str], StageTotals] = {}
    for totals in appended(Path(run) / RECORD, Totals):
        key = totals.stage, totals.model
        stage = found.setdefault(key, StageTotals(*key, Spent()))
        stage.paid.merge(totals.paid)
        stage.kept = totals.kept if totals.kept is not None else stage.kept
    return list(found.values())


def valid(stages: Sequence[StageTotals]) -> int:
    """Tasks that `validate` kept in a run without iterations; 0 where it called no model."""
    return max((stage.kept or 0 for stage in stages if stage.stage == "validate"), default=0)


def lines(stages: Sequence[StageTotals], kept: int) -> Iterator[str]:
    """A table, after an empty line; `kept` tasks share the last row."""
    if not stages:
        return
    whole = Spent()
    rows = [["model calls", "model", *COUNTS, "seconds a call", "cost"]]
    for stage in stages:
        whole.merge(stage.paid)
        rows.append([stage.stage, stage.model, *_cells(stage.paid, 1)])
    rows.append(["all", "", *_cells(whole, 1)])
    if kept:
        rows.append([f"per task kept ({kept})", "", *_cells(whole, kept)])
    yield ""
    yield from aligned(rows)
    if whole.estimated:
        yield (
            f"tokens of {whole.estimated} calls are estimated, for the server did not count them; "
            "what they cost is unknown"
        )


def _cells(spent: Spent, over: int) -> list[str]:
    tokens = spent.prompt_tokens, spent.cached_tokens, spent.completion_tokens
    counts = [count / over for count in (spent.calls, *tokens, spent.retries)]
    cells = [f"{count:.10g}" if over == 1 else f"{count:.1f}" for count in counts]
    seconds = f"{spent.seconds / spent.calls:.2f}" if spent.calls else ABSENT
    cost = ABSENT if spent.cost is None else f"{spent.cost / over:.4g}"
    return [*cells, seconds, cost]
