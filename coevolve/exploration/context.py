"""From signals to exploration contexts: merged per task, ranked, chosen by quota.

All signals of one task, or of invented names meant for one tool, become one context: its kind is
the first of `PRIORITY` among them, its strength the greatest. Kinds get at most their quota of the
episodes (from laptop experiments: boundary a half, forgetting and rare an eighth each; kinds that
are none of these share the rare quota), at least a quarter is left to coverage, and what a quota
does not use goes to coverage too. However few the episodes are, the strongest context is served.
`Context.reflection` states the facts; where a model reflects (`reflection`), it holds its findings.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from math import ceil
from typing import NamedTuple

from coevolve.records import Context, Signal

PRIORITY = ("forgetting", "boundary", "rare")
QUOTAS = {"boundary": 1 / 2, "forgetting": 1 / 8, "rare": 1 / 8}  # Shares of the episodes
COVERAGE = 1 / 4
UNKNOWN_TOOL = "unknown_tool"  # Kind of the signals that name a tool which does not exist
MAX_REPEATS = 3
"""Start states on which one run repeats a behaviour; a few must not crowd out the rest."""
MAX_FACTS = 3  # Signals whose facts are told in the reflection


class ContextSignals(NamedTuple):
    """The signals behind one context: those of one task, the one that leads first."""

    signals: list[Signal]

    @property
    def lead(self) -> Signal:
        return self.signals[0]

    @property
    def rollouts(self) -> list[str]:
        return sorted({t.rollout for signal in self.signals for t in signal.evidence})


def has_aim(signal: Signal) -> bool:
    """Whether episodes can be about it: a tool that does not exist needs a real one near it."""
    return signal.kind != UNKNOWN_TOOL or len(signal.pattern) > 1


def merge(signals: Iterable[Signal]) -> list[ContextSignals]:
    """One entry per task, pattern without a task, or tool that unknown names were meant for;
    strongest first; ties by id."""
    by_task: dict[tuple, list[Signal]] = {}
    for signal in signals:
        key = (signal.task_id,) if signal.task_id else ("", *signal.pattern)
        if signal.kind == UNKNOWN_TOOL:
            # It is about the tool that was meant, as if that were unexplored.
            key = ("", signal.pattern[-1])
        by_task.setdefault(key, []).append(signal)
    found = [ContextSignals(sorted(group, key=_precedence)) for group in by_task.values()]
    return sorted(found, key=lambda c: (-max(s.strength for s in c.signals), c.lead.id))


def _precedence(signal: Signal) -> tuple:
    place = PRIORITY.index(signal.kind) if signal.kind in PRIORITY else len(PRIORITY)
    return place, -signal.strength, signal.id


def choose(
    found: list[ContextSignals], episodes: int, rounds: int, max_contexts: int
) -> list[ContextSignals]:
    """The contexts to explore, each for `rounds` episodes: within the quotas, in rank order, at
    most `max_contexts`. Where the episodes are too few for any share, the first is chosen all the
    same."""
    room = {kind: ceil(int(share * episodes) / rounds) for kind, share in QUOTAS.items()}
    total = min(max_contexts, (episodes - ceil(COVERAGE * episodes)) // rounds)
    repeated: Counter[str] = Counter()
    chosen: list[ContextSignals] = []

    def has_room(signal: Signal) -> bool:
        repeats = repeated[_behaviour(signal)] + rounds
        return room[_quota(signal)] > 0 and repeats <= max(MAX_REPEATS, rounds)

    for context in found:
        if len(chosen) >= total:
            break
        # A task whose first signal has no room left is taken for its next one, so that `rare` is
        # not lost behind `boundary`.
        lead = next(filter(has_room, context.signals), None)
        if lead:
            room[_quota(lead)] -= 1
            repeated[_behaviour(lead)] += rounds
            others = [signal for signal in context.signals if signal is not lead]
            chosen.append(ContextSignals([lead, *others]))
    return chosen or found[: min(max_contexts, 1)]


def _quota(signal: Signal) -> str:
    return signal.kind if signal.kind in QUOTAS else "rare"


def _behaviour(signal: Signal) -> str:
    """What a repetition would repeat: a pattern, a kind of task, else this task."""
    return " ".join(signal.pattern) or (signal.task.kind if signal.task else "") or signal.id


def context_of(found: ContextSignals, aim: list[str]) -> Context:
    lead = found.lead
    return Context(lead.id, lead.kind, lead.task_id, aim, facts(found))


def facts(found: ContextSignals) -> str:
    """The statistics of a context's signals, in a line."""
    parts = []
    for signal in found.signals[:MAX_FACTS]:
        pattern = f" of {' → '.join(signal.pattern)}" if signal.pattern else ""
        last = signal.history[-1] if signal.history else None
        outcome = f", last {last.successes} of {last.trials}" if last else ""
        statistic = f"{signal.statistic.test} {signal.statistic.value:.3g}"
        parts.append(f"{signal.kind}{pattern}: {statistic}{outcome}")
    more = len(found.signals) - MAX_FACTS
    return "; ".join(parts) + (f"; {more} more" if more > 0 else "")
