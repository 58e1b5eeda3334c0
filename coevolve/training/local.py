"""The `local` backend: GRPO in one process, one iteration of the loop per call (objective: training.grpo).

In: the iteration's tasks. Out: its rollouts, in RUN/iterations/NNN/rollouts.jsonl. Each of the `steps` steps samples
`samples` rollouts of `batch` tasks with the current weights (training.batches says which tasks) and does one update on them.

A call for a finished iteration changes nothing. A killed one is done again from the last checkpoint and gives the same
bytes: tasks, draws and arithmetic are functions of settings, step and tasks (on a CPU with one thread). The reference
policy is the one the run began with; with LoRA it is the model without its adapters.

Environment faults are masked; when more than `max_env_errors` of a step's rollouts are lost, the run fails before the
update. Weights or losses that aren't finite fail it too; the last checkpoint stays good.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from coevolve.agents.drivers import LocalPolicy
from coevolve.agents.prompts.styles import style
from coevolve.agents.rollout import rollouts
from coevolve.errors import CoevolveError, MissingDependency, Unreachable, UsageError
from coevolve.models.transformers_lm import LocalModel, identity
from coevolve.records import Rollout, Task
from coevolve.training import batches, grpo, metrics
from coevolve.training.settings import LocalSettings
from coevolve.training.state import DamagedRun, RunState
from coevolve.training.update import Objective, ReferencePolicy, Sample, UpdateReport, update

if TYPE_CHECKING:
    from coevolve.environments.client import Pool

OnStep = Callable[[dict[str, Any]], None]
_GO_BACK = "delete this checkpoint's directory: training goes on from the one before it, or from the first model"


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
    """Trains one iteration (default: the one after the last finished) and returns the file of its rollouts.

    `on_step` gets each step's metrics. Raises UsageError for tasks, settings or an iteration that don't fit the run,
    Partial while another process trains it, CoevolveError when it can't go on.
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
            raise UsageError(
                f"{run}: iteration {iteration} can't be trained: iteration {finished} is the last finished one"
            )
        if started := state.step > (iteration - 1) * settings.steps:
            state.check_tasks(iteration, tasks)
        if iteration == finished + 1:
            trainer = _Trainer(settings, state, pool, device, threads)
            state.keep_settings()
            if not started:
                state.note_tasks(iteration, tasks)
            trainer.iterate(
                tasks,
                iteration,
                save_every or settings.steps,
                keep_checkpoints,
                max_env_errors,
                on_step,
            )
        return state.finish(iteration)


def _named(model: str) -> str:
    """A directory by its absolute path, so that it is the same setting from wherever it is named; links are kept."""
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
    ):
        import torch

        self._settings, self._state, self._pool = settings, state, pool
        torch.manual_seed(settings.seed)  # fresh adapters are drawn at random
        self._model = self._current(device, threads)
        trained = [p for p in self._model.model.parameters() if p.requires_grad]
        self._optimizer = torch.optim.AdamW(
            trained, lr=settings.lr, weight_decay=settings.weight_decay
        )
        if state.checkpoint:
            self._restore(state.checkpoint / "optimizer.pt")
        self._reference = self._frozen(device, threads)
        self._objective = Objective(
            settings.beta,
            grpo.Clip(settings.clip_low, settings.clip_high, settings.clip_dual),
            settings.temperature,
            settings.grad_clip,
        )

    def _current(self, device: str | None, threads: int | None) -> LocalModel:
        """The model of the newest checkpoint, else the run's first."""
        checkpoint, rank = self._state.checkpoint, self._settings.lora_rank
        try:
            return _load(
                self._settings, str(checkpoint or self._settings.model), device, threads, rank
            )
        except (UsageError, Unreachable) as error:
            if checkpoint is None or isinstance(error, MissingDependency):
                raise
            raise DamagedRun(checkpoint, error, _GO_BACK) from error

    def _restore(self, file: Path) -> None:
        import torch

        try:
            saved = torch.load(file, map_location=self._model.device, weights_only=True)
            self._optimizer.load_state_dict(saved)
        except (
            Exception
        ) as error:  # the boundary: torch has a different error for each way a file can be torn
            raise DamagedRun(file, f"{type(error).__name__}: {error}"[:200], _GO_BACK) from error

    def _frozen(self, device: str | None, threads: int | None) -> ReferencePolicy:
        if self._settings.beta == 0:
            return ReferencePolicy(None)
        if self._settings.lora_rank:
            return ReferencePolicy(None, adapters_of=self._model)
        model = _load(self._settings, self._settings.model, device, threads, None)
        model.model.requires_grad_(False)
        return ReferencePolicy(model)

    def iterate(
        self,
        tasks: list[Task],
        iteration: int,
        save_every: int,
        keep: int,
        max_env_errors: float,
        on_step: OnStep | None,
    ) -> None:
        state, last = self._state, iteration * self._settings.steps
        state.rewind(iteration)
        name = f"{identity(self._settings.model)}@step-{last - self._settings.steps}"
        self._policy = LocalPolicy(
            name, self._model, self._settings.temperature, style(self._settings.prompt_style)
        )
        for step in range(state.step, last):
            batch = batches.plan(
                tasks,
                seed=self._settings.seed,
                step=step,
                size=self._settings.batch,
                newest_share=self._settings.newest_share,
            )
            began = time.perf_counter()
            played = self._sample(batch.tasks, iteration, step)
            seconds = time.perf_counter() - began
            _check_faults(played, max_env_errors)
            report = self._step(played, batch, iteration, step, seconds)
            kept = played if self._settings.keep_tokens else [_without_tokens(r) for r in played]
            state.append(state.part(iteration), kept)
            state.append(state.path / "metrics.jsonl", [report])
            if on_step:
                on_step(report)
            if (step + 1) % save_every == 0 or step + 1 == last:
                state.save(
                    step + 1,
                    self._write,
                    {"iteration": iteration, "policy": self._policy.name},
                    keep,
                )

    def _sample(self, tasks: list[Task], iteration: int, step: int) -> list[Rollout]:
        s = self._settings
        return list(
            rollouts(
                tasks,
                self._policy,
                self._pool,
                samples=s.samples,
                seed=s.seed,
                iteration=iteration,
                step=step,
                max_steps=s.max_actions,
                keep_tokens=True,
            )
        )

    def _step(
        self,
        played: list[Rollout],
        batch: batches.Batch,
        iteration: int,
        step: int,
        seconds_rollout: float,
    ) -> dict[str, Any]:
        samples, rewards, informative = _samples(
            played, self._settings.reward, self._settings.drop_zero_variance
        )
        began = time.perf_counter()
        done = None
        if any(sum(s.mask[1:]) for s in samples):
            done = update(self._model, self._reference, self._optimizer, samples, self._objective)
        seconds = time.perf_counter() - began
        return metrics.line(
            {
                "step": step + 1,
                "iteration": iteration,
                "groups": len(batch.tasks),
                "informative_share": informative / len(batch.tasks),
                "made_share": sum(task.origin.iteration > 0 for task in batch.tasks)
                / len(batch.tasks),
                "lr": self._settings.lr,
                "seconds_rollout": round(seconds_rollout, 4),
                **_rollout_metrics(played, rewards),
                **_update_metrics(done, seconds),
            }
        )

    def _write(self, directory: Path) -> None:
        import torch

        self._model.model.save_pretrained(directory)
        self._model.tokenizer.save_pretrained(directory)
        torch.save(self._optimizer.state_dict(), directory / "optimizer.pt")


def _load(
    settings: LocalSettings,
    name: str,
    device: str | None,
    threads: int | None,
    lora_rank: int | None,
) -> LocalModel:
    return LocalModel.load(
        name,
        device=device,
        dtype=settings.dtype,
        threads=threads,
        lora_rank=lora_rank,
        max_tokens=settings.episode_tokens,
        max_turn_tokens=settings.reply_tokens,
        render=style(settings.prompt_style).render,
    )


def _check_faults(played: list[Rollout], limit: float) -> None:
    lost = [r for r in played if r.stop_reason == "env_error"]
    if len(lost) == len(played):
        raise Unreachable(
            f"all {len(lost)} rollouts of a step met faults of the environment, the last one: {lost[-1].error}"
        )
    if len(lost) > limit * len(played):
        raise CoevolveError(
            f"the environment failed in {len(lost)} of {len(played)} rollouts, more than --max-env-errors {limit:g}: {lost[0].error}"
        )


def _samples(
    played: list[Rollout], reward: str, drop: bool
) -> tuple[list[Sample], list[float], int]:
    """The update's samples, the unmasked rollouts' rewards, and the number of groups with a policy gradient."""
    import torch

    rewards = [float(r.success) if reward == "success" else r.progress for r in played]
    kept = [r.stop_reason != "env_error" for r in played]
    groups = [r.group for r in played]
    advantages = grpo.group_advantages(
        torch.tensor(rewards, dtype=torch.float64), groups, torch.tensor(kept)
    ).tolist()
    informative = {group for group, advantage in zip(groups, advantages, strict=True) if advantage}
    samples = [
        Sample(r.token_ids, r.mask, r.logprobs, advantage)
        for r, advantage, keep in zip(played, advantages, kept, strict=True)
        if keep and r.token_ids and (r.group in informative or not drop)
    ]
    return samples, [r for r, keep in zip(rewards, kept, strict=True) if keep], len(informative)


def _without_tokens(rollout: Rollout) -> Rollout:
    return msgspec.structs.replace(rollout, token_ids=None, mask=None, logprobs=None)


def _rollout_metrics(played: list[Rollout], rewards: list[float]) -> dict[str, Any]:
    count = len(played)
    kept = [r for r in played if r.stop_reason != "env_error"]
    mean = sum(rewards) / max(1, len(rewards))
    replies = sum(m["role"] == "assistant" for r in played for m in r.messages)
    return {
        "reward_mean": mean,
        "reward_std": (sum((r - mean) ** 2 for r in rewards) / max(1, len(rewards) - 1)) ** 0.5,
        "success_mean": sum(r.success for r in kept) / max(1, len(kept)),
        "masked_share": 1 - len(kept) / count,
        "stop_reasons": dict(sorted(Counter(r.stop_reason for r in played).items())),
        "turns_mean": replies / count,
        "steps_mean": sum(len(r.steps) for r in played) / count,
        "length_mean": sum(len(r.token_ids or []) for r in played) / count,
        "sampled_tokens": sum(r.usage.completion_tokens for r in played),
    }


def _update_metrics(done: UpdateReport | None, seconds: float) -> dict[str, Any]:
    values = done or UpdateReport(*[0.0] * 10, tokens=0, seconds_reference=0.0)
    return {
        "updated": done is not None,
        "update_tokens": values.tokens,
        "loss": values.loss,
        "policy_loss": values.policy_loss,
        "kl": values.kl,
        "entropy": values.entropy,
        "clip_low": values.clip_low,
        "clip_high": values.clip_high,
        "clip_dual": values.clip_dual,
        "grad_norm": values.grad_norm,
        "logprob_gap_mean": values.gap_mean,
        "logprob_gap_max": values.gap_max,
        "seconds_reference": round(values.seconds_reference, 4),
        "seconds_update": round(seconds - values.seconds_reference, 4),
    }
