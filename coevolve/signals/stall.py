"""Stall: on this task the policy repeats a call that tells it nothing new, or runs out of its budget.

c of the n rollouts of the task in the iteration stalled in the same way (`incidents.stalls`). Flagged if the lower Wilson bound of
c/n (95 %, two-sided) is above `rate_floor`, which two of eight rollouts are and one is not; strength is that bound. Pattern: the
repeated tool, or `max_steps`, `max_tokens`. Evidence: the rollouts that stalled.
"""

from __future__ import annotations

from collections.abc import Iterator

from coevolve.records import Statistic
from coevolve.signals.candidate import Candidate
from coevolve.signals.settings import Settings
from coevolve.signals.tally import Tally
from coevolve.statistics import wilson


def calibrated(tally: Tally, settings: Settings) -> Iterator[Candidate]:
    for (env, iteration), update in sorted(tally.updates.items(), key=lambda item: item[0]):
        for (task_id, what), count in update.stalls:
            rate = wilson(count, tally.trials((env, task_id), iteration)).low
            if rate > settings.rate_floor:
                statistic, rows = Statistic("wilson_low", rate), update.stalls.rows((task_id, what))
                yield Candidate("stall", env, iteration, task_id, (what,), rate, statistic, rows)
