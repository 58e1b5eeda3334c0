"""New tasks into a task set: D_{t+1} = D_t merged with V (CoEvolve, the loop).

The result is the old set in its order, then the new tasks that are taken, in theirs. The rules,
each a function below that says which tasks go:

1. `_refusal`: a new task that is not known to be valid, touches a held-out set, or is a duplicate.
2. `_over_share`: where there was an old set, at most `max_share` of the result is new; of too many,
   the kinds that have the fewest tasks go in first.
3. `_evicted`: beyond `max_tasks` the oldest synthetic tasks go, never those of iteration 0: they
   anchor the set, so that the loop does not chase its own tail (ACE, arXiv 2608.27260).

The paper's merge is the plain union (`max_share` 1, no `max_tasks`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Annotated, ClassVar, NamedTuple

from coevolve.jsonl import Line
from coevolve.merging.duplicates import HeldOutTasks, SeenTasks
from coevolve.options import Option, Settings
from coevolve.records import Task


class MergeSettings(Settings, frozen=True, kw_only=True):
    """Which new tasks are taken, and how many."""

    PANEL: ClassVar[str] = "Merging"

    max_share: Annotated[float, Option(ge=0, le=1)] = 0.5
    """New tasks may be at most this share of the result; 1 is no limit."""
    max_tasks: Annotated[int | None, Option(default="no limit", ge=1)] = None
    """Beyond this number the oldest tasks that the loop made are dropped."""
    unvalidated: Annotated[bool, Option()] = False
    """Take tasks without a verdict of `validate`, too."""


class RefusedTask(NamedTuple):
    line: Line[Task]
    reason: str


class Merged(NamedTuple):
    kept: list[Line[Task]]  # Lines as they were read, so that unknown fields stay
    added: int
    refused: list[RefusedTask]
    """New tasks that were not taken, and old ones that had to go, each with its reason."""


def merge(
    old: Iterable[Line[Task]],
    new: Iterable[Line[Task]],
    held_out: HeldOutTasks,
    settings: MergeSettings = MergeSettings(),
) -> Merged:
    """Reads both wholly, `old` first."""
    seen, refused = SeenTasks(), list[RefusedTask]()

    def without(lines: list[Line[Task]], reasons: dict[int, str]) -> list[Line[Task]]:
        refused.extend(RefusedTask(lines[place], reason) for place, reason in reasons.items())
        return [line for place, line in enumerate(lines) if place not in reasons]

    old = list(old)
    doubles = [place for place, line in enumerate(old) if not seen.add(line.record)]
    old = without(old, dict.fromkeys(doubles, "duplicate"))
    new = list(new)
    reasons = [_refusal(line.record, seen, held_out, settings.unvalidated) for line in new]
    new = without(new, {place: reason for place, reason in enumerate(reasons) if reason})
    over = _over_share(old, new, settings.max_share)
    new = without(new, dict.fromkeys(over, "over the share of new tasks"))
    evicted = _evicted(old + new, settings.max_tasks)
    kept = without(old + new, dict.fromkeys(evicted, "evicted"))
    return Merged(kept, len(new) - sum(place >= len(old) for place in evicted), refused)


def _refusal(task: Task, seen: SeenTasks, held_out: HeldOutTasks, unvalidated: bool) -> str | None:
    """Why a new task is not taken, or None."""
    if task.validity is None and not unvalidated:
        return "not validated"
    if task.validity is not None and task.validity.verdict != "valid":
        return f"verdict {task.validity.verdict}"
    return held_out.touches(task) or (None if seen.add(task) else "duplicate")


def _over_share(old: list[Line[Task]], new: list[Line[Task]], share: float) -> list[int]:
    """Places of the new tasks that are too many: none, or all but those taken, the kinds with the
    fewest tasks first, each kind in order."""
    most = len(new) if not old or share >= 1 else int(len(old) * share / (1 - share) + 1e-9)
    counts = Counter(line.record.kind for line in old)
    waiting: dict[str, list[int]] = {}
    for place, line in enumerate(new):
        waiting.setdefault(line.record.kind, []).append(place)
    for _ in range(min(most, len(new))):
        kind = min(waiting, key=lambda k: (counts[k], waiting[k][0]))
        waiting[kind].pop(0)
        counts[kind] += 1
        if not waiting[kind]:
            del waiting[kind]
    return sorted(place for places in waiting.values() for place in places)


def _evicted(lines: list[Line[Task]], most: int | None) -> list[int]:
    """Places of the tasks that go, the oldest iteration first; anchors and other origins stay."""
    origins = [line.record.origin for line in lines]
    synthetic = [i for i, o in enumerate(origins) if o.kind == "synthesis" and o.iteration > 0]
    oldest_first = sorted(synthetic, key=lambda place: (origins[place].iteration, place))
    excess = 0 if most is None else max(0, len(lines) - most)
    return sorted(oldest_first[:excess])
