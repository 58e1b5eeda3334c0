"""Texts of options → settings, with errors that name what is possible."""

from __future__ import annotations

from collections.abc import Sequence

from coevolve.errors import UsageError
from coevolve.signals.kinds import KINDS, PAPER, WEIGHTS
from coevolve.signals.patterns import FAMILIES
from coevolve.signals.settings import MODES


def kinds(text: str | None, mode: str) -> tuple[str, ...]:
    """`--signals`: the kinds named, or all of the mode."""
    if mode not in MODES:
        raise UsageError(f"--mode takes {' or '.join(MODES)}, not {mode!r}")
    return _names("--signals", text, PAPER if mode == "paper" else KINDS)


def families(text: str | None, mode: str) -> tuple[str, ...]:
    """`--patterns`: families of action patterns."""
    if text is None:
        return ("2gram",) if mode == "paper" else ("1gram", "2gram")
    return _names("--patterns", text, FAMILIES)


def _names(option: str, text: str | None, possible: Sequence[str]) -> tuple[str, ...]:
    if text is None:
        return tuple(possible)
    named = [name.strip() for name in text.split(",")]
    for name in named:
        if name not in possible:
            raise UsageError(f"{option}: no {name!r}; there are: {', '.join(possible)}")
    return tuple(name for name in possible if name in named)


def band(text: str) -> tuple[float, float]:
    """`--band LOW,HIGH`."""
    try:
        low, high = (float(part) for part in text.split(","))
    except ValueError:
        raise UsageError(f"--band takes two numbers, as 0.2,0.8; not {text!r}") from None
    if not 0 <= low < high <= 1:
        raise UsageError(f"--band must rise inside 0 and 1, not {text!r}")
    return low, high


def weights(text: str | None) -> dict[str, float]:
    """`--quota KIND=WEIGHT,…` over the defaults."""
    found = dict(WEIGHTS)
    for part in text.split(",") if text else []:
        kind, _, weight = part.strip().partition("=")
        if kind not in KINDS:
            raise UsageError(f"--quota: no kind {kind!r}; there are: {', '.join(KINDS)}")
        try:
            found[kind] = float(weight)
        except ValueError:
            raise UsageError(f"--quota: {kind}={weight!r} is no number") from None
        if not 0 <= found[kind] < float("inf"):
            raise UsageError(f"--quota: {kind}={weight} must be 0 or more")
    return found
