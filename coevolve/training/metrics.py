"""What a training step reports, with either backend: one line of RUN/metrics.jsonl. `METRICS`
documents it, and no other place.

Both backends make a `RolloutSummary` of each rollout; from these come the numbers about rollouts
and the check that not too many were lost to faults.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import msgspec

from coevolve.errors import CoevolveError, Unreachable
from coevolve.records import Rollout

METRICS: dict[str, str] = {
    "step": "optimiser step, from 1, over the whole run",
    "iteration": "iteration of the loop the step belongs to",
    "reward_mean": "mean reward over unmasked rollouts: what GRPO sees (success or progress)",
    "reward_std": "standard deviation of the reward over unmasked rollouts",
    "success_mean": "share of unmasked rollouts with success",
    "groups": "groups in the batch (tasks)",
    "informative_share": "share of groups whose rewards differ, the only ones with a policy "
    "gradient",
    "made_share": "share of the batch's tasks that the loop made (origin.iteration above 0)",
    "masked_share": "share of rollouts lost to environment errors",
    "stop_reasons": "rollouts by stop reason",
    "turns_mean": "replies of the policy per rollout",
    "steps_mean": "actions per rollout",
    "length_mean": "tokens per rollout, prompt and observations included",
    "sampled_tokens": "tokens the policy sampled in this step",
    "update_tokens": "policy tokens in the update: the denominator of the token mean",
    "updated": "whether the optimiser stepped (false: no informative group, or no token)",
    "loss": "policy loss + beta * kl",
    "policy_loss": "negated clipped objective, token mean",
    "kl": "KL to the reference policy, k3 estimator, token mean",
    "entropy": "entropy of the sampling distribution in nats, token mean",
    "clip_low": "share of tokens clipped from below (negative advantage, ratio under 1 - clip_low)",
    "clip_high": "share of tokens clipped from above (positive advantage, ratio over 1+clip_high)",
    "clip_dual": "share of tokens at the dual clip (negative advantage, ratio over c)",
    "grad_norm": "norm of the gradient before clipping",
    "lr": "learning rate",
    "logprob_gap_mean": "mean absolute difference of log-probabilities, sampler to trainer",
    "logprob_gap_max": "the largest such difference",
    "seconds_rollout": "seconds of sampling, environment included",
    "seconds_reference": "seconds of the reference policy's passes",
    "seconds_update": "seconds of the update without them",
}


class RolloutSummary(msgspec.Struct, frozen=True, kw_only=True):
    """A rollout, for the checks and the metrics of its step."""

    group: str
    stop_reason: str
    error: str | None
    success: bool
    reward: float
    replies: int
    steps: int
    tokens: int
    sampled: int
    trained: int = 0  # Tokens with mask 1 in the trainer's row
    other_weights: bool = False
    """Whether the engine said that other weights sampled than the record's `step` names."""


def summary(rollout: Rollout, reward: str, replies: int) -> RolloutSummary:
    """The summary; `reward` is `success` or `progress`, `replies` counts those of the policy."""
    return RolloutSummary(
        group=rollout.group,
        stop_reason=rollout.stop_reason,
        error=rollout.error,
        success=rollout.success,
        reward=float(rollout.success) if reward == "success" else rollout.progress,
        replies=replies,
        steps=len(rollout.steps),
        tokens=rollout.usage.prompt_tokens + rollout.usage.completion_tokens,
        sampled=rollout.usage.completion_tokens,
    )


def check_faults(rows: list[RolloutSummary], limit: float, culprit: str) -> None:
    """Raises CoevolveError where the culprit lost more than `limit`, Unreachable where all."""
    lost = [row for row in rows if row.stop_reason == "env_error"]
    if len(lost) == len(rows):
        raise Unreachable(
            f"all {len(lost)} rollouts of a step met faults of {culprit}, "
            f"the last one: {lost[-1].error}"
        )
    if len(lost) > limit * len(rows):
        raise CoevolveError(
            f"faults of {culprit} in {len(lost)} of {len(rows)} rollouts, more than "
            f"--max-env-errors {limit:g}: {lost[0].error}"
        )


def rollout_metrics(rows: list[RolloutSummary]) -> dict[str, Any]:
    """The numbers about a step's rollouts."""
    kept = [row for row in rows if row.stop_reason != "env_error"]
    count, some = len(rows), max(1, len(kept))
    mean = sum(row.reward for row in kept) / some
    squares = sum((row.reward - mean) ** 2 for row in kept)
    rewards: dict[str, set[float]] = {row.group: set() for row in rows}
    for row in kept:
        rewards[row.group].add(row.reward)
    return {
        "reward_mean": mean,
        "reward_std": (squares / max(1, len(kept) - 1)) ** 0.5,
        "success_mean": sum(row.success for row in kept) / some,
        "groups": len(rewards),
        "informative_share": sum(len(values) > 1 for values in rewards.values()) / len(rewards),
        "masked_share": 1 - len(kept) / count,
        "stop_reasons": dict(sorted(Counter(row.stop_reason for row in rows).items())),
        "turns_mean": sum(row.replies for row in rows) / count,
        "steps_mean": sum(row.steps for row in rows) / count,
        "length_mean": sum(row.tokens for row in rows) / count,
        "sampled_tokens": sum(row.sampled for row in rows),
    }


def line(values: dict[str, Any]) -> dict[str, Any]:
    """The values in the table's order. Raises ValueError where they aren't the documented ones."""
    if values.keys() != METRICS.keys():
        different = sorted(values.keys() ^ METRICS.keys())
        raise ValueError(f"metrics out of step with their table: {different}")
    return {name: values[name] for name in METRICS}
