"""Reflection: a model reads the trajectories behind a context's signals and says where to look.

In: the signals of one context (`ContextSignals`). Out: a `Reflection`: where the policy fails or
wavers, why, what to try, with which tools. The evidence is trimmed to a budget of tokens, shared by
the trajectories: failures and successes in turn, so that a boundary shows both sides. Tools that
the environment does not have are dropped. A refused answer (`RefusedReflection`) leaves the facts
alone; a lost one (`BadReply`) is for the caller to count. Source: paper, section on exploration.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain, zip_longest

from msgspec import Struct
from msgspec.structs import replace

from coevolve.agents.prompts.transcript import clip, tokens, transcript
from coevolve.environments.protocol import Tool
from coevolve.exploration.context import ContextSignals, facts
from coevolve.models.chat import AnswerRejected, ChatRequest, ContextFull
from coevolve.models.prompt_templates import PromptTemplate
from coevolve.models.service import Models
from coevolve.records import Call, Trajectory

MAX_TRAJECTORIES = 6
MIN_TOKENS = 200  # Tokens of one trajectory; with less it would say nothing
MAX_STATEMENT_CHARS = 400  # Characters of one statement that are kept
MAX_REPLY_CHARS = 2000  # Characters of a refused reply that are kept
MAX_IDEAS = 5


class Reflection(Struct, frozen=True):
    """A model's reading of the evidence."""

    where: str  # Where the policy fails or wavers
    why: str
    explore: list[str]  # What to try
    tools: list[str]  # Tools to use for it

    def text(self) -> str:
        """The reflection as `Context.reflection` holds it."""
        lines = [("Where", self.where), ("Why", self.why)]
        lines += [("Try", idea) for idea in self.explore[:MAX_IDEAS]]
        return "\n".join(f"{title}: {clip(text, MAX_STATEMENT_CHARS)}" for title, text in lines)


class RefusedReflection(Struct, frozen=True):
    """An answer that is no reflection, on the context of a signal."""

    signal: str
    reason: str
    reply: str = ""  # Empty where the evidence was too long for the model


async def reflect(
    models: Models,
    request: ChatRequest,
    prompt: PromptTemplate,
    signals: ContextSignals,
    tools: Mapping[str, Tool],
    budget: int,
) -> Reflection | RefusedReflection:
    """The model's reflection on a context; `budget` is the tokens of its evidence."""
    lead = signals.lead
    text = prompt.render(
        facts=facts(signals),
        query=lead.task.query if lead.task else [],
        pattern=lead.pattern,
        trajectories=shown(evidence(signals), budget),
        tools=[f"{tool.name}: {tool.description}" for tool in _near(signals, tools)],
    )
    messages = [{"role": "user", "content": text}]
    request = replace(request, messages=messages, prompt_version=prompt.version)
    try:
        found = await models.ask(request, Reflection)
    except AnswerRejected as error:
        reply = error.reply[:MAX_REPLY_CHARS]
        return RefusedReflection(lead.id, f"bad_reflection: {error.reason}", reply)
    except ContextFull as error:
        return RefusedReflection(lead.id, f"too_long_for_model: {error}")
    return replace(found, tools=[name for name in found.tools if name in tools])


def evidence(signals: ContextSignals) -> list[Trajectory]:
    """The trajectories of all signals, each rollout once, failures and successes in turn."""
    found = {t.rollout: t for signal in signals.signals for t in signal.evidence}
    failed = [t for t in found.values() if not t.success]
    won = [t for t in found.values() if t.success]
    return [t for t in chain.from_iterable(zip_longest(failed, won)) if t][:MAX_TRAJECTORIES]


def shown(trajectories: Sequence[Trajectory], budget: int) -> list[dict[str, str]]:
    """The trajectories as text in about `budget` tokens; a short one leaves its rest to others."""
    texts, left = [], budget
    for place, trajectory in enumerate(trajectories):
        share = left // (len(trajectories) - place)
        if share < MIN_TOKENS and texts:
            break
        steps = transcript(trajectory.steps, share)
        left -= tokens(steps)
        failure = f"failure ({trajectory.stop_reason})"
        texts.append({"outcome": "success" if trajectory.success else failure, "steps": steps})
    return texts


def _near(signals: ContextSignals, tools: Mapping[str, Tool]) -> list[Tool]:
    """The tools of the apps that the evidence or the task touches; all, where that names none."""
    named = {name for signal in signals.signals for name in signal.pattern}
    task = signals.lead.task
    actions = [step.action for trajectory in evidence(signals) for step in trajectory.steps]
    actions += [action for turn in (task.solution if task else []) for action in turn]
    named.update(action.tool for action in actions if isinstance(action, Call))
    apps = {tools[name].app for name in named if name in tools}
    return [tool for tool in tools.values() if tool.app in apps] or list(tools.values())
