"""A signal before its evidence is read: what every rule yields."""

from __future__ import annotations

from typing import NamedTuple

from coevolve.records import Outcome, Statistic
from coevolve.signals.patterns import Pattern
from coevolve.signals.tally import Rows


class Candidate(NamedTuple):
    kind: str
    env: str
    iteration: int
    task_id: str
    """Empty where the signal is about a pattern: then the task is that of the first trajectory of its evidence, if any."""
    pattern: Pattern
    strength: float
    """0–1."""
    statistic: Statistic
    rows: list[int]
    """Rows of the rollouts that are its evidence."""
    history: list[Outcome] = []
    family: str = ""
    """Family of a pattern that is not made of tool names alone (`keys`, `app`): another's may read the same."""

    @property
    def order(self) -> tuple[float, str, str, Pattern]:
        """Strongest first; ties by name."""
        return (-self.strength, self.env, self.task_id, self.pattern)


def mixed(rows: Rows, members: list[int], limit: int) -> list[int]:
    """At most `limit` of the rows, successes and failures in equal parts where there are enough of both; in order."""
    ordered = rows.ordered(members)
    wins = [row for row in ordered if rows.success[row]]
    losses = [row for row in ordered if not rows.success[row]]
    few = min(len(wins), len(losses), limit // 2)
    if len(wins) <= len(losses):
        kept = wins[:few] + losses[: limit - few]
    else:
        kept = losses[:few] + wins[: limit - few]
    return rows.ordered(kept)
