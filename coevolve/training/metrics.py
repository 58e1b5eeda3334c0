"""What a training step reports: one line of RUN/metrics.jsonl. This table is the only place that documents it."""

from __future__ import annotations

from typing import Any

METRICS: dict[str, str] = {
    "step": "optimiser step, from 1, over the whole run",
    "iteration": "iteration of the loop the step belongs to",
    "reward_mean": "mean reward over unmasked rollouts: what GRPO sees (success or progress)",
    "reward_std": "standard deviation of the reward over unmasked rollouts",
    "success_mean": "share of unmasked rollouts with success",
    "groups": "groups in the batch (tasks)",
    "informative_share": "share of groups whose rewards differ, the only ones with a policy gradient",
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
    "clip_high": "share of tokens clipped from above (positive advantage, ratio over 1 + clip_high)",
    "clip_dual": "share of tokens at the dual clip (negative advantage, ratio over c)",
    "grad_norm": "norm of the gradient before clipping",
    "lr": "learning rate",
    "logprob_gap_mean": "mean absolute difference of a token's log-probability between sampler and trainer",
    "logprob_gap_max": "the largest such difference",
    "seconds_rollout": "seconds of sampling, environment included",
    "seconds_reference": "seconds of the reference policy's passes",
    "seconds_update": "seconds of the update without them",
}


def line(values: dict[str, Any]) -> dict[str, Any]:
    """The values in the table's order. Raises ValueError where they aren't exactly the documented ones."""
    if values.keys() != METRICS.keys():
        raise ValueError(
            f"metrics out of step with their table: {sorted(values.keys() ^ METRICS.keys())}"
        )
    return {name: values[name] for name in METRICS}
