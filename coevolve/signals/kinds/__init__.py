"""The kinds of signals, a module each. A new kind is a module here and its line in the list.

A module holds the function `calibrated`, which finds candidates, and `reason`, which explains one;
where it has them, `paper` is CoEvolve's own rule, and `observe` looks at a rollout's steps.
"""

from __future__ import annotations

from types import ModuleType

from coevolve.signals.kinds import (
    boundary,
    combination,
    error,
    forgetting,
    progress,
    rare,
    safety,
    stall,
    unexplored,
    unknown_tool,
)
from coevolve.signals.rule import SignalKind
from coevolve.signals.settings import SignalSettings


def _kind(module: ModuleType, weight: float, meaning: str) -> SignalKind:
    name, rules = module.__name__.rpartition(".")[2], (module.calibrated, module.reason)
    extras = (getattr(module, extra, None) for extra in ("paper", "observe"))
    return SignalKind(name, meaning, weight, *rules, *extras)


SIGNAL_KINDS: tuple[SignalKind, ...] = (
    _kind(forgetting, 2, "a task that was solved in earlier iterations fails now"),
    _kind(boundary, 4, "a task that is sometimes solved and sometimes not: it can be learnt now"),
    _kind(rare, 1.5, "a pattern of actions that occurs, but seldom"),
    _kind(unexplored, 2.5, "a tool that was hardly ever called (needs --env or --tools)"),
    _kind(error, 1, "a tool whose calls keep failing in the same way"),
    _kind(unknown_tool, 1, "a tool that does not exist is called (needs --env or --tools)"),
    _kind(combination, 1, "two tools that work alone and fail together"),
    _kind(stall, 1, "a call repeated without telling anything new, or a budget that ran out"),
    _kind(safety, 1, "calls that destroyed something the task did not ask to destroy"),
    _kind(progress, 4, "the failures that came furthest, in an iteration without a success"),
)
"""All kinds. The order is that of the output where strengths are equal, and of every table."""

BY_NAME = {kind.name: kind for kind in SIGNAL_KINDS}
KINDS = tuple(BY_NAME)
PAPER = tuple(kind.name for kind in SIGNAL_KINDS if kind.paper)  # The paper's three kinds
WEIGHTS = {kind.name: kind.weight for kind in SIGNAL_KINDS}


def selected(settings: SignalSettings) -> list[SignalKind]:
    """The kinds that the settings name; all of the mode where they name none."""
    names = settings.kinds or (PAPER if settings.mode == "paper" else KINDS)
    return [kind for kind in SIGNAL_KINDS if kind.name in names]


def needs_steps(settings: SignalSettings) -> bool:
    """Whether the steps of all rollouts have to be read, not only their heads."""
    return "keys" in settings.patterns or any(kind.observe for kind in selected(settings))
