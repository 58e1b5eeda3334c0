"""Reads an exploration for its goals: each argument of its calls can be stated, refers to an
earlier output, or makes its call unusable.

`read_trace` gives per step the links (argument path → earlier output that the request will refer
to) and the problem:

- `failed`, `unknown_tool`, `code`: the step is no working call;
- `lookup_only`: users of the environment do not know such values, and no earlier step observed it;
- `unknowable`: the value comes from an output, which no phrase refers to, and users do not know it.

In an environment with words of its own, no single item of a list is referred to (a request states
all items, or refers to the whole list at once), and a `literal` parameter never is. A row's
identifier is referred to by the row's name (`Language.rows`), where a parameter of that name is
wanted. What the actor made up (a text, a number), and what the start state's `values` or the
schema's enum hold, can be stated.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from coevolve.abstraction.references import reference
from coevolve.environments.protocol import Opened, Tool
from coevolve.grounding.sources import ValueSource, alike, at, identity, sources
from coevolve.records import Call, Exploration, Start, Step


class ExplorationTrace(NamedTuple):
    """An exploration's steps with what each argument is linked to."""

    start: Start
    opened: Opened
    tools: Mapping[str, Tool]
    steps: Sequence[Step]
    links: list[dict[tuple, ValueSource]]
    problems: list[str | None]
    changed: list[bool]  # Whether the step changed the state, hidden parts included

    def tool(self, index: int) -> Tool:
        """The tool that a step calls."""
        return self.tools[self.steps[index].action.tool]

    def informants(self, index: int) -> set[int]:
        """The steps whose outputs a step's arguments refer to."""
        return {source.step for source in self.links[index].values()}


def read_trace(
    exploration: Exploration, opened: Opened, tools: Mapping[str, Tool]
) -> ExplorationTrace:
    """The trace of an exploration whose session opens like this."""
    steps = exploration.steps
    links: list[dict[tuple, ValueSource]] = []
    problems: list[str | None] = []
    apps = {name: tool.app for name, tool in tools.items()}
    for step, found in zip(steps, sources(steps, apps), strict=True):
        own, problem = {}, _unusable(step, tools)
        for path, source in found.items() if problem is None else ():
            link, reason = _linked(tools, steps, step.action, path, source, opened)
            problem = problem or reason
            if link:
                own[path] = link
        links.append(own)
        problems.append(problem)
    changed = _changed(steps, opened, tools)
    return ExplorationTrace(exploration.start, opened, tools, steps, links, problems, changed)


def _unusable(step: Step, tools: Mapping[str, Tool]) -> str | None:
    if isinstance(step.action, str):
        return "code"
    if step.error is not None:
        return "failed"
    return None if step.action.tool in tools else "unknown_tool"


def _linked(
    tools: Mapping[str, Tool],
    steps: Sequence[Step],
    call: Call,
    path: tuple,
    source: ValueSource,
    opened: Opened,
) -> tuple[ValueSource | None, str | None]:
    """The link that the request will use, or the problem, or neither: the value can be stated."""
    tool = tools[call.tool]
    known = _known(tool, path, at(call.arguments, path), opened)
    if source.step is None:
        only = tool.language is not None and path[0] in tool.language.lookup_only
        return None, "lookup_only" if only and not known else None
    if not (known if tool.language is None else _literal(tool, path)):
        phrase = reference(tools, steps[source.step], source.path, tool.app)
        # the name of a row, or a fact of it, must not stand for another row's identifier
        of_row = phrase and phrase.row is not None
        other = of_row and (phrase.bare or str(path[0]).endswith("_id"))
        if phrase and (alike(path, source.path) or not other):
            return source, None
    return None, None if known else "unknowable"


def _literal(tool: Tool, path: tuple) -> bool:
    """Whether a request of an environment with words of its own states the value as it is."""
    return any(isinstance(key, int) for key in path) or path[0] in tool.language.literal


def _known(tool: Tool, path: tuple, value: Any, opened: Opened) -> bool:
    """Whether the user knows the value: true, false, of an enum, or of the start's `values`."""
    if value is None or isinstance(value, bool):
        return True
    schema = tool.parameters.get("properties", {}).get(path[0], {})
    allowed = [*schema.get("enum", []), *schema.get("items", {}).get("enum", [])]
    values = opened.values.get(f"{tool.name}.{path[0]}", opened.values.get(str(path[0]), []))
    members = [member for known in values if isinstance(known, list) for member in known]
    return identity(value) in {identity(member) for member in (*allowed, *values, *members)}


def _changed(steps: Sequence[Step], opened: Opened, tools: Mapping[str, Tool]) -> list[bool]:
    """By the state's hash where there is one, else every call that is not marked read-only."""
    changed, last = [], opened.state
    for step in steps:
        if step.state and last:
            changed.append(step.state != last)
        else:
            tool = tools.get(step.action.tool) if isinstance(step.action, Call) else None
            changed.append(tool is None or not tool.read_only)
        last = step.state
    return changed
