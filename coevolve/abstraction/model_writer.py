"""The stage `abstract` with a model: the explorations of one context, over all its rounds, become tasks (paper, §3; CuES, task
abstraction).

All rounds of a context (those with one signal; without a signal each exploration is a context of its own) are shown to the
model at once; it answers with at most `per_context` proposals, each of them a query in a user's words, a solution, a guideline
and its confidence. A proposal is a task only after `checks` and an execution in a fresh session. What is no task is a `Reject`
with its reason, and so is a context whose answer was refused. Contexts keep the order of their first exploration; `CHUNK` of
them are worked on at a time. A context that the model gave no reply for (`BadReply`), or whose environment failed, is a reject
that is not journalled: a rerun asks again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from coevolve.abstraction.abstract import WHAT, EnvironmentOf, Known, counted
from coevolve.abstraction.candidates import FAULT, Found, Reject, reason_of
from coevolve.abstraction.model_tasks import Group, judge
from coevolve.abstraction.proposals import Proposal, Refused, propose
from coevolve.environments.client import Fault, Pool
from coevolve.environments.faults import FaultCounter
from coevolve.environments.protocol import Opened
from coevolve.environments.replay import ReplayJob, gather_replays, replay, run_replays
from coevolve.models.chat import BadReply, ChatRequest, ContextFull
from coevolve.models.prompt_templates import PromptTemplate, load
from coevolve.models.service import Models
from coevolve.records import Exploration, Task, content_id
from coevolve.runs import Journal

CHUNK = 32
"""Contexts worked on at a time."""
EVIDENCE_TOKENS = 8000
"""Of the explorations shown for one context."""
LOST = "no_reply"
UNDECIDED = (FAULT, LOST)
"""Reasons that a rerun may not meet again."""


class ModelWriter(NamedTuple):
    """The model that writes, and how."""

    models: Models
    model: str
    per_context: int = 4
    min_confidence: float = 0.5
    temperature: float | None = None
    prompts: str | None = None
    """Directory of templates that replace the package's own."""

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
    """Tasks in the order of their contexts. Reads all explorations before the first, for a context's rounds may lie apart.

    Raises Unreachable where every exploration is lost to faults of the environment; what the model's calls raise ends the stage.
    """
    journal, env_faults = journal or Journal(None, {}), env_faults or FaultCounter(WHAT)
    prompt = load("abstract", writer.prompts)
    known, groups = Known(), contexts(explorations)
    for begin in range(0, len(groups), CHUNK):
        for found in _chunk(
            groups[begin : begin + CHUNK], environment, writer, prompt, journal, env_faults
        ):
            yield from known.taken(found, reject)


def contexts(explorations: Iterable[Exploration]) -> list[list[Exploration]]:
    """The explorations by what they were aimed at, in the order of each one's first."""
    groups: dict[tuple, list[Exploration]] = {}
    for exploration in explorations:
        signal = exploration.context.signal
        groups.setdefault((exploration.env, signal) if signal else (exploration.id,), []).append(
            exploration
        )
    return list(groups.values())


def _key(group: list[Exploration]) -> str:
    return content_id([exploration.id for exploration in group])


def _chunk(
    chunk: list[list[Exploration]],
    environment: EnvironmentOf,
    writer: ModelWriter,
    prompt: PromptTemplate,
    journal: Journal,
    env_faults: FaultCounter,
) -> list[Found]:
    done = {_key(group): journal.get(_key(group), Found) for group in chunk}
    for env in sorted({group[0].env for group in chunk if done[_key(group)] is None}):
        missing = [group for group in chunk if group[0].env == env and done[_key(group)] is None]
        environment(env).compare(
            [exploration.env_version for group in missing for exploration in group]
        )
        found = _written(missing, environment(env), writer, prompt)
        for group, result in zip(missing, found, strict=True):
            done[_key(group)] = result
            if not any(rejected.reason in UNDECIDED for rejected in result.rejects):
                journal.put(_key(group), result)
    return counted([done[_key(group)] for group in chunk], env_faults)


def _written(
    groups: list[list[Exploration]], pool: Pool, writer: ModelWriter, prompt: PromptTemplate
) -> list[Found]:
    """Asks for the proposals of all groups, then judges all of them in one batch."""
    opened = [_opened(group, pool) for group in groups]
    answers = list(
        writer.models.each(
            zip(groups, opened, strict=True), lambda pair: _ask(*pair, pool, writer, prompt)
        )
    )
    works, owners, rejects = [], [], [[] for _ in groups]
    for number, (group, state, answer) in enumerate(zip(groups, opened, answers, strict=True)):
        for item in answer:
            if isinstance(item, Proposal):
                works.append(
                    judge(item, Group(group, state), pool, writer.model, writer.min_confidence)
                )
                owners.append(number)
            else:
                rejects[number].append(item)
    tasks: list[list[Task]] = [[] for _ in groups]
    for number, judged in zip(owners, run_replays(pool, gather_replays(works)), strict=True):
        (tasks if isinstance(judged, Task) else rejects)[number].append(judged)
    return [Found(*pair) for pair in zip(tasks, rejects, strict=True)]


def _opened(group: list[Exploration], pool: Pool) -> list[Opened] | Fault:
    episodes = replay(pool, [ReplayJob(exploration.start, []) for exploration in group])
    fault = next((episode for episode in episodes if isinstance(episode, Fault)), None)
    return fault or [episode.opened for episode in episodes]


async def _ask(
    group: list[Exploration],
    opened: list[Opened] | Fault,
    pool: Pool,
    writer: ModelWriter,
    prompt: PromptTemplate,
) -> list[Proposal | Reject]:
    """The proposals for a context, and rejects in place of what is none."""
    first = group[0].id
    if not any(exploration.steps for exploration in group):
        return [Reject(first, "no_steps")]
    if isinstance(opened, Fault):
        return [Reject(first, reason_of(opened), detail=opened.message)]
    request = ChatRequest(model=writer.model, messages=[], temperature=writer.temperature)
    try:
        found = await propose(
            writer.models,
            request,
            prompt,
            group,
            opened,
            pool.tools,
            pool.description,
            most=writer.per_context,
            budget=EVIDENCE_TOKENS,
        )
    except (BadReply, ContextFull) as error:
        return [
            Reject(
                first,
                LOST if isinstance(error, BadReply) else "too_long_for_model",
                detail=str(error),
            )
        ]
    return [_reject(first, item) if isinstance(item, Refused) else item for item in found]


def _reject(exploration: str, refused: Refused) -> Reject:
    return Reject(exploration, "bad_proposal", detail=f"{refused.reason}; reply: {refused.reply}")
