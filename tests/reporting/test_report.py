"""The report of a run directory that is written here by hand."""

from __future__ import annotations

import subprocess
import sys

import msgspec
import pytest
from signal_cases import task

from coevolve import jsonl
from coevolve.errors import UsageError
from coevolve.records import Call, Evaluation, Signal, Statistic
from coevolve.reporting import run, text


@pytest.fixture
def directory(tmp_path):
    """Two iterations; the second was killed after training."""
    first, second = tmp_path / "iterations" / "001", tmp_path / "iterations" / "002"
    tasks = [task(f"t{i}", [Call("set", {"n": i})]) for i in range(5)]
    jsonl.write(first / "tasks.jsonl", tasks[:3])
    jsonl.write(first / "merged.jsonl", tasks[1:])
    jsonl.write(first / "valid.jsonl", tasks[3:])
    kinds = ["rare", "boundary", "boundary"]
    signal = Signal(id="s", kind="", task_id="t0", env="toy", statistic=Statistic("mixed", 0.5))
    jsonl.write(
        first / "signals.jsonl", [msgspec.structs.replace(signal, kind=kind) for kind in kinds]
    )
    jsonl.write(first / "explorations.jsonl", [])
    jsonl.write(second / "tasks.jsonl", tasks[1:])
    lines = [
        {"iteration": 1, "step": 1, "success_mean": 0.5, "informative_share": 0.25, "kl": None},
        {"iteration": 1, "step": 2, "success_mean": 0.7, "informative_share": 0.75, "kl": 0.5},
        {"iteration": 2, "step": 3, "success_mean": 0.9, "made_share": 0.5},
    ]
    (tmp_path / "metrics.jsonl").write_bytes(
        b"".join(map(jsonl.encode, lines)) + b'{"iteration": 2, "st'
    )
    return tmp_path


def test_iterations(directory):
    """Counts, means over steps, signals by kind; what is missing is None and not 0."""
    first, second = run.read(str(directory))
    assert (first.tasks, first.steps, first.explored, first.abstracted, first.valid) == (
        3,
        2,
        0,
        None,
        2,
    )
    assert (first.success, first.informative, first.kl) == (pytest.approx(0.6), 0.5, 0.5)
    assert first.signals == {"boundary": 2, "rare": 1}
    assert first.merged == 2
    assert (second.iteration, second.tasks, second.made, second.signals, second.merged) == (
        2,
        4,
        0.5,
        None,
        None,
    )


def test_table(directory):
    """The table through the installed command, with an evaluation under it."""
    record = Evaluation(
        policy="loop",
        by="overall",
        group="all",
        tasks=40,
        rollouts=160,
        masked=0,
        success=0.5,
        low=0.4,
        high=0.6,
        against="static",
        difference=0.1,
        difference_low=-0.02,
        difference_high=0.22,
    )
    jsonl.write(directory / "evaluations" / "loop.jsonl", [record])
    command = [sys.executable, "-m", "coevolve_cli.main", "report", str(directory)]
    shown = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    assert shown[0].split() == (
        ["iteration", "tasks", "success", "informative", "made", "boundary", "rare"]
        + ["explored", "abstracted", "valid", "merged"]
    )
    assert shown[1].split() == ["1", "3", "0.600", "0.500", "-", "2", "1", "0", "-", "2", "2"]
    assert shown[2].split() == ["2", "4", "0.900", "-", "0.500", "-", "-", "-", "-", "-", "-"]
    assert shown[-1].split(maxsplit=4)[-1] == "[0.400, 0.600]  +10.0 [-2.0, +22.0] points"
    as_records = subprocess.run(
        [*command, "--json"], capture_output=True, check=True
    ).stdout.splitlines()
    assert [msgspec.json.decode(line)["tasks"] for line in as_records] == [3, 4]


def test_no_run(tmp_path):
    """A directory that is no run is a usage error that says what was looked for."""
    with pytest.raises(UsageError, match="no such run"):
        run.read(str(tmp_path / "none"))
    with pytest.raises(
        UsageError, match="neither iterations/ nor metrics.jsonl nor model_calls.jsonl"
    ):
        run.read(str(tmp_path))


def test_aligned():
    """Columns line up whatever is in them."""
    found = list(
        text.lines(
            [run.IterationReport(iteration=1, tasks=12345), run.IterationReport(iteration=10)], {}
        )
    )
    assert (
        len(
            {
                line.index(cell) + len(cell)
                for line, cell in zip(found, ("tasks", "12345"), strict=False)
            }
        )
        == 1
    )
