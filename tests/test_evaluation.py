"""Evaluation: what is averaged over what, and what is left out."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats
from signal_cases import group, rollout

from coevolve import evaluation
from coevolve.errors import UsageError
from coevolve.records import Difficulty
from coevolve.statistics import wilson


def tried(rollouts):
    return evaluation.collect(map(evaluation.result, rollouts))


def one(rollouts, by="overall", group_="all", **options):
    """The evaluation of one group."""
    records = evaluation.report(tried(rollouts), **options)
    return next(r for r in records if (r.by, r.group) == (by, group_))


def test_the_task_is_the_unit():
    """A task with many rollouts counts as much as one with few, and masked rollouts count for
    nothing."""
    rollouts = (
        group("a", 8, 8)
        + group("b", 1, 4)
        + [rollout("b", False, sample=9, stop_reason="env_error")]
    )
    record = one(rollouts + [rollout("c", False, stop_reason="env_error")])
    assert (record.tasks, record.rollouts, record.masked) == (2, 12, 2)
    assert record.success == pytest.approx((1 + 0.25) / 2)
    assert record.low < record.success < record.high


def test_pass_at_k():
    """pass@k up to the fewest rollouts of a task, by the unbiased formula."""
    record = one(group("a", 1, 4) + group("b", 4, 5))
    assert record.pass_at == pytest.approx(
        {"1": (1 / 4 + 4 / 5) / 2, "2": (1 / 2 + 1) / 2, "4": 1.0}
    )


def test_groupings():
    """By kind, split, tag and difficulty band; a grouping of which nothing is known is left out."""
    rollouts = group("a", 2, 2, kind="set", tags=["x"], split="test") + group(
        "b", 0, 2, kind="get", tags=["x", "y"]
    )
    records = list(evaluation.report(tried(rollouts)))
    assert [(r.by, r.group, r.success) for r in records] == [
        ("overall", "all", 0.5),
        ("kind", "get", 0.0),
        ("kind", "set", 1.0),
        ("split", "test", 1.0),
        ("split", "unknown", 0.0),
        ("tag", "x", 0.5),
        ("tag", "y", 0.0),
    ]


@pytest.mark.parametrize(
    ("successes", "band"),
    [(0, "hard (< .2)"), (2, "learnable (.2–.8)"), (8, "learnable (.2–.8)"), (9, "easy (> .8)")],
)
def test_difficulty_bands(successes, band):
    """Bands by the learner's solve rate; the limits belong to the learnable band."""
    import msgspec
    from signal_cases import task

    known = msgspec.structs.replace(task("t", []), difficulty=Difficulty("base", successes, 10))
    assert one([rollout("t", True, task=known)], "difficulty", band).tasks == 1


def test_mean_over_kinds():
    """Every kind counts alike, however many tasks it has."""
    rollouts = [r for i in range(9) for r in group(f"a{i}", 2, 2, kind="a")] + group(
        "b", 0, 2, kind="b"
    )
    assert one(rollouts).success == pytest.approx(0.9)
    assert one(rollouts, over="kinds").success == pytest.approx(0.5)


def test_interval_of_a_mean_over_kinds():
    """Variance of the mean: of each kind's mean, from the spread within the kind, over the square
    of the number of kinds."""
    wins = {"a": [0, 1, 4, 3, 2], "b": [4, 4, 3], "c": [0, 1, 0, 2]}
    rollouts = [
        r
        for k, counts in wins.items()
        for i, s in enumerate(counts)
        for r in group(f"{k}{i}", s, 4, kind=k)
    ]
    rates = {kind: np.array(counts) / 4 for kind, counts in wins.items()}
    centre = np.mean([values.mean() for values in rates.values()])
    spread = sum(values.var(ddof=1) / len(values) for values in rates.values()) / 9
    size = centre * (1 - centre) / spread
    record = one(rollouts, over="kinds")
    assert record.success == pytest.approx(centre)
    assert (record.low, record.high) == pytest.approx(wilson(centre * size, size))


def test_paired_difference():
    """Task by task, over the tasks both policies have tried."""
    mine, theirs = [3, 4, 0, 2, 4], [1, 4, 1, 0, 2]
    rollouts = [r for i, s in enumerate(mine) for r in group(f"t{i}", s, 4)] + group(
        "only-mine", 0, 4
    )
    other = [r for i, s in enumerate(theirs) for r in group(f"t{i}", s, 4, policy="base")]
    record = one(rollouts, other=list(map(evaluation.result, other)))
    rates = [[wins / 4 for wins in side] for side in (mine, theirs)]
    want = stats.ttest_rel(*rates).confidence_interval(0.95)
    assert record.difference == pytest.approx((sum(mine) - sum(theirs)) / 20)
    assert (record.difference_low, record.difference_high) == pytest.approx(want)
    assert record.against == "base"


def test_weak_kinds_are_chosen_on_other_tasks():
    """Kinds are split by the base policy's success on a dev set, and measured on tasks that did not
    choose them."""
    dev = group("d1", 1, 4, kind="weak-one") + group("d2", 4, 4, kind="good")
    test = (
        group("t1", 3, 4, kind="weak-one")
        + group("t2", 4, 4, kind="good")
        + group("t3", 2, 4, kind="odd")
    )
    base = list(map(evaluation.result, dev))
    assert evaluation.weak_kinds(base, 1.0) == {"good": "other", "weak-one": "weak"}
    assert one(test, "base", "weak", base=base).success == 0.75
    assert one(test, "base", "other", base=base).success == 1.0
    assert one(test, "base", "unknown", base=base).success == 0.5
    with pytest.raises(UsageError, match="measured too"):
        one(test, base=list(map(evaluation.result, test)))


def test_policies_apart():
    """Rollouts of two policies in one input are two evaluations."""
    records = evaluation.report(
        tried(group("t", 4, 4, policy="b") + group("t", 0, 4, policy="a")), by=()
    )
    assert [(r.policy, r.success) for r in records] == [("a", 0.0), ("b", 1.0)]


def test_table():
    """One line a group under a header, the difference in points."""
    rollouts = [r for i in range(4) for r in group(f"t{i}", 2, 4)]
    other = [r for i in range(4) for r in group(f"t{i}", i % 2, 4, policy="base")]
    records = list(
        evaluation.report(tried(rollouts), by=(), other=list(map(evaluation.result, other)))
    )
    header, line = evaluation.table(records)
    assert header.split()[:4] == ["group", "tasks", "rollouts", "success"]
    assert "0.500" in line
    assert "+37.5" in line


def test_tasks_of_two_environments_are_two_tasks():
    """Their rollouts are neither merged, nor compared, nor taken for those of a measured task."""
    here, there = group("a", 4, 4, env="shop"), group("a", 0, 4, env="desk")
    record = one(here + there)
    assert (record.tasks, record.rollouts, record.success) == (2, 8, 0.5)
    assert record.pass_at["4"] == 0.5
    other = list(map(evaluation.result, there))
    assert one(here, other=other).difference is None
    both = here + group("b", 0, 4, env="shop")
    against = [evaluation.result(r) for r in [*both, *group("a", 2, 4, env="desk")]]
    assert one(both, other=against).difference == 0.0
    assert one(here, base=other).tasks == 1
    with pytest.raises(UsageError, match="e.g. a"):
        one(here, base=list(map(evaluation.result, here)))
