"""The `local` backend: GRPO in one process, one iteration of the loop per call (objective:
training.grpo).

In: the iteration's tasks. Out: its rollouts, in RUN/iterations/NNN/rollouts.jsonl. Each of the
`steps` steps samples `samples` rollouts of `batch` tasks with the current weights (training.batches
says which tasks) and does one update on them.

A call for a finished iteration changes nothing. A killed one is done again from the last checkpoint
and gives the same bytes: tasks, draws and arithmetic are functions of settings, step and tasks (on
a CPU with one thread). The reference policy is the one the run began with; with LoRA it is the
model without its adapters.

Environment faults are masked; when more than `max_env_errors` of a step's rollouts are lost, the
run fails before the update. Weights or losses that aren't finite fail it too; the last checkpoint
stays good.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from coevolve.agents.drivers import LocalPolicy
from coevolve.agents.prompts.styles import style
from coevolve.agents.rollout import rollouts
from coevolve.errors import MissingDependency, Unreachable, UsageError
from coevolve.models.transformers_lm import LocalModel, identity
from coevolve.records import Rollout, Task
from coevolve.training import batches, grpo, metrics
from coevolve.training.settings import LocalSettings
from coevolve.training.state import DamagedRun, RunState
from coevolve.training.update import ReferencePolicy, Sample, UpdateReport, update

if TYPE_CHECKING:
    from coevolve.environments.client import Pool

OnStep = Callable[[dict[str, Any]], None]
_GO_BACK = "delete its directory: training goes on from the checkpoint before, or from the model"


def train(
    tasks: list[Task],
    settings: LocalSettings,
    run: str,
    pool: Pool,
    *,
    iteration: int | None = None,
    save_every: int | None = None,
    keep_checkpoints: int = 1,
    device: str | None = None,
    threads: int | None = None,
    max_env_errors: float = 0.25,
    on_step: OnStep | None = None,
) -> Path:
    """Trains one iteration (default: the next) and returns the file of its rollouts.

    `on_step` gets each step's metrics. Raises UsageError for tasks, settings or an iteration that
    don't fit the run, Partial while another process trains it, CoevolveError when it can't go on.
    """
    if not tasks:
        raise UsageError("no tasks to train on")
    if not settings.model:
        raise UsageError("--model is missing: the Hugging Face model that the run begins with")
    settings = msgspec.structs.replace(settings, model=_named(settings.model))
    with RunState(run, settings) as state:
        finished = state.step // settings.steps
        iteration = finished + 1 if iteration is None else iteration
        if not 1 <= iteration <= finished + 1:
            why = f"iteration {finished} is the last finished one"
            raise UsageError(f"{run}: iteration {iteration} can't be trained: {why}")
        if started := state.step > (iteration - 1) * settings.steps:
            state.check_tasks(iteration, tasks)
        if iteration == finished + 1:
            trainer = _Trainer(settings, state, pool, device, threads, max_env_errors, on_step)
            state.keep_settings()
            if not started:
                state.note_tasks(iteration, tasks)
            trainer.iterate(tasks, iteration, save_every or settings.steps, keep_checkpoints)
        return state.finish(iteration)


def _named(model: str) -> str:
    """A directory by its absolute path, the same setting from wherever it is named."""
    return os.path.abspath(model) if Path(model).is_dir() else model


class _Trainer:
    """The weights, the optimiser and the reference, from the newest checkpoint."""

    def __init__(
        self,
        settings: LocalSettings,
        state: RunState,
        pool: Pool,
        device: str | None,
        threads: int | None,
        max_env_errors: float,
        on_step: OnStep | None,
    ):
        import torch

        self._settings, self._state, self._pool = settings, state, pool
        self._device, self._threads = device, threads
        self._max_env_errors, self._on_step = max_env_errors, on_step
        torch.manual_seed(settings.seed)  # fresh adapters are drawn at random
        self._model = self._current()
        trained = [p for p in self._model.model.parameters() if p.requires_grad]
        self._optimizer = torch.optim.AdamW(
            trained, lr=settings.lr, weight_decay=settings.weight_decay
        )
        if state.checkpoint:
            self._restore(state.checkpoint / "optimizer.pt")
        self._reference = self._frozen()

    def _current(self) -> LocalModel:
        """The model of the newest checkpoint, else the run's first."""
        checkpoint, settings = self._state.checkpoint, self._settings
        try:
            return self._load(str(checkpoint or settings.model), settings.lora_rank)
        except (UsageError, Unreachable) as error:
            if checkpoint is None or isinstance(error, MissingDependency):
                raise
            raise DamagedRun(checkpoint, error, _GO_BACK) from error

    def _load(self, name: str, lora_rank: int | None) -> LocalModel:
        settings = self._settings
        return LocalModel.load(
            name,
            device=self._device,
            dtype=settings.dtype,
            threads=self._threads,
            lora_rank=lora_rank,
            max_tokens=settings.episode_tokens,
            max_turn_tokens=settings.reply_tokens,
            render=style(settings.prompt_style).render,
        )

    def _restore(self, file: Path) -> None:
        import torch

        try:
            saved = torch.load(file, map_location=self._model.device, weights_only=True)
            self._optimizer.load_state_dict(saved)
        except Exception as error:  # the boundary: torch has an error for each way a file is torn
            raise DamagedRun(file, f"{type(error).__name__}: {error}"[:200], _GO_BACK) from error

    def _frozen(self) -> ReferencePolicy:
        if self._settings.beta == 0:
            return ReferencePolicy(None)
        if self._settings.lora_rank:
            return ReferencePolicy(None, adapters_of=self._model)
        model = self._load(self._settings.model, None)
        model.model.requires_grad_(False)
        return ReferencePolicy(model)

    def iterate(self, tasks: list[Task], iteration: int, save_every: int, keep: int) -> None:
        state, last = self._state, iteration * self._settings.steps
        state.rewind(iteration)
        name = f"{identity(self._settings.model)}@step-{last - self._settings.steps}"
        self._policy = LocalPolicy(
            name, self._model, self._settings.temperature, style(self._settings.prompt_style)
        )
        for step in range(state.step, last):
            batch = batches.plan(tasks, self._settings, step)
            began = time.perf_counter()
            played = self._sample(batch, iteration, step)
            seconds = time.perf_counter() - began
            rows = [metrics.summary(r, self._settings.reward, _replies(r)) for r in played]
            metrics.check_faults(rows, self._max_env_errors, "the environment")
            made = sum(task.origin.iteration > 0 for task in batch) / len(batch)
            report = metrics.line(
                {
                    **metrics.rollout_metrics(rows),
                    **self._update(played),
                    "step": step + 1,
                    "iteration": iteration,
                    "made_share": made,
                    "lr": self._settings.lr,
                    "seconds_rollout": round(seconds, 4),
                }
            )
            kept = played if self._settings.keep_tokens else [_without_tokens(r) for r in played]
            state.append(state.part(iteration), kept)
            state.append(state.path / "metrics.jsonl", [report])
            if self._on_step:
                self._on_step(report)
            if (step + 1) % save_every == 0 or step + 1 == last:
                about = {"iteration": iteration, "policy": self._policy.name}
                state.save(step + 1, self._write, about, keep)

    def _sample(self, tasks: list[Task], iteration: int, step: int) -> list[Rollout]:
        s = self._settings
        return list(
            rollouts(
                tasks, self._policy, self._pool, samples=s.samples, seed=s.seed,
                iteration=iteration, step=step, max_steps=s.max_actions, keep_tokens=True,
            )
        )  # fmt: skip

    def _update(self, played: list[Rollout]) -> dict[str, Any]:
        """One optimiser step, if there is a token to train on; its part of the metrics."""
        began = time.perf_counter()
        samples = _samples(played, self._settings.reward, self._settings.drop_zero_variance)
        done = None
        if any(sum(s.mask[1:]) for s in samples):
            done = update(self._model, self._reference, self._optimizer, samples, self._settings)
        values = done or UpdateReport()
        seconds = time.perf_counter() - began - values.seconds_reference
        return values._asdict() | {
            "updated": done is not None,
            "seconds_reference": round(values.seconds_reference, 4),
            "seconds_update": round(seconds, 4),
        }

    def _write(self, directory: Path) -> None:
        import torch

        self._model.model.save_pretrained(directory)
        self._model.tokenizer.save_pretrained(directory)
        torch.save(self._optimizer.state_dict(), directory / "optimizer.pt")


def _samples(played: list[Rollout], reward: str, drop: bool) -> list[Sample]:
    """The update's samples; `drop` leaves out groups without a policy gradient."""
    import torch

    rewards = [float(r.success) if reward == "success" else r.progress for r in played]
    kept = [r.stop_reason != "env_error" for r in played]
    groups = [r.group for r in played]
    advantages = grpo.group_advantages(
        torch.tensor(rewards, dtype=torch.float64), groups, torch.tensor(kept)
    ).tolist()
    informative = {group for group, advantage in zip(groups, advantages, strict=True) if advantage}
    return [
        Sample(r.token_ids, r.mask, r.logprobs, advantage)
        for r, advantage, keep in zip(played, advantages, kept, strict=True)
        if keep and r.token_ids and (r.group in informative or not drop)
    ]


def _replies(rollout: Rollout) -> int:
    return sum(message["role"] == "assistant" for message in rollout.messages)


def _without_tokens(rollout: Rollout) -> Rollout:
    return msgspec.structs.replace(rollout, token_ids=None, mask=None, logprobs=None)
