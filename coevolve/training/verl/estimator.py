"""`coevolve_grpo`: `training.grpo.group_advantages` on verl's tensors, registered with verl when
this module is imported.

Unlike verl's own `grpo` it leaves masked rows, those without a token of the policy, out of mean and
std of their group, and a group with fewer than two other rows has advantage 0 (verl: the raw
score).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from verl.trainer.ppo.core_algos import register_adv_est

from coevolve.errors import UsageError
from coevolve.training.grpo import group_advantages
from coevolve.training.verl.overrides import ESTIMATOR


@register_adv_est(ESTIMATOR)
def advantages(
    token_level_rewards: torch.Tensor,
    response_mask: torch.Tensor,
    index: np.ndarray,
    config: Any = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Advantages and returns (the same) [N, L] of rewards [N, L] and mask [N, L]; `index` [N] names
    each row's group.

    Raises UsageError where verl's switch for the division by the std is off: this estimator
    divides.
    """
    if config is not None and not config.get("norm_adv_by_std_in_grpo", True):
        needed = f"verl's estimator: algorithm.adv_estimator=grpo, not {ESTIMATOR}"
        raise UsageError(f"algorithm.norm_adv_by_std_in_grpo=False needs {needed}")
    rewards = token_level_rewards.sum(-1).double()
    kept = response_mask.sum(-1) > 0
    groups = group_advantages(rewards, [str(name) for name in index], kept)
    spread = groups.to(token_level_rewards.dtype)[:, None] * response_mask
    return spread, spread
