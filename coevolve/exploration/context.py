"""From signals to exploration contexts: merged per task, ranked, chosen by quota.

All signals of one task become one context: its kind is the first of `PRIORITY` among them, its strength the greatest. Kinds
get at most their quota of the episodes (from laptop experiments: boundary a half, forgetting and rare an eighth each; kinds that
are none of these share the rare quota), at least a quarter is left to coverage, and what a quota does not use goes to
coverage too. However few the episodes are, the strongest context is served. A behaviour (`Task.kind`) is repeated on at most
`REPEATS` fresh start states in one run, so that a few of them cannot crowd out the rest. `Context.reflection` states the facts; where a model reflects (`reflection`), it holds its findings.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from math import ceil
from typing import NamedTuple

from coevolve.records import Context, Signal

PRIORITY = ("forgetting", "boundary", "rare")
QUOTAS = {"boundary": 1 / 2, "forgetting": 1 / 8, "rare": 1 / 8}
COVERAGE = 1 / 4
REPEATS = 3
TOLD = 3
"""Signals told in the reflection."""


class Focus(NamedTuple):
    """A context before its pattern is known: the signals of one task, the one that leads first."""

    signals: list[Signal]

    @property
    def lead(self) -> Signal:
        return self.signals[0]

    @property
    def rollouts(self) -> list[str]:
        return sorted(
            {trajectory.rollout for signal in self.signals for trajectory in signal.evidence}
        )


def merge(signals: Iterable[Signal]) -> list[Focus]:
    """One focus per task, strongest first; rare patterns without a task are a focus each. Ties by id."""
    groups: dict[tuple, list[Signal]] = {}
    for signal in signals:
        key = (signal.task_id,) if signal.task_id else ("", *signal.pattern)
        groups.setdefault(key, []).append(signal)
    found = [Focus(sorted(group, key=_precedence)) for group in groups.values()]
    return sorted(
        found, key=lambda focus: (-max(signal.strength for signal in focus.signals), focus.lead.id)
    )


def _precedence(signal: Signal) -> tuple:
    place = PRIORITY.index(signal.kind) if signal.kind in PRIORITY else len(PRIORITY)
    return place, -signal.strength, signal.id


def choose(found: list[Focus], episodes: int, rounds: int, max_contexts: int) -> list[Focus]:
    """The contexts to explore, each for `rounds` episodes: within the quotas, in rank order, at most `max_contexts`.

    A task whose first signal has no room left is taken for its next one, so that `rare` is not lost behind `boundary`. Where
    the episodes are too few for any share, the first is chosen all the same.
    """
    room = {kind: ceil(int(share * episodes) / rounds) for kind, share in QUOTAS.items()}
    total = min(max_contexts, (episodes - ceil(COVERAGE * episodes)) // rounds)
    repeated: Counter[str] = Counter()
    chosen: list[Focus] = []
    for focus in found:
        if len(chosen) >= total:
            break
        lead = next(
            (
                s
                for s in focus.signals
                if room[_quota(s)] and repeated[_behaviour(s)] + rounds <= max(REPEATS, rounds)
            ),
            None,
        )
        if lead:
            room[_quota(lead)] -= 1
            repeated[_behaviour(lead)] += rounds
            chosen.append(
                Focus([lead, *(signal for signal in focus.signals if signal is not lead)])
            )
    return chosen or found[: min(max_contexts, 1)]


def _quota(signal: Signal) -> str:
    return signal.kind if signal.kind in QUOTAS else "rare"


def _behaviour(signal: Signal) -> str:
    """What a repetition would repeat: a pattern, a kind of task, else this task."""
    return " ".join(signal.pattern) or (signal.task.kind if signal.task else "") or signal.id


def context_of(focus: Focus, aim: list[str]) -> Context:
    lead = focus.lead
    return Context(
        signal=lead.id,
        signal_kind=lead.kind,
        task_id=lead.task_id,
        aim=aim,
        reflection=facts(focus),
    )


def facts(focus: Focus) -> str:
    """What the signals of a focus say, in a line."""
    parts = []
    for signal in focus.signals[:TOLD]:
        pattern = f" of {' → '.join(signal.pattern)}" if signal.pattern else ""
        last = (
            f", last {signal.history[-1].successes} of {signal.history[-1].trials}"
            if signal.history
            else ""
        )
        parts.append(
            f"{signal.kind}{pattern}: {signal.statistic.test} {signal.statistic.value:.3g}{last}"
        )
    more = len(focus.signals) - TOLD
    return "; ".join(parts) + (f"; {more} more" if more > 0 else "")
