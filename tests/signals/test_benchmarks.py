"""The tables of tests/benchmarks, smaller: what they claim must hold."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from benchmarks import planted, stationary

FOLDER = Path(planted.__file__).parent


def test_stationary_policies():
    """Through the real rule: at most 5 % false forgetting, half of the drops found; the paper's
    rule is far above."""
    for p in stationary.RATES:
        assert stationary.forgetting("calibrated", p, p, 600, "test") <= 0.05
    for p in (0.5, 0.7, 0.9):
        assert stationary.forgetting("calibrated", p, p - stationary.DROP, 600, "test") >= 0.5
    assert stationary.forgetting("paper", 0.4, 0.4, 600, "test") > 0.4


@pytest.mark.parametrize("calls", [500, 4000])
def test_tools_above_the_threshold_are_seldom_rare(calls):
    """At most 5 % at the worst tool; enough data finds most of the truly rare ones."""
    found = stationary.rare("calibrated", calls, 40, "test")
    assert found.worst <= 0.05
    assert calls < 4000 or found.found > 0.7


def test_planted_weaknesses():
    """Every kind is found where it was planted, alone and together, and is not made up where it was
    not."""
    calibrated, paper = planted.measure(2, "calibrated"), planted.measure(2, "paper")
    for kind, found in calibrated.items():
        assert found["alone"][0] >= 0.75, kind
        assert found["alone"][1] >= 0.75, kind
        assert found["together"][0] >= 0.65, kind
        assert found["together"][1] >= 0.45, kind
        assert found["false"] <= 6, kind
    for kind in ("boundary", "rare"):
        assert calibrated[kind]["together"][0] > paper[kind]["together"][0] + 0.15
        assert calibrated[kind]["false"] < paper[kind]["false"] / 5


@pytest.mark.parametrize(
    ("script", "size", "rows"),
    [
        (
            "stationary.py",
            "50",
            ["false, calibrated", "false, paper", "power for a drop of 0.4, paper", "8000"],
        ),
        ("planted.py", "1", ["forgetting", "boundary", "unknown_tool", "combination", "safety"]),
        (
            "throughput.py",
            "64",
            ["extract-signals, whole", "extract-signals, head", "orjson, projection"],
        ),
    ],
)
def test_scripts_print_their_tables(script, size, rows):
    """Each documented command runs and prints the rows it promises."""
    command = [sys.executable, str(FOLDER / script), size]
    shown = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    for row in rows:
        assert any(line.startswith(row) for line in shown)
