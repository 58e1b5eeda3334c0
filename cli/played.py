"""What `rollout` and `evaluate` do with the tasks that they read and the rollouts that come back."""

from __future__ import annotations

from collections.abc import Iterator

from coevolve.agents.episode import refusal
from coevolve.environments.faults import FaultCounter
from coevolve.jsonl import Line
from coevolve.models.chat import UNANSWERED
from coevolve.records import Rollout, Task
from coevolve_cli.streams import Stage


class Played:
    """A task that the environment refuses is a bad line of the input (--on-error); an episode lost to a fault is counted.

    One lost for want of a model's reply is lost work (exit 75), however many there are: its environment could be reached."""

    def __init__(self, stage: Stage):
        self.env_faults = FaultCounter("rollouts")
        self._stage = stage
        self._lines: dict[str, Line[Task]] = {}
        self._refused: set[str] = set()

    def tasks(self) -> Iterator[Task]:
        for line in self._stage.read(Task):
            self._lines[line.record.id] = line
            yield line.record

    def take(self, rollout: Rollout) -> bool:
        """Whether the rollout is one to be written. Raises BadInput as `Stage.reject` does."""
        reason, line = refusal(rollout), self._lines.get(rollout.task_id)
        if reason is None or line is None:
            lost = rollout.error if rollout.stop_reason == "env_error" else None
            self.env_faults.add(lost, answered=(lost or "").startswith(UNANSWERED))
            return True
        if rollout.task_id not in self._refused:
            self._refused.add(rollout.task_id)
            self._stage.reject(line, reason)
        return False
