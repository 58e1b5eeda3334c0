"""Tasks from BFCL's question and answer files, whoever made them, without evaluating anything.

A question is refused, with its line, where a task could not hold it or the files do not fit
together: a turn without exactly one user message, another number of turns in the answer, an answer
that is no call of a function of its classes, a start state that the environment cannot load,
functions that come later or are left out, a key that an object has twice, an id that is no plain
name or occurs twice. An official entry that says what the environment's own says is that task;
under its id with another content it is refused.

What `files` wrote under `coevolve` makes the task the record that it was; a question that was
changed since is refused, because that key belongs to another task. Without it a task's origin is
`import`, and its answer is played once: one that calls nothing, or makes a call that the
environment would not run (a text for a number), is refused.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec
from msgspec import structs

from coevolve import jsonl
from coevolve.agents.actions.calls import from_python
from coevolve.agents.actions.values import Unreadable
from coevolve.agents.prompts.official import call_text
from coevolve.bfcl import files
from coevolve.bfcl.files import BfclAnswer, BfclQuestion
from coevolve.environments.client import EnvSession, Fault, Pool
from coevolve.environments.protocol import Tool
from coevolve.errors import BadInput, UsageError
from coevolve.jsonl import Line
from coevolve.records import Call, Origin, Start, Task, Verifier, task_id

ENVIRONMENTS = ("bfcl", "bfcl-strict")
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")

Answers = Mapping[str, list[Line[BfclAnswer]]]
Refuse = Callable[[Line[BfclQuestion], str], None]
Leave = Callable[[Line[BfclAnswer], str], None]


_NEVER_RUN = {"unknown_tool", "bad_argument", "too_large"}
"""Errors of calls that the environment refuses before they are run."""


class _NotATask(Exception):
    """A question that is no task, with the reason."""


def answers(path: str, bad: list[jsonl.BadLine] | None = None) -> dict[str, list[Line[BfclAnswer]]]:
    """The lines of an answer file by id. Raises BadInput, or adds to `bad`."""
    found: dict[str, list[Line[BfclAnswer]]] = {}
    for line in jsonl.read([path], BfclAnswer, bad=bad):
        found.setdefault(line.record.id, []).append(line)
    return found


def official(pool: Pool) -> dict[str | None, Task]:
    """The environment's own tasks by the names of their entries."""
    splits = pool.description.held_out
    return {task.start.name: task for split in splits for task in pool.tasks(split)}


def tasks(
    questions: Iterable[Line[BfclQuestion]],
    solved: Answers,
    pool: Pool,
    refuse: Refuse,
    leave: Leave,
) -> Iterator[Task]:
    """The tasks of the questions, in order, made with a running pool of bfcl.

    `refuse` is told the questions that are none, `leave` the answers without a question; both raise
    or return.
    """
    own = official(pool)
    asked: set[str] = set()
    for line in questions:
        asked.add(line.record.id)
        try:
            _check_keys(line.raw)
            yield _task(line.record, solved.get(line.record.id, []), pool, own)
        except _NotATask as error:
            refuse(line, f"{line.record.id[:60]}: {error}")
    for id_, lines in solved.items():
        if id_ not in asked:
            leave(lines[0], f"no question for {id_}")


def selected(directory: Path, pool: Pool) -> list[Task]:
    """The official tasks that DIR names (`files.ids_file`), none where the file is not there.

    Their split is the one they were exported with (`files.splits_file`), else their category.
    """
    path = files.ids_file(directory)
    known = official(pool)
    wanted = [name for names in _listed(path).values() for name in names]
    if strangers := [name for name in wanted if name not in known]:
        raise BadInput(str(path), None, f"no official entry is called {strangers[0]!r}")
    listed = _listed(files.splits_file(directory)).items()
    splits = {name: split for split, names in listed for name in names}
    tasks = [known[name] for name in wanted]
    return [structs.replace(t, split=splits.get(t.start.name, t.split)) for t in tasks]


def _listed(path: Path) -> dict[str, list[str]]:
    """Lists of ids by name; none where the file is not there. Raises BadInput."""
    if not path.exists():
        return {}
    try:
        raw = path.read_bytes()
        listed = msgspec.json.decode(raw, type=dict[str, list[str]])
        _check_keys(raw)
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from None
    except (msgspec.MsgspecError, ValueError, _NotATask) as error:
        raise BadInput(str(path), None, str(error)) from None
    return listed


def _check_keys(raw: bytes) -> None:
    """Raises _NotATask where an object of the JSON text has a key twice."""

    # a decoder takes one of the two without a word
    def pairs(items: list[tuple[str, Any]]) -> dict[str, Any]:
        key, count = next(iter(Counter(key for key, _ in items).most_common(1)), ("", 0))
        if count > 1:
            raise _NotATask(f"the key {key[:60]!r} stands there twice")
        return dict(items)

    try:
        json.loads(raw, object_pairs_hook=pairs, parse_int=str)
    except RecursionError:
        raise _NotATask("objects or lists lie too deep in one another") from None


def _task(
    entry: BfclQuestion, solved: list[Line[BfclAnswer]], pool: Pool, own: Mapping[str | None, Task]
) -> Task:
    if not _ID.fullmatch(entry.id):
        raise _NotATask(f"the id {entry.id[:60]!r} is no plain name")
    if len(solved) != 1:
        raise _NotATask(f"{'no answer' if not solved else f'{len(solved)} answers'} for {entry.id}")
    tools = {name: tool for name, tool in pool.tools.items() if tool.app in entry.involved_classes}
    query, solution = _query(entry), _solution(solved[0], tools)
    if len(query) != len(solution):
        raise _NotATask(f"{len(query)} turns of questions, and {len(solution)} of answers")
    if known := own.get(entry.id):
        # a turn without a message has the official words for new functions
        texts = [text or said for text, said in zip(query, known.query, strict=False)]
        if (known.query, known.solution) != (texts, solution):
            other = "is an official entry, and not this one: give it an id of its own"
            raise _NotATask(f"{entry.id} {other}")
        return known
    if "" in query or entry.missed_function or entry.excluded_function:
        silent = "a turn in which the user says nothing"
        late = "functions that come later or are left out"
        raise _NotATask(f"{silent}, or {late}: only official entries have them")
    start = Start(config={"classes": entry.involved_classes, "state": entry.initial_config})
    (session,) = pool.open([start])
    if isinstance(session, Fault):
        raise _NotATask(session.message)
    try:
        if entry.coevolve is None:
            _play(session, solution, solved[0], pool)
    finally:
        pool.close([session])
    return _record(entry, query, solution, start, pool.description.version)


def _play(
    session: EnvSession, solution: list[list[Call]], line: Line[BfclAnswer], pool: Pool
) -> None:
    """Raises _NotATask for an answer without calls, or with one that the environment refuses."""
    place, state = f"{line.where}:{line.number}", (session.start.config or {}).get("state")
    if not any(solution):
        raise _NotATask(f"{place}: an answer without any call")
    for number, calls in enumerate(solution):
        (results,) = pool.step([(session, number, calls)])
        if isinstance(results, Fault):
            raise _NotATask(f"{place}: {results.message}")
        for call, result in zip(calls, results, strict=False):
            written = f"{place}: {call_text(call)[:200]}"
            if result.fatal or result.error in _NEVER_RUN:
                raise _NotATask(f"{written}: {result.fatal or result.observation}")
            if name := _misnamed(call, pool.tools[call.tool], state):
                why = f"{name} is a number, and nothing has this text for an id"
                raise _NotATask(f"{written}: {why}")


def _misnamed(call: Call, tool: Tool, state: Any) -> str | None:
    """A parameter whose number is a text that the start state has nowhere.

    The environment runs texts in place of ids, since official states have some.
    """
    schemas = tool.parameters.get("properties", {})
    for name, value in call.arguments.items():
        is_number = schemas[name].get("type") in ("integer", "number")
        if is_number and isinstance(value, str) and not _holds(state, value):
            return name
    return None


def _holds(value: Any, text: str) -> bool:
    items = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return value == text or any(_holds(item, text) for item in items)


def _query(entry: BfclQuestion) -> list[str]:
    """One user message a turn; none at all is an empty text."""
    if not entry.question:
        raise _NotATask("no turns")
    for number, turn in enumerate(entry.question, 1):
        if len(turn) > 1 or any(m.role != "user" or not m.content.strip() for m in turn):
            roles = ", ".join(message.role for message in turn)
            raise _NotATask(f"turn {number} must be one message that the user writes, not: {roles}")
    return [turn[0].content if turn else "" for turn in entry.question]


def _solution(line: Line[BfclAnswer], tools: Mapping[str, Tool]) -> list[list[Call]]:
    try:
        _check_keys(line.raw)
        return [[_call(text, tools) for text in turn] for turn in line.record.ground_truth]
    except (Unreadable, _NotATask) as error:
        raise _NotATask(f"{line.where}:{line.number}: {error}") from None


def _call(text: str, tools: Mapping[str, Tool]) -> Call:
    calls = from_python(text, tools)
    if len(calls) != 1:
        raise _NotATask(f"not one call: {text[:80]}")
    (call,) = calls
    if call.tool not in tools:
        raise _NotATask(f"{call.tool[:60]} is no function of the entry's classes")
    schema = tools[call.tool].parameters
    known, required = schema.get("properties", {}), schema.get("required", [])
    wrong = [name for name in call.arguments if name not in known]
    wrong += [name for name in required if name not in call.arguments]
    if wrong:
        raise _NotATask(f"{call.tool} takes {', '.join(known) or 'nothing'}; see {wrong[0]!r}")
    return call


def _record(
    entry: BfclQuestion, query: list[str], solution: list[list[Call]], start: Start, version: str
) -> Task:
    if entry.coevolve is None:
        return Task(
            id=task_id("bfcl", start, query, solution, Verifier()),
            env="bfcl",
            env_version=version,
            tags=list(entry.involved_classes),
            origin=Origin("import"),
            query=query,
            solution=solution,
            start=start,
        )
    held = msgspec.to_builtins({"query": query, "solution": solution, "start": start})
    try:
        task = msgspec.convert(entry.coevolve | held, Task)
    except msgspec.ValidationError as error:
        raise _NotATask(f"coevolve: {error}") from None
    id_ = task_id(task.env, start, query, solution, task.verifier)
    if task.env not in ENVIRONMENTS or task.id != id_:
        hint = "take its `coevolve` key out, and it is a task of its own"
        raise _NotATask(f"changed since it was exported: {hint}")
    return task
