"""New tasks into a task set: D_{t+1} = D_t merged with V (CoEvolve, the loop).

The result is the old set in its order, then the new tasks that are taken, in theirs. A new task is
refused when it is not known to be valid, is a duplicate, or touches a held-out set. At most
`max_share` of the result is new where there was an old set; of too many, the kinds that have the
fewest tasks go first. Beyond `max_tasks` the oldest synthetic tasks go, never those of iteration 0:
they anchor the set, so that the loop does not chase its own tail (ACE, arXiv 2608.27260). The
paper's merge is the plain union (`max_share` 1, no `max_tasks`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Annotated, ClassVar, NamedTuple

from coevolve.jsonl import Line
from coevolve.merging.duplicates import HeldOut, Seen
from coevolve.options import Option, Settings
from coevolve.records import Task


class MergeSettings(Settings, frozen=True, kw_only=True):
    """Which new tasks are taken, and how many."""

    PANEL: ClassVar[str] = "Merging"

    max_share: Annotated[
        float,
        Option("New tasks may be at most this share of the result; 1 is no limit.", ge=0, le=1),
    ] = 0.5
    max_tasks: Annotated[
        int | None,
        Option(
            "Beyond this number the oldest tasks that the loop made are dropped.",
            default="no limit",
            ge=1,
        ),
    ] = None
    unvalidated: Annotated[bool, Option("Take tasks without a verdict of `validate`, too.")] = False


class Refused(NamedTuple):
    line: Line[Task]
    reason: str


class Merged(NamedTuple):
    kept: list[Line[Task]]
    """Lines as they were read, so that unknown fields stay."""
    added: int
    refused: list[Refused]
    """New tasks that were not taken, and old ones that had to go, each with its reason."""


def merge(
    old: Iterable[Line[Task]],
    new: Iterable[Line[Task]],
    held_out: HeldOut,
    settings: MergeSettings = MergeSettings(),
) -> Merged:
    """Reads both wholly, `old` first."""
    seen, refused = Seen(), []
    kept: list[Line[Task]] = []
    for line in old:
        (kept.append(line) if seen.add(line.record) else refused.append(Refused(line, "duplicate")))
    fresh = []
    for line in new:
        reason = _refusal(line.record, seen, held_out, settings)
        (refused.append(Refused(line, reason)) if reason else fresh.append(line))
    taken = _share(kept, fresh, settings.max_share)
    refused += [
        Refused(line, "over the share of new tasks")
        for place, line in enumerate(fresh)
        if place not in taken
    ]
    merged = kept + [line for place, line in enumerate(fresh) if place in taken]
    evicted = _evicted(merged, settings.max_tasks)
    refused += [Refused(line, "evicted") for place, line in enumerate(merged) if place in evicted]
    result = [line for place, line in enumerate(merged) if place not in evicted]
    return Merged(
        result,
        sum(place >= len(kept) for place in range(len(merged)) if place not in evicted),
        refused,
    )


def _refusal(task: Task, seen: Seen, held_out: HeldOut, settings: MergeSettings) -> str | None:
    if task.validity is None:
        if not settings.unvalidated:
            return "not validated"
    elif task.validity.verdict != "valid":
        return f"verdict {task.validity.verdict}"
    return held_out.touches(task) or (None if seen.add(task) else "duplicate")


def _share(old: list[Line[Task]], fresh: list[Line[Task]], share: float) -> set[int]:
    """Places of the new tasks to take: all, or the kinds with the fewest tasks first, each kind in
    order."""
    most = len(fresh) if not old or share >= 1 else int(len(old) * share / (1 - share) + 1e-9)
    if most >= len(fresh):
        return set(range(len(fresh)))
    counts = Counter(line.record.kind for line in old)
    waiting: dict[str, list[int]] = {}
    for place, line in enumerate(fresh):
        waiting.setdefault(line.record.kind, []).append(place)
    taken: set[int] = set()
    while len(taken) < most:
        kind = min(waiting, key=lambda k: (counts[k], waiting[k][0]))
        taken.add(waiting[kind].pop(0))
        counts[kind] += 1
        if not waiting[kind]:
            del waiting[kind]
    return taken


def _evicted(lines: list[Line[Task]], most: int | None) -> set[int]:
    """Places of the tasks that have to go, the oldest iteration first; anchors and the
    environment's own tasks stay."""
    if most is None or len(lines) <= most:
        return set()
    origins = [line.record.origin for line in lines]
    open_ = [
        place
        for place, origin in enumerate(origins)
        if origin.kind == "synthesis" and origin.iteration > 0
    ]
    return set(
        sorted(open_, key=lambda place: (origins[place].iteration, place))[: len(lines) - most]
    )
