"""Turns the explorations of one context, over all its rounds, into tasks with a model: the stage
`abstract --model` (paper, §3; CuES, task abstraction).

All rounds of a context (those with one signal; without a signal each exploration is a context of
its own) are shown to the model at once; it answers with at most `per_context` proposals, each of
them a query in a user's words, a solution, a guideline and its confidence. A proposal is a task
only after `checks` and an execution in a fresh session. What is no task is a `Reject` with its
reason, and so is a context whose answer was refused. Contexts keep the order of their first
exploration. A context that the model gave no reply for (`BadReply`), or whose environment failed,
is a reject that is not journalled: a rerun asks again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from coevolve.abstraction.abstract import LOST_REPLY, EnvironmentOf, Group, abstracted
from coevolve.abstraction.model_tasks import judge
from coevolve.abstraction.proposals import (
    ContextRounds,
    InvalidProposal,
    Proposal,
    Proposals,
    prompt_text,
    salvage,
)
from coevolve.abstraction.tasks import AbstractionResult, Reject, reason_of
from coevolve.environments.client import Fault, Pool
from coevolve.environments.faults import FaultCounter
from coevolve.environments.replay import ReplayJob, gather_replays, replay, run_replays
from coevolve.models.chat import AnswerRejected, BadReply, ChatRequest, ContextFull
from coevolve.models.prompt_templates import PromptTemplate, load
from coevolve.models.service import Models
from coevolve.records import Exploration, Task, content_id
from coevolve.runs import Journal


class ModelWriter(NamedTuple):
    """The model that writes, and how."""

    models: Models
    model: str
    per_context: int = 4
    min_confidence: float = 0.5
    temperature: float | None = None
    prompts: str | None = None  # Directory of templates that replace the package's own

    @property
    def identity(self) -> dict[str, object]:
        """What decides the tasks, for the journal's configuration."""
        return {
            "model": self.model,
            "temperature": self.temperature,
            "prompt": load("abstract", self.prompts).version,
            "per_context": self.per_context,
            "min_confidence": self.min_confidence,
        }


def write(
    explorations: Iterable[Exploration],
    environment: EnvironmentOf,
    writer: ModelWriter,
    *,
    journal: Journal | None = None,
    env_faults: FaultCounter | None = None,
    reject: Callable[[Reject], None] = lambda rejected: None,
) -> Iterator[Task]:
    """Tasks in the order of their contexts. Reads all explorations before the first, for a
    context's rounds may lie apart.

    Raises Unreachable where every exploration is lost to faults of the environment; what the
    model's calls raise ends the stage.
    """
    prompt = load("abstract", writer.prompts)
    yield from abstracted(
        contexts(explorations),
        environment,
        lambda groups, pool: _written(groups, pool, writer, prompt),
        lambda group: content_id([exploration.id for exploration in group]),
        journal,
        env_faults,
        reject,
    )


def contexts(explorations: Iterable[Exploration]) -> list[list[Exploration]]:
    """The explorations by what they were aimed at, in the order of each one's first."""
    groups: dict[tuple, list[Exploration]] = {}
    for exploration in explorations:
        signal = exploration.context.signal
        key = (exploration.env, signal) if signal else (exploration.id,)
        groups.setdefault(key, []).append(exploration)
    return list(groups.values())


def _written(
    groups: list[Group], pool: Pool, writer: ModelWriter, prompt: PromptTemplate
) -> list[AbstractionResult]:
    """Asks for the proposals of all groups, then judges all of them in one batch."""
    rounds = [_opened(group, pool) for group in groups]
    answers = writer.models.each(
        zip(groups, rounds, strict=True), lambda pair: _ask(*pair, pool, writer, prompt)
    )
    results = [AbstractionResult([], []) for _ in groups]
    judging, owners = [], []
    for result, state, answer in zip(results, rounds, list(answers), strict=True):
        for item in answer:
            if isinstance(item, Reject):
                result.rejects.append(item)
            else:
                judging.append(judge(item, state, pool, writer.model, writer.min_confidence))
                owners.append(result)
    done = run_replays(pool, gather_replays(judging))
    for result, judged in zip(owners, done, strict=True):
        (result.tasks if isinstance(judged, Task) else result.rejects).append(judged)
    return results


def _opened(group: Group, pool: Pool) -> ContextRounds | Fault:
    episodes = replay(pool, [ReplayJob(exploration.start, []) for exploration in group])
    fault = next((episode for episode in episodes if isinstance(episode, Fault)), None)
    return fault or ContextRounds(group, [episode.opened for episode in episodes])


async def _ask(
    group: Group,
    rounds: ContextRounds | Fault,
    pool: Pool,
    writer: ModelWriter,
    prompt: PromptTemplate,
) -> list[Proposal | Reject]:
    """The proposals for a context, and rejects in place of what is none."""
    first, most = group[0].id, writer.per_context
    if not any(exploration.steps for exploration in group):
        return [Reject(first, "no_steps")]
    if isinstance(rounds, Fault):
        return [Reject(first, reason_of(rounds), detail=rounds.message)]
    message = {"role": "user", "content": prompt_text(prompt, rounds, pool, most)}
    request = ChatRequest(
        model=writer.model,
        messages=[message],
        temperature=writer.temperature,
        prompt_version=prompt.version,
    )
    try:
        found = (await writer.models.ask(request, Proposals)).tasks
    except AnswerRejected as error:
        found = list(salvage(error))
    except BadReply as error:
        return [Reject(first, LOST_REPLY, detail=str(error))]
    except ContextFull as error:
        return [Reject(first, "too_long_for_model", detail=str(error))]
    return [_reject(first, i) if isinstance(i, InvalidProposal) else i for i in found[:most]]


def _reject(exploration: str, invalid: InvalidProposal) -> Reject:
    return Reject(exploration, "bad_proposal", detail=f"{invalid.reason}; reply: {invalid.reply}")
