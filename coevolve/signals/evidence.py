"""The second pass: a chosen candidate becomes a signal with its task and trimmed trajectories.

Chat text is left out and long observations are cut; what was cut is said in place. A record carries all that exploration needs.
A rollout that turns out to be bad beyond its head is refused and left out of the evidence; the signal stays.
"""

from __future__ import annotations

import msgspec

from coevolve.errors import CoevolveError
from coevolve.records import Signal, Step, Trajectory, content_id
from coevolve.signals.candidate import Candidate
from coevolve.signals.source import Source
from coevolve.signals.tally import Rows, name_of
from coevolve.signals.views import Full


def signal(candidate: Candidate, rows: Rows, source: Source, observation_chars: int) -> Signal:
    """Reads the candidate's evidence. Its task is the one it is about, or that of the first trajectory."""
    rollouts = [
        found for row in candidate.rows if (found := _rollout(row, rows, source)) is not None
    ]
    about = candidate.task_id or (rollouts[0].task_id if rollouts else "")
    task = next((r.task for r in rollouts if r.task_id == about and r.task is not None), None)
    return Signal(
        id=_id(candidate, about),
        kind=candidate.kind,
        task_id=about,
        env=candidate.env,
        iteration=candidate.iteration,
        strength=round(candidate.strength, 6),
        statistic=candidate.statistic,
        pattern=list(candidate.pattern),
        history=candidate.history,
        evidence=[_trajectory(rollout, observation_chars) for rollout in rollouts],
        task=task,
    )


def _id(candidate: Candidate, about: str) -> str:
    family = [candidate.family] if candidate.family else []
    return content_id(
        "signal",
        candidate.kind,
        candidate.env,
        about,
        candidate.pattern,
        candidate.iteration,
        *family,
    )


def _rollout(row: int, rows: Rows, source: Source) -> Full | None:
    """None for a line that is bad beyond its head. Raises CoevolveError where another rollout is there than in the first pass."""
    rollout = source.read(rows.place(row))
    if rollout is not None and name_of(rollout.id) != rows.name[row]:
        raise CoevolveError("the input changed while it was being read; run the command again")
    return rollout


def _trajectory(rollout: Full, observation_chars: int) -> Trajectory:
    return Trajectory(
        rollout=rollout.id,
        success=bool(rollout.verdict),
        score=rollout.score if rollout.score is not None else float(bool(rollout.verdict)),
        stop_reason=rollout.stop_reason,
        steps=[_trim(step, observation_chars) for step in rollout.steps],
    )


def _trim(step: Step, limit: int) -> Step:
    text = step.observation
    if len(text) > limit:
        text = f"{text[:limit]} … ({len(text) - limit} more characters)"
    return msgspec.structs.replace(step, observation=text, message=None)
