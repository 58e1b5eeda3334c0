"""What the pipe makes of real BFCL: what issue 3 asks of its tasks, judged by the official checker."""

import pytest
from benchmarks.bfcl_tasks import report

from coevolve.environments.client import Pool
from coevolve.jsonl import Decoder
from coevolve.records import Task

EPISODES = "140"

pytestmark = pytest.mark.bfcl


@pytest.fixture(scope="module")
def tasks():
    from conftest import run

    explored = run("explore", "--env", "bfcl", "--mode", "curious", "--episodes", EPISODES, "--seed", "1").stdout
    candidates = run("abstract", stdin=explored).stdout
    assert run("abstract", "--workers", "2", stdin=explored).stdout == candidates
    return [Decoder(Task)(line) for line in run("validate", "--workers", "2", stdin=candidates).stdout.splitlines()]


def test_tasks_are_many_varied_long_and_nobody_elses(tasks):
    """At least 500 of 1 to 5 turns over all 8 classes, 110 functions and every official pair of classes; two calls in the
    median; 30 % in which a value crosses turns; 50 start states, none of them official; hardly a near-duplicate."""
    with Pool("bfcl") as pool:
        found, app_of = report(tasks, pool), {name: tool.app for name, tool in pool.tools.items()}
    print(found)
    assert found["tasks"] >= 500 and set(found["turns"]) == {1, 2, 3, 4, 5}
    assert len(found["classes"]) == 8 and min(found["classes"].values()) >= 8
    assert found["functions"] >= 110
    assert (found["official_pairs"], found["official_pairs_missing"]) == (16, [])
    assert found["median_calls"] >= 2
    assert found["crossing_turns"] >= 0.3
    assert found["start_states"] >= 50
    assert found["touching_official"] == 0
    assert all(task.tags == sorted({app_of[call.tool] for turn in task.solution for call in turn}) for task in tasks)
    assert found["near_duplicates"] <= 0.05


def test_controls_fail_and_no_request_is_ambiguous(tasks):
    """Doing nothing and one harmless call per turn score 0; equal words ask for equal effects; no words name a function."""
    assert all(task.validity.evidence["controls"][name] == 0 for task in tasks for name in ("nothing", "hollow"))
    effects = {}
    for task in tasks:
        assert effects.setdefault(tuple(task.query), task.effects) == task.effects
        names = {call.tool for turn in task.solution for call in turn if "_" in call.tool or not call.tool.islower()}
        assert not any(name in turn for name in names for turn in task.query)
