"""Quotas, diversity, and an order that nothing accidental can change."""

from __future__ import annotations

import random
from collections import Counter

from coevolve.records import Statistic
from coevolve.signals.budget import choose, ranked
from coevolve.signals.kinds import WEIGHTS
from coevolve.signals.rule import SignalCandidate


def candidate(kind, strength, task_id="", pattern=(), iteration=0):
    statistic = Statistic("t", 0.0)
    return SignalCandidate("toy", iteration, strength, statistic, task_id, pattern, kind=kind)


def many(kind, count):
    return [candidate(kind, 1 - i / 1000, f"{kind}-{i}") for i in range(count)]


def test_every_prefix_keeps_the_quotas():
    """However strong one kind is, the others get their turns in every prefix of the output."""
    found = (
        [candidate("rare", 1.0, "", (f"r{i}",)) for i in range(500)]
        + many("boundary", 500)
        + many("error", 500)
    )
    order = [c.kind for c in ranked(found)]
    total = sum(WEIGHTS[kind] for kind in ("rare", "boundary", "error"))
    for size in range(1, 800):
        counts = Counter(order[:size])
        for kind in ("rare", "boundary", "error"):
            assert abs(counts[kind] - size * WEIGHTS[kind] / total) <= 1.5


def test_what_a_kind_does_not_use_goes_to_the_others():
    """A kind with few candidates leaves its share; nothing is lost without a limit."""
    found = many("boundary", 3) + many("forgetting", 50)
    assert Counter(c.kind for c in choose(found, 40)) == {"boundary": 3, "forgetting": 37}
    assert len(choose(found, 0)) == 53


def test_a_weight_of_zero_leaves_a_kind_out():
    """`--quota rare=0`."""
    found = many("boundary", 3) + many("stall", 3)
    assert {c.kind for c in choose(found, 0, {**WEIGHTS, "stall": 0})} == {"boundary"}


def test_diversity_over_tools():
    """The second-best pattern with a tool that was just chosen waits for the first with another."""
    found = [
        candidate("rare", 0.9, "", ("a", "b")),
        candidate("rare", 0.8, "", ("a", "c")),
        candidate("rare", 0.5, "", ("^", "d")),
        candidate("rare", 0.45, "", ("e", "$")),
        candidate("rare", 0.44, "", ("^", "f")),
    ]
    assert [c.pattern for c in ranked(found)] == [
        ("a", "b"),
        ("^", "d"),
        ("e", "$"),
        ("^", "f"),
        ("a", "c"),
    ]


def test_diversity_over_tasks():
    """A task that one kind took counts less for the next."""
    found = [
        candidate("boundary", 0.9, "t"),
        candidate("stall", 0.8, "t"),
        candidate("stall", 0.5, "u"),
    ]
    assert [(c.kind, c.task_id) for c in ranked(found)] == [
        ("boundary", "t"),
        ("stall", "u"),
        ("stall", "t"),
    ]


def test_ties_and_arrival():
    """Equal strengths are ordered by name, whatever the order of arrival."""
    draw = random.Random("ties")
    found = [
        candidate(k, draw.choice([0.5, 1.0]), f"t{draw.randint(0, 9)}", (str(i),))
        for i, k in enumerate(WEIGHTS)
    ]
    found += many("boundary", 5) + [candidate("boundary", 1.0, f"z{i}") for i in range(5)]
    want = list(ranked(found))
    for _ in range(20):
        draw.shuffle(found)
        assert list(ranked(found)) == want
