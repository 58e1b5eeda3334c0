"""The GRPO objective as pure functions (paper: CoEvolve §3; the aggregation and the clamps are
verl's).

    J(θ) = (1/T) Σ_tokens [ min(r Â, clip(r, 1−ε_low, 1+ε_high) Â) − β k3(π_θ, π_ref) ]
    r    = π_θ / π_old per token
    Â_k  = (R_k − mean R) / (std R + 1e-6)     within the group of one task, std with n − 1

T is the number of the policy's own tokens in the whole update (token mean); prompt and observation
tokens take no part. For Â < 0 the loss of a token is at most −c·Â (dual clip, Ye et al. 2020). k3
is Schulman's low-variance KL estimator. Masked rollouts (`env_error`) are outside mean and std; a
group with fewer than two others has advantage 0, and so has a group without variance: it keeps its
tokens and its KL.

Shapes: N rollouts, M policy tokens (flat, or any shape; everything is elementwise).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from torch import Tensor

EPSILON = 1e-6
LOG_RATIO_LIMIT = 20.0
KL_LIMIT = 10.0


class Clip(NamedTuple):
    """Clip range of the ratio: 1−low … 1+high; `dual` bounds the loss for negative advantages."""

    low: float
    high: float
    dual: float


class PolicyLoss(NamedTuple):
    """Loss per token, and boolean per token where a clip took effect."""

    loss: Tensor
    clipped_low: Tensor  # Â < 0 and r < 1−ε_low: no gradient
    clipped_high: Tensor  # Â > 0 and r > 1+ε_high: no gradient
    clipped_dual: Tensor  # Â < 0 and r > c: no gradient


def group_advantages(rewards: Tensor, groups: Sequence[str], kept: Tensor) -> Tensor:
    """Advantages [N] of rewards [N] by group; `kept` [N] is False for masked rollouts."""
    import torch

    advantages = torch.zeros_like(rewards)
    members: dict[str, list[int]] = {}
    for i, (group, keep) in enumerate(zip(groups, kept.tolist(), strict=True)):
        if keep:
            members.setdefault(group, []).append(i)
    for indices in members.values():
        own = rewards[indices]
        if len(indices) >= 2 and own.min() != own.max():
            advantages[indices] = (own - own.mean()) / (own.std() + EPSILON)
    return advantages


def policy_loss(logprobs: Tensor, old: Tensor, advantages: Tensor, clip: Clip) -> PolicyLoss:
    """Negated clipped objective per token (all of one shape); gradients flow by `logprobs` only."""
    import torch

    ratio = (logprobs - old).clamp(-LOG_RATIO_LIMIT, LOG_RATIO_LIMIT).exp()
    plain = -advantages * ratio
    bounded = -advantages * ratio.clamp(1 - clip.low, 1 + clip.high)
    loss = torch.maximum(plain, bounded)
    ceiling = -advantages * clip.dual
    negative = advantages < 0
    clipped = bounded > plain
    return PolicyLoss(
        torch.where(negative, torch.minimum(loss, ceiling), loss),
        clipped & negative,
        clipped & (advantages > 0),
        negative & (loss > ceiling),
    )


def kl_k3(logprobs: Tensor, reference: Tensor) -> Tensor:
    """KL[π_θ ‖ π_ref] per token by the k3 estimator: exp(d) − d − 1 of d = log π_ref − log π_θ."""
    difference = (reference - logprobs).clamp(-LOG_RATIO_LIMIT, LOG_RATIO_LIMIT)
    return (difference.exp() - difference - 1).clamp(-KL_LIMIT, KL_LIMIT)


def entropy(logprobs: Tensor) -> Tensor:
    """Entropy in nats over the last dimension of log-probabilities [..., V]."""
    return -(logprobs.exp() * logprobs).sum(-1)


def token_mean(values: Tensor, total: int) -> Tensor:
    """A part's share of the mean over all `total` policy tokens: the shares add up to the mean."""
    return values.sum() / total
