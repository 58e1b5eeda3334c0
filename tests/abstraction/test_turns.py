"""Conversations of several turns, wordless tools and rejects, on the shop list in a real worker
process."""

import pytest
from abstraction_support import SHOP, execute, variant
from msgspec.structs import replace

from coevolve.abstraction.abstract import abstract
from coevolve.environments.client import Pool
from coevolve.errors import Unreachable
from coevolve.records import Call, Start

START = Start("default")
TEA = [Call("price", {"item": "tea"}), Call("pay", {"amount": 31})]


def tasks(env, calls, **options):
    rejects = []
    with Pool(env) as pool:
        exploration = execute(pool, START, calls)
        return list(
            abstract([exploration], lambda env: pool, reject=rejects.append, **options)
        ), rejects


def test_a_price_is_asked_for_as_a_price():
    """The looked-up amount is said as what it is; the goal's kind is a look-up; another price and
    the failed call are gone."""
    (task,), rejects = tasks(
        SHOP, [Call("price", {"item": "bread"}), Call("add", {"item": "gold"}), *TEA]
    )
    assert (
        task.query == ["pay the price of tea"]
        and task.solution == [TEA]
        and task.kind == "pay/lookup"
    )
    assert not rejects


def test_an_amount_out_of_nowhere_is_rejected():
    """Nobody can ask to pay an amount that users do not know and that was not observed."""
    made, rejects = tasks(SHOP, [Call("pay", {"amount": 99})])
    assert not made and [(r.reason, r.goal) for r in rejects] == [("lookup_only", "pay")]


def test_goals_become_turns():
    """Up to three goals are joined; what informs a goal stands in its turn, wherever the explorer
    had done it."""
    calls = [TEA[0], Call("add", {"item": "milk"}), Call("price", {"item": "bread"}), TEA[1]]
    seen = set()
    for seed in range(12):
        for task in tasks(variant("talkative"), calls, seed=seed, per_exploration=1)[0]:
            assert 1 <= len(task.query) == len(task.solution) <= 3
            assert len(task.kind.split("+")) == len(task.query)
            for query, actions in zip(task.query, task.solution, strict=True):
                if query.startswith("pay"):
                    assert actions[-1] == TEA[1] and (
                        TEA[0] in actions or TEA[0] in task.solution[0]
                    )
                elif query.startswith("tell"):
                    assert [a.tool for a in actions] == ["price"]
                else:
                    assert actions == [Call("add", {"item": "milk"})]
            seen.add(len(task.query))
    assert seen == {1, 2, 3}


def test_tools_without_words_are_described():
    """The fallback writer names no tool and says every argument."""
    made, _ = tasks(variant("wordless"), [*TEA, Call("add", {"item": "milk"})])
    queries = sorted(task.query[0] for task in made)
    assert queries == [
        "pay an amount (amount: the price from this: look up the price of an item (item: tea))",
        "put an item on the list (item: milk)",
    ]


def test_a_goal_that_does_not_come_back_is_dropped():
    """A recorded change that no execution in this environment repeats is no goal."""
    with Pool(SHOP) as pool:
        exploration = execute(pool, START, [Call("add", {"item": "milk"})])
        (step,) = exploration.steps
        other = replace(
            exploration, steps=[replace(step, effects=[replace(step.effects[0], value=False)])]
        )
        rejects = []
        assert not list(abstract([other], lambda env: pool, reject=rejects.append))
    assert [r.reason for r in rejects] == ["not_reproduced"]


def test_an_environment_that_keeps_failing_stops_the_stage():
    """A worker that dies on every open is no fault of the explorations."""
    with Pool(SHOP) as pool:
        exploration = execute(pool, Start("default"), TEA)
    with (
        Pool(variant("stillborn")) as broken,
        pytest.raises(Unreachable, match="all 1 explorations met faults"),
    ):
        list(abstract([exploration], lambda env: broken))
