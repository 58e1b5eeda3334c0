"""Controls: agents that must not succeed on a task that asks for something (ACE, arXiv 2608.27260).

`nothing` does nothing. `hollow` makes one call per turn that changes nothing and tells next to nothing (`Description.harmless`).
`drop T.C` does all of the solution but call C of turn T. A task that one of the first two passes is trivial; a call that can be
dropped is redundant, unless it informs a later call: a verifier that looks at the state alone cannot see whether the value was
looked up or guessed.
"""

from __future__ import annotations

from typing import NamedTuple

from coevolve.environments.protocol import Description, Opened
from coevolve.environments.replay import Job
from coevolve.records import Action, Call, Task


class Control(NamedTuple):
    name: str
    job: Job | None
    """None where the environment offers no action for it."""
    dropped: tuple[int, int] | None = None


def controls(task: Task, opened: Opened, description: Description) -> list[Control]:
    """The controls of a task whose session opened like this."""
    empty: list[list[Action]] = [[] for _ in task.query]
    harmless = _harmless(opened, description)
    found = [
        Control("nothing", Job(task.start, empty, task)),
        Control("hollow", Job(task.start, [[harmless] for _ in empty], task) if harmless else None),
    ]
    for turn, actions in enumerate(task.solution):
        for place in range(len(actions)):
            kept = [list(other) for other in task.solution]
            del kept[turn][place]
            found.append(Control(f"drop {turn}.{place}", Job(task.start, kept, task), (turn, place)))
    return found


def _harmless(opened: Opened, description: Description) -> Call | None:
    calls = (Call(call["tool"], call.get("arguments", {})) for call in description.harmless)
    return next((call for call in calls if not opened.tools or call.tool in opened.tools), None)
