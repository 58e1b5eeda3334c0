"""Every constant of signal extraction, with its source. Each is an option of `coevolve
extract-signals`."""

from __future__ import annotations

from typing import Annotated, ClassVar

from coevolve.errors import UsageError
from coevolve.options import Advanced, Option, Settings
from coevolve.signals.history import KEEP


class SignalSettings(Settings, frozen=True, kw_only=True):
    """The constants of the rules, and how much a signal carries."""

    PANEL: ClassVar[str] = "Signals"

    mode: Annotated[
        str,
        Option(
            choices={
                "calibrated": "statistical tests with controlled error rates",
                "paper": "the three rules of the CoEvolve paper to the letter",
            }
        ),
    ] = "calibrated"
    """How weaknesses are told from chance."""
    kinds: tuple[str, ...] = ()
    """Names of kinds (`kinds/`); none: all of the mode."""
    window: Annotated[int, Advanced(ge=1, le=KEEP)] = 5
    """Forgetting: how many earlier groups of a task count (W; open in the paper)."""
    alpha: Annotated[float, Advanced(ge=0, le=1)] = 0.05
    """Level of the exact tests (calibrated forgetting and combination)."""
    # ACE, arXiv 2608.27260.
    band: Annotated[tuple[float, float], Advanced(metavar="LOW,HIGH")] = (0.2, 0.8)
    """Boundary, calibrated: the band of solve rates at which a task can be learnt from."""
    # A task never tried has .6.
    band_mass: Annotated[float, Advanced(ge=0, le=1)] = 0.65
    """Boundary, calibrated: least posterior probability that the solve rate is in --band."""
    patterns: tuple[str, ...] = ("1gram", "2gram")
    """Families of action patterns (`patterns.py`)."""
    min_observations: Annotated[int, Advanced(ge=0)] = 100
    """Rare: least number of (rollout, pattern) pairs (N_min; open in the paper)."""
    theta: Annotated[float, Advanced(ge=0)] = 5.0
    """Rare, --mode paper: percentage below which a pattern is rare (the paper's example)."""
    rare_share: Annotated[float, Advanced(ge=0)] = 0.5
    """Rare, calibrated: part of an equal share among the patterns below which one is rare."""
    rate_floor: Annotated[float, Advanced(ge=0, le=1)] = 0.05
    """Error, unknown_tool, stall: the rate exceeds this with 97.5 % confidence (Wilson bound)."""
    max_evidence: Annotated[int, Advanced(ge=1)] = 8
    """Trajectories that a signal carries as evidence."""
    observation_chars: Annotated[int, Advanced(ge=0)] = 4000
    """Characters after which an observation in the evidence is cut."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.band[0] < self.band[1] <= 1:
            shown = ",".join(f"{bound:g}" for bound in self.band)
            raise UsageError(f"--band must rise inside 0 and 1, not {shown}")
