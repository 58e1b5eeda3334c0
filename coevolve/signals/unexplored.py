"""Unexplored: what the environment offers and no rollout of the iteration used. Needs the inventory; has no evidence.

- A tool that was never called. The upper Wilson bound of its rate, after n rollouts without it, is u; the strength is
  (1 - u) (1 - covered / 2), where `covered` is the part of its app's tools that were called: the least covered apps come first.
- Two tools of one app that were both called, yet never one right after the other, although e such successions were to be
  expected and none has probability e^-e <= alpha. e is (successions from the first) (successions to the second) / (all
  successions), divided by the mean group size, because rollouts of one task resemble each other. Strength (1 - e^-e) / 2,
  always below that of a tool of an untouched app.

The paper's rule for rare patterns asks for c > 0 and never sees these (CoEvolve, stage 1); on the laptop, coverage of the inventory is
what helped most (measured).
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterator

from coevolve.records import Statistic
from coevolve.signals.candidate import Candidate
from coevolve.signals.inventory import Inventory
from coevolve.signals.settings import TOOLS, Settings
from coevolve.signals.tally import Tally, Update
from coevolve.statistics import wilson


def calibrated(tally: Tally, settings: Settings, inventory: Inventory) -> Iterator[Candidate]:
    by_app: dict[str, list[str]] = defaultdict(list)
    for tool, app in sorted(inventory.tools.items()):
        by_app[app].append(tool)
    for (env, iteration), update in sorted(tally.updates.items(), key=lambda item: item[0]):
        if inventory.covers(env) and update.rollouts:
            coverage = inventory.coverage(update.called)
            sources, targets = _ends(update, 0), _ends(update, 1)
            for app, tools in by_app.items():
                yield from _tools(tools, coverage[app], update, env, iteration)
                yield from _pairs(tools, update, sources, targets, env, iteration, settings)


def _ends(update: Update, end: int) -> Counter[str]:
    """How often each tool begins (0) or ends (1) a succession."""
    counts: Counter[str] = Counter()
    for pair, count in update.successions.items():
        counts[pair[end]] += count
    return counts


def _tools(
    tools: list[str], covered: float, update: Update, env: str, iteration: int
) -> Iterator[Candidate]:
    bound = wilson(0, update.rollouts).high
    for tool in tools:
        if update.calls(tool):
            continue
        strength = (1 - bound) * (1 - covered / 2)
        yield Candidate(
            "unexplored", env, iteration, "", (tool,), strength, Statistic("wilson_high", bound), []
        )


def _most(tools: list[str], counts: Counter[str]) -> list[str]:
    """The tools that occur, in the given order; of very many the `TOOLS` most frequent, as pairs grow with their square."""
    seen = [tool for tool in tools if counts[tool]]
    kept = set(sorted(seen, key=lambda tool: (-counts[tool], tool))[:TOOLS])
    return [tool for tool in seen if tool in kept]


def _pairs(
    tools: list[str],
    update: Update,
    sources: Counter[str],
    targets: Counter[str],
    env: str,
    iteration: int,
    settings: Settings,
) -> Iterator[Candidate]:
    total = sources.total() * update.rollouts / update.groups
    seconds = _most(tools, targets)
    for first in _most(tools, sources):
        for second in seconds:
            if first == second or update.successions[first, second]:
                continue
            expected = sources[first] * targets[second] / total
            p = math.exp(-expected)
            if p <= settings.alpha:
                statistic = Statistic("expected", expected, p)
                yield Candidate(
                    "unexplored", env, iteration, "", (first, second), (1 - p) / 2, statistic, []
                )
