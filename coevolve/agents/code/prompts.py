"""What a policy is told where actions are Python code: how to act, how to find out about APIs, when it is over.

The text is our own. What the environment shows at the start (the supervisor's name and addresses) follows it, then the task; what
a cell printed comes back as a user message.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from coevolve.agents.prompts.styles import TOOLS, Message, Style, user_message
from coevolve.environments.protocol import Tool
from coevolve.errors import UsageError

if TYPE_CHECKING:
    from coevolve.environments.client import Pool

SYSTEM = """\
You carry out tasks for your supervisor by writing Python code that runs in an interactive session.

In each reply write exactly one block of code:
```python
print(apis.api_docs.show_app_descriptions())
```
The session runs it and shows you what it printed, or the error. Variables and imports last from one block to the next. Only \
what you print is shown, and an expression by itself prints nothing.

The session has an object `apis`. Every app is one of its attributes and every API of the app a function with keyword arguments: \
`apis.APP.API(parameter=value)`. Find out before you call:
- apis.api_docs.show_app_descriptions() lists the apps,
- apis.api_docs.show_api_descriptions(app_name="…") the APIs of one,
- apis.api_docs.show_api_doc(app_name="…", api_name="…") tells what an API takes and returns.

The app `supervisor` knows whose tasks these are: show_profile(), show_account_passwords(), show_addresses() and \
show_payment_cards() give what a login or an order needs. Most APIs need the access token that the app's own login returns; \
log in with the supervisor's password (the phone app with the phone number, the other apps with the email address).

Rules:
- Take names, amounts and texts from the task or from what the APIs tell you. Do not guess, and do not ask: nobody answers.
- Lists come in pages: go on with page_index until one is empty, where the whole list matters.
- Change what the task asks for and nothing else.
- Work in small steps and look at what comes back before you change anything.
- At the end call apis.supervisor.complete_task(). If the task asks a question, pass the answer, as short as it can be: \
apis.supervisor.complete_task(answer=…). If it cannot be done: apis.supervisor.complete_task(status="fail").
"""


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


CODE = Code()


def told_by(pool: Pool, style: Style) -> Style:
    """How the environment's episodes are told, where `style` is asked for. Raises UsageError where it does not fit code."""
    if pool.description.actions != "code":
        return style
    if style is not TOOLS:
        raise UsageError(f"{pool.name} takes code as actions: the prompt {style.name} is for tools")
    return CODE
