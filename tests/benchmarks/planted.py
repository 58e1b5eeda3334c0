"""Planted weaknesses: precision and recall of each kind of signal at its top 20, calibrated against
the paper's rules.

    python tests/benchmarks/planted.py [SEEDS]        about 15 s for the default of 10 seeds

Each kind is planted alone and all are planted together (`simulated.py`). Precision counts the
signals of the kind at its top 20, recall the planted weaknesses among them; both are means over
seeds. `false` is how many signals of the kind come up where that kind was *not* planted (all others
were).
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from simulated import INVENTORY, KINDS, Planted, plant

from coevolve.signals.extract import extraction, lines_of
from coevolve.signals.history import History
from coevolve.signals.kinds import PAPER
from coevolve.signals.rule import SignalCandidate
from coevolve.signals.settings import SignalSettings

TOP = 20
MODES = {
    "calibrated": SignalSettings(kinds=KINDS, patterns=("1gram",)),
    "paper": SignalSettings(mode="paper", kinds=PAPER, patterns=("1gram",)),
}


def candidates(planted: Planted, settings: SignalSettings) -> list[SignalCandidate]:
    """Every signal of the mode, without evidence."""
    with extraction(
        lines_of(planted.rollouts),
        settings,
        history=History().joined(planted.history),
        inventory=INVENTORY,
    ) as found:
        return found.candidates


def scores(found: list[SignalCandidate], kind: str, truth: set) -> tuple[float, float]:
    """Precision and recall at the top; precision of nothing is 1."""
    top = sorted((c for c in found if c.kind == kind), key=lambda c: c.order)[:TOP]
    about = [c.pattern if not c.task_id else c.task_id for c in top]
    hits = {name for name in about if name in truth}
    precision = sum(name in truth for name in about) / len(about) if about else 1.0
    return precision, len(hits) / len(truth)


def measure(seeds: int, mode: str) -> dict[str, dict[str, tuple[float, float] | float]]:
    """Per kind: scores planted alone and together, and the number of false signals without it."""
    settings, result = MODES[mode], {}
    everything = [plant(KINDS, seed) for seed in range(seeds)]
    together = [candidates(planted, settings) for planted in everything]
    for kind in settings.kinds:
        alone = [(plant((kind,), seed)) for seed in range(seeds)]
        without = [plant(tuple(k for k in KINDS if k != kind), seed) for seed in range(seeds)]
        result[kind] = {
            "alone": _mean([scores(candidates(p, settings), kind, p.truth[kind]) for p in alone]),
            "together": _mean(
                [scores(c, kind, p.truth[kind]) for c, p in zip(together, everything, strict=True)]
            ),
            "false": sum(c.kind == kind for p in without for c in candidates(p, settings)) / seeds,
        }
    return result


def _mean(pairs: list[tuple[float, float]]) -> tuple[float, float]:
    return sum(p for p, _ in pairs) / len(pairs), sum(r for _, r in pairs) / len(pairs)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "seeds", nargs="?", type=int, default=10, help="random worlds (%(default)s)"
    )
    seeds = parser.parse_args().seeds
    found = {mode: measure(seeds, mode) for mode in MODES}
    print(f"precision / recall at the top {TOP}, mean over {seeds} seeds;", end=" ")
    print("false: signals of a kind that is not there")
    print(f"{'':<12} {'calibrated':^34} {'paper':^34}")
    titles = f"{'together':>12} {'false':>8}"
    print(f"{'kind':<12} {'alone':>12} {titles} {'alone':>13} {titles}")
    for kind in KINDS:
        cells = []
        for mode in MODES:
            scored = found[mode].get(kind)
            if scored is None:
                cells.append(f"{'–':>12} {'–':>12} {'–':>8}")
                continue
            pairs = [
                f"{scored[how][0]:.2f} / {scored[how][1]:.2f}" for how in ("alone", "together")
            ]
            cells.append(f"{pairs[0]:>12} {pairs[1]:>12} {scored['false']:>8.1f}")
        print(f"{kind:<12} {'  '.join(cells)}")


if __name__ == "__main__":
    main()
