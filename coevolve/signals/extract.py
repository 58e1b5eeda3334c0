"""Rollouts in, signals out: one pass for statistics, one for the evidence of what was chosen.

    with extraction(lines, settings, history=load(path), inventory=…) as found:
        for signal in found.signals(): …
        update(path, found.renewed)

The result does not depend on the order of the rollouts, only on what they are. Rollouts without `success` and `score` are no
rollouts, and neither are those whose steps cannot be read where they must be: `refuse` is told. Sources: CoEvolve, stage 1; what each
kind of signal means stands in its module.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping

import msgspec

from coevolve import jsonl
from coevolve.errors import BadInput
from coevolve.jsonl import Line
from coevolve.records import Rollout, Signal
from coevolve.signals import (
    boundary,
    budget,
    combination,
    error,
    evidence,
    forgetting,
    progress,
    rare,
    safety,
    stall,
    timeline,
    unexplored,
)
from coevolve.signals.candidate import Candidate
from coevolve.signals.history import History
from coevolve.signals.inventory import Inventory
from coevolve.signals.settings import KINDS, Settings
from coevolve.signals.source import Source, why
from coevolve.signals.tally import Place, Tally
from coevolve.signals.views import Head, Whole


class Found:
    """What the first pass found."""

    def __init__(
        self, tally: Tally, source: Source, candidates: list[Candidate], chosen: list[Candidate]
    ):
        self.tally, self.candidates, self.chosen = tally, candidates, chosen
        self._source = source

    def renewed(self, history: History) -> History:
        """The history with the outcomes of the stream, which replace those of the same tasks in the same iterations."""
        return history.without(timeline.covered(self.tally)).joined(timeline.entries(self.tally))

    def signals(self) -> Iterator[Signal]:
        """The chosen signals, each with its evidence read when it is its turn."""
        for candidate in self.chosen:
            yield evidence.signal(
                candidate, self.tally.rows, self._source, self.tally.settings.observation_chars
            )

    @property
    def cold(self) -> list[tuple[str, int]]:
        """Environments and iterations in which rollouts were made and none succeeded."""
        return sorted(
            key
            for key, update in self.tally.updates.items()
            if update.rollouts and not update.successes
        )


def _refuse(line: Line[Head], reason: str) -> None:
    raise BadInput(line.where, line.number, reason)


@contextlib.contextmanager
def extraction(
    lines: Iterable[Line[Head]],
    settings: Settings,
    *,
    history: History | None = None,
    inventory: Inventory | None = None,
    max_signals: int = 0,
    weights: Mapping[str, float] = budget.WEIGHTS,
    refuse: Callable[[Line[Head], str], None] = _refuse,
) -> Iterator[Found]:
    """Runs the first pass. `lines` are of `Whole` where `settings.needs_steps`, else `Head` is enough. `max_signals` per update,
    which is one iteration of one environment."""
    tally = Tally(settings, inventory.tools if inventory else {})
    with Source(lines, refuse) as source:
        for line, place in source:
            if reason := _count(tally, line, place):
                refuse(line, reason)
        before = (history or History()).without(timeline.covered(tally))
        candidates = list(find(tally, before, settings, inventory))
        if settings.mode == "paper" and not max_signals:
            wanted = [c for c in candidates if weights.get(c.kind, 0) > 0]
            chosen = sorted(wanted, key=lambda c: (c.iteration, KINDS.index(c.kind), c.order))
        else:
            chosen = budget.choose(candidates, max_signals, weights)
        yield Found(tally, source, candidates, chosen)


def _count(tally: Tally, line: Line[Head], place: Place) -> str | None:
    """Counts a rollout, or says why it cannot be counted."""
    if line.record.verdict is None:
        return "neither success nor score"
    try:
        tally.add(line.record, line.raw, place)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        return why(line.raw, error)
    return None


def find(
    tally: Tally, history: History, settings: Settings, inventory: Inventory | None
) -> Iterator[Candidate]:
    """Every candidate of the selected kinds. `history` holds none of the stream's tasks in the same iteration."""
    updates = list(timeline.updates(tally, history))
    paper = settings.mode == "paper"
    rules: dict[str, Callable[[], Iterator[Candidate]]] = {
        "forgetting": lambda: (forgetting.paper if paper else forgetting.calibrated)(
            updates, tally.rows, settings
        ),
        "boundary": lambda: (boundary.paper if paper else boundary.calibrated)(
            updates, tally.rows, settings
        ),
        "rare": lambda: (
            rare.paper(tally, settings) if paper else rare.calibrated(tally, settings, inventory)
        ),
        "unexplored": lambda: (
            unexplored.calibrated(tally, settings, inventory) if inventory else iter(())
        ),
        "error": lambda: error.calibrated(tally, settings),
        "combination": lambda: combination.calibrated(tally, settings),
        "stall": lambda: stall.calibrated(tally, settings),
        "safety": lambda: safety.calibrated(tally, settings),
        "progress": lambda: progress.calibrated(tally, settings),
    }
    for kind in KINDS:
        if kind in settings.kinds:
            yield from rules[kind]()


def extract(
    rollouts: Iterable[Rollout],
    settings: Settings = Settings(),
    *,
    history: History | None = None,
    inventory: Inventory | None = None,
    max_signals: int = 0,
) -> Iterator[Signal]:
    """The same for records at hand instead of files."""
    with extraction(
        lines_of(rollouts), settings, history=history, inventory=inventory, max_signals=max_signals
    ) as found:
        yield from found.signals()


def lines_of(rollouts: Iterable[Rollout]) -> Iterator[Line[Whole]]:
    """Records at hand in the form in which files are read."""
    decode = msgspec.json.Decoder(Whole).decode
    for number, rollout in enumerate(rollouts, 1):
        raw = jsonl.encode(rollout).rstrip(b"\n")
        yield Line(decode(raw), raw, "rollouts", number)
