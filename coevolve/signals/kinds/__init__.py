"""The kinds of signals, a module each. A new kind is a module here and its entry in the list."""

from __future__ import annotations

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
)
from coevolve.signals.rule import SignalKind
from coevolve.signals.settings import SignalSettings

SIGNAL_KINDS: tuple[SignalKind, ...] = (
    forgetting.KIND,
    boundary.KIND,
    rare.KIND,
    unexplored.KIND,
    error.KIND,
    combination.KIND,
    stall.KIND,
    safety.KIND,
    progress.KIND,
)
"""All kinds. The order is that of the output where strengths are equal, and of every table."""

BY_NAME = {kind.name: kind for kind in SIGNAL_KINDS}
KINDS = tuple(BY_NAME)
PAPER = tuple(kind.name for kind in SIGNAL_KINDS if kind.paper)
"""The paper's three kinds."""
WEIGHTS = {kind.name: kind.weight for kind in SIGNAL_KINDS}


def selected(settings: SignalSettings) -> list[SignalKind]:
    """The kinds that the settings name; all of the mode where they name none."""
    names = settings.kinds or (PAPER if settings.mode == "paper" else KINDS)
    return [kind for kind in SIGNAL_KINDS if kind.name in names]


def needs_steps(settings: SignalSettings) -> bool:
    """Whether the steps of all rollouts have to be read, not only their heads."""
    return "keys" in settings.patterns or any(kind.observe for kind in selected(settings))
