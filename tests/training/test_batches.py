"""Which tasks a step sees."""

from __future__ import annotations

from collections import Counter

import pytest

from coevolve.records import Origin, Start, Task
from coevolve.training import batches
from coevolve.training.settings import GrpoSettings


def tasks(*counts):
    """Tasks per iteration."""
    return [
        Task(id=f"{i}-{n}", env="e", query=["q"], start=Start(name="s"), origin=Origin(iteration=i))
        for i, count in enumerate(counts)
        for n in range(count)
    ]


def plan(some, *, seed, step, size, newest_share):
    settings = GrpoSettings(seed=seed, batch=size, newest_share=newest_share)
    return batches.plan(some, settings, step)


def ids(batch):
    return [task.id for task in batch]


def newest(batch):
    """How many tasks are among the newest."""
    latest = max(task.origin.iteration for task in batch)
    return sum(task.origin.iteration == latest for task in batch)


def test_epochs_see_every_task_equally_often():
    """Without newer tasks, 7 steps of 10 over 35 tasks are two whole epochs."""
    seen = Counter(
        i
        for step in range(7)
        for i in ids(plan(tasks(35), seed=1, step=step, size=10, newest_share=0.5))
    )
    assert set(seen.values()) == {2} and len(seen) == 35


def test_half_of_the_batch_is_new():
    """The newest tasks fill their share, each equally often, and no batch holds a task twice."""
    known = tasks(40, 24, 12)
    planned = [plan(known, seed=1, step=step, size=12, newest_share=0.5) for step in range(10)]
    for batch in planned:
        assert len(set(ids(batch))) == 12
        assert newest(batch) == sum(i.startswith("2-") for i in ids(batch)) >= 6
    seen = Counter(i for b in planned for i in ids(b)[:6])
    assert set(seen.values()) == {5} and len(seen) == 12


@pytest.mark.parametrize(("share", "least"), [(0.0, 0), (1.0, 12)])
def test_share_is_an_option(share, least):
    """No reserved places at 0, all at 1."""
    batch = plan(tasks(40, 24), seed=1, step=3, size=12, newest_share=share)
    assert len(batch) == 12 and (share == 0 or newest(batch) >= least)
    if share == 1:
        assert newest(batch) == 12


def test_few_tasks_repeat_as_late_as_possible():
    """Fewer tasks than places: every one occurs before any occurs again."""
    batch = plan(tasks(3, 2), seed=1, step=5, size=12, newest_share=0.5)
    assert len(batch) == 12
    assert set(Counter(ids(batch)[:5]).values()) == {1}


def test_pure_function_of_seed_step_and_tasks():
    """The same arguments give the same batch, another seed or step another one."""
    known = tasks(40, 24)
    first = ids(plan(known, seed=1, step=3, size=12, newest_share=0.5))
    assert first == ids(plan(known, seed=1, step=3, size=12, newest_share=0.5))
    assert first != ids(plan(known, seed=2, step=3, size=12, newest_share=0.5))
    assert first != ids(plan(known, seed=1, step=4, size=12, newest_share=0.5))
