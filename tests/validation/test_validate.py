"""Validation in real worker processes: planted bad candidates, controls, gates, faults."""

import random

import pytest
from abstraction_support import SHOP, noisy, variant
from msgspec.structs import replace

from coevolve.abstraction.abstract import abstract
from coevolve.environments.client import Pool
from coevolve.environments.replay import ReplayJob, effects_digest, replay
from coevolve.errors import Unreachable
from coevolve.records import Call, Origin, Start, Task, task_id
from coevolve.runs import Journal
from coevolve.validation.validate import validate, validity


def task(env, query, solution, effects="", origin="synthesis"):
    start = Start("default")
    own = Task(
        id="",
        env=env,
        query=query,
        solution=solution,
        start=start,
        effects=effects,
        origin=Origin(origin),
    )
    return named(own)


def named(own):
    return replace(own, id=task_id(own.env, own.start, own.query, own.solution, own.verifier))


def judge(env, *tasks, **options):
    with Pool(env, call_timeout=1) as pool:
        return list(validate(tasks, lambda name: pool, **options))


@pytest.fixture(scope="module")
def desk():
    with Pool("desk") as pool:
        yield pool


@pytest.fixture(scope="module")
def good(desk):
    """Valid desk tasks with two calls or more."""
    explorations = [noisy(desk, own, seed) for seed, own in enumerate(desk.tasks("dev")[::12])]
    return [made for made in abstract(explorations, lambda env: desk) if len(made.solution[0]) > 1]


def planted(good):
    """Bad candidates by the way they are bad; each keeps query, kind and claimed effects of its
    task."""
    rng = random.Random("planted")
    for number, own in enumerate(good):
        (calls,) = own.solution
        yield "no-op", replace(own, solution=[[]])
        yield "harmless", replace(own, solution=[[Call("desk.date")]])
        yield "truncated", replace(own, solution=[calls[:-1]])
        yield "padded", replace(own, solution=[[*calls, Call("mail.open")]])
        goal = max(place for place, call in enumerate(calls) if call.arguments)
        name = rng.choice(sorted(calls[goal].arguments))
        wrong = Call(calls[goal].tool, calls[goal].arguments | {name: "purple"})
        yield "wrong argument", replace(own, solution=[[*calls[:goal], wrong, *calls[goal + 1 :]]])
        yield "another's solution", replace(own, solution=good[number - 1].solution)
        yield "another's start", replace(own, start=good[number - 1].start)


def test_good_tasks_are_valid(desk, good):
    """What abstraction makes passes its strict gate; nothing and hollow fail, two replays are
    kept."""
    verdicts = list(validate(good, lambda env: desk))
    assert len(good) > 40 and {v.verdict for v in verdicts} == {"valid"}
    for verdict in verdicts:
        assert (
            verdict.controls["nothing"] == verdict.controls["hollow"] == 0 and verdict.reward == 1
        )
        assert len(verdict.replays) == 2 and verdict.replays[0] == verdict.replays[1]
    assert validity(verdicts[0]).evidence["controls"] == verdicts[0].controls


@pytest.mark.parametrize("claimed", [True, False])
def test_planted_bad_candidates_are_rejected(desk, good, claimed, capsys):
    """None is accepted that ends in another state than its task asks for, whether or not it claims
    the right effects."""
    kinds, candidates, changed = [], [], []
    truth = {own.id: own.effects for own in good}
    for (kind, bad), own in zip(
        planted(good), (own for own in good for _ in range(7)), strict=True
    ):
        kinds.append(kind)
        candidates.append(named(bad if claimed else replace(bad, effects="")))
        changed.append(truth[own.id])
    jobs = [ReplayJob(c.start, c.solution) for c in candidates]
    outcomes = [
        effects_digest(desk.tools, job, episode)
        for job, episode in zip(jobs, replay(desk, jobs), strict=True)
    ]
    verdicts = list(validate(candidates, lambda env: desk))
    accepted, wrongly = {}, {}
    for kind, verdict, reached, wanted in zip(kinds, verdicts, outcomes, changed, strict=True):
        if verdict.verdict == "valid":
            accepted[kind] = accepted.get(kind, 0) + 1
            wrongly[kind] = wrongly.get(kind, 0) + (reached != wanted)
    with capsys.disabled():
        print(
            f"\nplanted {len(candidates)}, claims kept {claimed}: took {accepted}, wrong {wrongly}"
        )
    if claimed:
        assert sum(wrongly.values()) == 0
    else:
        assert set(wrongly) <= {"another's start", "another's solution"}, (
            "only a query that still fits can deceive"
        )


def test_a_padded_solution_is_redundant(desk, good):
    """A call that can be dropped makes the task invalid; a read that informs a later call does
    not."""
    padded = [
        named(replace(own, solution=[[*own.solution[0], Call("mail.open")]])) for own in good[:10]
    ]
    for verdict in validate(padded, lambda env: desk):
        assert verdict.verdict == "invalid" and verdict.reason.startswith("redundant call")
    spoken = task(
        SHOP,
        ["pay 31, the price of tea"],
        [[Call("price", {"item": "tea"}), Call("pay", {"amount": 31})]],
    )
    asked = task(SHOP, ["pay the price of tea"], spoken.solution)
    first, second = judge(SHOP, spoken, asked)
    assert (first.verdict, second.verdict) == ("invalid", "valid") and second.controls[
        "drop 0.0"
    ] == 1


def test_an_argument_that_nobody_says_is_invalid():
    """Of a synthetic task; an environment's own query may say it in words that we do not know."""
    calls = [[Call("add", {"item": "milk"})]]
    made, own = judge(
        SHOP,
        task(SHOP, ["I need tea"], calls),
        task(SHOP, ["I need tea"], calls, origin="environment"),
    )
    assert (
        made.verdict == "invalid"
        and made.reason == 'ungrounded: the query does not state add.item = "milk"'
        and own.verdict == "valid"
    )


def test_turns_must_match_and_each_must_do_something():
    """As many turns of actions as of words; a turn without effect or compared response is no
    request."""
    add = Call("add", {"item": "milk"})
    one, idle = judge(
        SHOP,
        task(SHOP, ["I need milk"], [[add], []]),
        task(SHOP, ["I need milk", "and milk?"], [[add], [Call("price", {"item": "milk"})]]),
    )
    assert one.verdict == "invalid" and "1 user turns" in one.reason
    assert (
        idle.verdict == "invalid" and idle.reason == "turn 1 has no effect and no compared response"
    )


def test_a_lenient_verifier_makes_every_task_trivial():
    """Where doing nothing succeeds, nothing was asked; the paper's gate does not see it."""
    add = task(variant("lenient"), ["I need milk"], [[Call("add", {"item": "milk"})]])
    (strict,) = judge(variant("lenient"), add)
    (paper,) = judge(variant("lenient"), add, gate="paper")
    assert (
        strict.verdict == "trivial"
        and "'nothing' succeeds" in strict.reason
        and paper.verdict == "valid"
    )


def test_the_hollow_control_needs_a_harmless_call():
    """Its score is null where the environment names none, and 0 where it does and the task asks for
    more."""
    milk = [["I need milk"], [[Call("add", {"item": "milk"})]]]
    (without,) = judge(SHOP, task(SHOP, *milk))
    (with_one,) = judge(variant("hollow"), task(variant("hollow"), *milk))
    assert without.verdict == with_one.verdict == "valid"
    assert without.controls["hollow"] is None and with_one.controls["hollow"] == 0


def test_the_papers_gate_takes_any_positive_reward():
    """Success or positive reward, to the letter: a failed task with progress passes, one without
    any does not."""
    add = task(SHOP, ["I need milk"], [[Call("add", {"item": "milk"})]])
    (dense,) = judge(variant("dense"), add, gate="paper")
    (strict,) = judge(variant("dense"), add)
    (other,) = judge(
        SHOP, task(SHOP, ["I need gold"], [[Call("add", {"item": "gold"})]]), gate="paper"
    )
    assert dense.verdict == "valid" and dense.reward == 0.4 and dense.controls == {}
    assert strict.verdict == "invalid" and other.verdict == "valid", (
        "an unreachable goal reached by everyone is a success"
    )


def test_observations_that_never_repeat_are_nondeterministic():
    """Two fresh sessions that answer differently."""
    (verdict,) = judge(
        variant("ticking"), task(SHOP, ["I need milk"], [[Call("add", {"item": "milk"})]])
    )
    assert verdict.verdict == "nondeterministic"


def test_a_timeout_is_no_verdict_on_the_task():
    """An action that outlasts its limit is `timeout`."""
    verdict, quick = judge(
        variant("slow"),
        task(SHOP, ["pay 31"], [[Call("pay", {"amount": 31})]]),
        task(SHOP, ["I need milk"], [[Call("add", {"item": "milk"})]]),
    )
    assert (verdict.verdict, quick.verdict) == ("timeout", "valid")


def test_a_fault_is_an_error_and_is_not_journalled(tmp_path):
    """A grader that dies on one task: that task is `error` and tried again by a rerun, the others
    keep their verdicts."""
    tasks = [
        task(SHOP, [f"I need {item}"], [[Call("add", {"item": item})]])
        for item in ("tea", "milk", "bread")
    ]
    journal = Journal(tmp_path / "journal", {})
    verdicts = judge(variant("dying"), *tasks, journal=journal)
    journal.close(finished=False)
    assert [v.verdict for v in verdicts] == ["valid", "error", "valid"]
    again = Journal(tmp_path / "journal", {})
    assert [v.verdict for v in judge(SHOP, *tasks, journal=again)] == [
        "valid"
    ] * 3 and again.reused == 2
    again.close(finished=True)
    with pytest.raises(Unreachable, match="all 1 tasks met faults of the environment"):
        judge(variant("dying"), tasks[1])


def test_the_same_verdicts_for_any_number_of_workers(desk, good):
    """One worker or three."""
    with Pool("desk", workers=3) as three:
        assert list(validate(good, lambda env: three)) == list(validate(good, lambda env: desk))
