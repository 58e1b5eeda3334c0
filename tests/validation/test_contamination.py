"""Synthetic tasks that are held-out ones in disguise."""

from __future__ import annotations

import json
from typing import Any

import pytest
from msgspec.structs import replace

from coevolve.environments import install
from coevolve.environments.client import Pool, Pools
from coevolve.environments.replay import ReplayJob, replay
from coevolve.records import Call, Origin, Start, Task, Verifier
from coevolve.validation.contamination import ContaminationIndex
from coevolve.validation.validate import validate

pytestmark = pytest.mark.bfcl

ADD = [[Call("add", {"a": 3, "b": 14})]]


@pytest.fixture(scope="module")
def pools():
    with Pools() as running:
        yield running


@pytest.fixture
def pool(pools) -> Pool:
    return pools("bfcl")


@pytest.fixture(scope="module")
def held_out(pools) -> ContaminationIndex:
    return ContaminationIndex(pools("bfcl"))


@pytest.fixture
def elsewhere(pool) -> Start:
    return pool.start("contamination", ["MathAPI"])


def synthetic(start: Start, query: list[str], solution: list[list[Call]]) -> Task:
    return Task(
        id="t", env="bfcl", origin=Origin("synthesis"), query=query, solution=solution, start=start
    )


def official(pool: Pool, number: int) -> Task:
    return pool.tasks("base")[number]


def configuration(number: int) -> dict[str, Any]:
    """The start state of a base task, written out."""
    (site,) = (install.directory(install.RECIPES["bfcl"]) / "lib").glob(
        "python*/site-packages/bfcl_eval"
    )
    entry = json.loads(
        (site / "data/BFCL_v4_multi_turn_base.json").read_text().splitlines()[number]
    )
    return {"classes": entry["involved_classes"], "state": entry["initial_config"]}


def touched(held_out: ContaminationIndex, pool: Pool, task: Task) -> str | None:
    return all_touched(held_out, pool, [task])[0]


def all_touched(held_out: ContaminationIndex, pool: Pool, tasks: list[Task]) -> list[str | None]:
    episodes = replay(pool, [ReplayJob(task.start, task.solution) for task in tasks])
    return [held_out.shared(task, episode) for task, episode in zip(tasks, episodes, strict=True)]


def test_a_task_of_ones_own_touches_nothing(held_out, pool, elsewhere):
    """A short sum in a generated start state is nobody else's."""
    assert touched(held_out, pool, synthetic(elsewhere, ["work out 3 plus 14"], ADD)) is None


def test_an_official_start_state_written_out_is_recognised(held_out, pool):
    """The states are compared, not their names."""
    task = synthetic(
        Start(config=configuration(20)),
        ["make a folder zebra"],
        [[Call("mkdir", {"dir_name": "zebra"})]],
    )
    assert (
        touched(held_out, pool, task)
        == "begins in the start state of held-out task multi_turn_base_20"
    )


def test_official_words_are_recognised(held_out, pool, elsewhere):
    """One long turn is enough, up to case and punctuation."""
    words = official(pool, 101).query[1]
    shouted = words.upper().replace(",", " ,") + "!"
    for query in ([words], ["work out 3 plus 14", shouted]):
        found = touched(held_out, pool, synthetic(elsewhere, query, ADD))
        assert found and found.startswith("is held-out task multi_turn_") and found.endswith("_101")


def test_an_official_solution_is_recognised(held_out, pool, elsewhere):
    """The same calls, asked for in other words and dealt out over other turns."""
    calls = [call for turn in official(pool, 60).solution for call in turn]
    found = touched(held_out, pool, synthetic(elsewhere, ["do as I do"], [calls]))
    assert found and found.endswith("_60")


def calls_of(pool: Pool, number: int) -> list[Call]:
    return [call for turn in official(pool, number).solution for call in turn]


def words_of(turns: int) -> list[str]:
    return [f"zebra {place}" for place in range(turns)]


def test_a_piece_of_an_official_solution_is_recognised(held_out, pool, elsewhere):
    """Every base solution less its last turn, in other words, from another state, where three calls
    are left."""
    pieces = [task.solution[:-1] for task in pool.tasks("base")]
    told = [piece for piece in pieces if sum(map(len, piece)) > 2]
    tasks = [synthetic(elsewhere, words_of(len(piece)), piece) for piece in told]
    found = all_touched(held_out, pool, tasks)
    assert len(told) > 150 and all(found)


def test_whoever_contains_an_official_solution_is_recognised(held_out, pool, elsewhere):
    """Every base solution with one call before and one after it, even where it is two calls."""
    more = [Call("add", {"a": 3, "b": 14})]
    tasks = [
        synthetic(elsewhere, words_of(len(t.solution) + 2), [more, *t.solution, more])
        for t in pool.tasks("base")
    ]
    found = all_touched(held_out, pool, tasks)
    assert {(reason or "").rsplit(" ", 1)[0] for reason in found} == {"contains held-out task"}


@pytest.mark.parametrize("how", ["between", "reordered", "numbers", "defaults"])
def test_the_same_calls_in_disguise(held_out, pool, elsewhere, how):
    """Another call between each two, the reverse order, 50 as 50.0, and a default written out
    change nothing."""
    number = 107
    calls = calls_of(pool, number)
    if how == "between":
        calls = [call for pair in zip(calls, ADD[0] * len(calls), strict=True) for call in pair]
    elif how == "reordered":
        calls = calls[::-1]
    elif how == "numbers":
        calls = [
            replace(
                c,
                arguments={
                    k: float(v) if isinstance(v, int) else v for k, v in c.arguments.items()
                },
            )
            for c in calls
        ]
        assert json.dumps([c.arguments for c in calls]) != json.dumps(
            [c.arguments for c in calls_of(pool, number)]
        )
    else:
        number = next(
            n
            for n in range(200)
            for c in calls_of(pool, n)
            if c.tool == "ls" and not c.arguments and n > 20
        )
        calls = [
            replace(c, arguments={"a": False} | c.arguments) if c.tool == "ls" else c
            for c in calls_of(pool, number)
        ]
    found = touched(held_out, pool, synthetic(elsewhere, ["zebra"], [[*calls, *ADD[0]]]))
    assert found and found.startswith("contains held-out task multi_turn_")


def test_two_calls_in_common_are_nothing(held_out, pool, elsewhere):
    """Of a longer solution; nor are three of which one has another argument."""
    calls = calls_of(pool, 107)
    other = replace(calls[1], arguments=calls[1].arguments | {"amount": 51})
    for few in (calls[:2], [calls[0], other, calls[4]]):
        assert touched(held_out, pool, synthetic(elsewhere, ["zebra"], [few])) is None


def test_the_same_achievement_is_recognised(held_out, pool):
    """Another start state and one more call, but turn by turn the same effects and compared
    responses."""
    number = next(
        n for n, task in enumerate(pool.tasks("base")) if n > 120 and "TicketAPI" not in task.tags
    )
    config = configuration(number)
    config["classes"] = [*config["classes"], "TicketAPI"]
    solution = [list(turn) for turn in official(pool, number).solution]
    solution[0].insert(0, Call("ticket_get_login_status"))
    task = synthetic(
        Start(config=config), [f"turn {place}" for place in range(len(solution))], solution
    )
    found = touched(held_out, pool, task)
    assert found and found.startswith("is held-out task") and found.endswith(f"_{number}")


def test_validation_refuses_what_touches_a_held_out_task_and_leaves_official_tasks_alone(
    pools, pool
):
    """By either gate; an official task may be validated as what it is."""
    own = official(pool, 60)
    copied = Task(
        id="t",
        env="bfcl",
        origin=Origin("synthesis"),
        query=own.query,
        solution=own.solution,
        start=own.start,
        verifier=own.verifier,
    )
    disguised = replace(
        copied,
        id="d",
        origin=Origin("environment"),
        start=Start(config=configuration(60)),
        verifier=Verifier(),
    )
    for gate in ("strict", "paper"):
        verdicts = list(validate([own, copied, disguised], pools, gate=gate))
        assert (
            verdicts[1].verdict == verdicts[2].verdict == "invalid"
            and "held-out" not in verdicts[0].reason
        )
    assert (
        "held-out" in verdicts[1].reason
        and "held-out" in verdicts[2].reason
        and verdicts[0].verdict == "valid"
    )
