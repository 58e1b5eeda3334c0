"""The options of `coevolve extract-signals`: the settings of the rules, which kinds, and how many
signals."""

from __future__ import annotations

from typing import Annotated

from msgspec.structs import force_setattr

from coevolve.errors import UsageError
from coevolve.options import Advanced, Option
from coevolve.signals.kinds import KINDS, PAPER, SIGNAL_KINDS, WEIGHTS
from coevolve.signals.patterns import FAMILIES
from coevolve.signals.settings import SignalSettings

MAX_SIGNALS = 200  # Signals for one iteration of one environment, unless more are asked for


class SignalOptions(SignalSettings, frozen=True, kw_only=True):
    """What is None at first follows from the mode."""

    kinds: Annotated[
        tuple[str, ...] | None,
        Option(
            metavar="KIND,…",
            default=f"all; with --mode paper {','.join(PAPER)}",
            choices={kind.name: kind.meaning for kind in SIGNAL_KINDS},
        ),
    ] = None
    """Which kinds of weakness to look for."""
    max_signals: Annotated[
        int | None, Option(default=f"{MAX_SIGNALS}; with --mode paper 0", ge=0)
    ] = None
    """Signals for one iteration of one environment, shared out by --quota; 0 keeps all."""
    quota: Annotated[
        dict[str, float],
        Option(
            metavar="KIND=WEIGHT,…",
            default=", ".join((f"{kind}={weight:g}" for kind, weight in WEIGHTS.items())),
        ),
    ] = {}
    """Weights of kinds against each other where --max-signals cuts; 0 leaves a kind out."""
    patterns: Annotated[
        tuple[str, ...] | None,
        Advanced(
            metavar="FAMILY,…", default="1gram,2gram; with --mode paper 2gram", choices=FAMILIES
        ),
    ] = None
    """Rare: what counts as a pattern of actions."""

    def __post_init__(self) -> None:
        super().__post_init__()
        paper = self.mode == "paper"
        possible = PAPER if paper else KINDS
        named = possible if self.kinds is None else self.kinds
        if strange := [kind for kind in named if kind not in possible]:
            raise UsageError(f"--kinds: no {strange[0]!r}; there are: {', '.join(possible)}")
        force_setattr(self, "kinds", tuple(kind for kind in possible if kind in named))
        families = self.patterns or (("2gram",) if paper else ("1gram", "2gram"))
        force_setattr(self, "patterns", tuple(name for name in FAMILIES if name in families))
        if self.max_signals is None:
            force_setattr(self, "max_signals", 0 if paper else MAX_SIGNALS)
        for kind, weight in self.quota.items():
            if kind not in KINDS:
                raise UsageError(f"--quota: no kind {kind!r}; there are: {', '.join(KINDS)}")
            if not 0 <= weight < float("inf"):
                raise UsageError(f"--quota: {kind}={weight:g} must be 0 or more")
