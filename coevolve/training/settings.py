"""What both backends are told of a run: the objective, the batches, the lengths. What is in RUN/config.json, and so kept.

Defaults are the paper's where it names one. Raises UsageError for what cannot train; msgspec lets it through as it is.
"""

from __future__ import annotations

import math

import msgspec

from coevolve.errors import UsageError

AT_LEAST_0 = ("lr", "weight_decay", "beta", "clip_low", "clip_high")
ABOVE_0 = ("temperature", "grad_clip", "clip_dual")


class GrpoSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Of GRPO, whatever carries it out."""

    model: str
    steps: int = 10
    """Optimiser steps of an iteration."""
    batch: int = 32
    """Tasks a step."""
    samples: int = 8
    """Rollouts a task: the group."""
    seed: int = 0
    temperature: float = 0.9
    lr: float = 1e-6
    weight_decay: float = 0.01
    beta: float = 1e-3
    clip_low: float = 0.2
    clip_high: float = 0.28
    clip_dual: float = 3.0
    grad_clip: float = 1.0
    reward: str = "success"
    newest_share: float = 0.5
    max_steps: int | None = None
    """Actions an episode; None: the environment's."""
    max_turn_tokens: int | None = None
    prompt: str = "tools"
    keep_tokens: bool = False

    def __post_init__(self) -> None:
        if self.reward not in ("success", "progress"):
            raise UsageError(f"--reward takes success or progress, not {self.reward!r}")
        if self.steps < 1 or self.batch < 1 or self.samples < 2:
            raise UsageError(
                "--steps and --batch must be at least 1 and --samples at least 2: advantages compare a group"
            )
        if self.temperature == 0:
            raise UsageError(
                "--temperature must be above 0: GRPO needs different rollouts of one task"
            )
        for name in (*AT_LEAST_0, *ABOVE_0):
            value, least = getattr(self, name), "at least" if name in AT_LEAST_0 else "above"
            if not math.isfinite(value) or value < 0 or (value == 0 and name in ABOVE_0):
                raise UsageError(f"--{name.replace('_', '-')} must be {least} 0, not {value:g}")
