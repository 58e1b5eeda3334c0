"""The parts of a signal kind: what its rule reads, what it yields, how the kind is registered."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from coevolve.records import Statistic
from coevolve.signals.counts import Observer, RolloutCounts
from coevolve.signals.history import GroupOutcome
from coevolve.signals.inventory import Inventory
from coevolve.signals.patterns import Pattern
from coevolve.signals.settings import SignalSettings
from coevolve.signals.task_groups import TaskIteration

MAX_PAIRED_TOOLS = 512
"""Tools that are looked at in pairs: more than AppWorld's 457, and few enough for their square."""


class SignalCandidate(NamedTuple):
    """A signal before its evidence is read."""

    env: str
    iteration: int
    strength: float  # 0–1
    statistic: Statistic
    task_id: str = ""
    """Empty where the signal is about a pattern: its task is then that of its first evidence."""
    pattern: Pattern = ()
    rows: list[int] = []  # Rows of the rollouts that are its evidence
    history: list[GroupOutcome] = []
    family: str = ""  # Family of a pattern that is not made of tool names alone (`keys`, `app`)
    kind: str = ""  # Set by `extract.candidates`

    @property
    def order(self) -> tuple[float, str, str, Pattern]:
        """The sort key: strongest first, ties by name."""
        return (-self.strength, self.env, self.task_id, self.pattern)

    @property
    def percent(self) -> float:
        return 100 * self.statistic.value

    @property
    def path(self) -> str:
        return " → ".join(self.pattern)


class RuleInput(NamedTuple):
    """Everything a rule may read. The rollouts themselves are not in memory, only their counts."""

    counts: RolloutCounts
    tasks: list[TaskIteration]  # Each task in each iteration, sorted
    settings: SignalSettings
    inventory: Inventory | None

    def inventory_of(self, env: str) -> Inventory | None:
        """The inventory, where it is the environment's and names a tool."""
        known = self.inventory
        return known if known and known.tools and known.covers(env) else None

    def invented(self, env: str, name: str) -> bool:
        """Whether the name of a called tool is none of the environment's; False if unknown."""
        known = self.inventory_of(env)
        return known is not None and name not in known.tools


Rule = Callable[[RuleInput], Iterator[SignalCandidate]]


class SignalKind(NamedTuple):
    """One kind of signal; its module says what it means."""

    name: str
    meaning: str  # What the weakness is, in a phrase for people who are new to the field (`--help`)
    weight: float  # Turns that it gets when a budget is shared between kinds (`--quota`)
    calibrated: Rule
    reason: Callable[[SignalCandidate], str]
    """Says in one line, for people, why a candidate is a signal."""
    paper: Rule | None = None  # CoEvolve's own rule, where the paper has this kind
    observe: Observer | None = None
    """Finds things in the steps of one rollout, whose line is given too. They are counted under the
    kind's name in `IterationCounts.tables`. None: the rule needs no steps."""
