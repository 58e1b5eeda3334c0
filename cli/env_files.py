"""`coevolve env export` and `env import`: tasks and rollouts in a benchmark's own file formats."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from coevolve.bfcl import files as bfcl
from coevolve.environments.client import Pool
from coevolve.errors import UsageError
from coevolve.records import Rollout, Task
from coevolve_cli import streams

Name = Annotated[str, typer.Argument(metavar="NAME", help="bfcl.")]


def export(
    name: Name,
    files: streams.Files = None,
    to: Annotated[str, typer.Option("--to", metavar="DIR", help="The folder: a BFCL_PROJECT_ROOT.")] = "bfcl",
    rejects: streams.Rejects = None,
    quiet: streams.Quiet = False,
) -> None:
    """Write tasks (questions and answers) and rollouts (results, with their tasks) as the benchmark's own files.

    Official tasks keep their ids and are not copied. A rollout that the official code would misread goes to --rejects.
    Prints one line an entry: the record's id, the name it has there.
    """
    _only_bfcl(name)
    directory, names, results = Path(to), bfcl.Names(), []
    faults = streams.Faults(rejects=rejects)
    with streams.stage("env export", files, "-", faults, quiet=quiet) as s, Pool(name) as pool:
        refused = 0
        for line in s.read(Task | Rollout):
            record = line.record
            task = record if isinstance(record, Task) else record.task
            if task is None:
                raise UsageError(f"rollout {record.id} does not carry its task")
            entry = names.of(task)
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
    directory: Annotated[str, typer.Argument(metavar="DIR", help="A folder that `env export` wrote.")],
    output: streams.Output = "-",
    quiet: streams.Quiet = False,
) -> None:
    """Print the tasks of question and answer files as task records; nothing of the files is evaluated."""
    _only_bfcl(name)
    where = Path(directory)
    with Pool(name) as pool, streams.stage("env import", None, output, quiet=quiet, reads=False) as s:
        found = bfcl.read_tasks(
            str(bfcl.questions_file(where)), str(bfcl.answers_file(where)), pool.tools, pool.description.version
        )
        for task in found:
            s.write(task)


def _only_bfcl(name: str) -> None:
    if name != "bfcl":
        raise UsageError(f"only bfcl has file formats of its own, not {name!r}")
