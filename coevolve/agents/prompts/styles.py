"""What a policy is shown: the user's turns, tool results and tool schemas as OpenAI-style messages.

| style | tools | tool results | text |
|---|---|---|---|
| `tools` | function schemas, where server or chat template put them | `tool` messages | theirs |
| `openai` | as BFCL's OpenAI handler converts its documents | `tool` messages | theirs |
| `prompting` | in a system message, BFCL's own | one user message with their `repr` | theirs |
| `qwen-fc` | BFCL's raw documents | `<tool_response>` blocks | BFCL's own rendering for Qwen |

There is no system prompt of our own: a chat template or a server adds its own instructions for
tools, and the laptop policy needs none. What the environment shows before the first turn leads the
first user message, since not every chat template has a system role. A hint on how to write a call
(`form`) says it as the style does. The last three are the prompts under which BFCL's leaderboard is
measured (`official`); they show the benchmark's own documents of its tools, and an environment that
has none is a usage error.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from coevolve.agents.actions.values import FORM
from coevolve.agents.prompts import official
from coevolve.environments.protocol import Tool
from coevolve.errors import UsageError
from coevolve.records import Call

Message = dict[str, Any]

NATIVE = "Make a tool call: the name of a tool, and its arguments as one JSON object."
"""How a call is written where an API takes it, in hints."""


class Style:
    """The messages of an episode. This one leaves the tools to server or chat template."""

    name = "tools"
    render: Callable[[list[Message], list[dict[str, Any]]], str] | None = None
    """Messages and schemas → text up to the next reply, in place of a chat template."""

    def label(self, policy: str) -> str:
        """A policy's name in records: the same model, told otherwise, is another policy."""
        return policy if self.name == Style.name else f"{policy} ({self.name})"

    def schemas(self, tools: Sequence[Tool], later: Sequence[Tool] = ()) -> list[dict[str, Any]]:
        """The server's or the template's tools: the first ones, and those offered since."""
        return [function_schema(tool) for tool in (*tools, *later)]

    def first(self, query: str, observation: str, tools: Sequence[Tool]) -> list[Message]:
        """The conversation up to the first user turn, with what the environment shows first."""
        return [user_message(f"{observation}\n\n{query}" if observation else query)]

    def next(self, query: str, added: Sequence[Tool], *, resent: bool) -> Message:
        """A later user turn, which adds tools; `resent`: the policy gets all schemas anew."""
        tell = added and not resent
        return user_message(f"{self._added(added)}\n{query}" if tell else query)

    def results(
        self, reply: Message, calls: Sequence[Call], observations: list[str]
    ) -> list[Message]:
        """The answer to a reply that made the calls."""
        return result_messages(reply, observations)

    def hints(self, reply: Message, hint: str) -> list[Message]:
        """The answer to an unreadable reply; every call of an OpenAI message needs its own."""
        return result_messages(reply, [hint] * max(1, len(reply.get("tool_calls") or [])))

    def form(self, reply: Message, resent: bool) -> str:
        """How a call is written, in a hint that answers the reply; `resent` as in `next`."""
        return NATIVE if resent or reply.get("tool_calls") else FORM

    def _added(self, tools: Sequence[Tool]) -> str:
        return repr(self.schemas(tools))


class OpenAI(Style):
    name = "openai"

    def form(self, reply: Message, resent: bool) -> str:
        return NATIVE

    def schemas(self, tools: Sequence[Tool], later: Sequence[Tool] = ()) -> list[dict[str, Any]]:
        return official.openai_tools(tools, later)


class _InText(Style):
    """BFCL's styles whose prompt holds the tools' documents: later ones lead their user turn."""

    def next(self, query: str, added: Sequence[Tool], *, resent: bool) -> Message:
        return super().next(query, added, resent=False)

    def _added(self, tools: Sequence[Tool]) -> str:
        return repr(official.documents([], tools))


class Prompting(_InText):
    name = "prompting"

    def schemas(self, tools: Sequence[Tool], later: Sequence[Tool] = ()) -> list[dict[str, Any]]:
        return []

    def first(self, query: str, observation: str, tools: Sequence[Tool]) -> list[Message]:
        system = {"role": "system", "content": official.system_prompt(tools)}
        return [system, *super().first(query, observation, tools)]

    def results(
        self, reply: Message, calls: Sequence[Call], observations: list[str]
    ) -> list[Message]:
        return [user_message(official.results_text(calls, observations))]

    def hints(self, reply: Message, hint: str) -> list[Message]:
        return super().hints(reply, hint) if reply.get("tool_calls") else [user_message(hint)]

    def form(self, reply: Message, resent: bool) -> str:
        return official.PYTHON_FORM


class QwenFC(_InText):
    name = "qwen-fc"
    render = staticmethod(official.qwen_fc)

    def schemas(self, tools: Sequence[Tool], later: Sequence[Tool] = ()) -> list[dict[str, Any]]:
        return official.documents(tools)

    def form(self, reply: Message, resent: bool) -> str:
        return official.QWEN_FORM


STYLES = {style.name: style for style in (Style(), OpenAI(), Prompting(), QwenFC())}
TOOLS = STYLES["tools"]


def style(name: str) -> Style:
    """Raises UsageError for a name that is none."""
    if name not in STYLES:
        raise UsageError(f"no prompt style {name!r}; there are: {', '.join(STYLES)}")
    return STYLES[name]


def user_message(text: str) -> Message:
    return {"role": "user", "content": text}


def result_messages(reply: Message, observations: list[str]) -> list[Message]:
    """Tool messages that answer a reply, one per observation, linked by the ids of its calls."""
    ids = [call.get("id") for call in reply.get("tool_calls") or []]
    if not ids:
        return [{"role": "tool", "content": text} for text in observations]
    return [
        {"role": "tool", "tool_call_id": id_, "content": text}
        for id_, text in zip(ids, observations, strict=False)
    ]


def function_schema(tool: Tool) -> dict[str, Any]:
    """A tool in OpenAI's function form, as chat templates take it too."""
    return {
        "type": "function",
        "function": {
            "name": tool.name,
            "description": tool.description,
            "parameters": tool.parameters,
        },
    }
