"""The second pass: a chosen candidate becomes a signal with its task and trimmed trajectories.

Chat text is left out and long observations are cut; what was cut is said in place. A record carries
all that exploration needs. A rollout that turns out to be bad beyond its head is rejected and left
out of the evidence; the signal stays.
"""

from __future__ import annotations

import msgspec

from coevolve.errors import CoevolveError
from coevolve.records import Outcome, Signal, Step, Trajectory, content_id
from coevolve.signals.counts import RolloutColumns, hash_of
from coevolve.signals.rule import SignalCandidate
from coevolve.signals.two_pass import TwoPassReader
from coevolve.signals.views import RolloutEvidence


def signal(
    candidate: SignalCandidate,
    rollouts: RolloutColumns,
    reader: TwoPassReader,
    observation_chars: int,
) -> Signal:
    """Reads the candidate's evidence. Its task is the one it is about, or that of the first
    trajectory. Observations are cut to `observation_chars` characters."""
    c = candidate
    read = [found for row in c.rows if (found := _rollout(row, rollouts, reader)) is not None]
    about = c.task_id or (read[0].task_id if read else "")
    # Another family's pattern may read the same.
    content = ("signal", c.kind, c.env, about, c.pattern, c.iteration)
    return Signal(
        id=content_id(*content, *([c.family] if c.family else [])),
        kind=c.kind,
        task_id=about,
        env=c.env,
        iteration=c.iteration,
        strength=round(c.strength, 6),
        statistic=c.statistic,
        pattern=list(c.pattern),
        history=[Outcome(o.iteration, o.step, o.successes, o.trials) for o in c.history],
        evidence=[_trajectory(rollout, observation_chars) for rollout in read],
        task=next((r.task for r in read if r.task_id == about and r.task is not None), None),
    )


def _rollout(row: int, rollouts: RolloutColumns, reader: TwoPassReader) -> RolloutEvidence | None:
    """None for a line that is bad beyond its head. Raises CoevolveError where another rollout is
    there than in the first pass."""
    rollout = reader.read(rollouts.place(row))
    if rollout is not None and hash_of(rollout.id) != rollouts.id_hash[row]:
        raise CoevolveError("the input changed while it was being read; run the command again")
    return rollout


def _trajectory(rollout: RolloutEvidence, observation_chars: int) -> Trajectory:
    success = bool(rollout.verdict)
    return Trajectory(
        rollout=rollout.id,
        success=success,
        score=float(success) if rollout.score is None else rollout.score,
        stop_reason=rollout.stop_reason,
        steps=[_trim(step, observation_chars) for step in rollout.steps],
    )


def _trim(step: Step, limit: int) -> Step:
    text = step.observation
    if len(text) > limit:
        text = f"{text[:limit]} … ({len(text) - limit} more characters)"
    return msgspec.structs.replace(step, observation=text, message=None)
