"""Rare: an action pattern that occurs, but seldom. One signal per pattern and iteration.

c counts the rollouts that hold the pattern, N all (rollout, pattern) pairs of the same family of
patterns in one environment and iteration; nothing is rare before N_min pairs.

- `paper` (CoEvolve, stage 1): 0 < c/N < θ/100.
- `calibrated`: the upper Wilson bound (95 %, two-sided) of c/N is below `rare_share` of an equal
  share 1/M. M is the number of the environment's tools (or apps) where the inventory is known, else
  of the patterns seen. Patterns with a tool (or app) that the inventory lacks do not count.

Strength: 1 - (the rate or bound) / threshold; calibrated and with an inventory, times (1 - covered
/ 2), where `covered` is the part of its tools that the least covered app of the pattern saw called.
Evidence: rollouts that hold the pattern.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from coevolve.records import Statistic
from coevolve.signals.counts import IterationCounts
from coevolve.signals.inventory import Inventory
from coevolve.signals.patterns import END, START, Pattern
from coevolve.signals.rule import RuleInput, SignalCandidate
from coevolve.statistics import wilson


class PatternFamily(NamedTuple):
    """The patterns of one family in one iteration of one environment."""

    name: str
    scope: IterationCounts
    counts: Mapping[Pattern, int]
    rows: Callable[[Pattern], list[int]]

    def candidate(self, pattern: Pattern, strength: float, statistic: Statistic) -> SignalCandidate:
        name = "" if self.name.endswith("gram") else self.name
        key, rows = self.scope.key, self.rows(pattern)
        return SignalCandidate(*key, strength, statistic, "", pattern, rows, family=name)


def paper(seen: RuleInput) -> Iterator[SignalCandidate]:
    threshold = seen.settings.theta / 100
    for family, pairs in _families(seen, real=False):
        for pattern, count in sorted(family.counts.items()):
            rate = count / pairs
            if rate < threshold:
                yield family.candidate(pattern, 1 - rate / threshold, Statistic("share", rate))


def calibrated(seen: RuleInput) -> Iterator[SignalCandidate]:
    for family, pairs in _families(seen, real=True):
        known = seen.inventory_of(family.scope.env)
        threshold = seen.settings.rare_share / _support(family, known)
        coverage = known.coverage(family.scope.called) if known else {}
        for pattern, count in sorted(family.counts.items()):
            bound = wilson(count, pairs).high
            if bound < threshold:
                covered = _covered(family.name, pattern, known, coverage) if known else 0.0
                strength = (1 - bound / threshold) * (1 - covered / 2)
                yield family.candidate(pattern, strength, Statistic("wilson_high", bound))


def _real_patterns(seen: RuleInput, family: PatternFamily) -> Mapping[Pattern, int]:
    """Without the patterns that hold a tool, or an app, which the inventory lacks."""
    known = seen.inventory_of(family.scope.env)
    if known is None:
        return family.counts
    real = {START, END, *(known.apps if family.name == "app" else known.tools)}
    counts = family.counts.items()
    return {p: count for p, count in counts if real.issuperset(_names(family.name, p))}


def _names(family: str, pattern: Pattern) -> Pattern:
    """The names of tools, or of an app, in a pattern; the others are those of arguments."""
    return pattern[:1] if family == "keys" else pattern


def _families(seen: RuleInput, *, real: bool) -> Iterator[tuple[PatternFamily, int]]:
    """The families of each iteration that have enough (rollout, pattern) pairs, and how many;
    `real` leaves out what the inventory lacks."""
    for counts in seen.counts:
        found = []
        if "1gram" in seen.settings.patterns:
            found.append(_single_tools(seen, counts))
        for name in seen.counts.families:
            table = counts.tables[name]
            found.append(PatternFamily(name, counts, table.counts, table.rows))
        if real:
            found = [family._replace(counts=_real_patterns(seen, family)) for family in found]
        for family in found:
            pairs = sum(family.counts.values())
            if pairs >= seen.settings.min_observations:
                yield family, pairs


def _single_tools(seen: RuleInput, counts: IterationCounts) -> PatternFamily:
    def rows(pattern: Pattern) -> list[int]:
        return seen.counts.rollouts.first(counts.called[pattern[0]], seen.settings.max_evidence)

    called = {(tool,): len(rows) for tool, rows in counts.called.items()}
    return PatternFamily("1gram", counts, called, rows)


def _support(family: PatternFamily, inventory: Inventory | None) -> int:
    """How many patterns an equal share is taken over."""
    offered: list[str] = []
    if inventory and family.name == "1gram":
        offered = list(inventory.tools)
    if inventory and family.name == "app":
        offered = inventory.apps
    return max(len(family.counts), len(offered))


def _covered(
    family: str, pattern: Pattern, inventory: Inventory, coverage: Mapping[str, float]
) -> float:
    """Coverage of the pattern's least covered app; 1 where the inventory knows no name of it."""
    names = _names(family, pattern)
    if family != "app":
        names = tuple(inventory.tools[name] for name in names if name in inventory.tools)
    return min((coverage[app] for app in names if app in coverage), default=1.0)


def reason(c: SignalCandidate) -> str:
    share = f"{c.percent:.2g} % of all patterns ({c.statistic.test})"
    return f"{c.path}: {len(c.rows)} or more rollouts, {share}"
