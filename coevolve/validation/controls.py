"""Controls: agents that must not succeed on a task that asks for something, and one that must (ACE, arXiv 2608.27260).

`nothing` does nothing. `hollow` makes one call per turn that changes nothing and tells next to nothing (`Description.harmless`).
`drop T.C` does all of the solution but call C of turn T. A task that one of the first two passes is trivial; a call that can be
dropped is redundant, unless it informs a later call: a verifier that looks at the state alone cannot see whether the value was
looked up or guessed.

`swapped` must succeed: where actions are code, a program of which the changes are made in reverse order, as far as names allow
(`code.order`). A request of two wishes does not say in which order they come; if the outcome depends on it, the task is invalid.

Where actions are code, `hollow` makes its call in a program that also says that the task is complete, and what is dropped is one
statement of a program (`drop T.C.L`, L its line): one that gives nothing a name, so that what is left still runs.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from coevolve.agents.code.calls import parsed
from coevolve.agents.code.order import reordered
from coevolve.environments.programs import program_of_calls
from coevolve.environments.protocol import Description, Opened, Tool
from coevolve.environments.replay import ReplayJob
from coevolve.records import Action, Call, Task


class Control(NamedTuple):
    name: str
    job: ReplayJob | None
    """None where the environment offers no action for it."""
    dropped: tuple[int, int] | None = None
    succeeds: bool = False
    """Whether it has to."""


def controls(
    task: Task, opened: Opened, description: Description, tools: Mapping[str, Tool]
) -> list[Control]:
    """The controls of a task whose session opened like this."""
    empty: list[list[Action]] = [[] for _ in task.query]
    harmless = _harmless(opened, description)
    found = [
        Control("nothing", ReplayJob(task.start, empty, task)),
        Control(
            "hollow", ReplayJob(task.start, [[harmless] for _ in empty], task) if harmless else None
        ),
    ]
    for turn, actions in enumerate(task.solution):
        for place, action in enumerate(actions):
            kept = [list(other) for other in task.solution]
            if description.code and isinstance(action, str):
                for line, shorter in _shortened(action):
                    kept[turn][place] = shorter
                    job = ReplayJob(task.start, [list(other) for other in kept], task)
                    found.append(Control(f"drop {turn}.{place}.{line}", job, (turn, place)))
                if other := reordered(action, tools, description.code.ends):
                    kept[turn][place] = other
                    found.append(
                        Control(
                            f"swapped {turn}.{place}",
                            ReplayJob(task.start, kept, task),
                            succeeds=True,
                        )
                    )
            else:
                del kept[turn][place]
                found.append(
                    Control(
                        f"drop {turn}.{place}", ReplayJob(task.start, kept, task), (turn, place)
                    )
                )
    return found


def _shortened(program: str) -> Iterator[tuple[int, str]]:
    """The program without one of its expression statements: (its line, what is left)."""
    tree = parsed(program)
    lines = program.split("\n")
    for node in tree.body if tree else ():
        if isinstance(node, ast.Expr):
            yield node.lineno, "\n".join(lines[: node.lineno - 1] + lines[node.end_lineno :])


def _harmless(opened: Opened, description: Description) -> Action | None:
    calls = (Call(call["tool"], call.get("arguments", {})) for call in description.harmless)
    if description.actions == "code":
        first = next(calls, None)
        return program_of_calls(description.code, [first]) if description.code and first else None
    return next((call for call in calls if not opened.tools or call.tool in opened.tools), None)
