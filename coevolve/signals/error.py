"""Error: a kind of error that recurs with a tool (bad argument, unknown entity, permission, unreadable reply, …).

Of the iteration's rollouts that called the tool, c of n met this kind of error at least once. Flagged if c >= 2 and the lower
Wilson bound of c/n (95 %, two-sided) is above `rate_floor`; strength is that bound, pattern (tool, kind of error). Code that
calls no known function and text that is no call count as the tool `code`, over all rollouts. Evidence: rollouts that met it.
"""

from __future__ import annotations

from collections.abc import Iterator

from coevolve.records import Statistic
from coevolve.signals.candidate import Candidate
from coevolve.signals.settings import Settings
from coevolve.signals.tally import Tally
from coevolve.statistics import wilson

RECURS = 2


def calibrated(tally: Tally, settings: Settings) -> Iterator[Candidate]:
    for (env, iteration), update in sorted(tally.updates.items(), key=lambda item: item[0]):
        for pattern, count in update.errors:
            trials = (
                max(update.calls(pattern[0]), count)
                if pattern[0] in update.called
                else update.rollouts
            )
            rate = wilson(count, trials).low
            if count >= RECURS and rate > settings.rate_floor:
                rows = update.errors.rows(pattern)
                yield Candidate(
                    "error", env, iteration, "", pattern, rate, Statistic("wilson_low", rate), rows
                )
