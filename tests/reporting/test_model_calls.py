"""What a run's models cost, from the lines that the commands left in the run directory."""

from __future__ import annotations

import pytest

from coevolve import jsonl
from coevolve.errors import BadInput
from coevolve.models.spending import Spent, Totals
from coevolve.reporting import model_calls


def spent(calls: int, cost: float | None) -> Spent:
    """So many equal calls."""
    made = Spent()
    for _ in range(calls):
        made.merge(Spent(1, 100, 40, 10, retries=1, seconds=0.5, cost=cost))
    return made


def test_sums_by_stage_and_per_task(tmp_path):
    """Runs of one stage add up; what the journal answered was paid before and is not paid again."""
    path = tmp_path / "model_calls.jsonl"
    lines = [
        Totals("explore", "m", spent(3, 0.25), Spent()),
        Totals("abstract", "m", spent(2, 0.5), Spent()),
        Totals("explore", "m", spent(1, 0.25), spent(3, 0.25)),
    ]
    path.write_bytes(b"".join(map(jsonl.encode, lines)) + b'{"stage": "exp')
    stages = model_calls.read(str(tmp_path))
    assert [(s.stage, s.paid.calls, s.paid.cost) for s in stages] == [
        ("explore", 4, 1.0),
        ("abstract", 2, 1.0),
    ]
    _, header, explore, abstract, whole, per_task = model_calls.lines(stages, 4)
    assert explore.split() == ["explore", "m", "4", "400", "160", "40", "4", "0.50", "1"]
    assert whole.split() == ["all", "6", "600", "240", "60", "6", "0.50", "2"]
    assert per_task.split() == [
        "per",
        "task",
        "kept",
        "(4)",
        "1.5",
        "150.0",
        "60.0",
        "15.0",
        "1.5",
        "0.50",
        "0.5",
    ]


def test_a_directory_of_single_stages(tmp_path, coevolve):
    """The table comes from model_calls.jsonl alone; the tasks of the last `validate` share the sum;
    estimates are said."""
    guessed = Spent(1, 90, 0, 30, seconds=0.5, cost=None, estimated=1)
    lines = [
        Totals("explore", "m", spent(3, 0.25), Spent(), kept=9),
        Totals("validate", "m", spent(1, 0.25), Spent(), kept=1),
        Totals("validate", "m", guessed, Spent(), kept=2),
    ]
    (tmp_path / "model_calls.jsonl").write_bytes(b"".join(map(jsonl.encode, lines)))
    header, explore, validate, whole, per_task, note = (
        coevolve("report", tmp_path).stdout.decode().splitlines()
    )
    assert header.startswith("model calls") and explore.split()[-1] == "0.75"
    assert validate.split() == ["validate", "m", "2", "190", "40", "40", "1", "0.50", "-"]
    assert (
        whole.endswith("-")
        and per_task.startswith("per task kept (2)")
        and "of 1 calls are estimated" in note
    )
    assert coevolve("report", tmp_path, "--json").stdout == b""


def test_unknown_cost_is_no_zero(tmp_path):
    """One stage without a price: its cost and the sum are unknown."""
    lines = [
        Totals("explore", "m", spent(1, 0.5), Spent()),
        Totals("validate", "n", spent(1, None), Spent()),
    ]
    (tmp_path / "model_calls.jsonl").write_bytes(b"".join(map(jsonl.encode, lines)))
    _, _, explore, validate, whole = model_calls.lines(model_calls.read(str(tmp_path)), 0)
    assert explore.endswith("0.5") and validate.endswith("-") and whole.endswith("-")


def test_no_models_and_a_broken_line(tmp_path):
    """A run without model calls prints nothing; a line that is no totals is an error with its
    place."""
    assert list(model_calls.lines(model_calls.read(str(tmp_path)), 3)) == []
    (tmp_path / "model_calls.jsonl").write_bytes(b'{"stage": 1}\n')
    with pytest.raises(BadInput, match="model_calls.jsonl:1"):
        model_calls.read(str(tmp_path))
