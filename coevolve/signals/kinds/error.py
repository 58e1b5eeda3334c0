"""Error: a kind of error recurs with a tool (bad argument, unknown entity, permission, …).

Of the iteration's rollouts that called the tool, c of n met this kind of error at least once. It is
flagged if c >= 2 and the lower Wilson bound of c/n (95 %, two-sided) is above `rate_floor`;
strength is that bound, pattern (tool, kind of error). Code that calls no known function and text
that is no call count as the tool `code`, over all rollouts. Tools that the inventory lacks are left
to `unknown_tool`. Evidence: rollouts that met the error.
"""

from __future__ import annotations

from collections.abc import Iterator

from coevolve.records import Statistic
from coevolve.signals.patterns import CODE, Pattern, step_tools
from coevolve.signals.rule import RuleInput, SignalCandidate
from coevolve.signals.views import RolloutSteps
from coevolve.statistics import wilson

MIN_ROLLOUTS = 2


def observe(rollout: RolloutSteps, raw: bytes) -> set[Pattern]:
    """Distinct (tool, kind of error)."""
    failed = [step for step in rollout.steps if step.error is not None]
    return {((step_tools(step) or [CODE])[-1], step.error) for step in failed}


def calibrated(seen: RuleInput) -> Iterator[SignalCandidate]:
    for counts in seen.counts:
        table = counts.tables["error"]
        for pattern, count in table:
            if pattern[0] != CODE and seen.invented(counts.env, pattern[0]):
                continue
            called = counts.calls(pattern[0])
            rate = wilson(count, max(called, count) if called else counts.rollouts).low
            if count >= MIN_ROLLOUTS and rate > seen.settings.rate_floor:
                statistic, rows = Statistic("wilson_low", rate), table.rows(pattern)
                yield SignalCandidate(*counts.key, rate, statistic, pattern=pattern, rows=rows)


def reason(c: SignalCandidate) -> str:
    return f"{c.path}: in at least {c.percent:.0f} % of the rollouts that call it"
