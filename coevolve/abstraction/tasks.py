"""Makes the records of a candidate task and of what became none."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from coevolve.environments.client import Fault, Pool
from coevolve.environments.protocol import ActionResult, EpisodeLimits, Opened
from coevolve.environments.replay import ReplayedEpisode, ReplayJob, effects_digest
from coevolve.records import (
    UNSET,
    Action,
    Author,
    Call,
    Exploration,
    Lineage,
    Origin,
    Task,
    UnsetType,
    Verifier,
    task_id,
)

FAULT = "environment"
REFUSED = "refused_start"


class Reject(Struct, frozen=True):
    """Something that became no task."""

    exploration: str
    reason: str
    goal: str = ""  # Tool of the goal, or kind of the task
    detail: str = ""
    query: list[str] = []


class AbstractionResult(Struct, frozen=True):
    """The tasks and rejects of one exploration, or of all explorations of one context."""

    tasks: list[Task] = []
    rejects: list[Reject] = []


def reason_of(fault: Fault) -> str:
    """Why a start cannot be opened: the environment refuses it, or has a fault."""
    return REFUSED if fault.kind == "bad_request" else FAULT


def too_many_steps(limits: EpisodeLimits, lengths: Sequence[int]) -> bool:
    """Whether turns of so many actions are more than the environment's limits."""
    per_turn = limits.max_steps_per_turn or limits.max_steps
    return sum(lengths) > limits.max_steps or max(lengths) > per_turn


def make_task(
    exploration: Exploration,
    pool: Pool,
    opened: Opened,
    kind: str,
    query: list[str],
    solution: list[list[Action]],
    results: list[list[ActionResult]],
    *,
    others: Sequence[str] = (),
    author: Author | UnsetType = UNSET,
) -> Task:
    """The task of an executed solution. `others` are explorations that it descends from as well."""
    context, verifier = exploration.context, Verifier("state")
    job, episode = ReplayJob(exploration.start, solution), ReplayedEpisode(opened, results)
    called = {a.tool for turn in solution for a in turn if isinstance(a, Call)}
    apps = {pool.tools[tool].app for tool in called} if pool.description.app_tags else ()
    return Task(
        id=task_id(exploration.env, exploration.start, query, solution, verifier),
        env=exploration.env,
        env_version=pool.description.version,
        kind=kind,
        tags=sorted(apps),
        effects=effects_digest(pool.tools, job, episode),
        origin=Origin("synthesis", exploration.iteration, exploration.mode, context.signal_kind),
        lineage=Lineage(
            [context.signal] if context.signal else [],
            [exploration.id, *others],
            list(exploration.rollouts),
        ),
        author=author,
        verifier=verifier,
        query=query,
        solution=solution,
        start=exploration.start,
    )
