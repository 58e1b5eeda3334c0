"""`env export` and `env import`: tasks come back as they went, and what is no task is refused with
its line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from bfcl_tasks import synthetic
from msgspec import structs

from coevolve import jsonl
from coevolve.agents.rollout import make_policy, rollouts
from coevolve.bfcl import files, reading
from coevolve.bfcl.files import BfclQuestion
from coevolve.environments import install
from coevolve.environments.client import Pool
from coevolve.errors import BadInput
from coevolve.jsonl import BadLine, Line
from coevolve.records import (
    Author,
    Call,
    Difficulty,
    Lineage,
    Origin,
    Rollout,
    Start,
    Task,
    Validity,
    task_id,
)

pytestmark = pytest.mark.bfcl

CLASSES = (
    "GorillaFileSystem",
    "MathAPI",
    "MessageAPI",
    "TwitterAPI",
    "TicketAPI",
    "TradingBot",
    "TravelAPI",
    "VehicleControlAPI",
)


def many(pool: Pool) -> list[Task]:
    """120 synthetic tasks over all classes, with everything that a record may say of a task."""
    found = []
    for n in range(120):
        start = pool.start(f"many-{n}", [CLASSES[n % 8]])
        calls = [
            Call(c["tool"], c["arguments"])
            for c in pool.description.harmless
            if pool.tools[c["tool"]].app in start.config["classes"]
        ]
        task = synthetic(start, calls, calls[:1] * (n % 3), calls)
        found.append(
            structs.replace(
                task,
                env_version=pool.description.version,
                kind=f"{CLASSES[n % 8]}/x",
                tags=["a", f"t{n}"],
                split="train" if n % 2 else "dev",
                effects=f"digest-{n}",
                origin=Origin("synthesis", n % 4, "guided", "rare"),
                lineage=Lineage([f"s{n}"], [f"e{n}"], [f"r{n}"]),
                validity=Validity("valid", "strict", {"replays": 2, "reward": 0.5})
                if n % 5
                else None,
                difficulty=Difficulty("m", n % 3, 4) if n % 7 else None,
            )
        )
        if n % 11 == 0:
            found[-1] = structs.replace(found[-1], author=Author("m", "look first", 0.5))
    return found


def records(path: Path) -> list[Task]:
    return [line.record for line in jsonl.read([str(path)], Task)]


def test_tasks_come_back_as_they_went(bfcl, some_tasks, coevolve, tmp_path):
    """120 synthetic tasks, five awkward ones, one of bfcl-strict, and official ones of all
    categories: every field of every record."""
    strict = structs.replace(some_tasks[0], env="bfcl-strict")
    strict = structs.replace(
        strict,
        id=task_id("bfcl-strict", strict.start, strict.query, strict.solution, strict.verifier),
    )
    own = [*many(bfcl), *some_tasks, strict]
    official = [task for split in bfcl.description.held_out for task in bfcl.tasks(split)[::20]]
    jsonl.write(tmp_path / "tasks.jsonl", [*own, *official])
    listed = coevolve(
        "env", "export", "bfcl", tmp_path / "tasks.jsonl", "--to", tmp_path / "there"
    ).stdout
    names = [json.loads(line)["name"] for line in listed.splitlines()]
    assert names == [f"multi_turn_coevolve_{n}" for n in range(len(own))] + [
        task.start.name for task in official
    ]
    coevolve("env", "import", "bfcl", tmp_path / "there", "-o", tmp_path / "back.jsonl")
    assert (tmp_path / "back.jsonl").read_bytes() == (tmp_path / "tasks.jsonl").read_bytes()


def test_official_tasks_keep_their_split(bfcl, coevolve, tmp_path):
    """The halves, and a name of somebody's own, come back; where DIR does not say it, the split is
    the category."""
    named = [
        *bfcl.tasks("miss_func_test")[:3],
        *bfcl.tasks("base_train")[:2],
        bfcl.tasks("miss_param")[7],
    ]
    named.append(structs.replace(bfcl.tasks("base")[199], split="mine"))
    jsonl.write(tmp_path / "t.jsonl", named)
    coevolve("env", "export", "bfcl", tmp_path / "t.jsonl", "--to", tmp_path / "there")
    back = coevolve("env", "import", "bfcl", tmp_path / "there", "-o", tmp_path / "back.jsonl")
    assert b"wrote 7" in back.stderr
    assert sorted((t.id, t.split) for t in records(tmp_path / "back.jsonl")) == sorted(
        (t.id, t.split) for t in named
    )
    files.splits_file(tmp_path / "there").unlink()
    assert {task.split for task in reading.selected(tmp_path / "there", bfcl)} == {
        "base",
        "miss_func",
        "miss_param",
    }


def test_records_without_a_version_are_told_once(bfcl, some_tasks, coevolve, tmp_path):
    """Played and judged as the installed one's, with one line on stderr; a record that has its
    version is none."""
    versioned = structs.replace(some_tasks[0], env_version=bfcl.description.version)
    for tasks, lines in ((some_tasks, 1), ([versioned], 0)):
        jsonl.write(tmp_path / "t.jsonl", tasks)
        for command in (
            ["rollout", tmp_path / "t.jsonl", "--model", "solution"],
            ["validate", tmp_path / "t.jsonl"],
        ):
            said = coevolve(*command).stderr
            assert (
                said.count(b"there are records without a version; they are taken for version")
                == lines
            )


def test_the_files_are_of_bfcls_form(bfcl, some_tasks, tmp_path):
    """The questions have the benchmark's own fields, and one that its code does not read; the ids
    are as `bfcl generate` takes them."""
    names = files.BfclIds()
    assert [names.of(task) for task in [*some_tasks, bfcl.tasks("miss_func")[3]]][
        -1
    ] == "multi_turn_miss_func_3"
    files.write_tasks(tmp_path, names, bfcl.tools)
    entry = json.loads(files.questions_file(tmp_path).read_text().splitlines()[0])
    assert list(entry) == [
        "id",
        "question",
        "initial_config",
        "path",
        "involved_classes",
        "coevolve",
    ]
    assert entry["path"] == [
        "GorillaFileSystem.touch",
        "GorillaFileSystem.echo",
        "GorillaFileSystem.ls",
    ]
    ids = json.loads((tmp_path / "test_case_ids_to_generate.json").read_text())
    assert ids == {"multi_turn_miss_func": ["multi_turn_miss_func_3"]}


@pytest.mark.parametrize("category", ["base", "long_context", "miss_func", "miss_param"])
def test_official_files_are_the_official_tasks(bfcl, category):
    """The package's own question and answer files come in as the environment's own tasks, whose
    solutions succeed."""
    data = next(
        install.directory(install.RECIPES["bfcl"]).glob("lib/python3*/site-packages/bfcl_eval/data")
    )
    name = f"BFCL_v4_multi_turn_{category}.json"
    questions, solved = (
        jsonl.read([str(data / name)], BfclQuestion),
        reading.answers(str(data / "possible_answer" / name)),
    )
    tasks = list(reading.tasks(questions, solved, bfcl, _fail, _fail))
    assert tasks == bfcl.tasks(category)
    assert all(r.success for r in rollouts(tasks[::25], make_policy("solution"), bfcl))


def _fail(line: Any, reason: str) -> None:
    raise AssertionError(f"{line.number}: {reason}")


QUESTION: dict[str, Any] = {
    "id": "x_0",
    "question": [[{"role": "user", "content": "the mean of 1 and 2"}]],
    "initial_config": {},
    "path": [],
    "involved_classes": ["MathAPI"],
}
ANSWER: dict[str, Any] = {"id": "x_0", "ground_truth": [["mean(numbers=[1, 2])"]]}


def folder(where: Path, questions: list[dict], answers: list[dict]) -> Path:
    for file, lines in (
        (files.questions_file(where), questions),
        (files.answers_file(where), answers),
    ):
        file.parent.mkdir(parents=True, exist_ok=True)
        jsonl.write(file, lines)
    return where


def asked(*turns: list[tuple[str, str]]) -> dict:
    return {
        "question": [[{"role": role, "content": text} for role, text in turn] for turn in turns]
    }


@pytest.mark.parametrize(
    ("question", "answer", "says"),
    [
        ({}, {"ground_truth": [["mean(numbers=[1+1])"]]}, "1 + 1"),
        ({}, {"ground_truth": [["mean(numbers=open('x'))"]]}, "open"),
        ({}, {"ground_truth": [["mean(numbers=[1]), mean(numbers=[2])"]]}, "not one call"),
        (
            {},
            {"ground_truth": [["average(numbers=[1])"]]},
            "average is no function of the entry's classes",
        ),
        ({}, {"ground_truth": [["pwd()"]]}, "pwd is no function of the entry's classes"),
        ({}, {"ground_truth": [["mean(values=[1])"]]}, "'values'"),
        ({}, {"ground_truth": [["mean()"]]}, "'numbers'"),
        (
            {},
            {"ground_truth": [["mean(numbers=[1])"], []]},
            "1 turns of questions, and 2 of answers",
        ),
        ({}, {"ground_truth": []}, "1 turns of questions, and 0 of answers"),
        ({}, {"id": "y_0"}, "no answer for x_0"),
        ({"id": "../x_0"}, {"id": "../x_0"}, "is no plain name"),
        ({"id": "a/b_0"}, {"id": "a/b_0"}, "is no plain name"),
        ({"id": ""}, {"id": ""}, "is no plain name"),
        (
            {"id": "multi_turn_base_0"},
            {"id": "multi_turn_base_0"},
            "is an official entry, and not this one",
        ),
        ({"question": []}, {"ground_truth": []}, "no turns"),
        (asked([]), {}, "the user says nothing"),
        (asked([("user", " ")]), {}, "turn 1 must be one message that the user writes"),
        (asked([("system", "Be brief."), ("user", "the mean")]), {}, "not: system, user"),
        (asked([("system", "Be brief.")]), {}, "not: system"),
        (asked([("user", "a"), ("user", "b")]), {}, "not: user, user"),
        ({"involved_classes": ["NoSuchAPI"]}, {"ground_truth": [[]]}, "no API class 'NoSuchAPI'"),
        ({"involved_classes": []}, {"ground_truth": [[]]}, "a start has a name"),
        ({"involved_classes": ["MathAPI", "MathAPI"]}, {}, "twice"),
        ({"initial_config": {"MathAPI": [1, 2]}}, {}, "not a list"),
        ({"initial_config": {"TravelAPI": {}}}, {}, "none of the classes"),
        ({"missed_function": {"0": ["mean"]}}, {}, "functions that come later"),
        ({"excluded_function": ["add", "nope"]}, {}, "left out"),
        ({"excluded_function": ["mean"]}, {}, "left out"),
        ({}, {"ground_truth": [[]]}, "x_0: {answers}:2: an answer without any call"),
        (
            {},
            {"ground_truth": [["mean(numbers='1, 2')"]]},
            "x_0: {answers}:2: mean(numbers='1, 2'): ",
        ),
        ({}, {"ground_truth": [["mean(numbers=['1', '2'])"]]}, "whose items are each a number"),
        ({}, {"ground_truth": [["add(a=True, b=1)"]]}, "a must be a number"),
        (
            {"involved_classes": ["TicketAPI"]},
            {"ground_truth": [["get_ticket(ticket_id='x')"]]},
            "ticket_id is a number",
        ),
        (
            {"coevolve": {"schema": "coevolve.task/1", "id": "0" * 16, "env": "bfcl"}},
            {},
            "changed since it was exported",
        ),
        ({"coevolve": {"id": 3}}, {}, "coevolve: "),
        ({"involved_classes": "MathAPI"}, {}, "involved_classes"),
        ({"initial_config": []}, {}, "initial_config"),
        ({"question": [{"role": "user", "content": "x"}]}, {}, "question"),
        ({"question": [[{"role": "user"}]]}, {}, "content"),
        ({"question": [[{"role": "user", "content": "x", "name": "y"}]]}, {}, "name"),
        ({"depends_on": []}, {}, "depends_on"),
        ({}, {"ground_truth": ["mean(numbers=[1])"]}, "ground_truth"),
        ({}, {"ground_truth": [[{"mean": {}}]]}, "ground_truth"),
    ],
)
def test_what_is_no_task_is_refused_with_its_line(bfcl, tmp_path, question, answer, says):
    """Between two good entries: those two come, and the reason has the file and the line."""
    questions = [QUESTION | {"id": "x_1"}, QUESTION | question, QUESTION | {"id": "x_2"}]
    found, refused = imported(
        folder(
            tmp_path, questions, [ANSWER | {"id": "x_1"}, ANSWER | answer, ANSWER | {"id": "x_2"}]
        ),
        bfcl,
    )
    assert len(found) == 2
    says = says.format(answers=files.answers_file(tmp_path)) if "{answers}" in says else says
    assert any(says in line and ".json:2: " in line for line in refused), refused


def imported(where: Path, pool: Pool) -> tuple[list[Task], list[str]]:
    """The tasks of a folder, and what was refused, with its place."""
    bad: list[BadLine] = []

    def refuse(line: Line[Any], reason: str) -> None:
        bad.append(BadLine(line.where, line.number, reason, line.raw))

    solved = reading.answers(str(files.answers_file(where)), bad)
    questions = jsonl.read([str(files.questions_file(where))], BfclQuestion, bad=bad)
    found = list(reading.tasks(questions, solved, pool, refuse, refuse))
    return found, [str(BadInput(line.where, line.number, line.reason)) for line in bad]


def test_twice_and_unasked(coevolve, tmp_path):
    """An id that occurs twice, in either file, and an answer to nothing, through the real
    command."""
    cases = {
        "duplicate id x_0": ([QUESTION, QUESTION], [ANSWER], 1),
        "2 answers for x_0": ([QUESTION], [ANSWER, ANSWER], 0),
        "no question for y_0": ([QUESTION], [ANSWER, ANSWER | {"id": "y_0"}], 1),
    }
    for n, (says, (questions, answers, left)) in enumerate(cases.items()):
        where = folder(tmp_path / str(n), questions, answers)
        result = coevolve("env", "import", "bfcl", where, check=False)
        assert result.returncode == 3 and says in result.stderr.decode()
        rejects = tmp_path / f"{n}.jsonl"
        result = coevolve(
            "env", "import", "bfcl", where, "--on-error", "skip", "--rejects", rejects
        )
        assert len(result.stdout.splitlines()) == left and says in rejects.read_text()
    files.questions_file(where).write_text('{"id": "x_0"\n')
    result = coevolve("env", "import", "bfcl", where, "--on-error", "skip")
    assert (
        not result.stdout
        and b"skipped 1" in result.stderr
        and b"answers set aside 2" in result.stderr
    )


@pytest.mark.parametrize("place", ["question", "answer", "inside", "ids"])
def test_a_key_that_stands_there_twice_is_refused(coevolve, tmp_path, place):
    """A decoder would take the last of two ids, states or lists: exit 3 with the file, in whichever
    of them it is."""
    where = folder(tmp_path, [QUESTION], [ANSWER])
    changed = {
        "question": (files.questions_file(where), b'"id":"x_0"', b'"id":"x_1","id":"x_0"'),
        "answer": (
            files.answers_file(where),
            b'"ground_truth":',
            b'"ground_truth":[["mean([3])"]],"ground_truth":',
        ),
        "inside": (
            files.questions_file(where),
            b'"initial_config":{}',
            b'"initial_config":{"MathAPI":{},"MathAPI":{}}',
        ),
        "ids": (
            files.ids_file(where),
            b"",
            b'{"a":["multi_turn_base_0"],"a":["multi_turn_base_1"]}',
        ),
    }
    file, old, new = changed[place]
    text = file.read_bytes().replace(old, new) if old else new
    assert new in text
    file.write_bytes(text)
    result = coevolve("env", "import", "bfcl", where, check=False)
    assert (
        result.returncode == 3
        and b"stands there twice" in result.stderr
        and bytes(file) in result.stderr
    )


def test_texts_for_ids_are_taken_where_the_start_state_has_them(coevolve, tmp_path):
    """Some official tickets have texts for ids, and so may a task that begins like theirs."""
    ticket = {
        "id": "ticket_001",
        "title": "a",
        "description": "b",
        "status": "Open",
        "priority": 1,
        "created_by": "u",
    }
    state = {"TicketAPI": {"ticket_queue": [ticket], "ticket_counter": 2, "current_user": "u"}}
    own = {"involved_classes": ["TicketAPI"], "initial_config": state}
    where = folder(
        tmp_path,
        [QUESTION | own],
        [ANSWER | {"ground_truth": [["get_ticket(ticket_id='ticket_001')"]]}],
    )
    assert b"wrote 1" in coevolve("env", "import", "bfcl", where).stderr


def test_an_export_goes_into_a_folder_of_its_own(coevolve, bfcl, some_tasks, tmp_path):
    """What an earlier export left would be read with it: exit 2, and nothing is touched; an empty
    folder will do."""
    jsonl.write(tmp_path / "t.jsonl", some_tasks)
    jsonl.write(tmp_path / "official.jsonl", bfcl.tasks("base")[:2])
    (tmp_path / "there").mkdir()
    coevolve("env", "export", "bfcl", tmp_path / "official.jsonl", "--to", tmp_path / "there")
    before = {path: path.read_bytes() for path in (tmp_path / "there").rglob("*") if path.is_file()}
    again = coevolve(
        "env", "export", "bfcl", tmp_path / "t.jsonl", "--to", tmp_path / "there", check=False
    )
    assert (
        again.returncode == 2 and not again.stdout and b"goes into an empty folder" in again.stderr
    )
    assert before == {
        path: path.read_bytes() for path in (tmp_path / "there").rglob("*") if path.is_file()
    }


@pytest.mark.parametrize(
    ("command", "code"),
    [
        (["export", "bfcl", "t.jsonl", "--to", "t.jsonl"], 2),
        (["export", "bfcl", "t.jsonl", "--to", "t.jsonl/below"], 74),
        (["export", "bfcl", "t.jsonl", "--to", "/proc/nope"], 74),
        (["export", "bfcl", "t.jsonl", "--to", ""], 2),
        (["export", "bfcl", "t.jsonl", "--to", "new", "--rejects", "t.jsonl/below"], 74),
        (["export", "bfcl", "nowhere.jsonl", "--to", "new"], 2),
        (["import", "bfcl", "nowhere"], 2),
        (["import", "bfcl", "t.jsonl"], 2),
        (["import", "bfcl", "odd"], 2),
        (["import", "bfcl", "good", "-o", "/proc/nope/x"], 74),
        (["import", "bfcl", "good", "--rejects", "t.jsonl/below"], 74),
        (["tasks", "bfcl", "--split", "base", "-o", "t.jsonl/below"], 74),
        (["list", "-o", "/proc/nope"], 74),
        (["install", "appworld", "--data", "t.jsonl/below"], 2),
    ],
)
def test_a_path_that_cannot_be_used_is_told_in_one_line(
    coevolve, some_tasks, tmp_path, monkeypatch, command, code
):
    """Every path option of `env`: a usage or a write error by README's table, never an internal
    one."""
    monkeypatch.chdir(tmp_path)
    jsonl.write(tmp_path / "t.jsonl", some_tasks[:1])
    folder(tmp_path / "good", [QUESTION], [ANSWER])
    files.ids_file(tmp_path / "odd").mkdir(parents=True)
    result = coevolve("env", *command, check=False)
    assert result.returncode == code and not result.stdout, result.stderr
    said = result.stderr.decode().splitlines()
    assert said[-1].startswith("coevolve: ") and not any(
        "internal" in line or "Traceback" in line for line in said
    )


def test_export_names_no_entry_that_there_is_not(bfcl, coevolve, tmp_path):
    """Exit 3 with the line; another version's tasks are exit 2, for the official code would judge
    them by this one's."""
    task = bfcl.tasks("base")[0]
    for changes, code, says in (
        ({"start": Start("multi_turn_base_999")}, 3, b"t.jsonl:1: no official entry"),
        ({"env_version": "2025.7.9"}, 2, b"--any-version"),
    ):
        jsonl.write(tmp_path / "t.jsonl", [structs.replace(task, **changes)])
        result = coevolve(
            "env", "export", "bfcl", tmp_path / "t.jsonl", "--to", tmp_path / "there", check=False
        )
        assert result.returncode == code and says in result.stderr


def test_a_folder_without_files_and_unknown_official_ids(coevolve, tmp_path):
    """Exit 2 where there is nothing to read, 3 where the selection names no official entry."""
    assert coevolve("env", "import", "bfcl", tmp_path, check=False).returncode == 2
    (tmp_path / "test_case_ids_to_generate.json").write_text(
        '{"multi_turn_base": ["multi_turn_base_999"]}'
    )
    result = coevolve("env", "import", "bfcl", tmp_path, check=False)
    assert result.returncode == 3 and b"multi_turn_base_999" in result.stderr


def test_a_task_of_somebodys_own_is_marked_as_imported(coevolve, tmp_path):
    """No key of ours: the origin is `import`, and no claim of validity; the solution succeeds."""
    where = folder(tmp_path, [QUESTION], [ANSWER | {"ground_truth": [["mean([1, 2])"]]}])
    output = coevolve("env", "import", "bfcl", where).stdout
    (task,) = (json.loads(line) for line in output.splitlines())
    assert (task["origin"]["kind"], task["validity"], task["effects"], task["tags"]) == (
        "import",
        None,
        "",
        ["MathAPI"],
    )
    played = coevolve("rollout", "--model", "solution", stdin=output).stdout
    assert [json.loads(line)["success"] for line in played.splitlines()] == [True]
    assert b"wrote 1" in coevolve("validate", stdin=output).stderr


def test_rollouts_of_exported_tasks_are_results(bfcl, some_tasks, coevolve, tmp_path):
    """Rollouts go with their tasks: results beside questions, under the same ids."""
    played: list[Rollout] = list(rollouts(some_tasks[:2], make_policy("solution"), bfcl))
    jsonl.write(tmp_path / "r.jsonl", played)
    coevolve("env", "export", "bfcl", tmp_path / "r.jsonl", "--to", tmp_path / "there")
    result = files.results_file(tmp_path / "there", "coevolve-0", files.OWN)
    assert [json.loads(line)["id"] for line in result.read_text().splitlines()] == [
        "multi_turn_coevolve_0",
        "multi_turn_coevolve_1",
    ]
    back = coevolve("env", "import", "bfcl", tmp_path / "there").stdout
    assert [json.loads(line)["id"] for line in back.splitlines()] == [
        task.id for task in some_tasks[:2]
    ]
