"""Abstraction inverts the desk's own task grammar: from noisy executions of its reference solutions
back to the tasks."""

import json
import re

import pytest
from abstraction_support import execute, noisy

from coevolve.abstraction.abstract import abstract
from coevolve.abstraction.goals import GOALS_PER_TOOL
from coevolve.environments.client import Pool
from coevolve.environments.replay import ReplayJob, effects_digest, replay
from coevolve.records import Call


@pytest.fixture(scope="module")
def desk():
    with Pool("desk") as pool:
        yield pool


@pytest.fixture(scope="module")
def own(desk):
    return desk.tasks("dev")[::5]


def plain(query):
    """A request without its choice of wording: `in farm set …` and `set … in farm` are one."""
    (text,) = query
    text = re.sub(r"^(tell me|what is) ", "answer ", text)
    return re.sub(r"^in (\w+) (.*)$", r"\2 in \1", text)


def test_noise_is_removed_and_the_request_found(desk, own):
    """Each noisy execution gives one task: the desk's own solution, request, kind, and the same
    outcome."""
    explorations = [noisy(desk, task, seed) for seed, task in enumerate(own)]
    assert sum(len(e.steps) for e in explorations) > 3 * sum(len(t.solution[0]) for t in own)
    made = {task.lineage.explorations[0]: task for task in abstract(explorations, lambda env: desk)}
    rejected = [e for e in explorations if e.id not in made]
    assert len(rejected) <= len(own) // 10, (
        "a few requests for different effects may share their words"
    )
    for task, exploration in zip(own, explorations, strict=True):
        if exploration.id in made:
            found = made[exploration.id]
            assert found.solution == task.solution
            assert plain(found.query) == plain(task.query)
            assert found.kind == task.kind
            job = ReplayJob(task.start, task.solution)
            assert found.effects == effects_digest(desk.tools, job, replay(desk, [job])[0])


def test_every_call_of_a_solution_is_needed(desk, own):
    """By brute force: leaving out any one call changes the effects or breaks a call (a read only
    informs, and is exempt)."""
    explorations = [noisy(desk, task, seed) for seed, task in enumerate(own[:40])]
    for task in abstract(explorations, lambda env: desk):
        (calls,) = task.solution
        for place, call in enumerate(calls):
            if call.tool.partition(".")[2] in ("find", "read"):
                continue
            job = ReplayJob(task.start, [calls[:place] + calls[place + 1 :]])
            (episode,) = replay(desk, [job])
            assert episode.failure or effects_digest(desk.tools, job, episode) != task.effects, (
                task.query,
                call,
            )


def test_a_task_tells_where_it_comes_from(desk, own):
    """Iteration and mode of the exploration, its id, the environment's version."""
    exploration = noisy(desk, own[0], 0)
    (task,) = abstract([exploration], lambda env: desk)
    assert (task.origin.kind, task.origin.iteration, task.origin.mode) == ("synthesis", 2, "random")
    assert task.lineage.explorations == [exploration.id]
    assert (
        task.env == "desk"
        and task.env_version == desk.description.version
        and task.validity is None
    )


def test_two_wordings_of_one_deed_are_one_task(desk, own):
    """The same solution in the same start state, found in two explorations, is kept once; the other
    is a reject."""
    rejects = []
    tasks = list(
        abstract(
            [noisy(desk, own[0], s) for s in range(6)], lambda env: desk, reject=rejects.append
        )
    )
    assert len(tasks) == 1 and [r.reason for r in rejects] == ["duplicate"] * 5


def read_of(desk, start, app, owner):
    """Reading a note in a start state, and answering with it; None where that record does not
    exist."""
    (parameter,) = desk.tools[f"{app}.read"].parameters["required"]
    read = Call(f"{app}.read", {parameter: owner})
    (episode,) = replay(desk, [ReplayJob(start, [[read]])])
    if episode.failure:
        return None
    return [read, Call("desk.answer", {"text": json.loads(episode.flat[0].observation)["text"]})]


def test_one_request_never_stands_for_two_effects(desk):
    """The answer to a question differs with the start state: the later task with the same words is
    rejected."""
    starts = [desk.start(str(seed)) for seed in range(60)]
    asked = [(start, read_of(desk, start, "gym", "Ann")) for start in starts]
    explorations = [execute(desk, start, calls) for start, calls in asked if calls]
    rejects = []
    tasks = list(abstract(explorations, lambda env: desk, reject=rejects.append))
    assert len(explorations) > 6 and {r.reason for r in rejects} == {"ambiguous_query"}
    by_query = {}
    for task in tasks:
        assert by_query.setdefault(tuple(task.query), task.effects) == task.effects


def test_per_exploration_caps_the_tasks(desk):
    """Several goals in one exploration, at most N tasks from it; each goal is a task of its own on
    the desk."""
    start = desk.start("caps")
    names = ("Ann", "Bob", "Cleo", "Dan", "Eva", "Finn", "Gus", "Hana")
    answers = [
        read_of(desk, start, app, name) for app in ("mail", "taxi", "gym", "news") for name in names
    ]
    exploration = execute(desk, start, [call for calls in answers if calls for call in calls])
    assert len(list(abstract([exploration], lambda env: desk, per_exploration=2))) == 2
    assert (
        len(list(abstract([exploration], lambda env: desk, per_exploration=50))) == GOALS_PER_TOOL
    )


def test_the_same_bytes_for_any_number_of_workers(desk, own):
    """One worker or three: equal tasks in equal order; another seed chooses other words."""
    explorations = [noisy(desk, task, seed) for seed, task in enumerate(own[:40])]
    one = list(abstract(explorations, lambda env: desk))
    with Pool("desk", workers=3) as three:
        assert list(abstract(explorations, lambda env: three)) == one
    other = list(abstract(explorations, lambda env: desk, seed=1))
    assert [t.query for t in other] != [t.query for t in one]
    assert {t.lineage.explorations[0]: t.solution for t in other} == {
        t.lineage.explorations[0]: t.solution for t in one
    }
