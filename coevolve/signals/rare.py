"""Rare: an action pattern that occurs, but seldom. One signal per pattern and iteration.

c counts the rollouts that hold the pattern, N all (rollout, pattern) pairs of the same family of patterns in one environment and
iteration; nothing is rare before N_min pairs.

- `paper` (CoEvolve, stage 1): 0 < c/N < θ/100. Above twenty equally likely patterns that is every pattern.
- `calibrated`: the upper Wilson bound (95 %, two-sided) of c/N is below `rare_share` of an equal share 1/M. M is the number of
  patterns one could expect: the environment's tools (or apps) where the inventory is known, else the patterns seen. A pattern
  whose true share is above that threshold is flagged in less than 3 % of cases.

Strength: 1 - (the rate or bound) / threshold; calibrated and with an inventory, times 1 - covered / 2, where `covered` is the part of
its tools that the least covered app of the pattern saw called. Evidence: rollouts that hold the pattern.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from coevolve.records import Statistic
from coevolve.signals.candidate import Candidate
from coevolve.signals.inventory import Inventory
from coevolve.signals.patterns import Pattern
from coevolve.signals.settings import Settings
from coevolve.signals.tally import Rows, Tally, Update
from coevolve.statistics import wilson


def paper(tally: Tally, settings: Settings) -> Iterator[Candidate]:
    threshold = settings.theta / 100
    for (env, iteration), family in _families(tally, settings):
        for pattern, count in sorted(family.counts.items()):
            rate = count / family.pairs
            if rate < threshold:
                statistic, rows = Statistic("share", rate), family.rows(pattern)
                yield _candidate(
                    env, iteration, family.name, pattern, 1 - rate / threshold, statistic, rows
                )


def calibrated(
    tally: Tally, settings: Settings, inventory: Inventory | None
) -> Iterator[Candidate]:
    for (env, iteration), family in _families(tally, settings):
        threshold = settings.rare_share / _support(family, inventory, env)
        known = inventory if inventory and inventory.covers(env) else None
        coverage = known.coverage(tally.updates[env, iteration].called) if known else {}
        for pattern, count in sorted(family.counts.items()):
            bound = wilson(count, family.pairs).high
            if bound < threshold:
                statistic, rows = Statistic("wilson_high", bound), family.rows(pattern)
                covered = _covered(family.name, pattern, known, coverage) if known else 0.0
                strength = (1 - bound / threshold) * (1 - covered / 2)
                yield _candidate(env, iteration, family.name, pattern, strength, statistic, rows)


def _candidate(
    env: str,
    iteration: int,
    family: str,
    pattern: Pattern,
    strength: float,
    statistic: Statistic,
    rows: list[int],
) -> Candidate:
    name = "" if family.endswith("gram") else family
    return Candidate("rare", env, iteration, "", pattern, strength, statistic, rows, family=name)


def _covered(
    family: str, pattern: Pattern, inventory: Inventory, coverage: Mapping[str, float]
) -> float:
    """Coverage of the pattern's least covered app; 1 where the inventory knows none of its names."""
    names = pattern[:1] if family == "keys" else pattern
    apps = (
        names
        if family == "app"
        else [inventory.tools[name] for name in names if name in inventory.tools]
    )
    return min((coverage[app] for app in apps if app in coverage), default=1.0)


class _Family(NamedTuple):
    """The patterns of one family in one update."""

    name: str
    counts: Mapping[Pattern, int]
    pairs: int
    """All (rollout, pattern) pairs."""
    rows: Callable[[Pattern], list[int]]


def _families(tally: Tally, settings: Settings) -> Iterator[tuple[tuple[str, int], _Family]]:
    """The families of each update that have enough pairs."""
    for key, update in sorted(tally.updates.items(), key=lambda item: item[0]):
        found = []
        if "1gram" in settings.patterns:
            found.append(_single(update, tally.rows, settings.max_evidence))
        for name, table in update.patterns.items():
            found.append(_Family(name, table.counts, table.counts.total(), table.rows))
        yield from ((key, family) for family in found if family.pairs >= settings.min_observations)


def _single(update: Update, rows: Rows, limit: int) -> _Family:
    counts = {(tool,): len(called) for tool, called in update.called.items()}
    return _Family(
        "1gram",
        counts,
        sum(counts.values()),
        lambda pattern: rows.first(update.called[pattern[0]], limit),
    )


def _support(family: _Family, inventory: Inventory | None, env: str) -> int:
    """How many patterns an equal share is taken over."""
    seen = len(family.counts)
    if inventory is None or not inventory.covers(env):
        return seen
    if family.name == "1gram":
        return max(seen, len(inventory.tools))
    if family.name == "app":
        return max(seen, len(inventory.apps))
    return seen
