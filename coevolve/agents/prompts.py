"""What a policy is shown: the user's turns, tool results and tool schemas as OpenAI-style messages.

There is no system prompt of our own: a chat template or a server adds its own instructions for tools, and the laptop
policy needs none. What the environment shows before the first turn leads the first user message, since not every chat
template has a system role.
"""

from __future__ import annotations

from typing import Any

from coevolve.environments.protocol import Tool

Message = dict[str, Any]


def first_message(query: str, observation: str) -> Message:
    """The first user turn, after what the environment shows at the start."""
    return user_message(f"{observation}\n\n{query}" if observation else query)


def user_message(text: str) -> Message:
    return {"role": "user", "content": text}


def result_messages(reply: Message, observations: list[str]) -> list[Message]:
    """Tool messages that answer a reply, one per observation; linked by id where the reply made its calls with ids."""
    ids = [call.get("id") for call in reply.get("tool_calls") or []]
    if not ids:
        return [{"role": "tool", "content": text} for text in observations]
    return [
        {"role": "tool", "tool_call_id": id_, "content": text} for id_, text in zip(ids, observations, strict=False)
    ]


def hint_messages(reply: Message, hint: str) -> list[Message]:
    """Answers a reply that could not be read: every call of an OpenAI message needs an answer of its own."""
    return result_messages(reply, [hint] * max(1, len(reply.get("tool_calls") or [])))


def function_schema(tool: Tool) -> dict[str, Any]:
    """A tool in OpenAI's function form, as chat templates take it too."""
    return {
        "type": "function",
        "function": {"name": tool.name, "description": tool.description, "parameters": tool.parameters},
    }
