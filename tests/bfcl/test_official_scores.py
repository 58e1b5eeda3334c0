"""The official verdict: BFCL's own evaluation, in its own venv, of result files written from
rollouts."""

from __future__ import annotations

import itertools
import json

import pytest
from msgspec import structs

from coevolve import jsonl
from coevolve.agents.rollout import make_policy, rollouts
from coevolve.bfcl import files, official
from coevolve.environments.client import Pool
from coevolve.errors import CoevolveError
from coevolve.records import Call, Rollout, Start, Task

official_ = pytest.mark.official


def play(tasks: list[Task], pool: Pool, policy: str = "solution") -> list[Rollout]:
    return list(rollouts(tasks, make_policy(policy), pool))


def spoiled(task: Task, how: int) -> Task:
    """The task with a reference that is left alone, cut short, changed in one argument, or has a
    turn too little."""
    solution = [list(turn) for turn in task.solution]
    turn = next(turn for turn in solution if turn)
    if how == 1:
        turn.pop()
    elif how == 2:
        call = next((c for t in solution for c in t if c.arguments), turn[0])
        place = next((t, i) for t in solution for i, c in enumerate(t) if c is call)
        changed = {
            k: f"{v}x" if isinstance(v, str) else not v if isinstance(v, bool) else v
            for k, v in call.arguments.items()
        }
        place[0][place[1]] = Call(call.tool, changed)
    elif how == 3:
        turn.append(turn[-1])
    return structs.replace(task, id=f"{task.id}-{how}", solution=solution)


@official_
@pytest.mark.bfcl
def test_the_solution_is_officially_right(coevolve):
    """The issue's command: every official base task, judged by the official evaluator, at 100 %."""
    result = coevolve(
        "evaluate", "--env", "bfcl", "--model", "solution", "--official", "--by", "none"
    )
    (record,) = [r for r in map(json.loads, result.stdout.splitlines()) if r["by"] == "official"]
    assert (record["group"], record["tasks"], record["masked"], record["success"]) == (
        "multi_turn_base",
        200,
        0,
        1.0,
    )
    assert (
        b"official verdicts 200, refused 0 (counted as failures), lost 0, differing from ours 0"
        in result.stderr
    )


@official_
@pytest.mark.bfcl
@pytest.mark.parametrize("split", ["base", "long_context", "miss_func", "miss_param"])
def test_official_verdicts_are_ours(bfcl, split):
    """Right, short, changed and repeated solutions of a category, several rollouts a task: each
    verdict equals the environment's."""
    tasks = bfcl.tasks(split)[::4]
    played = play([spoiled(task, how) for task, how in itertools.product(tasks, range(4))], bfcl)
    judged = official.judge(played, bfcl.tools)
    assert {v.category for v in judged.values()} == {f"multi_turn_{split}"}
    assert [judged[r.id].valid for r in played] == [r.success for r in played]
    assert 60 < sum(r.success for r in played) < 180


@official_
@pytest.mark.bfcl
def test_doing_nothing_and_overrunning_are_officially_wrong(bfcl):
    """Nothing is an empty turn; a cut episode, even in its last turn, is force-terminated."""
    tasks = bfcl.tasks("base")[:3]
    nothing = play(tasks, bfcl, "nothing")
    cut = [structs.replace(r, id=f"{r.id}-cut", stop_reason="max_steps") for r in play(tasks, bfcl)]
    judged = official.judge([*nothing, *cut], bfcl.tools)
    assert {judged[r.id].error for r in nothing} == {"multi_turn:empty_turn_model_response"}
    assert {judged[r.id].error for r in cut} == {"multi_turn:force_terminated"}


@official_
@pytest.mark.bfcl
def test_synthetic_tasks_are_officially_judged(bfcl, some_tasks):
    """Own start states go as question and answer files; a call that would end the evaluator is
    refused, the others are scored."""
    right, wrong = play(some_tasks, bfcl), play(some_tasks, bfcl, "nothing")
    step = structs.replace(right[0].steps[0], action=Call("__import__", {"name": "os"}))
    hostile = structs.replace(right[0], id="hostile", steps=[step, *right[0].steps[1:]])
    judged = official.judge([*right, *wrong, hostile], bfcl.tools)
    assert [judged[r.id].valid for r in right] == [True] * len(right)
    assert [judged[r.id].valid for r in wrong] == [False] * len(wrong)
    assert not judged["hostile"].judged and "official executor" in judged["hostile"].error


@official_
@pytest.mark.bfcl
def test_the_command_takes_rollouts_and_counts_what_was_refused(coevolve, bfcl, tmp_path):
    """Rollouts in; a refused one is a failure, and told in --rejects; those of another environment
    are a usage error."""
    played = play(bfcl.tasks("base")[:4], bfcl)
    step = structs.replace(
        played[0].steps[0], action=Call("exec", {"source": "1"}), error="unknown_tool"
    )
    played[0] = structs.replace(played[0], steps=[step, *played[0].steps[1:]])
    jsonl.write(tmp_path / "r.jsonl", played)
    result = coevolve(
        "evaluate",
        tmp_path / "r.jsonl",
        "--official",
        "--by",
        "none",
        "--rejects",
        tmp_path / "no.jsonl",
    )
    (found,) = (r for r in map(json.loads, result.stdout.splitlines()) if r["by"] == "official")
    assert found["group"] == "multi_turn_base (4 of 200 entries)"
    assert (found["tasks"], found["masked"], found["success"]) == (4, 0, 0.75)
    assert b"official verdicts 3, refused 1 (counted as failures), lost 0" in result.stderr
    assert "exec is none of the tools" in json.loads((tmp_path / "no.jsonl").read_text())["reason"]
    jsonl.write(tmp_path / "desk.jsonl", [structs.replace(played[1], env="desk")])
    refused = coevolve("evaluate", tmp_path / "desk.jsonl", "--official", check=False)
    assert refused.returncode == 2 and b"'desk'" in refused.stderr


@official_
@pytest.mark.bfcl
def test_what_was_lost_does_not_shrink_the_score(coevolve, bfcl, tmp_path):
    """A lost sample is masked; with an entry of which all are lost there is no official score (exit
    75) for that policy."""
    played = list(rollouts(bfcl.tasks("base")[:3], make_policy("solution"), bfcl, samples=2))
    lost = [structs.replace(r, stop_reason="env_error", steps=[], messages=[]) for r in played]
    other = [structs.replace(r, id=f"{r.id}-b", policy="b") for r in played]
    for kept, code in (
        ([lost[0], *played[1:]], 0),
        ([*lost[:2], *played[2:]], 75),
        ([*lost, *other], 75),
    ):
        jsonl.write(tmp_path / "r.jsonl", kept)
        result = coevolve(
            "evaluate", tmp_path / "r.jsonl", "--official", "--by", "none", check=False
        )
        found = [r for r in map(json.loads, result.stdout.splitlines()) if r["by"] == "official"]
        assert result.returncode == code
        if code:
            assert [r["policy"] for r in found] == ["b"] * (
                len(kept) > 6
            ) and b"all its rollouts of multi_turn_base_0" in result.stderr
        else:
            assert [(r["tasks"], r["rollouts"], r["masked"], r["success"]) for r in found] == [
                (3, 5, 1, 1.0)
            ]


@official_
@pytest.mark.bfcl
def test_what_official_code_does_not_know_is_bad_input(coevolve, bfcl, tmp_path):
    """An unknown entry, one that asks for something else, a record without messages: exit 3 with
    the line, or set aside."""
    right = play(bfcl.tasks("base")[:2], bfcl)
    task = right[0].task
    strangers = {
        "no official entry is called multi_turn_base_999": {
            "task": structs.replace(task, start=Start("multi_turn_base_999"))
        },
        "has no BFCL start state": {"task": structs.replace(task, start=Start("shop"))},
        "asks for something else": {"task": structs.replace(task, query=["x"])},
        "does not carry its task": {"task": None},
        "has no messages": {"messages": []},
    }
    wrong = [
        structs.replace(right[0], id=f"r{n}", **changes)
        for n, changes in enumerate(strangers.values())
    ]
    jsonl.write(tmp_path / "r.jsonl", [right[1], *wrong])
    result = coevolve("evaluate", tmp_path / "r.jsonl", "--official", check=False)
    assert result.returncode == 3 and not result.stdout
    assert b"r.jsonl:2: no official entry is called multi_turn_base_999" in result.stderr
    how = ["--on-error", "skip", "--rejects", tmp_path / "no.jsonl"]
    result = coevolve("evaluate", tmp_path / "r.jsonl", "--official", *how)
    assert (
        b"read 1, " in result.stderr
        and b"skipped 5" in result.stderr
        and b"official verdicts 1," in result.stderr
    )
    told = [json.loads(line)["reason"] for line in (tmp_path / "no.jsonl").read_text().splitlines()]
    assert all(says in reason for says, reason in zip(strangers, told, strict=True))


@official_
@pytest.mark.bfcl
def test_rollouts_of_another_version_have_no_official_score(coevolve, bfcl, tmp_path):
    """The official code is of one version: exit 2, with --any-version too, for records and for
    tasks that are played."""
    played = [
        structs.replace(r, task=structs.replace(r.task, env_version="2025.7.9"))
        for r in play(bfcl.tasks("base")[:1], bfcl)
    ]
    jsonl.write(tmp_path / "r.jsonl", played)
    jsonl.write(tmp_path / "t.jsonl", [r.task for r in played])
    for what in ([tmp_path / "r.jsonl"], [tmp_path / "t.jsonl", "--model", "solution"]):
        result = coevolve("evaluate", *what, "--official", "--any-version", check=False)
        assert result.returncode == 2 and b"rollouts of version 2025.7.9" in result.stderr
    assert (
        coevolve("evaluate", tmp_path / "t.jsonl", "--model", "solution", check=False).returncode
        == 2
    )


@official_
@pytest.mark.bfcl
def test_rollouts_without_a_version_have_no_official_score(coevolve, bfcl, tmp_path):
    """Nobody knows which release they are of: exit 2."""
    (played,) = play(bfcl.tasks("base")[:1], bfcl)
    jsonl.write(
        tmp_path / "r.jsonl",
        [structs.replace(played, task=structs.replace(played.task, env_version=""))],
    )
    result = coevolve("evaluate", tmp_path / "r.jsonl", "--official", check=False)
    assert result.returncode == 2 and b"rollouts of tasks without a version" in result.stderr


@official_
@pytest.mark.bfcl
def test_no_rollouts_have_no_official_score(coevolve):
    """An empty input is no failure, and no score: a line says so."""
    result = coevolve("evaluate", "--official", stdin=b"")
    assert not result.stdout and b"no rollout to judge, and so no official score" in result.stderr


@pytest.mark.bfcl
def test_official_code_rewrites_exactly_what_is_refused(bfcl):
    """The package's own rewriting of a call, on texts of all kinds: `misread` finds every change
    but a dropped blank."""
    import subprocess

    from coevolve.agents.prompts.official import call_text
    from coevolve.environments import install
    from coevolve.records import Step

    texts = [
        "plain",
        "sort(data)",
        "a sort (data)",
        "resort(x)",
        "sort[0]",
        "mean(x)",
        "sort",
        "x.sort(1)",
        "f(find(y))",
        "cd\n(x)",
        "(sort)",
        "ünsort(x)",
    ]
    calls = [Call("echo", {"content": text, "file_name": None}) for text in texts]
    functions = {name for name, tool in bfcl.tools.items() if tool.app == "GorillaFileSystem"}
    code = (
        "import sys, json\n"
        "from bfcl_eval.eval_checker.multi_turn_eval import multi_turn_utils\n"
        "names, calls = json.load(sys.stdin)\n"
        "names = dict.fromkeys(names, 'INSTANCE')\n"
        "done = [multi_turn_utils._process_method_calls(call, names) for call in calls]\n"
        "print(json.dumps([text.count('INSTANCE') > 1 for text in done]))\n"
    )
    python = str(install.python("bfcl"))
    request = json.dumps([sorted(functions), [call_text(c) for c in calls]])
    changed = json.loads(
        subprocess.run(
            [python, "-c", code], input=request, capture_output=True, text=True, check=True
        ).stdout
    )
    assert [bool(files.misread(Step(0, call, ""), functions)) for call in calls] == changed
    assert any(changed) and not all(changed)


@pytest.mark.parametrize(
    ("lines", "says"),
    [
        (None, "no score"),
        ([{"total_count": 1, "correct_count": 1}], "not those of the 2"),
        ([{"total_count": 2, "correct_count": 1}], "not those of the 2"),
        (
            [
                {"total_count": 2, "correct_count": 1},
                {"id": "multi_turn_base_9", "error": {"error_type": "x"}},
            ],
            "not those of the 2",
        ),
    ],
)
def test_missing_scores_are_noticed(tmp_path, lines, says):
    """No file, fewer entries, an unnamed failure, a foreign one: the run fails instead of reporting
    a number."""
    placed = files.write_results(
        tmp_path, [{"id": f"multi_turn_base_{n}", "result": []} for n in (1, 2)]
    )
    if lines:
        file = files.scores_file(tmp_path, "coevolve-0", "multi_turn_base")
        file.parent.mkdir(parents=True)
        jsonl.write(file, lines)
    with pytest.raises(CoevolveError, match=says):
        official._scores(tmp_path, placed)
