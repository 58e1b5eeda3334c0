"""Lets an agent try the tasks that a gate has passed: it sees only the query, in a fresh
environment, and tries `trials` times (CuES, quality control; paper, validation).

Its solve rate becomes the task's difficulty. Beyond that

- `strict` asks for `min_solved` successes (0: the execution alone decides, however hard it is);
- `paper` asks for the paper's clauses of some attempt: success, or a positive reward.

An attempt that the environment or the model's server failed is no trial; a task without any trial
is an `error`, for a rerun.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from msgspec.structs import replace

from coevolve.agents.drivers import Policy
from coevolve.agents.rollout import rollouts
from coevolve.environments.client import Pool
from coevolve.records import Difficulty, Rollout, Task, Verdict


class Solver(NamedTuple):
    """The agent and how often it tries."""

    policy: Policy
    trials: int = 4
    min_solved: int = 0
    seed: int = 0
    max_actions: int | None = None
    """Actions an attempt may take; None: as many as the environment allows."""


def attempt(
    tasks: Sequence[Task], verdicts: Sequence[Verdict], pool: Pool, solver: Solver
) -> list[Verdict]:
    """The verdicts on tasks of one environment, after the solver tried the valid ones; in order."""
    judged = zip(tasks, verdicts, strict=True)
    valid = [task for task, verdict in judged if verdict.verdict == "valid"]
    played = rollouts(
        valid,
        solver.policy,
        pool,
        samples=solver.trials,
        seed=solver.seed,
        max_steps=solver.max_actions,
    )
    attempts = {task.id: [next(played) for _ in range(solver.trials)] for task in valid}
    return [
        _judged(verdict, attempts[task.id], solver) if task.id in attempts else verdict
        for task, verdict in zip(tasks, verdicts, strict=True)
    ]


def _judged(verdict: Verdict, attempts: list[Rollout], solver: Solver) -> Verdict:
    tried = [rollout for rollout in attempts if rollout.stop_reason != "env_error"]
    if not tried:
        reason = f"no attempt could be made: {attempts[0].error}"
        return replace(verdict, verdict="error", reason=reason)
    solved = sum(rollout.success for rollout in tried)
    judged = replace(verdict, attempts=Difficulty(solver.policy.name, solved, len(tried)))
    rewarded = any(r.success or max(r.score, r.progress) > 0 for r in tried)
    if verdict.gate == "paper" and not rewarded:
        return replace(judged, verdict="invalid", reason="no attempt succeeds or has a reward")
    if solved < solver.min_solved:
        reason = f"solved {solved} of {len(tried)} times, fewer than {solver.min_solved}"
        return replace(judged, verdict="invalid", reason=reason)
    return judged
