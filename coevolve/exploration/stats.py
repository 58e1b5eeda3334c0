"""The counts of one exploration run, for its summary line."""

from __future__ import annotations

from collections import Counter

from coevolve.environments.faults import FaultCounter
from coevolve.errors import CoevolveError
from coevolve.records import Exploration


class ExplorationStats:
    def __init__(self) -> None:
        self.by_mode: dict[str, Counter[str]] = {}
        self.contexts = self.crowded_out = 0
        """Signalled tasks that are explored, and those that found no room."""
        self.aimless = 0  # Signals of unknown tools, none of the environment's near them
        self.refused = 0  # Reflections that were no answer
        self.repeated = 0  # Episodes that repeat another
        self.lost = 0  # Episodes for which a model gave no reply
        self.idle, self.why_idle = 0, ""
        """Episodes that a model left before the first action, and what ended the last of them."""
        self.env_faults = FaultCounter("episodes")

    def add(self, exploration: Exploration) -> None:
        steps = exploration.steps
        counts = {
            "episodes": 1,
            "steps": len(steps),
            "errors": sum(step.error is not None for step in steps),
            "effects": sum(bool(step.effects) for step in steps),
            "new states": exploration.visited,
        }
        self.by_mode.setdefault(exploration.mode, Counter()).update(counts)

    def stop(self) -> None:
        """Raises CoevolveError where the model acted in no episode so far."""
        if self.idle and not sum(counts["steps"] for counts in self.by_mode.values()):
            raise CoevolveError(
                f"all {self.idle} explorations ended before the first action, the last one: "
                f"{self.why_idle}"
            )

    def notes(self, resumed: int = 0) -> list[str]:
        """`12 contexts` and how many more found no room, one entry a mode (`guided: 24 episodes,
        960 steps, …`), then what is out of the ordinary."""
        found = [
            (self.contexts, "{} contexts"),
            (self.crowded_out, "no room for {} more signalled tasks"),
            (self.aimless, "{} unknown tools have none near, no aim"),
            *((1, f"{mode}: {_listed(counts)}") for mode, counts in self.by_mode.items()),
            (resumed, "{} episodes from the journal"),
            (self.repeated, "left out {} that repeat another"),
            (self.refused, "{} reflections refused"),
            (self.lost, "lost {} episodes for want of a usable reply"),
            (self.idle, "{} episodes without an action"),
            (self.env_faults.lost, "dropped {} episodes that met faults of the environment"),
        ]
        return [text.format(count) for count, text in found if count]


def _listed(counts: Counter[str]) -> str:
    return ", ".join(f"{count} {what}" for what, count in counts.items())
