"""Every constant of signal extraction, with its source. Each is a flag of `coevolve
extract-signals`."""

from __future__ import annotations

from typing import NamedTuple

MODES = ("calibrated", "paper")


class Settings(NamedTuple):
    mode: str = "calibrated"
    """`paper`: the three rules to the letter; `calibrated`: tests with controlled error."""
    kinds: tuple[str, ...] = ()
    """Names of kinds (`kinds/`); none: all of the mode."""
    window: int = 5
    """Forgetting: W, how many earlier groups of the task count (open in the paper)."""
    alpha: float = 0.05
    """Level of the exact tests (calibrated forgetting and combination)."""
    band: tuple[float, float] = (0.2, 0.8)
    """Calibrated boundary: the learnable band of solve rates (ACE, arXiv 2608.27260)."""
    band_mass: float = 0.65
    """Calibrated boundary: least posterior probability of the band; a task never tried has .6."""
    patterns: tuple[str, ...] = ("1gram", "2gram")
    """Families of action patterns (`patterns.py`). Paper mode: bigrams only (open in the paper)."""
    min_observations: int = 100
    """Rare: N_min, least number of (rollout, pattern) pairs (open in the paper)."""
    theta: float = 5.0
    """Paper's rare: a pattern is rare below this percentage (the paper's example)."""
    rare_share: float = 0.5
    """Calibrated rare: a pattern is rare below this part of an equal share among the known
    patterns."""
    rate_floor: float = 0.05
    """Error and stall: the rate must be above this with 97.5 % confidence (lower Wilson bound)."""
    max_evidence: int = 8
    """Trajectories a signal carries."""
    observation_chars: int = 4000
    """Longer observations are cut in the evidence."""
