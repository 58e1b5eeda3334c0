"""What faults of the environment and bad records do to a stage: exit codes, what is written, what a
rerun does."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import msgspec
import pytest

from coevolve import jsonl
from coevolve.environments.client import Pool
from coevolve.records import (
    Call,
    Exploration,
    Signal,
    Start,
    Statistic,
    Step,
    Task,
    Verifier,
    task_id,
)

FRAIL = f"{sys.executable} {Path(__file__).with_name('frail.py')}"
ADD = Call("add", {"item": "tea"})


def task(place, env=FRAIL, **changes):
    own = Task(
        id="x", env=env, query=["add tea"], solution=[[ADD]], start=Start(config={"place": place})
    )
    own = msgspec.structs.replace(own, **changes)
    return msgspec.structs.replace(
        own, id=task_id(own.env, own.start, own.query, own.solution, Verifier())
    )


def exploration(place, env=FRAIL, steps=None, id_=None):
    made = Step(turn=0, action=ADD, observation="ok", effects=[], state="1")
    return Exploration(
        id=id_ or place,
        env=env,
        mode="random",
        start=Start(config={"place": place}),
        steps=[made] if steps is None else steps,
    )


STAGES = {
    "rollout": (["rollout", "--model", "solution"], task),
    "evaluate": (["evaluate", "--model", "solution"], task),
    "validate": (["validate"], task),
    "abstract": (["abstract"], exploration),
}


@pytest.mark.parametrize("count", [1, 5])
@pytest.mark.parametrize("name", STAGES)
def test_all_lost_is_unreachable(coevolve, tmp_path, name, count):
    """Whatever the number, exit 69 with the last fault, and no output."""
    command, make = STAGES[name]
    jsonl.write(tmp_path / "in", [make(f"swamp {n}") for n in range(count)])
    result = coevolve(
        *command, tmp_path / "in", "--env", FRAIL, "-o", tmp_path / "out", check=False
    )
    assert result.returncode == 69, result.stderr
    assert f"all {count} ".encode() in result.stderr and b"sank" in result.stderr
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("count", [1, 12])
def test_all_lost_while_exploring(coevolve, tmp_path, count):
    """The same for episodes of exploration."""
    env = f"{FRAIL} swamp"
    result = coevolve("explore", "--env", env, "--mode", "random", "--episodes", count, check=False)
    assert result.returncode == 69 and b"sank" in result.stderr and result.stdout == b""


@pytest.mark.parametrize("name", STAGES)
def test_part_lost_is_partial_and_a_rerun_tries_again(coevolve, tmp_path, name):
    """Exit 75 with the rest written and the journal kept; when the environment works again, a rerun
    completes and tidies up."""
    command, make = STAGES[name]
    marker = tmp_path / "marker"
    env = f"{FRAIL} {marker}"
    jsonl.write(tmp_path / "in", [make(place, env) for place in ("hill", "swamp", "plain")])
    arguments = [*command, tmp_path / "in", "--env", env, "-o", tmp_path / "out"]
    first = coevolve(*arguments, check=False)
    assert first.returncode == 75 and b"1 of 3 " in first.stderr and b"rerun" in first.stderr, (
        first.stderr
    )
    assert (tmp_path / "out").exists()
    assert (tmp_path / "out.journal").exists() or name == "evaluate"
    marker.touch()
    coevolve(*arguments)
    assert not (tmp_path / "out.journal").exists()


@pytest.mark.parametrize("command", [["rollout"], ["evaluate", "--model", "nothing"], ["validate"]])
@pytest.mark.parametrize("change", [{"query": []}, {"id": ""}])
def test_a_task_that_is_none_is_bad_input(coevolve, tmp_path, command, change):
    """No user turn and an empty id: exit 3 with file and line, or skipped and counted."""
    good, bad = (
        json.loads(jsonl.encode(task("hill"))),
        json.loads(jsonl.encode(task("plain"))) | change,
    )
    (tmp_path / "in").write_text(f"{json.dumps(good)}\n{json.dumps(bad)}\n")
    failed = coevolve(*command, tmp_path / "in", "--env", FRAIL, check=False)
    assert failed.returncode == 3 and f"{tmp_path / 'in'}:2: ".encode() in failed.stderr
    skipped = coevolve(*command, tmp_path / "in", "--env", FRAIL, "--on-error", "skip")
    assert b"skipped 1" in skipped.stderr


def test_a_start_that_the_environment_refuses_is_the_records_fault(coevolve, tmp_path):
    """validate calls the task invalid, rollout and evaluate a bad line, abstract a reject; nobody
    calls it a lost episode."""
    start = Start(config={"nonsense": 1})
    bad = task("", env="desk", start=start)
    jsonl.write(tmp_path / "in", [bad])
    verdict = coevolve("validate", tmp_path / "in")
    assert (
        b"invalid 1" in verdict.stderr
        and b"most frequent reason (1): the environment refuses it" in verdict.stderr
    )
    for command in (["rollout"], ["evaluate", "--model", "nothing"]):
        failed = coevolve(*command, tmp_path / "in", "-k", 2, check=False)
        assert (
            failed.returncode == 3
            and f"{tmp_path / 'in'}:1: the environment refuses".encode() in failed.stderr
        )
        assert (
            b"skipped 1"
            in coevolve(*command, tmp_path / "in", "-k", 2, "--on-error", "skip").stderr
        )
    jsonl.write(tmp_path / "ex", [msgspec.structs.replace(exploration("e", "desk"), start=start)])
    assert b"refused_start 1" in coevolve("abstract", tmp_path / "ex").stderr


def test_explorations_without_anything_to_ask_for_are_counted(coevolve, tmp_path):
    """No steps, only unknown tools, no goal: each is a reject with its reason."""
    with Pool("desk") as pool:
        start = pool.start("1")
    unknown = Step(
        turn=0, action=Call("sea.sail", {"to": "far"}), observation='{"to": "somewhere"}', state="1"
    )
    later = Step(turn=0, action=Call("desk.date"), observation="{}", state="1")
    made = [
        Exploration(id=name, env="desk", mode="random", start=start, steps=steps)
        for name, steps in (("a", []), ("b", [unknown]), ("c", [later]))
    ]
    jsonl.write(tmp_path / "in", made)
    result = coevolve("abstract", tmp_path / "in", "--rejects", tmp_path / "rejects")
    assert b"rejected 3 (no_goal 1, no_steps 1, unknown_tool 1)" in result.stderr
    kept = [json.loads(line)["reason"] for line in (tmp_path / "rejects").read_text().splitlines()]
    assert kept == ["no_steps", "unknown_tool", "no_goal"]


def test_a_tool_that_the_environment_does_not_describe_is_no_crash(coevolve, tmp_path):
    """A worker that runs a call of a tool it never described: the task is invalid, and the tool
    named."""
    jsonl.write(tmp_path / "in", [task("hill", solution=[[Call("hidden", {"item": "tea"})]])])
    result = coevolve("validate", tmp_path / "in", "--env", FRAIL)
    assert b"calls hidden, a tool that the environment does not describe" in result.stderr


def test_a_worker_without_tools(coevolve):
    """Nothing to explore is said, and random play hands back."""
    env = f"{FRAIL} toolless"
    result = coevolve("explore", "--env", env, "--mode", "random", "--episodes", 1, check=False)
    assert result.returncode == 69 and b"describes no tools" in result.stderr
    coevolve(
        "rollout", "--env", env, "--model", "random", stdin=jsonl.encode(task("hill", env)).decode()
    )


def test_a_file_beside_a_split_is_refused(coevolve, tmp_path):
    """The file would not be read: exit 2."""
    for command in (["rollout"], ["evaluate", "--model", "nothing"]):
        result = coevolve(
            *command, "--env", "desk", "--split", "heldout", tmp_path / "tasks.jsonl", check=False
        )
        assert result.returncode == 2 and b"name no file" in result.stderr


def test_another_version_is_refused_or_one_warning(coevolve, tmp_path):
    """Records of another version of the environment: exit 2 in every stage that plays them, with
    --any-version a line a stage."""
    jsonl.write(tmp_path / "in", [task(place, env_version="0.9") for place in ("hill", "plain")])
    jsonl.write(
        tmp_path / "ex",
        [msgspec.structs.replace(exploration(p), env_version="0.9") for p in ("hill", "plain")],
    )
    evaluate = ["evaluate", "--model", "nothing", tmp_path / "in"]
    for command in (
        ["rollout", tmp_path / "in"],
        ["validate", tmp_path / "in"],
        ["abstract", tmp_path / "ex"],
        evaluate,
    ):
        refused = coevolve(*command, "--env", FRAIL, check=False)
        assert refused.returncode == 2 and b"--any-version" in refused.stderr and not refused.stdout
        result = coevolve(*command, "--env", FRAIL, "--any-version")
        assert result.stderr.count(b"made with version 0.9; version 1 is running") == 1


def test_signals_of_another_version_are_refused(coevolve, tmp_path):
    """Guided exploration begins where the signal's task begins."""
    signal = Signal(
        id="s",
        kind="rare",
        task_id="t",
        env=FRAIL,
        statistic=Statistic("x", 1),
        task=task("hill", env_version="0.9"),
    )
    jsonl.write(tmp_path / "s", [signal])
    guided = ["explore", tmp_path / "s", "--env", FRAIL, "--episodes", 1]
    refused = coevolve(*guided, check=False)
    assert refused.returncode == 2 and b"--any-version" in refused.stderr
    assert (
        b"made with version 0.9; version 1 is running" in coevolve(*guided, "--any-version").stderr
    )


def test_deaths_of_one_kind_are_told_once_without_control_characters(coevolve, tmp_path):
    """Three workers die with coloured words on stderr: one warning, escaped."""
    jsonl.write(
        tmp_path / "in", [task(place) for place in ("hill", "cliff 1", "cliff 2", "cliff 3")]
    )
    result = coevolve("rollout", tmp_path / "in", "--env", FRAIL, check=False)
    assert result.returncode == 75
    assert result.stderr.count(b"trying once more") == 1 and b"\\x1b[31mfell" in result.stderr
    assert b"\x1b" not in result.stderr


def test_nothing_read_is_not_all_valid(coevolve):
    """An empty input has no verdicts."""
    assert coevolve("validate", stdin="").stderr == b"validate: read 0 (empty input), wrote 0\n"


def test_an_environment_that_cannot_start_is_no_setting(coevolve, tmp_path):
    """After a wrong --env the right one is taken."""
    jsonl.write(tmp_path / "in", [task("hill")])
    wrong = coevolve(
        "rollout", tmp_path / "in", "--env", "desk", "-o", tmp_path / "out", check=False
    )
    assert wrong.returncode == 2
    coevolve("rollout", tmp_path / "in", "--env", FRAIL, "-o", tmp_path / "out")


def test_an_unknown_policy_is_told_what_there_is(coevolve, tmp_path):
    """The whole reason, and the known ones."""
    result = coevolve(
        "rollout",
        "--model",
        "nosuch",
        stdin=jsonl.encode(task("hill")).decode(),
        check=False,
        env=OFFLINE,
    )
    assert result.returncode in (2, 69) and result.stderr.count(b"\n") == 1
    assert b"solution, nothing, hollow, random" in result.stderr and b"--base-url" in result.stderr


OFFLINE = {**os.environ, "HF_HUB_OFFLINE": "1"}
