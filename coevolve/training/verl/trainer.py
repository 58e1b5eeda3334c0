"""verl's synchronous trainer as the long run of the loop: tasks come in by iteration, the policy is
served between two.

Rows are a function of (seed, step, the iteration's tasks), so a resumed run goes on exactly where
its checkpoint is; what verl saves of a data loader is nothing. Before the first step of an
iteration the trainer writes READY.json of the one before (checkpoint and weights are out by then),
and waits for the tasks. The run ends only there: with the `stop` file, after `stop_after`, or when
no tasks came in time.

Before an update the batch is checked: a row that verl lost, or more environment errors than the job
allows, fails the run (CoevolveError; RUN/verl/error.json). Nothing is padded silently.
"""

from __future__ import annotations

import time
import uuid
from collections import Counter
from typing import Any

import msgspec
import numpy as np
import torch
import transfer_queue as tq
from omegaconf import open_dict
from verl.trainer.ppo.v1.trainer_sync import PPOTrainerSync
from verl.utils import tensordict_utils as tu
from verl.utils.dataset.rl_dataset import collate_fn

from coevolve import jsonl
from coevolve.errors import CoevolveError, UsageError
from coevolve.models.transformers_lm import identity
from coevolve.records import Task
from coevolve.training import batches
from coevolve.training.metrics import RolloutSummary, check_faults
from coevolve.training.verl import estimator, measures
from coevolve.training.verl.agent_loop import packed
from coevolve.training.verl.files import Ready, VerlFiles, VerlJob, append, write
from coevolve.training.verl.heartbeat import HeartbeatWriter
from coevolve.training.verl.overrides import ENDLESS

__all__ = ["EndOfRun", "Trainer", "estimator"]

POLL = 0.2
REFILLS = 1 << 20
"""Steps of the plan between a step's rows and those that dynamic sampling asks for beyond."""


class EndOfRun(Exception):
    """The run is over, at a boundary; not a failure. `reason` says why."""


class _NoLoader:
    """What verl's checkpoints save of a data loader."""

    def state_dict(self) -> dict[str, Any]:
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Rows follow from the step."""


class Trainer(PPOTrainerSync):
    """`config` is verl's; `heartbeat` is told of every phase."""

    def __init__(self, config: Any, job: VerlJob, heartbeat: HeartbeatWriter):
        self.job, self.files, self._heartbeat = job, VerlFiles(job.run), heartbeat
        self._settings = job.settings
        self._identity = identity(job.settings.model)
        self._iteration = 0
        self._tasks: list[Task] = []
        self._seen: Counter[str] = Counter()
        self._rows: list[Task] = []
        self._summaries: list[RolloutSummary] = []
        super().__init__(config)

    # What verl calls, in the order of a run.

    def _init_dataloader(self) -> None:
        """No dataset: see `_fetch_one_gen_batch`."""
        self.train_dataset = self.val_dataset = self.val_dataloader = None
        self.train_dataloader = _NoLoader()
        self.steps_per_epoch, self.total_training_steps = self._settings.steps, ENDLESS
        scheduled = self.config.trainer.total_training_steps or ENDLESS
        with open_dict(self.config):
            self.config.actor_rollout_ref.actor.optim.total_training_steps = scheduled
            if self._refills():
                self.config.data.gen_batch_size = 1

    def on_init_end(self) -> None:
        self._phase("weights", self.global_steps)
        super().on_init_end()

    def on_step_begin(self) -> None:
        super().on_step_begin()
        done = self.global_steps - 1
        if done % self._settings.steps == 0 or not self._tasks:
            self._boundary(done)
        self._seen.clear()
        self._rows = []
        self._phase("rollout")

    def _fetch_one_gen_batch(self) -> Any:
        """The next rows of this step: the whole batch, or one at a time where verl refills."""
        round_, place = divmod(len(self._rows), self._settings.batch)
        step = self.global_steps - 1 + round_ * REFILLS
        tasks = batches.plan(self._tasks, self._settings, step)
        if self._refills():
            tasks = tasks[place : place + 1]
        batch = collate_fn([self._row(task) for task in tasks])
        batch["uid"] = np.array([uuid.uuid4().hex for _ in tasks], dtype=object)
        return tu.get_tensordict(batch)

    def _balance_batch(self, batch: Any, metrics: Any, **options: Any) -> Any:
        self._summaries = self._checked(batch)
        self._phase("update")
        return super()._balance_batch(batch, metrics, **options)

    def _update_actor(self, batch: Any, metrics: Any) -> Any:
        self._phase("update_actor")
        return super()._update_actor(batch, metrics)

    def _save_checkpoint(self) -> None:
        self._phase("saving", self.global_steps)
        super()._save_checkpoint()

    def on_step_end(self) -> None:
        self._phase("weights", self.global_steps)
        super().on_step_end()

    def _compute_metrics(
        self, batch: Any, metrics: Any, timing_raw: Any, global_steps: int, epoch: int
    ) -> None:
        super()._compute_metrics(batch, metrics, timing_raw, global_steps=global_steps, epoch=epoch)
        made = [task.origin.iteration > 0 for task in self._rows]
        rows, iteration = self._summaries, self._iteration
        line = measures.line(global_steps, iteration, rows, made, metrics, timing_raw)
        append(self.files.metrics, line)

    # Our own.

    def _refills(self) -> bool:
        """Whether verl asks for single rows: dynamic sampling, or refilling of failed groups."""
        groups = self.config.algorithm.get("filter_groups")
        failed = self.config.trainer.v1.sampler.get("sync_refill_failed_groups", False)
        return bool(failed or (groups and groups.get("enable")))

    def _phase(self, name: str, done: int | None = None) -> None:
        self._heartbeat.phase(
            name, self._iteration, self.global_steps - 1 if done is None else done
        )

    def _boundary(self, done: int) -> None:
        """Serves the policy until the next iteration's tasks are there. Raises EndOfRun."""
        finished = done // self._settings.steps
        self._iteration = finished + 1
        if done % self._settings.steps == 0:
            if finished:
                self._write_ready(finished, done)
            self._wait(finished, done)
        file = self.files.tasks(self._iteration)
        self._tasks = [line.record for line in jsonl.read([str(file)], Task)]
        if not self._tasks:
            raise UsageError(f"{file}: no tasks to train on")
        if other := next((task for task in self._tasks if task.env != self.job.env), None):
            raise UsageError(
                f"{file}: task {other.id} is of {other.env!r}, and this run plays {self.job.env!r}"
            )

    def _write_ready(self, iteration: int, step: int) -> None:
        counts, last = measures.of_iteration(self.files.metrics, iteration)
        servers = self.llm_server_manager.get_addresses()
        checkpoint = self.files.checkpoints / f"global_step_{step}"
        ready = Ready(
            iteration=iteration,
            step=step,
            weights=step,
            addresses=[f"http://{address}/v1" for address in servers],
            model=self.config.actor_rollout_ref.model.path,
            checkpoint=str(checkpoint.relative_to(self.files.run)),
            counts=counts,
            metrics=last,
        )
        write(self.files.ready(iteration), ready)

    def _wait(self, finished: int, done: int) -> None:
        self._heartbeat.phase("waiting", finished, done)
        last, seconds, coming = self.job.stop_after, self.job.limits.wait_timeout, finished + 1
        until = time.monotonic() + seconds
        while not self.files.stop.exists() and not (last is not None and finished >= last):
            if self.files.tasks(coming).exists():
                return
            if time.monotonic() > until:
                raise EndOfRun(f"no tasks for iteration {coming} within {seconds:g} s")
            time.sleep(POLL)
        raise EndOfRun(f"stopped after iteration {finished}")

    def _row(self, task: Task) -> dict[str, Any]:
        """The row of a task that is the next of this step."""
        again = self._seen[task.id]
        self._seen[task.id] += 1
        self._rows.append(task)
        policy = f"{self._identity}@step-{(self._iteration - 1) * self._settings.steps}"
        return {
            "raw_prompt": [{"role": "user", "content": task.query[0]}],
            "index": len(self._rows) - 1,
            "extra_info": packed(task, self._iteration, policy, again),
            "dummy_tensor": torch.zeros(1, dtype=torch.uint8),
        }

    def _checked(self, batch: Any) -> list[RolloutSummary]:
        """The rows' summaries. Raises CoevolveError for lost rows and for too many faults."""
        found = tq.kv_batch_get(
            keys=batch.keys, partition_id=batch.partition_id, select_fields=["extra_fields"]
        )
        rows = [
            msgspec.convert(fields["coevolve"], RolloutSummary) for fields in found["extra_fields"]
        ]
        wanted = self._settings.batch * self._settings.samples
        if len(rows) != wanted:
            raise CoevolveError(
                f"verl lost {wanted - len(rows)} of {wanted} rollouts of step {self.global_steps}: "
                f"see {self.files.log}"
            )
        limit = self.job.max_env_errors
        check_faults(rows, limit, "the environment or of the engine")
        if other := sum(row.other_weights for row in rows):
            jsonl.warn(
                f"step {self.global_steps}: other weights than the newest sampled {other} of "
                f"{len(rows)} rollouts"
            )
        return rows
