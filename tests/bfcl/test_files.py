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


DANGEROUS = [
    (Call("__import__('os').system"), "means something"),
    (Call("print(1) or ls"), "is no plain call"),
    (Call("print - ls", {"a": True}), "means something"),
    (Call("ls() - print"), "is no plain call"),
    (Call("f() if ls() else print"), "is no plain call"),
    (Call("[print(1)][0].ls"), "is no plain call"),
    (Call("ls().__class__"), "is no plain call"),
    (Call("ls", {"a=1) or exec('1') or ls(b": 1}), "is no plain call"),
    (Call("ls", {"a=__import__('os'), b": 1}), "an argument of 'ls' is no literal"),
    (Call("exec", {"source": "x"}), "means something"),
    (Call("ｅｘｅｃ", {"source": "x"}), "means something"),
    (Call("exec\n", {"source": "x"}), "means something"),
    (Call("\texec", {"source": "x"}), "means something"),
    (Call("exec\\\n", {"source": "x"}), "means something"),
    (Call("(exit)"), "means something"),
    (Call("exit.__call__"), "means something"),
    (Call("inspect"), "means something"),
    (Call("method"), "means something"),
    (Call("involved_instances.clear"), "means something"),
    (Call("json.dumps", {"obj": 1}), "means something"),
    (Call("__import__", {"name": "os"}), "means something"),
    (Call("coevolve_0_multi_turn_base_7_MathAPI_instance"), "means something"),
    (Call("f" + ".a" * 5_000), "nested too deeply"),
]
HARMLESS = [
    Call("ls<|channel|>commentary", {"a": True}),
    Call("<|channel|>ls", {"a": True}),
    Call("list files", {"a": True}),
    Call("list files: now", {"a": True}),
    Call("", {"a": True}),
    Call("lambda", {"a": True}),
    Call("l\0s", {"a": True}),
    Call("functions.ls", {"a": True}),
    Call("GorillaFileSystem.list", {"a": True}),
    Call("show-files", {"a": True}),
    Call("tools/ls", {"a": True}),
    Call("tools[0].ls", {"a": True}),
    Call("ls - print", {"a": True}),
    Call("ls", {"lambda": 1}),
    Call("ls", {"a=__import__('os') or a": 1}),
    Call("ls", {"a b": 1, "": 2, "c-d": 3}),
    Call("ls", {"a=1) #": 1}),
    Call("exit", {"code": 1}),
    Call("quit"),
    Call("lst", {"a": True}),
    Call("ls", {"b": [1, {"x": "y"}], "c": -1.5, "d": None}),
    Call("echo", {"content": "see f(x), or sorted (all)"}),
    Call("echo", {"content": "'; import os; os.system('x')"}),
    Call("echo", {"content": "call sort(data), then sort (it)"}),
]


@pytest.mark.parametrize(("call", "says"), DANGEROUS)
def test_calls_that_would_be_evaluated_are_refused(call, says):
    """What parses to anything but a call of a name that is a tool's, or nobody's, with literals."""
    with pytest.raises(files.Misread, match=says):
        files.result("x", rollout(steps=[Step(0, call, "", "unknown_tool")]), TOOLS)


def test_calls_that_would_run_for_minutes_are_refused():
    """A call that was refused here for its size says nothing about what it costs there."""
    step = Step(0, Call("mean", {"precision": 300_000}), "", "too_large")
    with pytest.raises(files.Misread, match="would be run there"):
        files.result("x", rollout(steps=[step]), TOOLS)


@pytest.mark.parametrize("call", HARMLESS)
def test_harmless_calls_are_results_like_others(call):
    """What does not parse is an error there, too, and so is a name that nobody has."""
    step = Step(0, call, "", "unknown_tool", message=1)
    (first, *_), *_ = files.result("x", rollout(steps=[step]), TOOLS)["result"]
    assert first == [{call.tool: json.dumps(call.arguments)}]


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
