"""`coevolve env export` and `env import`: tasks and rollouts in a benchmark's own file formats."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from coevolve.bfcl import files as bfcl
from coevolve.bfcl import reading
from coevolve.bfcl.files import BfclAnswer, BfclQuestion
from coevolve.environments.client import Pool
from coevolve.errors import BadInput, UsageError
from coevolve.jsonl import BadLine, Line
from coevolve.options import Option
from coevolve.records import Rollout, Task
from coevolve_cli.options import Files
from coevolve_cli.stage_options import AnyVersion, Streams

Name = Annotated[str, typer.Argument(metavar="NAME", help="bfcl.")]


class ExportOptions(Streams, frozen=True, kw_only=True):
    to: Annotated[str, Option(metavar="DIR")] = "bfcl"
    """The folder, empty or not there yet: a BFCL_PROJECT_ROOT."""
    any_version: AnyVersion = False


def export(name: Name, files: Files, io: ExportOptions) -> None:
    """Write tasks (questions and answers) and rollouts (results, with their tasks) as the
    benchmark's own files.

    The folder is empty or not there yet. Official tasks keep their ids and are not copied. A
    rollout with a call that would do harm in the official code goes to --rejects. Prints one line
    an entry: the record's id, the name it has there.
    """
    _only_bfcl(name)
    if not io.to:
        raise UsageError("--to needs the name of a folder")
    directory, names, results = Path(io.to), bfcl.BfclIds(), []
    with io.stage("env export", files) as s, Pool(name, any_version=io.any_version) as pool:
        bfcl.claim(directory)
        refused, official = 0, reading.official(pool)
        for line in s.read(Task | Rollout):
            record = line.record
            task = record if isinstance(record, Task) else record.task
            if task is None:
                raise UsageError(f"rollout {record.id} does not carry its task")
            pool.compare([task.env_version])
            entry = names.of(task)
            if entry in names.official and entry not in official:
                raise BadInput(line.where, line.number, f"no official entry is called {entry}")
            if isinstance(record, Rollout):
                try:
                    results.append(bfcl.result(entry, record, pool.tools))
                except bfcl.Misread as error:
                    refused += 1
                    s.keep_reject({"rollout": record.id, "reason": str(error)})
                    continue
            s.write({"id": record.id, "name": entry})
        bfcl.write_tasks(directory, names, pool.tools)
        bfcl.write_results(directory, results)
        if refused:
            s.note(f"refused {refused}")


def import_(
    name: Name,
    directory: Annotated[
        str, typer.Argument(metavar="DIR", help="A folder that `env export` wrote, or one like it.")
    ],
    io: Streams,
) -> None:
    """Print the tasks of question and answer files as task records, then the official ones that the
    folder names.

    Nothing of the files is evaluated, and nothing is left out silently: what is no task stops the
    command with its line, or goes to --rejects (--on-error skip). A task that was exported comes
    back as it was.
    """
    _only_bfcl(name)
    where, skip = Path(directory), io.on_error == "skip"
    questions, aside = bfcl.questions_file(where), list[BadLine]()
    if not questions.exists() and not bfcl.ids_file(where).exists():
        raise UsageError(
            f"{where} has neither {questions.relative_to(where)} nor {bfcl.ids_file(where).name}"
        )

    def leave(line: Line[BfclAnswer], reason: str) -> None:
        if not skip:
            raise BadInput(line.where, line.number, reason)
        aside.append(BadLine(line.where, line.number, reason, line.raw))

    with Pool(name) as pool, io.stage("env import", [str(questions)]) as s:
        if questions.exists():
            solved = reading.answers(str(bfcl.answers_file(where)), aside if skip else None)
            for task in reading.tasks(s.read(BfclQuestion), solved, pool, s.reject, leave):
                s.write(task)
        for task in reading.selected(where, pool):
            s.write(task)
        for bad in aside:
            s.keep_reject({"where": bad.where, "line": bad.number, "reason": bad.reason})
        if aside:
            s.note(f"answers set aside {len(aside)}")


def _only_bfcl(name: str) -> None:
    if name != "bfcl":
        raise UsageError(f"only bfcl has file formats of its own, not {name!r}")
