"""What the tests of the verl child share: a weak laptop policy, jobs, and one whole run of the real
child.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pytest

import tiny_models
from coevolve import jsonl
from coevolve.records import Start, Task
from coevolve.training import batches
from coevolve.training.verl import child_process
from coevolve.training.verl.files import Heartbeat, Ready, TrainerFailure, VerlFiles, VerlJob, read
from verl_child import get, job_of, kill, post, question, start, tasks_of, wait_for, weak_policy


@pytest.fixture(scope="session")
def laptop_policy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A weak laptop policy."""
    return weak_policy(tmp_path_factory.mktemp("models") / "laptop")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny model directory: the driver measures prompts with its tokenizer."""
    return tiny_models.shop_policy(tmp_path_factory.mktemp("models") / "shop", steps=1)


@pytest.fixture
def run(tmp_path: Path):
    """A run directory whose child is ended after the test."""
    path = tmp_path / "run"
    yield path
    child_process.terminate(VerlFiles(path), 0)
    assert not child_process.processes(VerlFiles(path))


@pytest.fixture(scope="session")
def make_job():
    """Makes a job."""
    return job_of


class LongRun(NamedTuple):
    """What one run of the real child left, and what it said while it ran."""

    files: VerlFiles
    job: VerlJob
    tasks: dict[int, list[Task]]
    first: Ready
    second: Ready
    greedy: dict[str, Any]
    """Its answer over HTTP at the first boundary, at temperature 0."""
    models: dict[str, Any]
    left: list[str]
    """Processes that outlived a kill -9 of the child."""
    killed_at: Heartbeat
    third: Ready
    refusals: list[tuple[int, dict[str, Any]]]
    """Status and answer of the HTTP server to bad requests."""
    ended: int
    """Exit code of the second child, whose fourth iteration meets too many faults."""
    failure: TrainerFailure


@pytest.fixture(scope="session")
def long_run(laptop_policy: Path, tmp_path_factory: pytest.TempPathFactory) -> LongRun:
    """Two iterations in one process, kill -9 in the third, and a second process that goes on until
    too much fails.
    """
    run = tmp_path_factory.mktemp("runs") / "verl"
    env = f"{sys.executable} {Path(__file__).with_name('ill_desk.py')} 11"
    job, files = job_of(run, laptop_policy, env=env, steps=2), VerlFiles(run)
    tasks = {number: tasks_of(env, number) for number in (1, 2, 3)}
    # A request that says nothing: its group fails as one whatever is drawn, so the first update
    # sees a group without variance on any machine.
    first = batches.plan(tasks[1], job.settings, 0)[0]
    tasks[1][tasks[1].index(first)] = msgspec.structs.replace(first, query=["hello"])
    jsonl.write(files.tasks(1), tasks[1])
    child = start(job)
    try:
        first = wait_for(lambda: read(files.ready(1), Ready), child, files)
        greedy = post(f"{first.addresses[0]}/chat/completions", question(tasks[1][0], first.model))
        models = get(f"{first.addresses[0]}/models")
        jsonl.write(files.tasks(2), tasks[2])
        second = wait_for(lambda: read(files.ready(2), Ready), child, files)
        jsonl.write(files.tasks(3), tasks[3])
        killed_at = wait_for(lambda: _second_step(files), child, files)
    finally:
        left = kill(child, job.run)
    child = start(msgspec.structs.replace(job, attempt=2))
    try:
        third = wait_for(lambda: read(files.ready(3), Ready), child, files)
        refusals = [
            post(f"{third.addresses[0]}/chat/completions", {"model": third.model, **body})
            for body in BAD
        ]
        jsonl.write(
            files.tasks(4), [_refused(task) if n % 2 else task for n, task in enumerate(tasks[1])]
        )
        ended = child.wait(timeout=900)
    finally:
        kill(child, job.run)
    failure = read(files.error, TrainerFailure)
    answer = [body for _, body in (greedy, models)]
    return LongRun(
        files, job, tasks, first, second, *answer, left, killed_at, third, refusals, ended, failure
    )


BAD = [
    {},
    {"messages": "no list"},
    {"messages": [{"role": "user", "content": "word " * 300}]},
    {"messages": [{"role": "user", "content": "hello"}], "temperature": "warm"},
    {"messages": [{"role": "user", "content": "hello"}], "model": "any"},
]
"""Requests that the server must refuse in words."""


def _refused(task: Task) -> Task:
    """The task from a start state that the desk does not have."""
    return msgspec.structs.replace(task, start=Start(name="nowhere"))


def _second_step(files: VerlFiles) -> Heartbeat | None:
    """The heartbeat once the last step of iteration 3 plays: its first step has a checkpoint by
    then.
    """
    beat = read(files.heartbeat, Heartbeat)
    return beat if beat and beat.step == 5 and beat.phase == "rollout" else None
