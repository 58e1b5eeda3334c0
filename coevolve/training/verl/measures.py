"""RUN/verl/metrics.jsonl: a line per step, with the names of `training.metrics` where verl has a counterpart.

verl counts clipped tokens on both sides together (`clip`); all its other scalars are under `verl`, by verl's names. A step
that is trained again after a crash has a second line; the last one counts.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from numbers import Number
from pathlib import Path
from typing import Any

import msgspec


class RolloutSummary(msgspec.Struct, frozen=True):
    """Of a rollout, for the trainer's checks and metrics."""

    group: str
    stop_reason: str
    error: str | None
    success: bool
    reward: float
    replies: int
    steps: int
    tokens: int
    sampled: int
    trained: int
    """Tokens with mask 1 in the row."""
    other_weights: bool = False
    """Whether the engine said that other weights sampled than the record's `step` names."""


def line(
    step: int,
    iteration: int,
    rows: list[RolloutSummary],
    made: list[bool],
    verl: Mapping[str, Any],
    seconds: Mapping[str, float],
) -> dict[str, Any]:
    """`step` counts the steps done, this one included; `made` tells of each group whether the loop made its task."""
    numbers = {
        name: float(value)
        for name, value in verl.items()
        if isinstance(value, Number) and math.isfinite(value)
    }
    return {
        "step": step,
        "iteration": iteration,
        **_of_rollouts(rows),
        "made_share": sum(made) / max(1, len(made)),
        "updated": "actor/grad_norm" in numbers,
        "update_tokens": sum(row.trained for row in rows),
        "loss": numbers.get("actor/loss"),
        "policy_loss": numbers.get("actor/pg_loss"),
        "kl": numbers.get("actor/kl_loss"),
        "entropy": numbers.get("actor/entropy"),
        "clip": numbers.get("actor/pg_clipfrac"),
        "clip_dual": numbers.get("actor/pg_clipfrac_lower"),
        "grad_norm": numbers.get("actor/grad_norm"),
        "lr": numbers.get("actor/lr"),
        "seconds_rollout": round(seconds.get("gen", 0.0), 4),
        "seconds_reference": round(seconds.get("ref", 0.0), 4),
        "seconds_update": round(seconds.get("update_actor", 0.0), 4),
        "verl": numbers,
    }


def _of_rollouts(rows: list[RolloutSummary]) -> dict[str, Any]:
    kept = [row for row in rows if row.stop_reason != "env_error"]
    mean = sum(row.reward for row in kept) / max(1, len(kept))
    rewards: dict[str, set[float]] = {row.group: set() for row in rows}
    for row in kept:
        rewards[row.group].add(row.reward)
    return {
        "reward_mean": mean,
        "reward_std": (sum((row.reward - mean) ** 2 for row in kept) / max(1, len(kept) - 1))
        ** 0.5,
        "success_mean": sum(row.success for row in kept) / max(1, len(kept)),
        "groups": len(rewards),
        "informative_share": sum(len(values) > 1 for values in rewards.values()) / len(rewards),
        "masked_share": 1 - len(kept) / len(rows),
        "stop_reasons": dict(sorted(Counter(row.stop_reason for row in rows).items())),
        "turns_mean": sum(row.replies for row in rows) / len(rows),
        "steps_mean": sum(row.steps for row in rows) / len(rows),
        "length_mean": sum(row.tokens for row in rows) / len(rows),
        "sampled_tokens": sum(row.sampled for row in rows),
        "other_weights": sum(row.other_weights for row in rows),
    }


class _Step(msgspec.Struct):
    step: int
    iteration: int
    stop_reasons: dict[str, int]
    other_weights: int = 0


def of_iteration(file: Path, iteration: int) -> tuple[dict[str, int], dict[str, Any]]:
    """Episodes of an iteration, in all, by stop reason, and sampled by other weights than recorded; the line of its last step."""
    found: dict[int, tuple[_Step, bytes]] = {}
    whole = file.read_bytes().split(b"\n")[:-1] if file.exists() else []
    for raw in whole:
        if raw and (step := _decoded(raw)) and step.iteration == iteration:
            found[step.step] = step, raw
    counts = sum((Counter(step.stop_reasons) for step, _ in found.values()), Counter())
    last = msgspec.json.decode(found[max(found)][1]) if found else {}
    other = sum(step.other_weights for step, _ in found.values())
    return {
        "episodes": counts.total(),
        **dict(sorted(counts.items())),
        **({"other_weights": other} if other else {}),
    }, last


def _decoded(raw: bytes) -> _Step | None:
    """None for what a killed process left of a line, which the next one's stands right behind."""
    try:
        return msgspec.json.decode(raw, type=_Step)
    except (msgspec.MsgspecError, ValueError):
        return None
