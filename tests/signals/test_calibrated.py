"""The calibrated rules, each against an answer worked out another way (scipy, exact sums, by
hand)."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest
from scipy import stats
from signal_cases import group, rollout, task

from coevolve.records import Call, Effect, Step
from coevolve.signals.extract import extract, extraction, lines_of
from coevolve.signals.history import GroupOutcome, History
from coevolve.signals.inventory import inventory
from coevolve.signals.settings import SignalSettings
from coevolve.statistics import fisher_less, wilson


def only(kind, rollouts, settings=None, **options):
    settings = msgspec.structs.replace(settings or SignalSettings(), kinds=(kind,))
    return list(extract(rollouts, settings, **options))


def test_forgetting_is_fishers_test_ranked_by_benjamini_hochberg():
    """p by scipy's exact test over the pooled window, q over all tested tasks, strength 1 - q, only
    p <= alpha flagged."""
    window, now = (
        {"a": [7, 8, 6], "b": [8, 8, 8], "c": [4, 4, 4], "d": [8, 0, 8]},
        {"a": 2, "b": 7, "c": 3, "d": 1},
    )
    rollouts, p = [], {}
    for name, wins in window.items():
        for step, successes in enumerate([*wins, now[name]]):
            rollouts += group(name, successes, 8, step=step, iteration=int(step == 3))
        table = [[now[name], 8 - now[name]], [sum(wins), 24 - sum(wins)]]
        p[name] = stats.fisher_exact(table, alternative="less").pvalue
    rollouts += group("untested", 0, 8, iteration=1, step=3)
    q = dict(zip(p, stats.false_discovery_control(list(p.values())), strict=True))
    found = {s.task_id: s for s in only("forgetting", rollouts) if s.iteration == 1}
    assert set(found) == {name for name in p if p[name] <= 0.05} == {"a", "d"}
    for name, signal in found.items():
        assert signal.statistic.p == pytest.approx(p[name])
        assert signal.strength == pytest.approx(1 - q[name], abs=1e-6)
        assert signal.statistic.value == pytest.approx(sum(window[name]) / 24 - now[name] / 8)


def _share_flagged(before: float, now: float) -> float:
    """Exact: over all outcomes of 40 trials then and 8 now, how likely the test flags."""
    then = stats.binom.pmf(np.arange(41), 40, before)
    current = stats.binom.pmf(np.arange(9), 8, now)
    return sum(
        then[w] * current[s]
        for w in range(41)
        for s in range(9)
        if fisher_less(s, 8, w, 40) <= 0.05
    )


@pytest.mark.parametrize("p", [0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9])
def test_false_forgetting(p):
    """A policy that does not change is flagged in at most 5 % of tasks and updates; the exact
    figures."""
    known = {
        0.2: 0.003,
        0.3: 0.017,
        0.4: 0.022,
        0.5: 0.023,
        0.6: 0.025,
        0.7: 0.019,
        0.8: 0.026,
        0.9: 0.023,
    }
    assert _share_flagged(p, p) <= 0.05
    assert _share_flagged(p, p) == pytest.approx(known[p], abs=0.006)


@pytest.mark.parametrize("p", [0.5, 0.6, 0.7, 0.8, 0.9])
def test_power_of_forgetting(p):
    """A drop of .4 with a full window is found in at least half of the cases."""
    assert _share_flagged(p, p - 0.4) >= 0.5


@pytest.mark.parametrize("successes", range(9))
def test_boundary_is_the_posterior_mass_of_the_band(successes):
    """P(.2 <= p <= .8) under Beta(1 + s, 9 - s) by scipy; flagged above .65, which a task never
    tried (.6) is not."""
    posterior = stats.beta(1 + successes, 9 - successes)
    mass = posterior.cdf(0.8) - posterior.cdf(0.2)
    found = only("boundary", group("t", successes, 8))
    assert [s.strength for s in found] == ([pytest.approx(mass, abs=1e-6)] if mass >= 0.65 else [])
    assert bool(found) == (2 <= successes <= 6)


@pytest.mark.parametrize("successes", [0, 1])
def test_one_try_is_no_boundary(successes):
    """A single rollout says nothing about the band."""
    assert only("boundary", group("t", successes, 1)) == []


def test_boundary_uses_the_window_unless_the_task_changed():
    """6 of 8 is a boundary by itself; not after 15 of 16, which it does not differ from; again
    after 0 of 40, which it does."""
    now = group("t", 6, 8, iteration=1, step=9)
    steady = [
        (("toy", "t"), GroupOutcome(0, step, wins, 8, step)) for step, wins in enumerate([8, 7])
    ]
    changed = [(("toy", "t"), GroupOutcome(0, step, 0, 8, step)) for step in range(5)]
    assert len(only("boundary", now)) == 1
    assert only("boundary", now, history=History().joined(steady)) == []
    (kept,) = only("boundary", now, history=History().joined(changed))
    assert [o.trials for o in kept.history] == [8]


def test_boundary_pools_the_steps_of_an_iteration():
    """Several groups in one iteration are one posterior, each counted once."""
    rollouts = group("t", 3, 8, step=1, iteration=1) + group("t", 2, 8, step=2, iteration=1)
    (signal,) = only("boundary", rollouts + group("t", 1, 4, step=3, iteration=1))
    posterior = stats.beta(1 + 6, 1 + 14)
    assert signal.strength == pytest.approx(posterior.cdf(0.8) - posterior.cdf(0.2), abs=1e-6)


def test_evidence_of_boundary_has_both_outcomes():
    """Of a large group eight trajectories are kept, successes and failures alike."""
    (signal,) = only("boundary", group("t", 30, 60))
    assert sorted(t.success for t in signal.evidence) == [False] * 4 + [True] * 4


@pytest.mark.parametrize("pairs", [100, 150, 400, 1000, 5000])
@pytest.mark.parametrize("share", [0.005, 0.0125, 0.05])
def test_a_pattern_at_the_threshold_is_seldom_rare(pairs, share):
    """Exact: a pattern whose true share equals the threshold (the worst case) is flagged in at most
    5 % of samples."""
    counts = np.arange(1, pairs + 1)
    flagged = [c for c in counts if wilson(int(c), pairs).high < share]
    assert stats.binom.pmf(flagged, pairs, share).sum() <= 0.05


def _calls(counts):
    """Rollouts of one call each, this many per tool."""
    tools = [tool for tool, count in counts.items() for _ in range(count)]
    return [rollout("t", True, [tool], sample=i) for i, tool in enumerate(tools)]


def test_rare_against_an_equal_share():
    """Half an equal share among the tools known: rarer than that with confidence, and nothing
    else."""
    counts = {f"x.{i}": 150 for i in range(9)} | {"x.low": 3, "x.middle": 50}
    settings = SignalSettings(patterns=("1gram",))
    found = {s.pattern[0]: s for s in only("rare", _calls(counts), settings)}
    assert set(found) == {"x.low"}
    bound = wilson(3, 1403).high
    assert found["x.low"].strength == pytest.approx(1 - bound / (0.5 / 11), abs=1e-6)
    assert len(found["x.low"].evidence) == 3
    known = inventory("toy", dict.fromkeys([*counts, *(f"y.{i}" for i in range(90))], ""))
    assert [s.pattern for s in only("rare", _calls(counts), settings, inventory=known)] == []
    assert only("rare", _calls({"x.a": 60, "x.b": 1}), settings) == []


def test_rare_in_every_family():
    """Bigrams, trigrams, argument keys and apps are families of their own."""
    common = [rollout("t", True, ["a.x", "a.y"], sample=i) for i in range(400)]
    odd = rollout("t", True, ["b.z", "a.x"], sample=999, steps=[Step(0, Call("b.z", {"k": 1}), "")])
    found = {}
    for family in ("1gram", "2gram", "3gram", "keys", "app"):
        found[family] = {
            tuple(s.pattern)
            for s in only("rare", [*common, odd], SignalSettings(patterns=(family,)))
        }
    assert found["1gram"] == {("b.z",)}
    assert found["2gram"] == {("^", "b.z"), ("b.z", "a.x"), ("a.x", "$")}
    assert found["3gram"] == {("^", "b.z", "a.x"), ("b.z", "a.x", "$")}
    assert found["keys"] == {("b.z", "k")}
    assert found["app"] == {("b",)}


TOOLS = inventory(
    "toy", dict.fromkeys(["mail.read", "mail.send", "mail.drop", "farm.sow", "farm.reap"], "")
)


def test_unexplored_tools_of_the_least_covered_app_first():
    """Tools nobody called, those of an untouched app first; strength by hand."""
    found = only("unexplored", _calls({"mail.read": 40, "mail.send": 40}), inventory=TOOLS)
    assert [s.pattern for s in found] == [["farm.reap"], ["farm.sow"], ["mail.drop"]]
    bound = wilson(0, 80).high
    assert [s.strength for s in found] == pytest.approx(
        [1 - bound, 1 - bound, (1 - bound) * 2 / 3], abs=1e-6
    )
    assert all(not s.evidence and s.task is None and s.task_id == "" for s in found)


def test_unexplored_pairs():
    """Two tools of an app that are often called, and never one after the other although that was to
    be expected."""
    after = [rollout(f"t{i}", True, ["farm.sow", "farm.reap"], sample=i) for i in range(30)]
    apart = [rollout(f"u{i}", True, ["mail.read", "farm.sow"], sample=i) for i in range(30)]
    again = [rollout(f"v{i}", True, ["farm.reap", "mail.send"], sample=i) for i in range(30)]
    found = {
        tuple(s.pattern): s for s in only("unexplored", after + apart + again, inventory=TOOLS)
    }
    assert ("mail.read", "mail.send") in found
    signal = found["mail.read", "mail.send"]
    assert signal.statistic.value == pytest.approx(30 * 30 / 90)
    assert signal.strength == pytest.approx((1 - np.exp(-10)) / 2, abs=1e-6)
    assert ("farm.sow", "farm.reap") not in found
    assert all(first != second for first, second in (pair for pair in found if len(pair) == 2))


def test_unexplored_pairs_count_groups():
    """Eight rollouts of one task are one piece of evidence."""
    apart = [r for i in range(4) for r in group(f"u{i}", 8, 8, ["mail.read", "farm.sow"])]
    again = [r for i in range(4) for r in group(f"v{i}", 8, 8, ["farm.reap", "mail.send"])]
    more = [
        r
        for i in range(40)
        for r in group(f"w{i}", 8, 8, ["mail.read", "farm.sow", "farm.reap", "mail.send"])
    ]
    few = {tuple(s.pattern) for s in only("unexplored", apart + again, inventory=TOOLS)}
    assert ("mail.read", "mail.send") not in few
    many = {tuple(s.pattern): s for s in only("unexplored", apart + again + more, inventory=TOOLS)}
    assert many["mail.read", "mail.send"].statistic.value == pytest.approx(
        44 * 44 / (4 + 4 + 3 * 40)
    )


def test_long_observations_are_cut_in_the_evidence():
    """What was cut is said in place; chat indices are left out."""
    steps = [Step(0, Call("a"), "x" * 5000, message=3), Step(0, Call("a"), "y" * 4000, message=5)]
    rollouts = [rollout("t", i < 4, ["a", "a"], sample=i, steps=steps) for i in range(8)]
    (signal,) = only("boundary", rollouts)
    for trajectory in signal.evidence:
        first, second = trajectory.steps
        assert first.observation == "x" * 4000 + " … (1000 more characters)"
        assert second.observation == "y" * 4000
        assert first.message is None


def test_unexplored_leaves_other_environments_alone():
    """An inventory speaks about its own environment only."""
    assert (
        only("unexplored", _calls({"mail.read": 40}), inventory=TOOLS._replace(env="other")) == []
    )


def _failing(sample, tool, error, **fields):
    steps = [Step(0, Call(tool), "no", error)] if error else [Step(0, Call(tool), "yes")]
    return rollout("t", False, [tool], sample=sample, steps=steps, **fields)


def test_error_kinds_that_recur():
    """The lower Wilson bound of the share of a tool's rollouts that met the error; once is not
    recurring."""
    rollouts = [_failing(i, "a.x", "bad_argument" if i < 6 else None) for i in range(20)]
    rollouts += [_failing(20 + i, "a.y", "denied" if i < 1 else None) for i in range(3)]
    (signal,) = only("error", rollouts)
    assert signal.pattern == ["a.x", "bad_argument"]
    assert signal.strength == pytest.approx(wilson(6, 20).low, abs=1e-6)
    assert len(signal.evidence) == 6


def test_error_in_text_that_is_no_call():
    """Replies that could not be read count as the tool `code`, over all rollouts."""
    steps = [Step(0, "I would call…", "cannot read this", "parse")]
    rollouts = [rollout("t", False, sample=i, steps=steps) for i in range(4)]
    rollouts += [rollout("t", True, ["a"], sample=10 + i) for i in range(4)]
    (signal,) = only("error", rollouts)
    assert (signal.pattern, signal.strength) == (
        ["code", "parse"],
        pytest.approx(wilson(4, 8).low, abs=1e-6),
    )


def _combined(failing_tasks=10):
    """Tools a and b: each works alone in 20 tasks, together they fail; c has nothing to do with
    it."""
    rollouts = []
    for i in range(20):
        rollouts += group(f"a{i}", 8, 8, ["a", "c"]) + group(f"b{i}", 8, 8, ["b", "c"])
    for i in range(failing_tasks):
        rollouts += group(f"both{i}", 0, 8, ["b", "a"])
    return rollouts


def test_combination():
    """Scipy's exact test on groups as units; the pair and nothing else."""
    (signal,) = only("combination", _combined())
    p = stats.fisher_exact([[0, 10], [20, 0]], alternative="less").pvalue
    assert signal.pattern == ["a", "b"]
    assert signal.statistic.p == pytest.approx(p)
    assert signal.statistic.value == 1.0
    assert all(not t.success for t in signal.evidence)


def test_combination_answers_to_the_weaker_comparison():
    """One of the tools is none too good by itself: its p-value and its difference count."""
    rollouts = []
    for i in range(20):
        rollouts += group(f"a{i}", 8, 8, ["a"]) + group(f"b{i}", 8 if i < 17 else 0, 8, ["b"])
    for i in range(10):
        rollouts += group(f"both{i}", 8 if i < 2 else 0, 8, ["a", "b"])
    (signal,) = only("combination", rollouts)
    assert signal.statistic.p == pytest.approx(
        stats.fisher_exact([[2, 8], [17, 3]], alternative="less").pvalue
    )
    assert signal.statistic.value == pytest.approx(17 / 20 - 2 / 10)


def test_combination_needs_more_than_one_task():
    """One hard task that happens to need both tools is not a combination, however many rollouts it
    has."""
    rollouts = _combined(0) + [
        r for step in range(9) for r in group("hard", 0, 8, ["a", "b"], step=step)
    ]
    assert only("combination", rollouts) == []


def test_combination_family():
    """Tarone's K: the smallest k with at most k tests that could reach alpha / k."""
    from coevolve.signals.kinds.combination import PairTest, testable

    tests = [
        PairTest(p, 0.0, 0.0, (str(i),))
        for i, p in enumerate([0.04, 1e-5, 0.02, 1e-4, 0.03, 0.012])
    ]
    assert [t.pair[0] for t in testable(tests, 0.05)] == ["1", "3", "5"]
    assert testable([], 0.05) == []


def test_stall():
    """The same call with the same observation three times, or a budget that ran out, in more than a
    stray rollout."""
    again = [Step(0, Call("a", {"q": 1}), "nothing")] * 3
    changing = [Step(0, Call("a", {"q": 1}), f"row {i}") for i in range(5)]
    loops = [rollout("loop", False, ["a"] * 3, sample=i, steps=again) for i in range(3)]
    fine = [rollout("loop", True, ["a"] * 5, sample=3 + i, steps=changing) for i in range(5)]
    budget = [
        rollout("long", False, ["a"], sample=i, stop_reason="max_steps" if i < 2 else "done")
        for i in range(8)
    ]
    once = [
        rollout("once", False, ["a"], sample=i, stop_reason="max_tokens" if i < 1 else "done")
        for i in range(8)
    ]
    found = {s.task_id: s for s in only("stall", loops + fine + budget + once)}
    assert {name: s.pattern for name, s in found.items()} == {"loop": ["a"], "long": ["max_steps"]}
    assert found["loop"].strength == pytest.approx(wilson(3, 8).low, abs=1e-6)


def test_safety():
    """A removal by a tool that the solution does not use; one that it uses, or that the query asks
    for, is none."""
    removal = Step(0, Call("files.delete"), "ok", effects=[Effect("file", "a", "name", "remove")])
    about = {
        "unasked": task("unasked", [Call("files.read")], "Read me the note."),
        "solution": task("solution", [Call("files.delete")], "Get rid of it."),
        "query": msgspec.structs.replace(task("query", [], "Delete the note."), solution=[]),
    }
    rollouts = [
        rollout(name, True, ["files.delete"], steps=[removal], task=known)
        for name, known in about.items()
    ]
    rollouts += [rollout("unknown", True, ["files.delete"], steps=[removal])]
    (signal,) = only("safety", rollouts)
    assert (signal.task_id, signal.pattern, signal.strength) == ("unasked", ["files.delete"], 0.5)


def test_cold_start():
    """When nothing succeeds: the failure that came furthest of each task, by progress, then by how
    much it tried."""
    rollouts = [
        rollout("a", False, ["x"], sample=0, progress=0.25),
        rollout("a", False, ["x"], sample=1, progress=0.5),
        rollout("a", False, ["x"], sample=2, progress=0.1),
        rollout("b", False, ["x", "y"], sample=0),
        rollout("c", False, ["x"], sample=0),
    ]
    found = only("progress", rollouts)
    assert [(s.task_id, s.evidence[0].rollout) for s in found] == [
        ("a", "a-0-0-1"),
        ("b", "b-0-0-0"),
        ("c", "c-0-0-0"),
    ]
    assert [s.strength for s in found] == pytest.approx([0.5, 0.1, 0.05])
    assert only("progress", [*rollouts, rollout("d", True)]) == []
    with extraction(lines_of(rollouts), SignalSettings()) as result:
        assert result.cold == [("toy", 0)]


def test_rare_patterns_of_little_known_apps_first():
    """With the inventory, of two equally rare tools the one whose app is hardly covered ranks
    first."""
    offered = [f"big.{i}" for i in range(10)] + [f"odd.{i}" for i in range(10)]
    counts = {f"big.{i}": 400 for i in range(9)} | {"big.9": 2, "odd.0": 2}
    known = inventory("toy", dict.fromkeys(offered, ""))
    found = only("rare", _calls(counts), SignalSettings(patterns=("1gram",)), inventory=known)
    base = 1 - wilson(2, 3604).high / (0.5 / 20)
    assert [s.pattern for s in found] == [["odd.0"], ["big.9"]]
    assert [s.strength for s in found] == pytest.approx([base * 0.95, base * 0.5], abs=1e-6)
