"""What the pipe makes of real BFCL: what issue 3 asks of its tasks, judged by the official
checker."""

import pytest
from benchmarks.bfcl_tasks import report

from coevolve.environments.client import Pool
from coevolve.environments.replay import ReplayedEpisode, ReplayJob, replay
from coevolve.jsonl import Decoder
from coevolve.records import Call, Task

EPISODES = "140"

pytestmark = pytest.mark.bfcl


@pytest.fixture(scope="module")
def tasks():
    from conftest import run

    explored = run(
        "explore", "--env", "bfcl", "--mode", "curious", "--episodes", EPISODES, "--seed", "1"
    ).stdout
    candidates = run("abstract", stdin=explored).stdout
    assert run("abstract", "--workers", "2", stdin=explored).stdout == candidates
    return [
        Decoder(Task)(line)
        for line in run("validate", "--workers", "2", stdin=candidates).stdout.splitlines()
    ]


def test_tasks_are_many_varied_long_and_nobody_elses(tasks):
    """At least 500 of 1 to 5 turns over all 8 classes, 110 functions and every official pair of
    classes; two calls in the median; 30 % in which a value crosses turns; 50 start states, none of
    them official; hardly a near-duplicate."""
    with Pool("bfcl") as pool:
        found, app_of = report(tasks, pool), {name: tool.app for name, tool in pool.tools.items()}
    print(found)
    assert found["tasks"] >= 500 and set(found["turns"]) == {1, 2, 3, 4, 5}
    assert len(found["classes"]) == 8 and min(found["classes"].values()) >= 8
    assert found["functions"] >= 110
    assert (found["official_pairs"], found["official_pairs_missing"]) == (16, [])
    assert found["median_calls"] >= 2
    assert found["crossing_turns"] >= 0.3
    assert found["start_states"] >= 50
    assert found["touching_official"] == 0
    assert all(
        task.tags == sorted({app_of[call.tool] for turn in task.solution for call in turn})
        for task in tasks
    )
    assert found["near_duplicates"] <= 0.05


def test_controls_fail_and_no_request_is_ambiguous(tasks):
    """Doing nothing and one harmless call per turn score 0; equal words ask for equal effects; no
    words name a function."""
    assert all(
        task.validity.evidence["controls"][name] == 0
        for task in tasks
        for name in ("nothing", "hollow")
    )
    effects = {}
    for task in tasks:
        assert effects.setdefault(tuple(task.query), task.effects) == task.effects
        names = {
            call.tool
            for turn in task.solution
            for call in turn
            if "_" in call.tool or not call.tool.islower()
        }
        assert not any(name in turn for name in names for turn in task.query)


def test_a_harmless_read_more_leaves_a_solution_valid(tasks):
    """Every read of the session that needs no argument, made once more at the beginning of every
    turn, costs nothing."""
    jobs = []
    with Pool("bfcl", workers=2) as pool:
        opened = [
            episode.opened
            for episode in replay(pool, [ReplayJob(task.start, []) for task in tasks])
        ]
        for task, session in zip(tasks, opened, strict=True):
            offered = [pool.tools[name] for name in session.tools]
            reads = [
                Call(tool.name)
                for tool in offered
                if tool.read_only and not tool.parameters.get("required")
            ]
            jobs.append(ReplayJob(task.start, [[*reads, *turn] for turn in task.solution], task))
        found = replay(pool, jobs)
    assert any(Call("get_current_speed") in turn for job in jobs for turn in job.turns)
    assert all(isinstance(episode, ReplayedEpisode) and episode.graded.success for episode in found)


def test_numbers_in_their_documented_types_leave_a_solution_valid(tasks):
    """A whole number written as a float where the function's document says so: the same task,
    won."""

    def written(value, schema):
        if isinstance(value, list):
            return [written(item, schema.get("items", {})) for item in value]
        return float(value) if type(value) is int and schema.get("type") == "number" else value

    with Pool("bfcl", workers=2) as pool:
        schemas = {name: tool.parameters["properties"] for name, tool in pool.tools.items()}
        jobs = []
        for task in tasks:
            turns = [
                [
                    Call(
                        c.tool, {n: written(v, schemas[c.tool][n]) for n, v in c.arguments.items()}
                    )
                    for c in turn
                ]
                for turn in task.solution
            ]
            if repr(turns) != repr(task.solution):
                jobs.append(ReplayJob(task.start, turns, task))
        found = replay(pool, jobs)
    assert len(jobs) >= 200
    assert all(isinstance(episode, ReplayedEpisode) and episode.graded.success for episode in found)


def test_requests_are_what_a_person_would_say(tasks):
    """No turn is said twice in a conversation, no words stand twice in a row, and what is converted
    is a number, not money."""
    converting = 0
    for task in tasks:
        assert len(set(task.query)) == len(task.query), task.query
        for text, turn in zip(task.query, task.solution, strict=True):
            words = text.lower().split()
            runs = [
                (n, i)
                for n in range(1, 6)
                for i in range(len(words) - 2 * n + 1)
                if not words[i][0].isdigit()
            ]
            assert not any(words[i : i + n] == words[i + n : i + 2 * n] for n, i in runs), text
            for call in turn:
                if call.tool in (
                    "imperial_si_conversion",
                    "si_unit_conversion",
                    "compute_exchange_rate",
                ):
                    converting += 1
                    assert str(call.arguments["value"]) in text, text
    assert converting >= 10
