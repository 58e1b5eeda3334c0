"""The first pass: what the rules need to know of all rollouts, in memory bounded by groups and patterns.

Per rollout only a row of numbers is kept (where its line lies, which task it belongs to, how it ended); per task and training step
a `Group`; per environment and iteration an `Update` with counts of patterns. Nothing here depends on the order in which the
rollouts arrive: where only some rollouts can be kept as evidence, a hash of their ids decides which.

Rollouts that end in `env_error` are counted as masked and otherwise ignored.
"""

from __future__ import annotations

import hashlib
from array import array
from bisect import insort
from collections import Counter
from collections.abc import Collection, Hashable, Iterator, Mapping
from itertools import pairwise
from typing import NamedTuple

from coevolve.signals import incidents
from coevolve.signals.history import Key
from coevolve.signals.patterns import Pattern, called_tools, patterns
from coevolve.signals.settings import Settings
from coevolve.signals.views import MASKED, Head, Whole

_ANY = 1 << 128
_ROW = 32
"""Bits of a row's number in a packed (name, row)."""


class Place(NamedTuple):
    """Where a rollout's line can be read again. `file` is an index into the source's files."""

    file: int
    offset: int
    line: int


class Rows:
    """One row a rollout, in columns: 33 bytes each."""

    def __init__(self) -> None:
        self.file, self.offset, self.line = array("I"), array("Q"), array("I")
        self.task, self.sample, self.name, self.success = (
            array("I"),
            array("I"),
            array("Q"),
            array("B"),
        )

    def add(self, place: Place, task: int, sample: int, name: int, success: bool) -> int:
        self.file.append(place.file)
        self.offset.append(place.offset)
        self.line.append(place.line)
        self.task.append(task)
        self.sample.append(sample)
        self.name.append(name)
        self.success.append(success)
        return len(self.name) - 1

    def place(self, row: int) -> Place:
        return Place(self.file[row], self.offset[row], self.line[row])

    def ordered(self, rows: Collection[int]) -> list[int]:
        """By sample, then by name: the same order whatever order they were read in."""
        return sorted(rows, key=lambda row: (self.sample[row], self.name[row]))

    def first(self, rows: Collection[int], limit: int) -> list[int]:
        """Those with the smallest names."""
        return sorted(rows, key=self.name.__getitem__)[:limit]


def name_of(id_: str) -> int:
    """A 63-bit name for a rollout's id."""
    return int.from_bytes(hashlib.blake2b(id_.encode(), digest_size=8).digest(), "big") >> 1


class Group:
    """The rollouts of one task in one training step."""

    __slots__ = ("successes", "rows", "best")

    def __init__(self) -> None:
        self.successes = 0
        self.rows = array("I")
        self.best: tuple[float, int, int, int] | None = None
        """The failure that came furthest: (progress, distinct tools, its name, its row)."""

    @property
    def trials(self) -> int:
        return len(self.rows)


class Table:
    """Things rollouts showed: how many rollouts each, and a few of these as evidence, those with the smallest names."""

    def __init__(self, limit: int) -> None:
        self.counts: Counter[Hashable] = Counter()
        self._limit = limit
        self._kept: dict[Hashable, list[int]] = {}
        self._worst: dict[Hashable, int] = {}
        """The largest name kept, once `limit` are."""

    def add(self, things: Collection[Hashable], name: int, row: int) -> None:
        """Notes the distinct things of one rollout."""
        self.counts.update(things)
        packed, worst = name << _ROW | row, self._worst.get
        for thing in things:
            if packed < worst(thing, _ANY):
                self._keep(thing, packed)

    def _keep(self, thing: Hashable, packed: int) -> None:
        rows = self._kept.setdefault(thing, [])
        insort(rows, packed)
        del rows[self._limit :]
        if len(rows) == self._limit:
            self._worst[thing] = rows[-1]

    def rows(self, thing: Hashable) -> list[int]:
        return [packed & ((1 << _ROW) - 1) for packed in self._kept[thing]]

    def __iter__(self) -> Iterator[tuple[Hashable, int]]:
        """Each thing with its count, sorted."""
        return iter(sorted(self.counts.items()))


class Shown(NamedTuple):
    """What one rollout showed."""

    tools: list[str]
    patterns: list[Collection[Pattern]]
    """By family, in the order of `counted_families`."""
    errors: Collection[Pattern]
    stalls: Collection[str]
    unasked: Collection[str]


class Update:
    """One environment in one iteration."""

    def __init__(self, settings: Settings) -> None:
        limit = settings.max_evidence
        self.rollouts = self.successes = self.masked = self.groups = 0
        self.patterns = {family: Table(limit) for family in counted_families(settings)}
        """By family."""
        self.called: dict[str, array[int]] = {}
        """Rows of the rollouts that called each tool."""
        self.successions: Counter[Pattern] = Counter()
        """Rollouts in which one tool was called right after another; only where the inventory is known."""
        self.errors = Table(limit)
        """By tool and kind of error."""
        self.stalls = Table(limit)
        """By task and by what stalled: a tool, or the budget that ran out."""
        self.destructions = Table(limit)
        """By task and tool."""

    def calls(self, tool: str) -> int:
        """Rollouts that called the tool."""
        return len(self.called.get(tool, ()))

    def count(self, shown: Shown, distinct: list[str], task_id: str, name: int, row: int) -> None:
        """Counts what one rollout showed."""
        for tool in distinct:
            rows = self.called.get(tool)
            if rows is None:
                rows = self.called[tool] = array("I")
            rows.append(row)
        for table, held in zip(self.patterns.values(), shown.patterns, strict=True):
            table.add(held, name, row)
        if shown.errors:
            self.errors.add(shown.errors, name, row)
        if shown.stalls:
            self.stalls.add([(task_id, what) for what in shown.stalls], name, row)
        if shown.unasked:
            self.destructions.add([(task_id, tool) for tool in shown.unasked], name, row)


def counted_families(settings: Settings) -> tuple[str, ...]:
    """Families of patterns that have a table; single tools are in `Update.called`."""
    return tuple(
        family for family in settings.patterns if family != "1gram" and "rare" in settings.kinds
    )


class Tally:
    def __init__(self, settings: Settings, apps: Mapping[str, str]) -> None:
        self.settings, self.apps = settings, apps
        self.rows = Rows()
        self.groups: dict[Key, dict[tuple[int, int], Group]] = {}
        self.updates: dict[tuple[str, int], Update] = {}
        self._tasks: dict[Key, int] = {}
        self._kinds = frozenset(settings.kinds)
        self._families = counted_families(settings)

    def add(self, rollout: Head, raw: bytes, place: Place) -> None:
        """Counts one rollout that has a verdict. `raw` is its line, for what only few rollouts need decoded.

        Raises msgspec.MsgspecError where what must be decoded is no record; nothing is counted then.
        """
        if rollout.stop_reason == MASKED:
            self._update(rollout).masked += 1
            return
        shown = self._shown(rollout, raw)
        update = self._update(rollout)
        key = (rollout.env, rollout.task_id)
        success, name = bool(rollout.verdict), name_of(rollout.id)
        row = self.rows.add(
            place, self._tasks.setdefault(key, len(self._tasks)), rollout.sample, name, success
        )
        update.rollouts += 1
        update.successes += success
        group = self._group(key, (rollout.iteration, rollout.step), update)
        group.rows.append(row)
        group.successes += success
        distinct = sorted(set(shown.tools))
        if not success:
            depth = (rollout.progress, len(distinct), name, row)
            if group.best is None or depth > group.best:
                group.best = depth
        update.count(shown, distinct, rollout.task_id, name, row)
        if self.apps:
            update.successions.update(set(pairwise(shown.tools)))

    def _update(self, rollout: Head) -> Update:
        update = self.updates.get((rollout.env, rollout.iteration))
        if update is None:
            update = self.updates[rollout.env, rollout.iteration] = Update(self.settings)
        return update

    def _shown(self, rollout: Head, raw: bytes) -> Shown:
        """All that has to be decoded, before anything is counted."""
        whole = rollout if isinstance(rollout, Whole) else None
        tools = rollout.tools or called_tools(whole or incidents.decode(raw))
        return Shown(
            tools,
            [patterns(family, tools, whole, self.apps) for family in self._families],
            incidents.errors(whole) if whole and "error" in self._kinds else (),
            incidents.stalls(whole) if whole and "stall" in self._kinds else (),
            incidents.unasked(whole, raw) if whole and "safety" in self._kinds else (),
        )

    def trials(self, key: Key, iteration: int) -> int:
        """Rollouts of the task in the iteration."""
        return sum(group.trials for when, group in self.groups[key].items() if when[0] == iteration)

    def _group(self, key: Key, when: tuple[int, int], update: Update) -> Group:
        steps = self.groups.get(key)
        if steps is None:
            steps = self.groups[key] = {}
        group = steps.get(when)
        if group is None:
            group = steps[when] = Group()
            update.groups += 1
        return group
