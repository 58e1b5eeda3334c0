"""Turns the proposals of a model into tasks: each is checked (`checks`), executed in a fresh
session, and made a record.

`judge` is one computation over replays (`environments.replay.ReplayCoroutine`), so that the
proposals of many contexts run in one batch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from coevolve.abstraction import checks
from coevolve.abstraction.checks import ExecutedSolution, RejectedProposal
from coevolve.abstraction.goals import EnvironmentFault, asked_for
from coevolve.abstraction.proposals import ContextRounds, Proposal
from coevolve.abstraction.tasks import FAULT, Reject, make_task
from coevolve.environments.client import Pool
from coevolve.environments.protocol import Opened, Tool
from coevolve.environments.replay import ReplayCoroutine
from coevolve.grounding.solutions import judged
from coevolve.records import Author, Call, Task


def judge(
    proposal: Proposal, rounds: ContextRounds, pool: Pool, model: str, min_confidence: float
) -> ReplayCoroutine[Task | Reject]:
    """The task of a proposal, or the reject. A proposal below `min_confidence` is not tried."""
    first, query = rounds.explorations[0].id, [turn.query for turn in proposal.turns]
    try:
        if proposal.confidence < min_confidence:
            raise RejectedProposal("low_confidence", f"{proposal.confidence:g}")
        if not 0 <= proposal.exploration < len(rounds.explorations):
            raise RejectedProposal("no_such_exploration", str(proposal.exploration))
        exploration = rounds.explorations[proposal.exploration]
        opened, first = rounds.opened[proposal.exploration], exploration.id
        checks.check_form(proposal, pool, opened)
        turns = checks.proposed_steps(proposal, exploration, pool, opened)
        executed = yield from checks.execute(exploration, opened, turns, pool)
        checks.check_grounded(executed, query, opened, pool.description, pool.tools)
        checks.check_knowable(executed, query, exploration, opened)
        checks.check_effects(executed, pool.tools)
    except RejectedProposal as error:
        return Reject(first, error.reason, detail=error.detail, query=query)
    except EnvironmentFault as fault:
        return Reject(first, FAULT, detail=str(fault))
    composed = sum(action.step is None for turn in proposal.turns for action in turn.solution)
    return make_task(
        exploration,
        pool,
        opened,
        kind(executed, query, opened, pool.tools),
        query,
        executed.solution,
        executed.results,
        others=[other.id for other in rounds.explorations if other.id != exploration.id],
        author=Author(model, proposal.guideline, proposal.confidence, composed),
    )


def kind(
    executed: ExecutedSolution, query: Sequence[str], opened: Opened, tools: Mapping[str, Tool]
) -> str:
    """Per turn, the tool that reached its last effect or compared response, in the user's eyes (the
    change, not the saving of it), and whether the turn needs a look-up."""
    kinds, steps = [], executed.steps
    values = judged(steps, query, opened.observation, tools)
    looked_up = {value.step for value in values if value.grounding.kind == "shown"}
    for turn in range(len(query)):
        here = [i for i, s in enumerate(steps) if s.turn == turn and isinstance(s.action, Call)]
        goals = [i for i in here if steps[i].effects or tools[steps[i].action.tool].checked]
        if goals:
            way = "given" if looked_up.isdisjoint(here) else "lookup"
            kinds.append(f"{_asked(executed, here, goals[-1], tools)}/{way}")
    return "+".join(kinds)


def _asked(
    executed: ExecutedSolution, here: Sequence[int], goal: int, tools: Mapping[str, Tool]
) -> str:
    """The tool that people name for a step: its own, or the last one before that is asked for."""
    own = tools[executed.steps[goal].action.tool]
    for i in reversed([i for i in here if i <= goal]):
        tool = tools[executed.steps[i].action.tool]
        if tool.app == own.app and asked_for(tool) and (i == goal or not tool.read_only):
            return tool.name
    return own.name
