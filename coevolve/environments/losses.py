"""What faults of the environment cost a stage, and how the stage ends: the same rule for every stage and every number.

| of what was tried | the stage |
|---|---|
| nothing was lost | ends well |
| a part was lost | writes the rest and ends with Partial: a rerun tries the lost ones again |
| all was lost | ends with Unreachable and the last fault's message |

`stop` is asked between two chunks of work, so that a dead environment is not tried a thousand times.
"""

from __future__ import annotations

from coevolve.errors import Partial, Unreachable


class Losses:
    """Counts what was tried: `lost` with the last `fault`, `kept` for the rest. `what` names it in messages: `tasks`."""

    def __init__(self, what: str):
        self.what = what
        self.kept = self.lost = 0
        self.fault = ""
        self._answered = False

    def add(self, fault: str | None, *, answered: bool = False) -> None:
        """One thing tried; `fault` says what it was lost to, None if it was not; `answered`: not to the environment."""
        self._answered |= answered
        if fault is None:
            self.kept += 1
        else:
            self.lost += 1
            self.fault = fault

    def stop(self) -> None:
        """Raises Unreachable where everything so far was lost."""
        if self.lost and not self.kept and not self._answered:
            raise Unreachable(
                f"all {self.lost} {self.what} met faults of the environment, the last one: {self.fault}"
            )

    def end(self, rerun: str = "a rerun tries those again") -> None:
        """Raises Unreachable or Partial where something was lost; to be asked when the output is complete."""
        self.stop()
        if self.lost:
            total = self.lost + self.kept
            raise Partial(
                f"{self.lost} of {total} {self.what} met faults of the environment, the last one: {self.fault}; {rerun}"
            )
