"""Progress: the cold start. Only in an iteration in which nothing succeeded, when neither forgetting nor boundary can speak.

Per task the failure that came furthest: by the environment's dense progress, then by how many different tools it called.
Strength .9 progress + .1 tools / (most tools of any such failure). Evidence: that rollout.
"""

from __future__ import annotations

from collections.abc import Iterator

from coevolve.records import Statistic
from coevolve.signals.candidate import Candidate
from coevolve.signals.settings import Settings
from coevolve.signals.tally import Tally


def calibrated(tally: Tally, settings: Settings) -> Iterator[Candidate]:
    for (env, iteration), update in sorted(tally.updates.items(), key=lambda item: item[0]):
        if update.successes or not update.rollouts:
            continue
        furthest = {
            key[1]: max(
                group.best for when, group in groups.items() if when[0] == iteration and group.best
            )
            for key, groups in sorted(tally.groups.items())
            if key[0] == env and any(when[0] == iteration for when in groups)
        }
        most = max(1, max(tools for _, tools, *_ in furthest.values()))
        for task_id, (progress, tools, _, row) in furthest.items():
            strength = 0.9 * min(max(progress, 0.0), 1.0) + 0.1 * tools / most
            yield Candidate(
                "progress",
                env,
                iteration,
                task_id,
                (),
                strength,
                Statistic("progress", progress),
                [row],
            )
