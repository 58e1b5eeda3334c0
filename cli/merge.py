"""`coevolve merge [NEW] --into TASKS`: new tasks into a task set."""

from __future__ import annotations

from collections import Counter
from typing import Annotated

import msgspec
import typer

from coevolve import jsonl
from coevolve.errors import UsageError
from coevolve.merging.duplicates import HeldOut
from coevolve.merging.merge import Limits, Merged, merge
from coevolve.records import Task
from coevolve_cli.streams import (
    Config,
    ExitStatus,
    Faults,
    Files,
    MaxErrors,
    OnError,
    Output,
    Quiet,
    Rejects,
    Stage,
    stage,
)

EXAMPLES = """
  coevolve validate candidates.jsonl | coevolve merge --into tasks.jsonl -o tasks.jsonl
  coevolve merge valid.jsonl --into tasks.jsonl --exclude heldout.jsonl --max-share 0.3 > tasks.next.jsonl
  coevolve merge valid.jsonl --max-share 1 > tasks.0.jsonl
"""


def command(
    files: Files = None,
    into: Annotated[
        list[str] | None,
        typer.Option("--into", metavar="FILE", help="The task set so far.", show_default=False),
    ] = None,
    output: Output = "-",
    max_share: Annotated[
        float,
        typer.Option(
            "--max-share",
            min=0,
            max=1,
            help="New tasks' share of the result at most; 1 is no limit.",
        ),
    ] = 0.5,
    max_tasks: Annotated[
        int | None,
        typer.Option(
            "--max-tasks",
            min=1,
            help="Evict the oldest synthetic tasks beyond this.",
            show_default=False,
        ),
    ] = None,
    exclude: Annotated[
        list[str] | None,
        typer.Option(
            "--exclude",
            metavar="FILE",
            help="Held-out tasks: nothing that touches them.",
            show_default=False,
        ),
    ] = None,
    unvalidated: Annotated[
        bool, typer.Option("--unvalidated", help="Take tasks without a verdict, too.")
    ] = False,
    rejects: Rejects = None,
    on_error: OnError = "fail",
    max_errors: MaxErrors = None,
    exit_status: ExitStatus = False,
    quiet: Quiet = False,
    config: Config = None,
) -> None:
    """Merge new, valid tasks into a task set: no duplicates, a capped share of new ones, the first set kept as anchors.

    Old tasks come first, in their order. FILE of --into may be the output too.
    """
    named = [*(files or ["-"]), *(into or []), *(exclude or [])]
    if named.count("-") > 1:
        raise UsageError("only one of [FILE], --into and --exclude can be standard input")
    limits = Limits(max_share, max_tasks, unvalidated)
    faults = Faults(on_error, max_errors, rejects)
    with stage("merge", files, output, faults, quiet=quiet, exit_status=exit_status) as s:
        held_out = HeldOut(line.record for line in jsonl.read(exclude or [], Task))
        merged = merge(jsonl.read(into or [], Task), s.read(Task), held_out, limits)
        for line in merged.kept:
            s.write_raw(line.raw + b"\n")
        _report(s, merged, max_tasks)


def _report(s: Stage, merged: Merged, max_tasks: int | None) -> None:
    for line, reason in merged.refused:
        s.keep_reject({"reason": reason, "task": msgspec.to_builtins(line.record)})
    s.note(f"added {merged.added}")
    reasons = Counter(reason for _, reason in merged.refused)
    if reasons:
        s.note(", ".join(f"{reason} {n}" for reason, n in sorted(reasons.items())))
    if max_tasks is not None and len(merged.kept) > max_tasks and not s.quiet:
        jsonl.warn(
            f"merge: {len(merged.kept)} tasks stay, more than --max-tasks {max_tasks}: anchors are never evicted"
        )
