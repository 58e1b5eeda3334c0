"""Faults of the environment: one of them, and how a stage counts them and ends.

| of what was tried | the stage |
|---|---|
| nothing was lost | ends well |
| a part was lost | writes the rest and ends with Partial: a rerun tries the lost ones again |
| all was lost | ends with Unreachable and the last fault's message |
"""

from __future__ import annotations

from typing import NamedTuple

from coevolve.errors import Partial, Unreachable


class Fault(NamedTuple):
    """The infrastructure's fault: the episode is `env_error`, masked, never scored 0."""

    message: str
    kind: str = "died"
    """The kind of the error reply (`unsupported`, `bad_request`, …) or of the worker's death."""


class FaultCounter:
    """Counts what a stage tried: `lost` to faults (`fault`: the last one's message), or `kept`.

    `what` names the things tried in messages: `tasks`.
    """

    def __init__(self, what: str):
        self.what = what
        self.kept = self.lost = 0
        self.fault = ""
        self._answered = False

    def add(self, fault: str | None, *, answered: bool = False) -> None:
        """Counts one thing, kept where `fault` is None; `answered`: the environment did answer."""
        self._answered |= answered
        if fault is None:
            self.kept += 1
        else:
            self.lost += 1
            self.fault = fault

    def stop(self) -> None:
        """Raises Unreachable where everything so far was lost.

        A stage asks between two chunks of work, so that a dead environment is not tried a thousand
        times.
        """
        if self.lost and not self.kept and not self._answered:
            raise Unreachable(f"all {self.lost} {self._met_faults()}")

    def end(self, rerun: str = "a rerun tries those again") -> None:
        """Raises Unreachable or Partial where something was lost, once the output is complete."""
        self.stop()
        if self.lost:
            total = self.lost + self.kept
            raise Partial(f"{self.lost} of {total} {self._met_faults()}; {rerun}")

    def _met_faults(self) -> str:
        return f"{self.what} met faults of the environment, the last one: {self.fault}"
