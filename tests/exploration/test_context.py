"""Signals become contexts: merged, ranked, within their quotas."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from coevolve.exploration.context import choose, context_of, has_aim, merge
from coevolve.records import Signal, Start, Statistic, Task


def task(name: str, kind: str = "") -> Task:
    return Task(id=name, env="lab", kind=kind, query=["q"], start=Start(name="default"))


def signal(
    id_: str, kind: str, task_: str = "", strength: float = 0.5, behaviour: str = "", **more
) -> Signal:
    whole = task(task_, behaviour) if task_ else None
    statistic = Statistic("mixed", 0.5)
    return Signal(
        id=id_,
        kind=kind,
        task_id=task_,
        env="lab",
        strength=strength,
        statistic=statistic,
        task=whole,
        **more,
    )


def test_signals_of_one_task_are_one_context():
    """Forgetting leads boundary leads rare; the strongest task comes first; every signal is told in
    the reflection."""
    found = merge(
        [
            signal("a", "boundary", "t1", 0.9),
            signal("b", "rare", "t2", 0.95),
            signal("c", "forgetting", "t1", 0.1),
        ]
    )
    assert [[s.id for s in focus.signals] for focus in found] == [["b"], ["c", "a"]]
    context = context_of(found[1], ["x"])
    assert (context.signal, context.signal_kind, context.task_id, context.aim) == (
        "c",
        "forgetting",
        "t1",
        ["x"],
    )
    assert "forgetting" in context.reflection and "boundary" in context.reflection


def test_rare_patterns_without_a_task_stay_apart():
    """A pattern that belongs to no task is a context of its own."""
    assert (
        len(
            merge(
                [signal("a", "rare", pattern=["x", "y"]), signal("b", "rare", pattern=["y", "z"])]
            )
        )
        == 2
    )


@pytest.mark.parametrize("episodes", [8, 16, 48, 61])
@pytest.mark.parametrize("rounds", [1, 2, 3])
def test_quotas_hold_whatever_the_signals_are(episodes, rounds):
    """At least a quarter is left to coverage; no kind takes more than its share, rounded up to
    whole contexts."""
    rng = random.Random(f"{episodes}-{rounds}")
    kinds = ["boundary", "forgetting", "rare", "stall"]
    signals = [signal(f"s{i}", rng.choice(kinds), f"t{i}", rng.random()) for i in range(100)]
    chosen = choose(merge(signals), episodes, rounds, 1000)
    used = Counter(focus.lead.kind if focus.lead.kind != "stall" else "rare" for focus in chosen)
    assert rounds * len(chosen) <= 0.75 * episodes
    assert rounds * used["boundary"] < episodes / 2 + rounds
    assert rounds * used["forgetting"] < episodes / 8 + rounds
    assert rounds * used["rare"] < episodes / 8 + rounds
    assert used["boundary"] > 0


def test_one_behaviour_is_repeated_at_most_three_times():
    """Thirty signals of one kind of task give one context of two rounds; others take the rest."""
    signals = [signal(f"s{i}", "boundary", f"t{i}", 0.9, "farm.set/given") for i in range(30)]
    signals += [signal(f"o{i}", "boundary", f"u{i}", 0.1, f"k{i}") for i in range(30)]
    kinds = Counter(focus.lead.task.kind for focus in choose(merge(signals), 48, 2, 1000))
    assert kinds["farm.set/given"] == 1 and kinds.total() == 12


def test_a_task_without_room_for_its_first_signal_is_taken_for_the_next():
    """Twenty tasks that are boundary and rare at once fill both quotas."""
    signals = [signal(f"b{i}", "boundary", f"t{i}", 0.9) for i in range(40)]
    signals += [signal(f"r{i}", "rare", f"t{i}", 0.2, pattern=["x", f"y{i}"]) for i in range(40)]
    kinds = Counter(focus.lead.kind for focus in choose(merge(signals), 48, 2, 1000))
    assert kinds == {"boundary": 12, "rare": 3}


@pytest.mark.parametrize(("episodes", "rounds"), [(1, 2), (2, 2), (6, 2), (7, 1), (6, 9)])
def test_the_strongest_task_is_served_however_few_the_episodes(episodes, rounds):
    """One context of kinds whose share is less than an episode; none where --max-contexts says
    so."""
    signals = [
        signal(f"s{i}", kind, f"t{i}", i / 10)
        for i, kind in enumerate(["progress", "error", "stall"])
    ]
    assert [focus.lead.id for focus in choose(merge(signals), episodes, rounds, 32)] == ["s2"]
    assert not choose(merge(signals), episodes, rounds, 0)


def test_the_number_of_contexts_is_capped():
    """--max-contexts keeps the strongest."""
    signals = [signal(f"s{i}", "boundary", f"t{i}", i / 10) for i in range(10)]
    assert [focus.lead.id for focus in choose(merge(signals), 48, 1, 3)] == ["s9", "s8", "s7"]
    assert choose(merge(signals), 48, 1, 0) == []


def test_an_unknown_tool_is_about_the_tool_that_was_meant():
    """Names meant for one tool are one context, whatever their tasks; it joins the tool's
    `unexplored`."""
    found = merge(
        [
            signal("a", "unknown_tool", "t1", 0.6, pattern=["posts", "post"]),
            signal("b", "unknown_tool", "t2", 0.4, pattern=["posted", "post"]),
            signal("c", "unexplored", "", 0.9, pattern=["post"]),
            signal("d", "boundary", "t1", 0.7),
        ]
    )
    assert [[s.id for s in focus.signals] for focus in found] == [["c", "a", "b"], ["d"]]


def test_an_unknown_tool_needs_a_real_one_near_it():
    """Where none is near there is nothing to aim at."""
    assert has_aim(signal("a", "unknown_tool", "t", pattern=["posts", "post"]))
    assert not has_aim(signal("b", "unknown_tool", "t", pattern=["zap"]))
    assert has_aim(signal("c", "rare", "t", pattern=["zap"]))
