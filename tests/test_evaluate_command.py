"""`coevolve evaluate` through real processes: a policy that is run in the desk, and rollouts that
exist."""

from __future__ import annotations

import json

import pytest
from signal_cases import group

from coevolve import jsonl


def records(result):
    return {(r["by"], r["group"]): r for r in map(json.loads, result.stdout.splitlines())}


def test_a_policy_on_the_environments_own_tasks(coevolve, tmp_path):
    """The solution succeeds, doing nothing does not; kept rollouts evaluate to the same; the pair
    differs by all points."""
    solved, idle = tmp_path / "solved.jsonl", tmp_path / "idle.jsonl"
    common = ("evaluate", "--env", "desk", "--split", "dev", "--limit", "12", "--samples", "2")
    first = coevolve(*common, "--model", "solution", "--rollouts", solved)
    coevolve(*common, "--model", "nothing", "--rollouts", idle, "--workers", "2")
    overall = records(first)["overall", "all"]
    assert (overall["tasks"], overall["rollouts"], overall["success"]) == (12, 24, 1.0)
    assert coevolve("evaluate", solved).stdout == first.stdout
    compared = records(coevolve("evaluate", solved, "--against", idle))["overall", "all"]
    assert (compared["against"], compared["difference"]) == ("nothing", 1.0)


def test_tasks_from_the_pipe(coevolve):
    """With --model the input is tasks."""
    tasks = coevolve("env", "tasks", "desk", "--split", "dev").stdout
    found = records(
        coevolve("evaluate", "--model", "hollow", "--limit", "5", "--by", "none", stdin=tasks)
    )
    assert found["overall", "all"]["tasks"] == 5


def test_weak_kinds(coevolve, tmp_path):
    """Kinds are chosen on a dev set; the table on stderr has both groups."""
    dev, test = tmp_path / "dev.jsonl", tmp_path / "test.jsonl"
    jsonl.write(dev, group("d1", 0, 4, kind="hard") + group("d2", 4, 4, kind="easy"))
    jsonl.write(test, group("t1", 1, 4, kind="hard") + group("t2", 4, 4, kind="easy"))
    result = coevolve("evaluate", test, "--weak-by", dev, "--weak-below", "0.5", "--by", "none")
    found = records(result)
    assert found["base", "weak"]["success"] == 0.25
    assert found["base", "other"]["success"] == 1.0
    assert b"base weak" in result.stderr


@pytest.mark.parametrize(
    ("options", "word"),
    [
        (["--by", "kin"], b"no 'kin'"),
        (["--mean", "all"], b"tasks or kinds"),
        (["--split", "dev"], b"--split needs"),
        (["--rollouts", "x"], b"--rollouts needs"),
        (["--against", "nowhere.jsonl"], b"nowhere.jsonl: No such file"),
    ],
)
def test_usage_errors(coevolve, options, word):
    """Exit 2 and one line."""
    result = coevolve("evaluate", *options, stdin=b"", check=False)
    assert result.returncode == 2
    assert word in result.stderr
