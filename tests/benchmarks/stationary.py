"""Policies that do not change, and one that forgets: how often each rule cries forgetting; patterns
that are not rare: how often they are called rare.

    python tests/benchmarks/stationary.py [TASKS]   about 20 s for the default of 4,000 tasks a cell

K = 8 rollouts now, a window of W = 5 groups of 8 before. `false`: share of tasks flagged though the
solve rate p is constant; `power`: share flagged when it has dropped from p to p - .4. Rare: one
call a rollout, its tool drawn from a skewed distribution over 40 tools; of the tools whose true
share is above the rule's threshold, the share flagged, at the worst tool and on average.
"""

from __future__ import annotations

import argparse
import random
from typing import NamedTuple

from coevolve.signals.counts import LinePlace, RolloutCounts
from coevolve.signals.extract import candidates, counted
from coevolve.signals.history import GroupOutcome, History
from coevolve.signals.inventory import inventory
from coevolve.signals.settings import SignalSettings
from coevolve.signals.views import RolloutHead

K, W = 8, 5
RATES = (0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
DROP = 0.4
TOOLS = 40
FORGETTING = {
    mode: SignalSettings(mode=mode, kinds=("forgetting",)) for mode in ("calibrated", "paper")
}
RARE = {
    mode: SignalSettings(mode=mode, kinds=("rare",), patterns=("1gram",))
    for mode in ("calibrated", "paper")
}


def forgetting(mode: str, before: float, now: float, tasks: int, seed: str) -> float:
    """Share of tasks flagged, by the rule as the command runs it."""
    draw = random.Random(f"{seed}-{before}-{now}")
    counts, past = counted(FORGETTING[mode]), []
    for number in range(tasks):
        for step in range(W):
            wins = sum(draw.random() < before for _ in range(K))
            past.append((("toy", f"t{number}"), GroupOutcome(0, step, wins, K, number * W + step)))
        for sample in range(K):
            _add(counts, f"t{number}", number * K + sample, sample, draw.random() < now, ["a"])
    found = list(candidates(counts, History().joined(past), FORGETTING[mode], None))
    return len(found) / tasks


def _add(
    counts: RolloutCounts, task: str, number: int, sample: int, success: bool, tools: list[str]
) -> None:
    head = RolloutHead(
        id=str(number),
        task_id=task,
        env="toy",
        sample=sample,
        iteration=1,
        step=W,
        success=success,
        tools=tools,
    )
    counts.add(head, b"", LinePlace(0, number, number + 1))


class Flagged(NamedTuple):
    worst: float
    mean: float
    found: float
    """Share of the truly rare tools that are flagged."""


def rare(mode: str, rollouts: int, repeats: int, seed: str) -> Flagged:
    """How often tools above (and below) the threshold are flagged, in samples of `rollouts`
    calls."""
    weights = [1.15**-n for n in range(TOOLS)]
    shares = {f"x.{n}": weight / sum(weights) for n, weight in enumerate(weights)}
    settings = RARE[mode]
    threshold = settings.theta / 100 if mode == "paper" else settings.rare_share / TOOLS
    known = inventory("toy", dict.fromkeys(shares, "x"))
    flagged = dict.fromkeys(shares, 0)
    for repeat in range(repeats):
        draw = random.Random(f"{seed}-{repeat}")
        counts = counted(settings)
        for number, tool in enumerate(draw.choices(list(shares), weights, k=rollouts)):
            _add(counts, "t", number, number, True, [tool])
        for candidate in candidates(counts, History(), settings, known):
            flagged[candidate.pattern[0]] += 1
    above = [flagged[tool] / repeats for tool, share in shares.items() if share >= threshold]
    below = [flagged[tool] / repeats for tool, share in shares.items() if share < threshold]
    return Flagged(max(above), sum(above) / len(above), sum(below) / len(below))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "tasks", nargs="?", type=int, default=4000, help="tasks a cell (%(default)s)"
    )
    tasks = parser.parse_args().tasks
    print(f"forgetting: share of {tasks} tasks flagged")
    print(f"{'solve rate p':<34}" + "".join(f"{p:>6.1f}" for p in RATES))
    for mode in FORGETTING:
        cells = [forgetting(mode, p, p, tasks, "stationary") for p in RATES]
        print(f"{f'false, {mode}':<34}" + "".join(f"{cell:>6.3f}" for cell in cells))
    for mode in FORGETTING:
        cells = [forgetting(mode, p, p - DROP, tasks, "drop") if p >= 0.5 else None for p in RATES]
        name = f"power for a drop of {DROP:g}, {mode}"
        print(
            f"{name:<34}"
            + "".join(f"{'–' if cell is None else format(cell, '.3f'):>6}" for cell in cells)
        )
    print()
    print("rare: share flagged of the tools above the threshold (worst tool, mean), ", end="")
    print("and of those below it")
    print(f"{'calls':<12}" + "".join(f"{mode:^28}" for mode in RARE))
    for rollouts in (200, 500, 2000, 8000):
        cells = [rare(mode, rollouts, max(50, tasks // 20), "rare") for mode in RARE]
        print(
            f"{rollouts:<12}"
            + "".join(f"{f'{c.worst:.3f}  {c.mean:.3f}  {c.found:.3f}':^28}" for c in cells)
        )


if __name__ == "__main__":
    main()
