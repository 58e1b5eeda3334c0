"""The paper's rules against an independent reference, and what must not change the answer."""

from __future__ import annotations

import random

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from signal_cases import group, paper_reference, random_rollouts, rollout

from coevolve import jsonl
from coevolve.signals.extract import extract
from coevolve.signals.history import GroupOutcome, History
from coevolve.signals.kinds import PAPER
from coevolve.signals.settings import SignalSettings

RULES = SignalSettings(mode="paper", kinds=PAPER, patterns=("2gram",))


def found(rollouts, settings_=RULES, history=None):
    """Signals in the reference's form."""
    values = {}
    for signal in extract(rollouts, settings_, history=history):
        about = tuple(signal.pattern) if signal.kind == "rare" else signal.task_id
        values[signal.kind, signal.iteration, about] = signal.statistic.value
    return values


def expected(rollouts, **options):
    return {
        key: value[1] if key[0] == "boundary" else value
        for key, value in paper_reference(rollouts, **options).items()
    }


@pytest.mark.parametrize("block", range(10))
def test_reference(block):
    """A thousand random streams: the same signals with the same values as thirty independent
    lines."""
    kinds = set()
    for seed in range(100 * block, 100 * block + 100):
        rollouts = random_rollouts(f"paper-{seed}")
        want = expected(rollouts, least=20)
        kinds |= {kind for kind, *_ in want}
        assert found(
            rollouts, msgspec.structs.replace(RULES, min_observations=20)
        ) == pytest.approx(want)
    assert kinds == {"forgetting", "boundary", "rare"}


@settings(max_examples=300, deadline=None, derandomize=True)
@given(st.integers(0, 2**40), st.integers(1, 6), st.integers(1, 60), st.floats(1, 40))
def test_reference_with_constants_and_history(seed, window, least, theta):
    """Any constants, and outcomes of earlier iterations from a history, own iterations in it
    ignored."""
    draw = random.Random(f"history-{seed}")
    gap = draw.randint(1, 3)  # an iteration that only the history has
    rollouts = [r for r in random_rollouts(f"h-{seed}") if r.iteration not in (0, gap)]
    past = []
    for number in range(4):
        for step in draw.sample(range(30), draw.randint(0, 8)):
            trials = draw.randint(1, 8)
            past.append((f"t{number}", step // 10, step, draw.randint(0, trials), trials))
    entries = [
        (("toy", task), GroupOutcome(i, s, wins, n, 10 * s + i)) for task, i, s, wins, n in past
    ]
    rules = msgspec.structs.replace(RULES, window=window, min_observations=least, theta=theta)
    want = expected(rollouts, past=past, window=window, least=least, theta=theta)
    assert found(rollouts, rules, History().joined(entries)) == pytest.approx(want)


def test_order_changes_nothing():
    """Rollouts in any order give the same bytes."""
    for seed in range(20):
        rollouts = random_rollouts(f"order-{seed}")
        shuffled = random.Random(seed).sample(rollouts, len(rollouts))
        first, second = (
            b"".join(map(jsonl.encode, extract(r, RULES))) for r in (rollouts, shuffled)
        )
        assert first == second


def test_evidence_is_the_failures_now_and_the_last_success():
    """Forgetting carries today's failures and one earlier success; boundary the whole group."""
    rollouts = (
        group("t", 8, 8, ["a"], step=1)
        + group("t", 4, 8, ["b"], step=2)
        + group("t", 3, 8, ["c"], step=3)
    )
    signals = {signal.kind: signal for signal in extract(rollouts, RULES)}
    forgetting, boundary = signals["forgetting"], signals["boundary"]
    assert [(t.rollout, t.success) for t in forgetting.evidence] == [
        *((f"t-0-3-{k}", False) for k in range(3, 8)),
        ("t-0-2-0", True),
    ]
    assert [(o.step, o.successes, o.trials) for o in forgetting.history] == [
        (1, 8, 8),
        (2, 4, 8),
        (3, 3, 8),
    ]
    assert forgetting.strength == pytest.approx(1 - 3 / 8)
    assert [t.rollout for t in boundary.evidence] == [f"t-0-3-{k}" for k in range(8)]
    assert boundary.statistic.value == 3 / 8


def test_evidence_of_a_pattern_is_eight_rollouts_chosen_by_their_ids():
    """Of twenty rollouts that hold a pattern the same eight are kept in any order of arrival, and
    not the first eight."""
    common = [rollout("t", True, ["a"], sample=i) for i in range(900)]
    odd = [rollout("t", True, ["b"], sample=1000 + i) for i in range(20)]
    kept = set()
    for seed in range(5):
        arrived = random.Random(seed).sample(common + odd, 920)
        (first, *_) = [s for s in extract(arrived, RULES) if s.pattern == ["^", "b"]]
        assert len(first.evidence) == 8
        kept.add(tuple(t.rollout for t in first.evidence))
    assert len(kept) == 1
    assert kept != {tuple(r.id for r in odd[:8])}


def test_masked_rollouts_do_not_count():
    """A group that is mixed only through rollouts of a broken environment is no boundary."""
    rollouts = group("t", 8, 8) + [rollout("t", False, sample=9, stop_reason="env_error")]
    assert list(extract(rollouts, RULES)) == []


def test_one_forgetting_test_per_task_and_update():
    """Two bad steps in one iteration are one signal, about the last of them."""
    rollouts = group("t", 8, 8, step=1) + group("t", 0, 8, step=2) + group("t", 1, 8, step=3)
    signals = [s for s in extract(rollouts, RULES) if s.kind == "forgetting"]
    assert [s.history[-1].step for s in signals] == [3]


def test_a_score_without_a_verdict():
    """Where the environment gives a score only, 0.5 is a success and 0.49 is not."""
    raw = [
        b'{"schema":"coevolve.rollout/1","id":"%d","task_id":"t","env":"e","score":%s}' % (i, score)
        for i, score in enumerate([b"0.5", b"0.49"])
    ]
    from coevolve.signals.extract import extraction
    from coevolve.signals.views import RolloutHead

    lines = [
        jsonl.Line(jsonl.Decoder(RolloutHead)(text), text, "x", i) for i, text in enumerate(raw, 1)
    ]
    with extraction(lines, RULES) as result:
        assert [(c.kind, c.statistic.value) for c in result.chosen] == [("boundary", 0.5)]


@pytest.mark.slow
@settings(max_examples=10_000, deadline=None, derandomize=True)
@given(st.integers(0, 2**60))
def test_reference_ten_thousand(seed):
    """Ten thousand random streams against the reference."""
    rollouts = random_rollouts(f"many-{seed}")
    assert found(rollouts, msgspec.structs.replace(RULES, min_observations=20)) == pytest.approx(
        expected(rollouts, least=20)
    )
