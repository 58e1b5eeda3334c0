"""RUN/verl/metrics.jsonl: a line per step, with the names of `training.metrics` where verl has a
counterpart.

verl counts clipped tokens on both sides together (`clip`); all its other scalars are under `verl`,
by verl's names. A step that is trained again after a crash has a second line; the last one counts.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping
from numbers import Number
from pathlib import Path
from typing import Any

import msgspec

from coevolve.training.metrics import RolloutSummary, rollout_metrics

OF_VERL = {
    "loss": "actor/loss",
    "policy_loss": "actor/pg_loss",
    "kl": "actor/kl_loss",
    "entropy": "actor/entropy",
    "clip": "actor/pg_clipfrac",
    "clip_dual": "actor/pg_clipfrac_lower",
    "grad_norm": "actor/grad_norm",
    "lr": "actor/lr",
}
"""Our names, and verl's."""


def line(
    step: int,
    iteration: int,
    rows: list[RolloutSummary],
    made: list[bool],
    verl: Mapping[str, Any],
    seconds: Mapping[str, float],
) -> dict[str, Any]:
    """`step` counts the steps done; `made`: for each group, whether the loop made its task."""
    numbers = {
        name: float(value)
        for name, value in verl.items()
        if isinstance(value, Number) and math.isfinite(value)
    }
    return {
        "step": step,
        "iteration": iteration,
        **rollout_metrics(rows),
        "other_weights": sum(row.other_weights for row in rows),
        "made_share": sum(made) / max(1, len(made)),
        "updated": "actor/grad_norm" in numbers,
        "update_tokens": sum(row.trained for row in rows),
        **{name: numbers.get(verls) for name, verls in OF_VERL.items()},
        "seconds_rollout": round(seconds.get("gen", 0.0), 4),
        "seconds_reference": round(seconds.get("ref", 0.0), 4),
        "seconds_update": round(seconds.get("update_actor", 0.0), 4),
        "verl": numbers,
    }


def lines(file: Path) -> dict[int, dict[str, Any]]:
    """The last line of each step, by step."""
    return {values["step"]: values for values in _decoded(file)}


def _decoded(file: Path) -> Iterator[dict[str, Any]]:
    for raw in file.read_bytes().split(b"\n")[:-1] if file.exists() else []:
        try:
            yield msgspec.json.decode(raw, type=dict[str, Any])
        except (msgspec.MsgspecError, ValueError):
            continue  # what a killed process left, and the next one's line right behind it


def of_iteration(file: Path, iteration: int) -> tuple[dict[str, int], dict[str, Any]]:
    """An iteration's episodes by stop reason, and the line of its last step."""
    steps = [line for _, line in sorted(lines(file).items()) if line["iteration"] == iteration]
    counts = sum((Counter(line["stop_reasons"]) for line in steps), Counter())
    other = sum(line.get("other_weights", 0) for line in steps)
    found = {"episodes": counts.total(), **dict(sorted(counts.items()))}
    return found | ({"other_weights": other} if other else {}), steps[-1] if steps else {}
