"""Reflection: a model reads the trajectories behind a context's signals and says where to look (paper, section on exploration).

In: the signals of one task (`context.Focus`), merged. Out: a `Reflection`: where the policy fails or wavers, why, what to try,
with which tools. The evidence is trimmed to a budget of tokens, shared by the trajectories: failures and successes in turn, so
that a boundary shows both sides. Tools that the environment does not have are dropped. A refused answer (`Refused`) leaves the
facts alone; a lost one (`BadReply`) is for the caller to count.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain, zip_longest

from msgspec import Struct
from msgspec.structs import replace

from coevolve.agents.prompts.transcript import clip, tokens, transcript
from coevolve.environments.protocol import Tool
from coevolve.exploration.context import Focus, facts
from coevolve.models.chat import AnswerRejected, ChatRequest, ContextFull
from coevolve.models.prompt_templates import PromptTemplate
from coevolve.models.service import Models
from coevolve.records import Trajectory

MOST_TRAJECTORIES = 6
LEAST_TOKENS = 200
"""Of one trajectory; with less it would say nothing."""
LONGEST = 400
"""Characters of one statement that are kept."""
LONGEST_REPLY = 2000
"""Characters of a refused reply that are kept."""
IDEAS = 5


class Reflection(Struct, frozen=True):
    """A model's reading of the evidence."""

    where: str
    """Where the policy fails or wavers."""
    why: str
    explore: list[str]
    """What to try."""
    tools: list[str]
    """Tools to use for it."""

    def text(self) -> str:
        """As `Context.reflection` holds it."""
        ideas = "".join(f"\nTry: {clip(idea, LONGEST)}" for idea in self.explore[:IDEAS])
        return f"Where: {clip(self.where, LONGEST)}\nWhy: {clip(self.why, LONGEST)}{ideas}"


class Refused(Struct, frozen=True):
    """An answer that is no reflection, on the context of a signal."""

    signal: str
    reason: str
    reply: str = ""
    """Empty where the evidence was too long for the model."""


async def reflect(
    models: Models,
    request: ChatRequest,
    prompt: PromptTemplate,
    focus: Focus,
    tools: Mapping[str, Tool],
    budget: int,
) -> Reflection | Refused:
    """The model's reflection on a focus. `request` holds the model and its parameters."""
    text = prompt.render(
        facts=facts(focus),
        query=focus.lead.task.query if focus.lead.task else [],
        pattern=focus.lead.pattern,
        trajectories=shown(evidence(focus), budget),
        tools=[f"{tool.name}: {tool.description}" for tool in _near(focus, tools)],
    )
    messages = [{"role": "user", "content": text}]
    try:
        found = await models.ask(
            replace(request, messages=messages, prompt_version=prompt.version), Reflection
        )
    except AnswerRejected as error:
        return Refused(
            focus.lead.id, f"bad_reflection: {error.reason}", error.reply[:LONGEST_REPLY]
        )
    except ContextFull as error:
        return Refused(focus.lead.id, f"too_long_for_model: {error}")
    return Reflection(
        found.where, found.why, found.explore, [name for name in found.tools if name in tools]
    )


def evidence(focus: Focus) -> list[Trajectory]:
    """The trajectories of all signals, each rollout once, failures and successes in turn, the leading signal's first."""
    found = {t.rollout: t for signal in focus.signals for t in signal.evidence}
    failed = [t for t in found.values() if not t.success]
    won = [t for t in found.values() if t.success]
    return [t for t in chain.from_iterable(zip_longest(failed, won)) if t][:MOST_TRAJECTORIES]


def shown(trajectories: Sequence[Trajectory], budget: int) -> list[dict[str, str]]:
    """The trajectories as text, in about `budget` tokens; what a short one leaves goes to those after it."""
    texts, left = [], budget
    for place, trajectory in enumerate(trajectories):
        share = left // (len(trajectories) - place)
        if share < LEAST_TOKENS and texts:
            break
        steps = transcript(trajectory.steps, share)
        left -= tokens(steps)
        texts.append(
            {
                "outcome": "success"
                if trajectory.success
                else f"failure ({trajectory.stop_reason})",
                "steps": steps,
            }
        )
    return texts


def _near(focus: Focus, tools: Mapping[str, Tool]) -> list[Tool]:
    """The tools of the apps that the evidence or the task touches; all, where that names none."""
    named = {name for signal in focus.signals for name in signal.pattern}
    for trajectory in evidence(focus):
        named.update(
            step.action.tool for step in trajectory.steps if not isinstance(step.action, str)
        )
    task = focus.lead.task
    named.update(
        action.tool
        for turn in (task.solution if task else [])
        for action in turn
        if not isinstance(action, str)
    )
    apps = {tools[name].app for name in named if name in tools}
    return [tool for tool in tools.values() if tool.app in apps] or list(tools.values())
