"""Rollouts in, signals out: one pass for statistics, one for the evidence of what was chosen.

    with extraction(lines, settings, history=load(path), inventory=…) as found:
        for signal in found.signals(): …
        update(path, found.renewed)

The result does not depend on the order of the rollouts, only on what they are. Rollouts without
`success` and `score` are no rollouts, and neither are those whose steps cannot be read where they
must be: `reject` is told. Source: CoEvolve, stage 1; each kind's module under `kinds/` says what
the kind means.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple

import msgspec

from coevolve import jsonl
from coevolve.errors import BadInput
from coevolve.jsonl import Line
from coevolve.records import Rollout, Signal
from coevolve.signals import budget, task_groups
from coevolve.signals.counts import LinePlace, RolloutCounts
from coevolve.signals.evidence import TwoPassReader, signal_of
from coevolve.signals.history import History
from coevolve.signals.inventory import Inventory
from coevolve.signals.kinds import KINDS, WEIGHTS, selected
from coevolve.signals.rule import RuleInput, SignalCandidate
from coevolve.signals.settings import SignalSettings
from coevolve.signals.views import RolloutHead, in_full, with_steps


class Extraction(NamedTuple):
    """What the first pass found."""

    settings: SignalSettings
    counts: RolloutCounts
    candidates: list[SignalCandidate]
    chosen: list[SignalCandidate]
    reader: TwoPassReader

    def renewed(self, history: History) -> History:
        """The history with the input's outcomes in place of the same tasks' and iterations'."""
        known = history.without(task_groups.covered(self.counts))
        return known.joined(task_groups.outcomes(self.counts))

    def signals(self) -> Iterator[Signal]:
        """The chosen signals, each with its evidence read when it is its turn."""
        chars = self.settings.observation_chars
        for candidate in self.chosen:
            yield signal_of(candidate, self.counts.rollouts, self.reader, chars)

    @property
    def cold(self) -> list[tuple[str, int]]:
        """Environments and iterations in which rollouts were made and none succeeded."""
        return [counts.key for counts in self.counts if counts.rollouts and not counts.successes]


def _raise(line: Line[RolloutHead], reason: str) -> None:
    raise BadInput(line.where, line.number, reason)


@contextlib.contextmanager
def extraction(
    lines: Iterable[Line[RolloutHead]],
    settings: SignalSettings,
    *,
    history: History | None = None,
    inventory: Inventory | None = None,
    max_signals: int = 0,
    weights: Mapping[str, float] = WEIGHTS,
    reject: Callable[[Line[RolloutHead], str], None] = _raise,
) -> Iterator[Extraction]:
    """Runs the first pass. `lines` are of `RolloutSteps` where `kinds.needs_steps` says so, else
    `RolloutHead` is enough. At most `max_signals` (0: all) are chosen for each environment in each
    iteration."""
    names = tuple(kind.name for kind in selected(settings))
    settings = msgspec.structs.replace(settings, kinds=names)
    counts = counted(settings, inventory)
    with TwoPassReader(lines, reject) as reader:
        for line, place in reader:
            if problem := _add(counts, line, place):
                reject(line, problem)
        before = (history or History()).without(task_groups.covered(counts))
        found = list(candidates(counts, before, settings, inventory))
        if settings.mode == "paper" and not max_signals:
            wanted = [c for c in found if weights.get(c.kind, 0) > 0]
            chosen = sorted(wanted, key=lambda c: (c.iteration, KINDS.index(c.kind), c.order))
        else:
            chosen = budget.choose(found, max_signals, weights)
        yield Extraction(settings, counts, found, chosen, reader)


def counted(settings: SignalSettings, inventory: Inventory | None = None) -> RolloutCounts:
    """Empty counts for the selected kinds."""
    observers = {kind.name: kind.observe for kind in selected(settings) if kind.observe}
    return RolloutCounts(settings, inventory.tools if inventory else {}, observers)


def _add(counts: RolloutCounts, line: Line[RolloutHead], place: LinePlace) -> str | None:
    """Counts a rollout, or says why it cannot be counted."""
    if line.record.verdict is None:
        return "neither success nor score"
    try:
        counts.add(line.record, line.raw, place)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        try:
            in_full(line.raw)  # its error tells the path in the whole record
        except (ValueError, RecursionError) as found:
            return str(found)
        return str(error)
    return None


def candidates(
    counts: RolloutCounts, history: History, settings: SignalSettings, inventory: Inventory | None
) -> Iterator[SignalCandidate]:
    """Every candidate; `history` holds none of the input's tasks in the same iteration."""
    tasks = list(task_groups.task_iterations(counts, history))
    seen = RuleInput(counts, tasks, settings, inventory)
    for kind in selected(settings):
        rule = kind.paper if settings.mode == "paper" and kind.paper else kind.calibrated
        yield from (candidate._replace(kind=kind.name) for candidate in rule(seen))


def extract(
    rollouts: Iterable[Rollout],
    settings: SignalSettings = SignalSettings(),
    *,
    history: History | None = None,
    inventory: Inventory | None = None,
    max_signals: int = 0,
) -> Iterator[Signal]:
    """The same for records at hand instead of files."""
    lines = lines_of(rollouts)
    with extraction(
        lines, settings, history=history, inventory=inventory, max_signals=max_signals
    ) as found:
        yield from found.signals()


def lines_of(rollouts: Iterable[Rollout]) -> Iterator[Line]:
    """Records at hand in the form in which files are read."""
    for number, rollout in enumerate(rollouts, 1):
        raw = jsonl.encode(rollout).rstrip(b"\n")
        yield Line(with_steps(raw), raw, "rollouts", number)
