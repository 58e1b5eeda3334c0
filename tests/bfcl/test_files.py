"""BFCL's file formats: what a result says of an episode, what is refused, and tasks that come back
as they went."""

from __future__ import annotations

import json

import pytest
from bfcl_tasks import synthetic
from msgspec import structs

from coevolve.bfcl import files
from coevolve.environments.protocol import Tool
from coevolve.errors import UsageError
from coevolve.records import Call, Rollout, Start, Step, Task, Verifier

TOOLS = {name: Tool(name, name, {}, app="GorillaFileSystem") for name in ("ls", "echo", "sort")}
TOOLS["mean"] = Tool("mean", "mean", {}, app="MathAPI")
OFFICIAL = Task(
    id="t",
    env="bfcl",
    query=["a", "b"],
    start=Start(name="multi_turn_base_7"),
    verifier=Verifier("official"),
)


def rollout(stop_reason: str = "done", **changes) -> Rollout:
    """Two turns: two calls in one reply, an unreadable one, the turn handed back; then handed back
    at once."""
    said = ["calls", "{", "first done", "second done"]
    messages = [
        {"role": "user", "content": "a"},
        *({"role": "assistant", "content": text} for text in said),
    ]
    steps = [
        Step(0, Call("ls", {"a": True}), "x", message=1),
        Step(0, Call("echo", {"content": "it's"}), "x", message=1),
        Step(0, "{", "hint", "bad_json", message=2),
    ]
    whole = Rollout(
        id="r",
        task_id="t",
        env="bfcl",
        group="g",
        messages=messages,
        steps=steps,
        task=OFFICIAL,
        stop_reason=stop_reason,
    )
    return structs.replace(whole, **changes)


def test_a_result_has_a_line_of_calls_or_text_per_reply():
    """Turn by turn: calls as names with JSON arguments, everything else as its text."""
    entry = files.result("multi_turn_base_7", rollout(), TOOLS)
    calls = [{"ls": '{"a": true}'}, {"echo": '{"content": "it\'s"}'}]
    assert entry == {
        "id": "multi_turn_base_7",
        "result": [[calls, "{", "first done"], ["second done"]],
    }


@pytest.mark.parametrize("reason", ["max_tokens", "max_steps", "policy_fault"])
def test_an_episode_that_was_cut_has_fewer_turns(reason):
    """The last reply of a cut episode hands nothing back, so that the official verdict is
    force-terminated."""
    assert len(files.result("x", rollout(reason), TOOLS)["result"]) == 1


@pytest.mark.parametrize(
    ("step", "says"),
    [
        (Step(0, Call("__import__('os').system"), ""), "is no name"),
        (Step(0, Call("ls", {"a=__import__('os') or a": 1}), ""), "is no name"),
        (Step(0, Call("ls", {"lambda": 1}), ""), "is no name"),
        (Step(0, Call("exec", {"source": "x"}), "", "unknown_tool"), "means something"),
        (Step(0, Call("inspect"), "", "unknown_tool"), "means something"),
        (Step(0, Call("__import__", {"name": "os"}), "", "unknown_tool"), "means something"),
        (
            Step(0, Call("coevolve_0_multi_turn_base_7_MathAPI_instance"), "", "unknown_tool"),
            "means something",
        ),
        (Step(0, Call("echo", {"content": "call sort(data)"}), ""), "sort( in an argument of echo"),
        (Step(0, Call("echo", {"content": "sort (it)"}), ""), "would be rewritten"),
        (Step(0, Call("mean", {"precision": 300_000}), "", "too_large"), "would be run there"),
    ],
)
def test_what_official_code_would_misread_is_refused(step, says):
    """Names that would be evaluated, texts that would be rewritten, calls that were not run
    here."""
    with pytest.raises(files.Misread, match="^.*" + says.replace("(", r"\(")):
        files.result("x", rollout(steps=[step]), TOOLS)


@pytest.mark.parametrize(
    "step",
    [
        Step(0, Call("lst", {"a": True}), "", "unknown_tool"),
        Step(0, Call("ls", {"b": [1, {"x": "y"}]}), "", "bad_argument"),
        Step(0, Call("echo", {"content": "see f(x), or sorted (all)"}), ""),
        Step(0, Call("echo", {"content": "'; import os; os.system('x')"}), ""),
    ],
)
def test_what_official_code_reads_right_passes(step):
    """Plain mistakes of a policy are results like others."""
    assert files.result("x", rollout(steps=[structs.replace(step, message=1)]), TOOLS)


def test_lost_episodes_and_bare_records_have_no_result():
    """An infrastructure fault says nothing about the policy; a record without messages cannot be
    told."""
    with pytest.raises(files.Misread, match="infrastructure"):
        files.result("x", rollout("env_error"), TOOLS)
    with pytest.raises(files.Misread, match="no messages"):
        files.result("x", rollout(messages=[]), TOOLS)


def test_names():
    """Official ids stay, synthetic tasks are counted, the same task has one name, other
    environments have none."""
    names = files.BfclIds()
    one, two = (
        synthetic(Start(config={"classes": ["MathAPI"], "n": n}), [Call("mean")]) for n in (1, 2)
    )
    assert [names.of(task) for task in (OFFICIAL, two, one, two)] == [
        "multi_turn_base_7",
        "multi_turn_coevolve_0",
        "multi_turn_coevolve_1",
        "multi_turn_coevolve_0",
    ]
    with pytest.raises(UsageError, match="no BFCL start"):
        names.of(structs.replace(OFFICIAL, start=Start(name="shop")))


def test_a_second_rollout_goes_to_a_folder_of_its_own(tmp_path):
    """One result file holds an id once."""
    placed = files.write_results(
        tmp_path, [{"id": f"multi_turn_base_{n}", "result": []} for n in (1, 2, 1)]
    )
    assert [model for model, _ in placed] == ["coevolve-0", "coevolve-0", "coevolve-1"]
    file = files.results_file(tmp_path, "coevolve-0", "multi_turn_base")
    assert [json.loads(line)["id"] for line in file.read_text().splitlines()] == [
        "multi_turn_base_1",
        "multi_turn_base_2",
    ]
