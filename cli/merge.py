"""`coevolve merge [NEW] --into TASKS`: new tasks into a task set."""

from __future__ import annotations

from collections import Counter
from typing import Annotated

import msgspec

from coevolve import jsonl
from coevolve.errors import UsageError
from coevolve.merging.duplicates import HeldOutTasks
from coevolve.merging.merge import Merged, MergeSettings, merge
from coevolve.options import Option
from coevolve.records import Task
from coevolve_cli.options import Files
from coevolve_cli.stage_options import Streams
from coevolve_cli.streams import Stage


class TaskSets(Streams, frozen=True, kw_only=True):
    into: Annotated[list[str], Option(file="in")] = []
    """The task set so far; may be given several times, and be the output too."""
    exclude: Annotated[list[str], Option(file="in")] = []
    """Held-out tasks: no new task that touches one of them is taken."""


def command(files: Files, settings: MergeSettings, io: TaskSets) -> None:
    """Merge new, valid tasks into a task set: no duplicates, a capped share of new ones, the first
    set kept as anchors.

    Old tasks come first, in their order.
    """
    if [*(files or ["-"]), *io.into, *io.exclude].count("-") > 1:
        raise UsageError("only one of [FILE], --into and --exclude can be standard input")
    with io.stage("merge", files) as s:
        held_out = HeldOutTasks(line.record for line in jsonl.read(io.exclude, Task))
        merged = merge(jsonl.read(io.into, Task), s.read(Task), held_out, settings)
        for line in merged.kept:
            s.write_raw(line.raw + b"\n")
        _report(s, merged, settings.max_tasks)


def _report(s: Stage, merged: Merged, max_tasks: int | None) -> None:
    for line, reason in merged.refused:
        s.keep_reject({"reason": reason, "task": msgspec.to_builtins(line.record)})
    s.note(f"added {merged.added}")
    reasons = Counter(reason for _, reason in merged.refused)
    if reasons:
        s.note(", ".join(f"{reason} {n}" for reason, n in sorted(reasons.items())))
    if max_tasks is not None and len(merged.kept) > max_tasks and not s.quiet:
        stay = f"{len(merged.kept)} tasks stay, more than --max-tasks {max_tasks}"
        jsonl.warn(f"merge: {stay}: anchors are never evicted")
