"""What the memory learns from episodes and from tasks."""

from __future__ import annotations

import random

import pytest

from coevolve.environments.client import Pool
from coevolve.exploration.memory import Lesson, Memory, Recipe, goals_of, is_goal
from coevolve.exploration.plans import least_used
from coevolve.records import Call, Exploration, Start, Step, Task


@pytest.fixture(scope="module")
def tools():
    with Pool("desk") as pool:
        return pool.tools


def solved(*calls: Call, kind: str = "") -> Task:
    return Task(id="t", env="desk", kind=kind, query=["q"], solution=[list(calls)], start=Start())


FARM = [
    Call("mail.read", {"name": "Ann"}),
    Call("farm.sync"),
    Call("farm.set", {"name": "Bob", "text": "x"}),
    Call("farm.seal"),
]


def test_a_goal_is_what_people_ask_for(tools):
    """Verbs and the answer are goals; openers, savers and plain look-ups are not."""
    goals = {name for name, tool in tools.items() if is_goal(tool)}
    assert {"farm.set", "mail.drop", "desk.answer"} <= goals
    assert not goals & {"farm.open", "farm.save", "farm.find", "farm.read", "desk.date"}


def test_the_goal_of_a_task_is_named_by_its_kind_or_found_in_its_solution(tools):
    """`farm.set/lookup` names the tool; without a kind the goal tools of the solution count."""
    assert goals_of(solved(kind="farm.set/lookup+mail.drop/given"), tools) == [
        "farm.set",
        "mail.drop",
    ]
    assert goals_of(solved(*FARM), tools) == ["farm.set"]
    assert goals_of(solved(*FARM, kind="something else"), tools) == ["farm.set"]


def test_a_solution_teaches_its_recipe_and_is_counted(tools):
    """The calls of the same app around the goal are its recipe; the goal counts most, helpers less,
    others not at all."""
    memory = Memory(tools)
    memory.learn_task(solved(*FARM, kind="farm.set/lookup"))
    assert memory.best("farm.set") == Recipe(("name", "text"), ("farm.sync",), ("farm.seal",))
    assert memory.used["farm.set"] > memory.used["farm.sync"] > memory.used["farm.open"] == 0
    assert memory.pairs["mail.read", "farm.set"] == 1
    ranked = least_used(memory, random.Random(0))
    assert ranked[-1] == "farm.set" and len(ranked) == 73


def test_visited_states_count_once_over_episodes(tools):
    """A state counts where it is seen first; the start state is no discovery."""
    memory = Memory(tools)

    def episode(*states: str) -> Exploration:
        steps = [Step(0, Call("farm.open"), "{}", state=state) for state in states]
        return Exploration(id="", env="desk", mode="random", start=Start(), steps=steps)

    assert memory.learn(episode("a", "b", "a"), [], "a") == 1
    assert memory.learn(episode("b", "c", "d"), [], "a") == 2
    assert memory.tried["a", "farm.open", ()] == 3 and memory.tried["b", "farm.open", ()] == 2


def test_helpers_that_worked_come_first_and_those_that_failed_last(tools):
    """What helped this tool leads; what helped under the same name in another app leads what never
    did."""
    memory = Memory(tools)
    empty = Exploration(id="", env="desk", mode="random", start=Start())
    memory.learn(empty, [Lesson("farm.set", Recipe(("name",), ("farm.sync",)), "effect")], "")
    memory.learn(empty, [Lesson("farm.set", Recipe(("name",), ("farm.check",)), "state")] * 3, "")

    def order(app: str) -> list[str]:
        siblings = [tools[f"{app}.{name}"] for name in ("open", "check", "sync", "save")]
        return [
            tool.name
            for tool in memory.helpers("before", tools[f"{app}.set"], siblings, random.Random(0))
        ]

    assert order("farm")[0] == "farm.sync" and order("farm")[-1] == "farm.check"
    assert order("mail")[0] == "mail.sync"
