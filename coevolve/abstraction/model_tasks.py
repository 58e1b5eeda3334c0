"""From the proposals of a model to tasks: each is checked (`checks`), executed in a fresh session, and made a record.

`judge` is one computation over replays (`environments.replay.ReplayCoroutine`), so that the proposals of many contexts run in one batch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from coevolve.abstraction import checks
from coevolve.abstraction.candidates import FAULT, Reject, tags
from coevolve.abstraction.checks import ExecutedSolution, RejectedProposal
from coevolve.abstraction.goals import EnvironmentFault, asked_for
from coevolve.abstraction.proposals import Proposal
from coevolve.environments.client import Pool
from coevolve.environments.protocol import Opened, Tool
from coevolve.environments.replay import ReplayCoroutine, ReplayedEpisode, ReplayJob, effects_digest
from coevolve.grounding.solutions import judged
from coevolve.records import Author, Call, Exploration, Lineage, Origin, Task, Verifier, task_id


class Group(NamedTuple):
    """All rounds of one context."""

    explorations: Sequence[Exploration]
    opened: Sequence[Opened]
    """How a session in each one's start state opens."""


def judge(
    proposal: Proposal, group: Group, pool: Pool, model: str, least: float
) -> ReplayCoroutine[Task | Reject]:
    """The task of a proposal, or the reject. `least` is the confidence below which a proposal is not tried."""
    first, queries = group.explorations[0].id, [turn.query for turn in proposal.turns]
    try:
        if proposal.confidence < least:
            raise RejectedProposal("low_confidence", f"{proposal.confidence:g}")
        if not 0 <= proposal.exploration < len(group.explorations):
            raise RejectedProposal("no_such_exploration", str(proposal.exploration))
        exploration, opened = (
            group.explorations[proposal.exploration],
            group.opened[proposal.exploration],
        )
        first = exploration.id
        checks.check_form(proposal, pool, opened)
        turns = [
            [checks.source(action, exploration, pool, opened) for action in turn.solution]
            for turn in proposal.turns
        ]
        checks.check_order([number for turn in turns for number, _ in turn])
        executed = yield from checks.execute(exploration, opened, turns, pool)
        checks.check_grounded(executed, queries, opened, pool.description, pool.tools)
        checks.check_knowable(executed, queries, exploration, opened)
        checks.check_effects(executed, pool.tools)
        return _task(proposal, group, executed, pool, model)
    except RejectedProposal as error:
        return Reject(first, error.reason, detail=error.detail, query=queries)
    except EnvironmentFault as fault:
        return Reject(first, FAULT, detail=str(fault))


def _task(
    proposal: Proposal, group: Group, executed: ExecutedSolution, pool: Pool, model: str
) -> Task:
    exploration, opened = (
        group.explorations[proposal.exploration],
        group.opened[proposal.exploration],
    )
    query, verifier = [turn.query for turn in proposal.turns], Verifier("state")
    composed = sum(action.step is None for turn in proposal.turns for action in turn.solution)
    context, others = (
        exploration.context,
        [other.id for other in group.explorations if other.id != exploration.id],
    )
    job = ReplayJob(exploration.start, executed.solution)
    return Task(
        id=task_id(exploration.env, exploration.start, query, executed.solution, verifier),
        env=exploration.env,
        env_version=pool.description.version,
        kind=kind(executed, query, opened, pool.tools),
        tags=tags(pool.description, pool.tools, executed.solution),
        effects=effects_digest(pool.tools, job, ReplayedEpisode(opened, executed.results)),
        origin=Origin("synthesis", exploration.iteration, exploration.mode, context.signal_kind),
        lineage=Lineage(
            [context.signal] if context.signal else [],
            [exploration.id, *others],
            list(exploration.rollouts),
        ),
        author=Author(model, proposal.guideline, proposal.confidence, composed),
        verifier=verifier,
        query=query,
        solution=executed.solution,
        start=exploration.start,
    )


def kind(
    executed: ExecutedSolution, query: Sequence[str], opened: Opened, tools: Mapping[str, Tool]
) -> str:
    """Per turn, the tool that reached its last effect or compared response, in the user's eyes (the change, not the saving of
    it), and whether the turn needs a look-up."""
    kinds = []
    values = judged(executed.steps, query, opened.observation, tools)
    looked_up = {value.step for value in values if value.grounding.kind == "shown"}
    for turn in range(len(query)):
        here = [
            i
            for i, step in enumerate(executed.steps)
            if step.turn == turn and isinstance(step.action, Call)
        ]
        goals = [
            i
            for i in here
            if executed.steps[i].effects or tools[executed.steps[i].action.tool].checked
        ]
        if goals:
            looked = not looked_up.isdisjoint(here)
            kinds.append(
                f"{_asked(executed, here, goals[-1], tools)}/{'lookup' if looked else 'given'}"
            )
    return "+".join(kinds)


def _asked(
    executed: ExecutedSolution, here: Sequence[int], goal: int, tools: Mapping[str, Tool]
) -> str:
    """The tool that people would name for what a step reached: its own, or the last one before it that is asked for."""
    own = tools[executed.steps[goal].action.tool]
    for i in reversed([i for i in here if i <= goal]):
        tool = tools[executed.steps[i].action.tool]
        if tool.app == own.app and asked_for(tool) and (i == goal or not tool.read_only):
            return tool.name
    return own.name
