"""BFCL's own file formats, written from tasks and rollouts (reading.py reads them back).

    DIR/test_case_ids_to_generate.json    official entries by category (`bfcl generate --run-ids`)
    DIR/coevolve_splits.json              the same entries by the split that their records name
    DIR/data/BFCL_v4_multi_turn_coevolve.json    questions of synthetic tasks, one a line
    DIR/data/possible_answer/BFCL_v4_multi_turn_coevolve.json    their solutions as call strings
    DIR/result/coevolve-0/multi_turn/BFCL_v4_CATEGORY_result.json    results

DIR is what the package calls BFCL_PROJECT_ROOT. The results of a task's second rollout are in
coevolve-1, and so on. Official tasks keep their id and category and are not copied; a synthetic one
is `multi_turn_coevolve_N`, and what its record holds beyond BFCL's fields is under the key
`coevolve`, which official code does not read. A result is, turn by turn and reply by reply, the
calls ``[{"name": "<arguments as JSON>"}]`` as an OpenAI handler records them, or the text. An
episode that ended otherwise than by handing back its last turn has fewer turns, which the official
evaluation calls force-terminated.

`Misread` says why a rollout has no result: the official code builds a line of Python from every
call and evaluates it, so a line that would do anything else than call a function with literal
arguments must not reach it. A line that does not parse, or begins with a name that nobody has,
fails in the official code as it did here.
"""

from __future__ import annotations

import ast
import builtins
import json
import re
import warnings
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from coevolve import jsonl
from coevolve.agents.prompts.official import call_text
from coevolve.environments.protocol import Tool
from coevolve.errors import UsageError
from coevolve.records import Call, Rollout, Step, Task

VERSION = "BFCL_v4"  # begins the names of BFCL's files
OWN = "multi_turn_coevolve"  # category of synthetic tasks
MODEL = "coevolve"  # begins the names of folders of results
HELD = ("query", "solution", "start")  # Fields of a task that BFCL's own fields hold

_OFFICIAL = re.compile(r"(multi_turn_(?:base|long_context|miss_func|miss_param))_\d+")
_BEFORE_BRACKET = re.compile(r"\b([a-zA-Z_]\w*)\s*(?=\()")
"""The executor (`_process_method_calls`) takes this for a function's name, in texts too."""
_OBJECT = "api_object"
"""Stands for the name of the object that the executor puts before a function."""
_GLOBALS = """copy importlib inspect json re execute_multi_turn_func_call is_empty_execute_response
CLASS_FILE_PATH_MAPPING STATELESS_CLASSES"""
_LOCALS = """class_ class_initial_config class_instance class_method_name_mapping class_name e
execution_results func_call func_call_copy func_call_list func_call_result initial_config
instance_name involved_classes involved_instances is_evaL_run long_context method method_name
model_name module module_name test_entry_id"""
_OFFICIAL_NAMES = {*dir(builtins), *_GLOBALS.split(), *_LOCALS.split()}
"""Names that mean something where the pinned official executor evaluates a call, beside those that
begin with an underscore and its objects, which end with `_instance`."""
_NOT_ALLOWED = {"exit", "quit"}  # Names among these that the official executor refuses to evaluate
_EVALUATED_FIRST: dict[type[ast.AST], str] = {
    ast.Attribute: "value",
    ast.BinOp: "left",
    ast.Call: "func",
    ast.Compare: "left",
    ast.Subscript: "value",
}
"""Kind of expression → its part that Python evaluates before the others."""
_NEVER_RUN = {"too_large"}
"""Errors of calls that the environment refused and the official executor would run for minutes."""


class Misread(Exception):
    """The official code would do something else with this rollout than judge its calls."""


class BfclMessage(msgspec.Struct, forbid_unknown_fields=True):
    role: str
    content: str


class BfclQuestion(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """A line of a question file."""

    id: str
    question: list[list[BfclMessage]]
    initial_config: dict[str, Any]
    path: list[str]
    involved_classes: list[str]
    missed_function: dict[str, list[str]] = {}
    excluded_function: list[str] = []
    """Some official entries have it, and no official code reads it."""
    coevolve: dict[str, Any] | None = None  # The task's record without query, solution and start


class BfclAnswer(msgspec.Struct, forbid_unknown_fields=True):
    """A line of an answer file."""

    id: str
    ground_truth: list[list[str]]


class BfclIds:
    """The id that each task has in BFCL's files, official or counted."""

    def __init__(self) -> None:
        self.own: dict[str, Task] = {}  # Id → synthetic task
        self.official: dict[str, str] = {}  # Id → split
        self._ids: dict[str, str] = {}

    def of(self, task: Task) -> str:
        """Raises UsageError for a task of another environment."""
        name = task.start.name or ""
        if task.verifier.kind == "official" and _OFFICIAL.fullmatch(name):
            self.official[name] = task.split
            return name
        config = task.start.config
        if not config or not isinstance(config.get("classes"), list):
            raise UsageError(f"task {task.id} has no BFCL start state (environment {task.env})")
        if task.id not in self._ids:
            name = f"{OWN}_{len(self._ids)}"
            self._ids[task.id], self.own[name] = name, task
        return self._ids[task.id]


def category(name: str) -> str:
    """The category that an id belongs to."""
    return name.rpartition("_")[0]


def question(name: str, task: Task, tools: Mapping[str, Tool]) -> BfclQuestion:
    config = task.start.config or {}
    record = msgspec.to_builtins(task)
    calls = [call for turn in task.solution for call in turn if isinstance(call, Call)]
    return BfclQuestion(
        id=name,
        question=[[BfclMessage("user", text)] for text in task.query],
        initial_config=config.get("state", {}),
        path=[f"{tools[c.tool].app}.{c.tool}" if c.tool in tools else c.tool for c in calls],
        involved_classes=config["classes"],
        coevolve={name: value for name, value in record.items() if name not in HELD},
    )


def answer(name: str, task: Task) -> BfclAnswer:
    """Raises UsageError for a solution that is code."""
    if any(isinstance(action, str) for turn in task.solution for action in turn):
        raise UsageError(f"task {task.id}: its solution is no list of calls")
    return BfclAnswer(name, [[call_text(call) for call in turn] for turn in task.solution])


def result(name: str, rollout: Rollout, tools: Mapping[str, Tool]) -> dict[str, Any]:
    """A line of a result file. Raises Misread."""
    if rollout.stop_reason == "env_error":
        raise Misread("the episode was lost to the infrastructure")
    functions = _functions(rollout.task, tools)
    for step in rollout.steps:
        if reason := misread(step, functions):
            raise Misread(reason)
    return {"id": name, "result": _turns(rollout)}


def _functions(task: Task | None, tools: Mapping[str, Tool]) -> set[str]:
    """The functions of the task's classes, of all classes where the task does not say which."""
    named = ((task.start.config or {}).get("classes") or task.tags) if task else []
    apps = {tool.app for tool in tools.values()} & set(named)
    return {name for name, tool in tools.items() if not apps or tool.app in apps}


def misread(step: Step, functions: set[str]) -> str:
    """The reason why this step's call must not reach the official code; empty if it may."""
    call = step.action
    if isinstance(call, str):
        return ""
    if step.error in _NEVER_RUN:
        return f"{call.tool[:60]} was refused here ({step.error}) and would be run there"
    return "" if call.tool in _NOT_ALLOWED else _danger(call, functions)


def _danger(call: Call, functions: set[str]) -> str:
    """What the official executor's `eval` would do beside a call with literal arguments."""
    name = repr(call.tool[:60])
    try:
        text = evaluated(call, functions)
        with warnings.catch_warnings(action="ignore"):
            # as `eval` does, which drops blanks before a text
            tree = ast.parse(text.lstrip(" \t"), mode="eval").body
    except (SyntaxError, ValueError):
        return ""  # an error there, too, and nothing is evaluated
    except (MemoryError, RecursionError):
        return f"the call of {name} is nested too deeply to be looked at"
    first: ast.AST = tree
    while field := _EVALUATED_FIRST.get(type(first)):
        first = getattr(first, field)
    if not isinstance(first, ast.Name):
        return f"{name} is no plain call, and would be evaluated"
    if first.id in _OFFICIAL_NAMES or first.id.startswith("_") or first.id.endswith("_instance"):
        return f"{name} is none of the tools, but means something to the official executor"
    if first.id != _OBJECT:
        return ""  # nobody has this name, which is an error there before anything else is evaluated
    if not isinstance(tree, ast.Call) or getattr(tree.func, "value", None) is not first:
        return f"{name} is no plain call, and would be evaluated"
    if not all(map(_is_literal, [*tree.args, *(keyword.value for keyword in tree.keywords)])):
        return f"an argument of {name} is no literal, and would be evaluated"
    return ""


def evaluated(call: Call, functions: set[str]) -> str:
    """The line of Python that the official executor makes of a call and evaluates."""

    def of_object(match: re.Match[str]) -> str:
        return f"{_OBJECT}.{match[1]}" if match[1] in functions else match[1]

    arguments = ",".join(f"{name}={value!r}" for name, value in call.arguments.items())
    return _BEFORE_BRACKET.sub(of_object, f"{call.tool}({arguments})")


def _is_literal(node: ast.expr) -> bool:
    try:
        ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return False
    return True


def _turns(rollout: Rollout) -> list[list[Any]]:
    """The replies, each a list of calls or a text, of every turn that was handed back."""
    steps: dict[int | None, list[Step]] = {}
    for step in rollout.steps:
        steps.setdefault(step.message, []).append(step)
    if rollout.steps and not rollout.messages:
        raise Misread("the record has no messages")
    replies = [(i, m) for i, m in enumerate(rollout.messages) if m["role"] == "assistant"]
    turns: list[list[Any]] = [[]]
    for i, message in replies:
        calls = [step.action for step in steps.get(i, []) if isinstance(step.action, Call)]
        written = [{call.tool: json.dumps(call.arguments)} for call in calls]
        turns[-1].append(written or message.get("content") or "")
        # a reply without a call hands its turn back, unless the episode was cut off there
        if i not in steps and (i != replies[-1][0] or rollout.stop_reason == "done"):
            turns.append([])
    return turns[:-1]


def claim(directory: Path) -> None:
    """Makes DIR, or takes one that is empty.

    Raises UsageError for a folder with anything in it and for a file, WriteFailed where it can make
    none.
    """
    if directory.exists() and not directory.is_dir():
        raise UsageError(f"{directory}: is a file, not a folder to write into")
    with jsonl.writing(directory):
        directory.mkdir(parents=True, exist_ok=True)
        there = next(directory.iterdir(), None)
    if there:  # what another export left there would be read as this one's
        goes = "an export goes into an empty folder, or one that is not there"
        raise UsageError(f"{directory}: holds {there.name!r}; {goes}")


def write_tasks(directory: Path, ids: BfclIds, tools: Mapping[str, Tool]) -> None:
    """Writes the questions and answers of synthetic tasks, and the ids of official ones."""
    if ids.official:
        by_category: dict[str, list[str]] = {}
        by_split: dict[str, list[str]] = {}
        for name, split in ids.official.items():
            by_category.setdefault(category(name), []).append(name)
            by_split.setdefault(split, []).append(name)
        with jsonl.writing(directory):
            directory.mkdir(parents=True, exist_ok=True)
            listed = ((ids_file(directory), by_category), (splits_file(directory), by_split))
            for file, names in listed:
                file.write_bytes(msgspec.json.format(msgspec.json.encode(names)) + b"\n")
    own = sorted(ids.own.items(), key=lambda item: int(item[0].rpartition("_")[2]))
    if own:
        _write(questions_file(directory), (question(name, task, tools) for name, task in own))
        _write(answers_file(directory), (answer(name, task) for name, task in own))


PlacedResult = tuple[str, dict[str, Any]]  # A model folder, and a line of a result file in it


def write_results(directory: Path, entries: Iterable[dict[str, Any]]) -> list[PlacedResult]:
    """Writes results; returns the model folder that each went to. One folder holds an id once."""
    placed: list[PlacedResult] = []
    files: dict[Path, list[dict[str, Any]]] = {}
    seen: dict[str, int] = {}
    for entry in entries:
        number = seen[entry["id"]] = seen.get(entry["id"], -1) + 1
        model = f"{MODEL}-{number}"
        placed.append((model, entry))
        files.setdefault(results_file(directory, model, category(entry["id"])), []).append(entry)
    for file, lines in files.items():
        _write(file, lines)
    return placed


def _write(file: Path, lines: Iterable[Any]) -> None:
    with jsonl.writing(file):
        file.parent.mkdir(parents=True, exist_ok=True)
    jsonl.write(file, lines)


def ids_file(directory: Path) -> Path:
    return directory / "test_case_ids_to_generate.json"


def splits_file(directory: Path) -> Path:
    """A file of our own, which official code does not look at."""
    return directory / "coevolve_splits.json"


def questions_file(directory: Path) -> Path:
    return directory / "data" / f"{VERSION}_{OWN}.json"


def answers_file(directory: Path) -> Path:
    return directory / "data" / "possible_answer" / f"{VERSION}_{OWN}.json"


def results_file(directory: Path, model: str, category_: str) -> Path:
    return directory / "result" / model / "multi_turn" / f"{VERSION}_{category_}_result.json"


def scores_file(directory: Path, model: str, category_: str) -> Path:
    return directory / "score" / model / "multi_turn" / f"{VERSION}_{category_}_score.json"
