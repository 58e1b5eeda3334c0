"""The prompt where actions are Python code: how to act, how to find APIs, when it is over.

The text is our own. What the environment shows at the start (the supervisor's name and addresses)
follows it, then the task; what a cell printed comes back as a user message.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from coevolve.agents.prompts.styles import TOOLS, Message, Style, user_message
from coevolve.environments.protocol import Tool
from coevolve.errors import UsageError

if TYPE_CHECKING:
    from coevolve.environments.client import Pool

SYSTEM = Path(__file__).with_name("system.txt").read_text("utf-8")


class Code(Style):
    """An episode of code; no tools are handed over, the code finds them by itself."""

    name = "code"

    def label(self, policy: str) -> str:
        return policy

    def schemas(self, tools: Sequence[Tool], later: Sequence[Tool] = ()) -> list[dict[str, Any]]:
        return []

    def first(self, query: str, observation: str, tools: Sequence[Tool]) -> list[Message]:
        parts = [SYSTEM.strip(), observation, f"The task: {query}"]
        return [user_message("\n\n".join(part for part in parts if part))]

    def results(
        self, reply: Message, calls: Sequence[Any], observations: list[str]
    ) -> list[Message]:
        return [user_message("\n\n".join(f"Output:\n{text}" for text in observations))]

    def hints(self, reply: Message, hint: str) -> list[Message]:
        return [user_message(hint)]


CODE = Code()


def episode_style(pool: Pool, style: Style) -> Style:
    """The style of an environment's prompts. Raises UsageError for a `style` unfit for code."""
    if pool.description.actions != "code":
        return style
    if style is not TOOLS:
        raise UsageError(f"{pool.name} takes code as actions: the prompt {style.name} is for tools")
    return CODE
