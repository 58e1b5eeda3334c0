"""BFCL's verdicts, through a real worker: official tasks, synthetic ones, controls, and sessions
side by side."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from pathlib import Path

import pytest
from environments.bfcl_worker import graded, made, opened, run
from msgspec import structs

from coevolve.agents.episode import refusal
from coevolve.agents.rollout import make_policy, rollouts
from coevolve.environments.client import EnvSession
from coevolve.records import Call, Start

pytestmark = pytest.mark.bfcl

LAB = Start(
    config={
        "classes": ["GorillaFileSystem", "MathAPI"],
        "state": {
            "GorillaFileSystem": {
                "root": {
                    "shed": {
                        "type": "directory",
                        "contents": {
                            "runs": {
                                "type": "directory",
                                "contents": {
                                    "one.csv": {"type": "file", "content": "t,v\n0,1\n1,3\n2,9"}
                                },
                            }
                        },
                    }
                }
            }
        },
    }
)
INTO, MAKE = ("cd", {"folder": "runs"}), ("mkdir", {"dir_name": "done"})
MOVE = ("mv", {"source": "one.csv", "destination": "done"})
MEAN = ("mean", {"numbers": [4, 8, 15]})
PAIR = made(LAB, [INTO, MAKE, MOVE], [MEAN])


@pytest.mark.parametrize(
    ("category", "digest"), [("base", "984027041d25ddff"), ("long_context", "330829a9f3814063")]
)
def test_reference_solutions_score_one_and_answer_as_the_official_executor(bfcl, category, digest):
    """All 200 solutions of a category succeed, and their outputs have the digest measured on the
    official executor."""
    tasks = bfcl.tasks(category)
    sessions = [opened(bfcl, task.start) for task in tasks]
    found = hashlib.sha256()
    for session, task in zip(sessions, tasks, strict=True):
        turns = [(session, number, turn) for number, turn in enumerate(task.solution) if turn]
        for results in bfcl.step(turns):
            for result in results:
                found.update(result.observation.encode())
    grades = bfcl.evaluate(list(zip(sessions, tasks, strict=True)))
    assert (len(tasks), {(grade.success, grade.score, grade.progress) for grade in grades}) == (
        200,
        {(True, 1.0, 1.0)},
    )
    assert found.hexdigest()[:16] == digest
    bfcl.close(sessions)


def test_doing_nothing_and_the_hollow_control_fail_every_base_task(bfcl):
    """No official base task is won by silence, nor by one call a turn that tells next to
    nothing."""
    tasks = bfcl.tasks("base")
    for hollow in (False, True):
        sessions = [opened(bfcl, task.start) for task in tasks]
        for session, task in zip(sessions, tasks, strict=True):
            offered = [c for c in bfcl.description.harmless if c["tool"] in session.opened.tools]
            call = Call(offered[0]["tool"], offered[0]["arguments"])
            bfcl.step(
                [(session, number, [call]) for number in range(len(task.query))] if hollow else []
            )
        grades = bfcl.evaluate(list(zip(sessions, tasks, strict=True)))
        assert {(grade.success, grade.score) for grade in grades} == {(False, 0.0)}
        assert hollow or {grade.progress for grade in grades} == {0.0}
        bfcl.close(sessions)


def test_strict_parity_outputs_and_verdicts_are_the_official_ones():
    """All 4,625 reference outputs of four categories, in both modes, and 480 verdicts on changed
    solutions under strict parity."""
    script = Path(__file__).with_name("bfcl_parity.py")
    done = subprocess.run([sys.executable, script, "480", "1"], capture_output=True)
    assert done.returncode == 0, done.stdout + done.stderr
    report = json.loads(done.stdout)
    categories = [report[name] for name in ("base", "long_context", "miss_func", "miss_param")]
    assert sum(category["calls"] for category in categories) == 4625
    assert {n for category in categories for n in category["different"].values()} == {0}
    assert report["verdicts"]["different"] == []
    assert min(report["verdicts"]["official"].values()) >= 20, (
        "every kind of verdict must be among them"
    )
    assert min(report["verdicts"]["kinds"].values()) >= 15, (
        "every kind of change must be among them"
    )


def test_a_wrong_and_a_right_episode_interleaved_are_judged_apart(bfcl):
    """Two sessions of one task, stepped in turn, do not see each other: 0 and 1, whichever was
    opened first."""
    task = next(task for task in bfcl.tasks("base") if task.start.name == "multi_turn_base_0")
    for order in ((0, 1), (1, 0)):
        sessions = [opened(bfcl, task.start), opened(bfcl, task.start)]
        right, wrong = sessions[order[0]], sessions[order[1]]
        for number, turn in enumerate(task.solution):
            for action in turn:
                bfcl.step(
                    [
                        (wrong, number, [Call("cd", {"folder": "archive"})]),
                        (right, number, [action]),
                    ]
                )
        assert [graded(bfcl, s, task).score for s in (right, wrong)] == [1.0, 0.0]


@pytest.mark.parametrize(
    ("turns", "success", "reason"),
    [
        ([[INTO, MAKE, MOVE], [MEAN]], True, ""),
        ([[("ls", {}), INTO, ("pwd", {}), MAKE, MOVE, ("ls", {})], [MEAN]], True, ""),
        ([[INTO, MAKE, MOVE, MEAN], [("pwd", {})]], True, ""),
        ([[INTO, MAKE, MOVE, MEAN], []], False, "empty_turn_model_response in turn 2"),
        ([[INTO, MAKE], [MOVE, MEAN]], False, "instance_state_mismatch in turn 1"),
        (
            [[INTO, MAKE, MOVE], [("mean", {"numbers": [4, 8]})]],
            False,
            "execution_response_mismatch in turn 2",
        ),
        ([[INTO, MAKE, MOVE], [MEAN], [("pwd", {})]], False, "force_terminated in turn 3"),
        ([[("pwd", {})] * 30 + [INTO, MAKE, MOVE], [MEAN]], True, ""),
        ([[], []], False, "empty_turn_model_response in turn 1"),
    ],
)
def test_a_synthetic_task_is_judged_by_the_same_rules(bfcl, turns, success, reason):
    """Start by configuration, solution from the task: order is free, turns, states and responses
    are not."""
    grade = run(bfcl, PAIR, [[Call(*call) for call in turn] for turn in turns])
    assert (grade.success, grade.score, grade.reason) == (success, float(success), reason)


def test_progress_grows_with_what_is_done_and_is_one_only_on_success(bfcl):
    """Nothing is 0; more of the solution is more; everything but the last call stays below 1."""
    steps = [[], [INTO], [INTO, MAKE], [INTO, MAKE, MOVE]]
    found = [run(bfcl, PAIR, [[Call(*call) for call in turn], []]).progress for turn in steps]
    found.append(run(bfcl, PAIR, PAIR.solution).progress)
    assert found[0] == 0.0 and found[-1] == 1.0
    assert found == sorted(found) and len(set(found)) == len(found)


SUM = made(Start(config={"classes": ["MathAPI"], "state": {}}), [("add", {"a": 1, "b": 2})])


def test_what_the_official_verdict_does_not_see_is_told_beside_it(bfcl):
    """Wasted calls and the wrong current folder cost nothing: so the verdict, and so the
    details."""
    wasteful = run(
        bfcl,
        PAIR,
        [
            [Call("ls"), Call("ls"), *PAIR.solution[0], Call("cd", {"folder": ".."})],
            PAIR.solution[1],
        ],
    )
    assert wasteful.success and wasteful.details == {
        "calls": 7,
        "reference_calls": 4,
        "hidden_state_differs": ["GorillaFileSystem"],
        "valid_if_typed": True,
    }


def floats(value, schema):
    """The value with its whole numbers written as floats."""
    if isinstance(value, dict):
        return {name: floats(item, schema["properties"][name]) for name, item in value.items()}
    if isinstance(value, list):
        return [floats(item, schema["items"]) for item in value]
    return float(value) if type(value) is int and schema["type"] in ("number", "integer") else value


def test_numbers_are_compared_by_value_where_the_task_is_not_an_official_one(bfcl):
    """2.0 for 2, alone and in a list, is the same number, and 4 another; in an official entry the
    official verdict stays."""
    grades = [run(bfcl, SUM, [[Call("add", {"a": 1.0, "b": b})]]) for b in (2, 2.0, 4)]
    assert [grade.success for grade in grades] == [True, True, False]
    assert [(grade.progress == 1.0, grade.reason == "") for grade in grades] == [
        (True, True)
    ] * 2 + [(False, False)]
    total = made(SUM.start, [("sum_values", {"numbers": [4, 8, 15]})])
    lists = [[4.0, 8.0, 15.0], [4, 8.0, 15], [4.0, 8.0, 16.0], [15.0, 8.0, 4.0, 0.5]]
    assert [run(bfcl, total, [[Call("sum_values", {"numbers": n})]]).success for n in lists] == [
        True,
        True,
        False,
        False,
    ]
    task = next(task for task in bfcl.tasks("base") if task.start.name == "multi_turn_base_13")
    schemas = {name: tool.parameters for name, tool in bfcl.tools.items()}
    turns = [
        [Call(c.tool, floats(c.arguments, schemas[c.tool])) for c in turn] for turn in task.solution
    ]
    grade = run(bfcl, task, turns)
    assert (grade.success, grade.reason) == (False, "execution_response_mismatch in turn 1")
    assert grade.details["valid_if_typed"]


def test_arguments_that_are_nested_without_end_are_judged(bfcl):
    """Lists within lists where a document knows none are a wrong answer, not a fault of the
    judge."""
    deep: list = []
    for _ in range(300):
        deep = [deep, 1]
    assert not run(bfcl, SUM, [[Call("add", {"a": deep, "b": {"x": deep}})]]).success


def test_an_official_entry_is_opened_with_its_own_number_of_turns(bfcl):
    """One turn of four can never succeed: the record is refused before anything is played, in a
    rollout and in the gate."""
    task = next(task for task in bfcl.tasks("base") if task.start.name == "multi_turn_base_0")
    short = structs.replace(task, query=task.query[:1], solution=task.solution[:1])
    long = structs.replace(task, query=[*task.query, "and again"])
    found = list(rollouts([short, task, long], make_policy("solution"), bfcl))
    assert [
        (rollout.stop_reason, rollout.success, len(rollout.steps) > 0) for rollout in found
    ] == [("env_error", False, False), ("done", True, True), ("env_error", False, False)]
    said = (
        "the environment refuses it: open: "
        "the official entry multi_turn_base_0 has 4 turns of the user, not"
    )
    assert [refusal(found[0]), refusal(found[2])] == [f"{said} 1", f"{said} 5"]
    assert isinstance(opened(bfcl, task.start), EnvSession), "exploring it needs no turns"


def test_spoiling_the_state_costs_progress(bfcl):
    """A change that the reference does not make counts against what is right."""
    clean = run(bfcl, PAIR, [[Call(*INTO), Call(*MAKE)], []]).progress
    spoilt = run(
        bfcl, PAIR, [[Call(*INTO), Call(*MAKE), Call("touch", {"file_name": "x.txt"})], []]
    ).progress
    assert spoilt < clean


def test_a_turn_without_reference_calls_may_stay_silent(bfcl):
    """base_180 asks for nothing that a tool could do in two turns; its solution takes no action
    there and succeeds."""
    task = next(task for task in bfcl.tasks("base") if task.start.name == "multi_turn_base_180")
    assert task.solution.count([]) == 2 and "empty_turn" in task.tags
    assert run(bfcl, task, task.solution).success


def test_a_session_is_only_graded_on_the_task_that_it_was_opened_for(bfcl):
    """Another start state than the task's is a fault of the caller, never a verdict."""
    session = opened(bfcl, LAB)
    (grade,) = bfcl.evaluate([(session, bfcl.tasks("base")[0])])
    assert "another start state" in grade.message
