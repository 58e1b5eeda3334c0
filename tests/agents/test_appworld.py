"""Policies without a model on the demo root of AppWorld: references succeed on every task, doing
nothing and looking about on none."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import msgspec
import pytest

from coevolve.agents.rollout import make_policy, rollouts
from coevolve.environments import appworld_root
from coevolve.environments.client import Pool
from coevolve.records import Rollout

pytestmark = pytest.mark.appworld
CANARY = re.compile(rb"appworld:[0-9a-f]{7}:[0-9a-f]{8}-[0-9a-f]{4}")


@pytest.fixture(scope="module")
def pool() -> Iterator[Pool]:
    with Pool("appworld", setup_timeout=300) as running:
        yield running


@pytest.fixture(scope="module")
def tasks(pool):
    return [task for split in ("demo_train", "demo_dev", "demo_test") for task in pool.tasks(split)]


def test_the_demo_root_has_enough_of_everything(tasks, pool):
    """18 tasks of 6 scenarios of three, rated 1 to 3, in 6 apps and more."""
    scenarios = {tag for task in tasks for tag in task.tags if tag.startswith("scenario:")}
    rated = {tag for task in tasks for tag in task.tags if tag.startswith("difficulty:")}
    assert (len(tasks), len(scenarios), len(rated)) == (18, 6, 3)
    assert pool.description.held_out == ["demo_test"]
    assert len({tool.app for tool in pool.tools.values()}) == 11 and len(pool.tools) == 457


def test_no_canary_reaches_a_record_or_an_observation(tasks, pool):
    """The data are marked, in documents, tasks and solutions; what the toolkit hands on is not."""
    files = (appworld_root.chosen() / "data" / "tasks" / "payback_1").rglob("*")
    marked = [path.name for path in files if path.is_file() and CANARY.search(path.read_bytes())]
    assert {"specs.json", "solution.py"} <= set(marked)
    assert not CANARY.search(msgspec.json.encode([tasks, pool.description]))
    (session,) = pool.open([tasks[0].start])
    show = (
        'print(apis.api_docs.show_api_doc(app_name="venmo", api_name="create_transaction"))\n'
        'print("{0}" + ":{1}")'
    )
    pieces = ("appworld:0a1b2c3", "01234567-89ab-cdef-0123-456789abcdef")
    ((result,),) = pool.step([(session, 0, [show.format(*pieces)])])
    pool.close([session])
    assert "receiver_email" in result.observation and not CANARY.search(result.observation.encode())


def test_references_succeed_on_every_task_and_the_measures_say_so(tasks, pool, coevolve, tmp_path):
    """Score 1.0 each, at the program's end; `evaluate` prints TGC and SGC, overall and by
    difficulty."""
    played = list(rollouts(tasks, make_policy("solution"), pool))
    assert [(r.score, r.success, r.stop_reason) for r in played] == [(1.0, True, "done")] * len(
        tasks
    )
    assert all("supervisor.complete_task" in r.tools and len(r.tools) > 3 for r in played)
    file = tmp_path / "rollouts.jsonl"
    file.write_bytes(b"".join(msgspec.json.encode(r) + b"\n" for r in played))
    result = coevolve("evaluate", file, "--by", "none")
    records = [json.loads(line) for line in result.stdout.splitlines()]
    found = {(r["by"], r["group"]): (r["success"], r["tasks"]) for r in records}
    assert found["tgc", "all"] == (1.0, 18) and found["sgc", "all"] == (1.0, 6)
    assert {group for by, group in found if by == "sgc"} == {
        "all",
        *(f"difficulty {n}" for n in (1, 2, 3)),
    }
    assert b"tgc all" in result.stderr and b"sgc difficulty 2" in result.stderr


@pytest.mark.parametrize("policy", ["nothing", "hollow"])
def test_doing_nothing_and_looking_about_succeed_nowhere(policy, tasks, pool):
    """Score 0.0 each, whether the task is called complete or not."""
    played: list[Rollout] = list(rollouts(tasks, make_policy(policy), pool))
    assert [(r.score, r.success) for r in played] == [(0.0, False)] * len(tasks)
    assert {r.stop_reason for r in played} == {"done"}
    completed = [r for r in played if "supervisor.complete_task" in r.tools]
    assert len(completed) == (len(tasks) if policy == "hollow" else 0)
