"""The official verdict: BFCL's own evaluation, in its own venv, of result files written from
rollouts."""

from __future__ import annotations

import itertools
import json
import subprocess

import pytest
from msgspec import structs

from coevolve import jsonl
from coevolve.agents.rollout import make_policy, rollouts
from coevolve.bfcl import files, official
from coevolve.environments import install
from coevolve.environments.client import Pool
from coevolve.errors import CoevolveError
from coevolve.records import Call, Rollout, Start, Step, Task

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
        b"official verdicts 200, refused 0 (not counted), lost 0, differing from ours 0"
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
    """Rollouts in; a refused one leaves the score, and is told in --rejects; those of another
    environment are a usage error."""
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
    assert found["group"] == "multi_turn_base (3 of 200 entries)"
    assert (found["tasks"], found["masked"], found["success"]) == (3, 1, 1.0)
    assert b"official verdicts 3, refused 1 (not counted), lost 0" in result.stderr
    assert (
        "'exec' is none of the tools" in json.loads((tmp_path / "no.jsonl").read_text())["reason"]
    )
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


HARMLESS = {
    "a leaked mark": Call("cd<|channel|>commentary", {"folder": "document"}),
    "a mark before it": Call("<|channel|>cd", {"folder": "document"}),
    "a slash": Call("tools/cd", {"folder": "document"}),
    "a blank": Call("change folder", {"folder": "document"}),
    "a minus": Call("change-folder", {"folder": "document"}),
    "a key": Call("tools[0]", {"folder": "document"}),
    "a keyword": Call("lambda", {"folder": "document"}),
    "no argument's name": Call("cd", {"the folder": "document"}),
    "not allowed": Call("exit", {"code": 1}),
    "unknown": Call("chdir", {"folder": "document"}),
}


@official_
@pytest.mark.bfcl
@pytest.mark.parametrize("where", ["instead", "beside"])
def test_harmless_calls_are_judged_like_other_failing_calls(bfcl, where):
    """Names that cannot be called, played in the environment and judged by the official code: with
    the first call in their place the episode fails, beside the solution it succeeds, in both."""
    task = bfcl.tasks("base")[0]
    first, *rest = task.solution
    turns = [[c, *(first[1:] if where == "instead" else first)] for c in HARMLESS.values()]
    tasks = [
        structs.replace(task, id=f"t{n}", solution=[turn, *rest]) for n, turn in enumerate(turns)
    ]
    played = play(tasks, bfcl)
    assert [r.steps[0].action for r in played] == list(HARMLESS.values())
    # a reader of replies may take a dot for an object's, as ours does
    dotted = [
        structs.replace(played[0].steps[0], action=Call(name, {"folder": "document"}))
        for name in ("functions.cd", "GorillaFileSystem.chdir")
    ]
    played += [
        structs.replace(played[0], id=f"dotted{n}", steps=[step, *played[0].steps[1:]])
        for n, step in enumerate(dotted)
    ]
    judged = official.judge(played, bfcl.tools)
    assert [(judged[r.id].judged, judged[r.id].valid) for r in played] == [
        (True, where == "beside")
    ] * len(played)
    assert {r.success for r in played} == {where == "beside"}


NAMES = """import json
from bfcl_eval.eval_checker.multi_turn_eval import multi_turn_utils as module
code = module.execute_multi_turn_func_call.__code__
print(json.dumps([*vars(module), *code.co_varnames, *code.co_cellvars]))
"""
REWRITES = """import json, sys
from bfcl_eval.eval_checker.multi_turn_eval.multi_turn_utils import _process_method_calls
functions, texts = json.load(sys.stdin)
objects = dict.fromkeys(functions, "api_object")
print(json.dumps([_process_method_calls(text, objects) for text in texts]))
"""


def in_package(code: str, request: object = None) -> list[str]:
    """What a program prints that runs in the benchmark's own interpreter."""
    command = [str(install.python("bfcl")), "-c", code]
    return json.loads(subprocess.check_output(command, input=json.dumps(request), text=True))


@pytest.mark.bfcl
def test_every_name_that_the_official_code_knows_is_refused():
    """Its globals and the variables of the function that evaluates, as they are in the package."""
    reasons = {
        name: files.misread(Step(0, Call(name), "", "unknown_tool"), {"cd"})
        for name in in_package(NAMES)
    }
    assert len(reasons) > 30 and not [name for name, reason in reasons.items() if not reason]


@pytest.mark.bfcl
def test_the_text_that_is_looked_at_is_the_one_that_is_evaluated(bfcl):
    """The package's own rewriting of calls gives the same texts as ours."""
    functions = {name for name, tool in bfcl.tools.items() if tool.app == "GorillaFileSystem"}
    contents = ["sort(data)", "a sort (data)", "resort(x)", "f(find(y))", "cd\n(x)", "ünsort(x)"]
    calls = [Call("echo", {"content": text, "file_name": None}) for text in contents]
    calls += [Call(name) for name in ("cd\n", " cd", "x.cd", "cd.x", "exec\n", "cd() or exec")]
    texts = [f"{c.tool}({','.join(f'{k}={v!r}' for k, v in c.arguments.items())})" for c in calls]
    ours = [files.evaluated(call, functions) for call in calls]
    assert ours == in_package(REWRITES, [sorted(functions), texts])
    assert sum("api_object" in text for text in ours) > 8


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
