"""The first pass: what the rules need to know of all rollouts, in memory bounded by groups.

A rollout costs a row of numbers: where its line lies, which task it belongs to, how it ended. A
task in one training step costs a `RolloutGroup`, an environment in one iteration an
`IterationCounts`. Nothing here depends on the order in which the rollouts arrive: where only some
of them can be kept as evidence, a hash of their ids decides which. Rollouts that end in `env_error`
are counted as masked and otherwise ignored.
"""

from __future__ import annotations

import hashlib
from array import array
from bisect import insort
from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping
from itertools import pairwise
from typing import NamedTuple

from coevolve.records import MASKED
from coevolve.signals.history import TaskKey
from coevolve.signals.patterns import Pattern, called_tools, patterns
from coevolve.signals.settings import SignalSettings
from coevolve.signals.views import RolloutHead, RolloutSteps, with_steps

_ANY = 1 << 128
_ROW_BITS = 32  # Bits of a row's number in a packed (id hash, row)


class LinePlace(NamedTuple):
    """Where a rollout's line can be read again. `file` is an index into the reader's files."""

    file: int
    offset: int  # Bytes from the beginning of the file
    line: int


class RolloutColumns:
    """One row a rollout, in columns: 33 bytes each."""

    def __init__(self) -> None:
        self.file, self.line, self.task, self.sample = (array("I") for _ in range(4))
        self.offset, self.id_hash, self.success = array("Q"), array("Q"), array("B")

    def add(self, place: LinePlace, task: int, sample: int, id_hash: int, success: bool) -> int:
        self.file.append(place.file)
        self.offset.append(place.offset)
        self.line.append(place.line)
        self.task.append(task)
        self.sample.append(sample)
        self.id_hash.append(id_hash)
        self.success.append(success)
        return len(self.id_hash) - 1

    def place(self, row: int) -> LinePlace:
        return LinePlace(self.file[row], self.offset[row], self.line[row])

    def ordered(self, rows: Iterable[int]) -> list[int]:
        """By sample, then by hash: the same order whatever order they were read in."""
        return sorted(rows, key=lambda row: (self.sample[row], self.id_hash[row]))

    def by_success(self, rows: Iterable[int]) -> tuple[list[int], list[int]]:
        """The successes and the failures among the rows, each ordered."""
        ordered, success = self.ordered(rows), self.success
        return [r for r in ordered if success[r]], [r for r in ordered if not success[r]]

    def first(self, rows: Iterable[int], limit: int) -> list[int]:
        """Those with the smallest hashes."""
        return sorted(rows, key=self.id_hash.__getitem__)[:limit]


def hash_of(id_: str) -> int:
    """A 63-bit hash of a rollout's id."""
    return int.from_bytes(hashlib.blake2b(id_.encode(), digest_size=8).digest(), "big") >> 1


class RolloutGroup:
    """The rollouts of one task in one training step."""

    __slots__ = ("successes", "rows", "furthest")

    def __init__(self) -> None:
        self.successes = 0
        self.rows = array("I")
        self.furthest: tuple[float, int, int, int] | None = None
        """The failure that came furthest: (progress, distinct tools, its id's hash, its row)."""

    @property
    def trials(self) -> int:
        return len(self.rows)


class EvidenceTable:
    """How many rollouts showed each thing, and the rows of a few of these as evidence."""

    def __init__(self, limit: int) -> None:
        self.counts: Counter[Hashable] = Counter()
        self._limit = limit
        self._kept: dict[Hashable, list[int]] = {}
        self._worst: dict[Hashable, int] = {}  # The largest hash kept, once `limit` are

    def add(self, things: Collection[Hashable], id_hash: int, row: int) -> None:
        """Counts the distinct things of one rollout."""
        self.counts.update(things)
        packed, worst = id_hash << _ROW_BITS | row, self._worst.get
        for thing in things:
            if packed < worst(thing, _ANY):
                self._keep(thing, packed)

    def _keep(self, thing: Hashable, packed: int) -> None:
        kept = self._kept.setdefault(thing, [])
        insort(kept, packed)
        del kept[self._limit :]
        if len(kept) == self._limit:
            self._worst[thing] = kept[-1]

    def rows(self, thing: Hashable) -> list[int]:
        return [packed & ((1 << _ROW_BITS) - 1) for packed in self._kept[thing]]

    def __iter__(self) -> Iterator[tuple[Hashable, int]]:
        """Each thing with its count, sorted."""
        return iter(sorted(self.counts.items()))


class IterationCounts:
    """What the rollouts of one environment in one iteration showed."""

    def __init__(self, key: tuple[str, int], tables: Iterable[str], max_evidence: int) -> None:
        self.key = self.env, self.iteration = key
        self.rollouts = self.successes = self.masked = self.groups = 0
        self.tables = {name: EvidenceTable(max_evidence) for name in tables}
        """By family of patterns (but single tools), and by kind of signal that observes steps."""
        self.called: dict[str, array[int]] = {}  # Rows of the rollouts that called each tool
        self.successions: Counter[Pattern] = Counter()
        """Rollouts in which one tool was called right after another; needs the inventory."""

    def calls(self, tool: str) -> int:
        """Rollouts that called the tool."""
        return len(self.called.get(tool, ()))


Observer = Callable[[RolloutSteps, bytes], Collection[Hashable]]


class RolloutCounts:
    """The counts of all rollouts. Iterating gives those of each environment and iteration, sorted.

    `apps` maps the inventory's tools to their apps; `observers` find, by kind of signal, what one
    rollout's steps show (`SignalKind.observe`). `families` are the families of patterns counted in
    tables; of single tools the rows are kept, for other rules need them too.
    """

    def __init__(
        self, settings: SignalSettings, apps: Mapping[str, str], observers: Mapping[str, Observer]
    ) -> None:
        self.apps, self._observers = apps, observers
        self._max_evidence = settings.max_evidence
        counted = settings.patterns if "rare" in settings.kinds else ()
        self.families = tuple(family for family in counted if family != "1gram")
        self.rollouts = RolloutColumns()
        self.groups: dict[TaskKey, dict[tuple[int, int], RolloutGroup]] = {}
        """By task, then by iteration and step."""
        self.iterations: dict[tuple[str, int], IterationCounts] = {}
        self._tasks: dict[TaskKey, int] = {}

    def __iter__(self) -> Iterator[IterationCounts]:
        return iter([self.iterations[key] for key in sorted(self.iterations)])

    def add(self, rollout: RolloutHead, raw: bytes, place: LinePlace) -> None:
        """Counts one rollout that has a verdict. `raw` is its line, for what few rollouts need.

        Raises msgspec.MsgspecError where what must be decoded is no record.
        """
        if rollout.stop_reason == MASKED:
            self._iteration(rollout).masked += 1
            return
        # All that may fail comes before anything is counted: a bad rollout leaves no trace.
        steps = rollout if isinstance(rollout, RolloutSteps) else None
        tools = rollout.tools or called_tools(steps or with_steps(raw))
        shown = [patterns(family, tools, steps, self.apps) for family in self.families]
        shown += [observe(steps, raw) if steps else () for observe in self._observers.values()]
        counts = self._iteration(rollout)
        key = (rollout.env, rollout.task_id)
        success, id_hash = bool(rollout.verdict), hash_of(rollout.id)
        task = self._tasks.setdefault(key, len(self._tasks))
        row = self.rollouts.add(place, task, rollout.sample, id_hash, success)
        counts.rollouts += 1
        counts.successes += success
        group = self._group(key, (rollout.iteration, rollout.step), counts)
        group.rows.append(row)
        group.successes += success
        distinct = sorted(set(tools))
        if not success:
            depth = (rollout.progress, len(distinct), id_hash, row)
            if group.furthest is None or depth > group.furthest:
                group.furthest = depth
        for tool in distinct:
            rows = counts.called.get(tool)
            if rows is None:
                rows = counts.called[tool] = array("I")
            rows.append(row)
        for table, things in zip(counts.tables.values(), shown, strict=True):
            if things:
                table.add(things, id_hash, row)
        if self.apps:
            counts.successions.update(set(pairwise(tools)))

    def _iteration(self, rollout: RolloutHead) -> IterationCounts:
        key = rollout.env, rollout.iteration
        counts = self.iterations.get(key)
        if counts is None:
            tables = (*self.families, *self._observers)
            counts = self.iterations[key] = IterationCounts(key, tables, self._max_evidence)
        return counts

    def _group(self, key: TaskKey, when: tuple[int, int], counts: IterationCounts) -> RolloutGroup:
        steps = self.groups.setdefault(key, {})
        group = steps.get(when)
        if group is None:
            group = steps[when] = RolloutGroup()
            counts.groups += 1
        return group

    def trials(self, key: TaskKey, iteration: int) -> int:
        """Rollouts of the task in the iteration."""
        return sum(group.trials for when, group in self.groups[key].items() if when[0] == iteration)
