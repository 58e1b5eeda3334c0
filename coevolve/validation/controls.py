"""Makes the controls of a task: agents that must not succeed on a task that asks for something, and
one that must (ACE, arXiv 2608.27260).

`nothing` does nothing. `hollow` makes one call per turn that changes nothing and returns next to
nothing (`Description.harmless`). `drop T.C` does all of the solution but call C of turn T. A task
that one of the first two passes is trivial; a call that can be dropped is redundant, unless it
informs a later call.

`swapped` must succeed: where actions are code, a program of which the changes are made in reverse
order, as far as names allow (`code.order`). A request of two wishes does not state in which order
they come; if the outcome depends on it, the task is invalid.

Where actions are code, `hollow` makes its call in a program that also declares the task complete,
and what is dropped is one statement of a program (`drop T.C.L`, L its line): one that gives nothing
a name, so that what is left still runs.
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
    """An agent, as the actions that it does."""

    name: str
    job: ReplayJob | None  # None where the environment offers no action for it
    dropped: tuple[int, int] | None = None
    """(turn, place) of the action that is left out, wholly or in part."""
    succeeds: bool = False  # Whether it has to


def controls(
    task: Task, opened: Opened, description: Description, tools: Mapping[str, Tool]
) -> list[Control]:
    """The controls of a task whose session opened like this."""
    harmless = _harmless(opened, description)
    hollow = ReplayJob(task.start, [[harmless] for _ in task.query], task) if harmless else None
    found = [
        Control("nothing", ReplayJob(task.start, [[] for _ in task.query], task)),
        Control("hollow", hollow),
    ]
    for turn, actions in enumerate(task.solution):
        for place, action in enumerate(actions):
            where = f"{turn}.{place}"

            def changed(*instead: Action, turn: int = turn, place: int = place) -> ReplayJob:
                """The solution with other actions, or none, in this place."""
                turns = [list(actions) for actions in task.solution]
                turns[turn][place : place + 1] = instead
                return ReplayJob(task.start, turns, task)

            if not description.code or not isinstance(action, str):
                found.append(Control(f"drop {where}", changed(), (turn, place)))
                continue
            for line, shorter in _shortened(action):
                found.append(Control(f"drop {where}.{line}", changed(shorter), (turn, place)))
            if other := reordered(action, tools, description.code.ends):
                found.append(Control(f"swapped {where}", changed(other), succeeds=True))
    return found


def _shortened(program: str) -> Iterator[tuple[int, str]]:
    """The program without one of its expression statements: (its line, what is left)."""
    tree, lines = parsed(program), program.split("\n")
    for node in tree.body if tree else ():
        if isinstance(node, ast.Expr):
            yield node.lineno, "\n".join(lines[: node.lineno - 1] + lines[node.end_lineno :])


def _harmless(opened: Opened, description: Description) -> Action | None:
    calls = [Call(call["tool"], call.get("arguments", {})) for call in description.harmless]
    if description.actions == "code":
        return program_of_calls(description.code, calls[:1]) if description.code and calls else None
    return next((call for call in calls if not opened.tools or call.tool in opened.tools), None)
