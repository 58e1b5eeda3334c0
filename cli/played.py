"""Which tasks `rollout` and `evaluate` play, and what becomes of the rollouts that come back."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, ClassVar

from coevolve.agents.episode import refusal
from coevolve.environments.faults import FaultCounter
from coevolve.errors import UsageError
from coevolve.jsonl import Line
from coevolve.models.chat import UNANSWERED
from coevolve.options import Option, Samples, Seed, Settings
from coevolve.records import Rollout, Task

if TYPE_CHECKING:
    from coevolve.environments.client import Pools
    from coevolve_cli.streams import Stage


class PlayedTasks(Settings, frozen=True, kw_only=True):
    """Which tasks are played, and how often."""

    PANEL: ClassVar[str] = "Tasks"

    split: Annotated[str | None, Option(metavar="NAME")] = None
    """Play this split of --env's own tasks instead of an input."""
    limit: Annotated[int | None, Option(default="all", ge=1)] = None
    """The first N tasks only."""
    samples: Samples = 1
    seed: Seed = 0

    def check(self, files: list[str] | None, env: str | None, model: str | None) -> None:
        """Raises UsageError for a split that cannot be played."""
        if self.split and not (env and model):
            raise UsageError("--split needs --env and --model: whose tasks, played by whom?")
        if self.split and files:
            raise UsageError(
                f"--split {self.split} plays the environment's own tasks: "
                "name no file, or leave --split out"
            )

    def chosen(self, pools: Pools, env: str | None, played: Played) -> Iterator[Task]:
        source = pools(env).tasks(self.split) if self.split else played.tasks()
        return itertools.islice(source, self.limit)


class Played:
    """The tasks that were read, and the episodes that were lost.

    A task that the environment refuses is a bad line of the input (--on-error); an episode lost to
    a fault is counted. One lost for want of a model's reply is lost work (exit 75), however many
    there are: its environment could be reached.
    """

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
