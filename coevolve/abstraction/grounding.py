"""What a user could say: each argument of an exploration's calls is sayable, observed, or makes its call unusable.

`trace` turns an exploration into a `Trace`: per step the links (argument path → earlier output that the request will refer to)
and the problem, if some argument can neither be said nor referred to:

- `lookup_only`: the environment says that users do not know such values, and it was not observed in the episode;
- `unknowable`: the value first appeared in an output, no phrase refers to that output, and the user does not know it either.

In an environment with words of its own, no single item of a list is referred to (a request says all items, or refers to the whole
list at once), and a `literal` parameter never is. A row's identifier is referred to by the row's name (`Language.rows`), where a
parameter of that name is wanted.

What the actor made up (a text, a number) and what the start state's `values` or the schema's enum hold can be said.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from coevolve.environments.protocol import Opened, Tool
from coevolve.grounding.texts import ORDINALS
from coevolve.provenance import Source, alike, at, identity, output, sources
from coevolve.records import Call, Exploration, Start, Step

ROW_SLOT = re.compile(r"\{([\w.]+)\}")
"""A slot of a phrase over a row: a key of it, or a path of keys."""


class Trace(NamedTuple):
    """An exploration, read for its goals."""

    start: Start
    opened: Opened
    steps: Sequence[Step]
    links: list[dict[tuple, Source]]
    problems: list[str | None]
    changed: list[bool]
    """Whether the step changed the state, hidden parts included."""


class Reference(NamedTuple):
    """A phrase for a part of an output: a template over the arguments of the call that gave it, or over the row it is in."""

    template: str
    bare: bool
    """Only the value of an argument, like the name behind an id, or the name of a row: a key look-up."""
    row: tuple | None = None
    """Path to the object whose keys the template has as slots."""

    @property
    def names_row(self) -> bool:
        return self.bare and self.row is not None


def trace(exploration: Exploration, opened: Opened, tools: Mapping[str, Tool]) -> Trace:
    apps = {name: tool.app for name, tool in tools.items()}
    steps = exploration.steps
    links: list[dict[tuple, Source]] = []
    problems: list[str | None] = []
    for step, found in zip(steps, sources(steps, apps), strict=True):
        links.append({})
        problems.append(_unusable(step, tools))
        for path, source in found.items() if problems[-1] is None else ():
            value = at(step.action.arguments, path)
            link, problem = _ground(
                tools, steps, tools[step.action.tool], path, value, source, opened
            )
            if link:
                links[-1][path] = link
            problems[-1] = problems[-1] or problem
    return Trace(exploration.start, opened, steps, links, problems, _changed(steps, opened, tools))


def _unusable(step: Step, tools: Mapping[str, Tool]) -> str | None:
    if isinstance(step.action, str):
        return "code"
    if step.error is not None:
        return "failed"
    return None if step.action.tool in tools else "unknown_tool"


def _ground(
    tools: Mapping[str, Tool],
    steps: Sequence[Step],
    tool: Tool,
    path: tuple,
    value: Any,
    source: Source,
    opened: Opened,
) -> tuple[Source | None, str | None]:
    """The link that the request will use, or the problem, or neither: the value is said."""
    known = _known(tool, path, value, opened)
    if source.step is not None:
        spoken = (tool.language is None and known) or _literal(tool, path)
        phrase = None if spoken else reference(tools, steps[source.step], source.path, tool.app)
        if phrase and (
            alike(path, source.path) or not (phrase.names_row or _identifies(phrase, path))
        ):
            return source, None
        return None, None if known else "unknowable"
    only = tool.language is not None and path[0] in tool.language.lookup_only
    return None, "lookup_only" if only and not known else None


def _identifies(phrase: Reference, path: tuple) -> bool:
    """Whether a fact of some row would have to stand for the identifier of another."""
    return phrase.row is not None and str(path[0]).endswith("_id")


def _literal(tool: Tool, path: tuple) -> bool:
    """Whether a request says the value as it is."""
    item = any(isinstance(key, int) for key in path)
    return tool.language is not None and (item or path[0] in tool.language.literal)


def _known(tool: Tool, path: tuple, value: Any, opened: Opened) -> bool:
    """Whether the user can say the value: a truth value, one of an enum, or one that the start state's user knows."""
    if value is None or isinstance(value, bool):
        return True
    schema = tool.parameters.get("properties", {}).get(path[0], {})
    allowed = [*schema.get("enum", []), *schema.get("items", {}).get("enum", [])]
    values = opened.values.get(f"{tool.name}.{path[0]}", opened.values.get(str(path[0]), []))
    members = [member for known in values if isinstance(known, list) for member in known]
    return identity(value) in {identity(member) for member in (*allowed, *values, *members)}


def reference(tools: Mapping[str, Tool], step: Step, path: tuple, app: str) -> Reference | None:
    """How a request of `app` refers to a part of a step's output; None where nobody would. A member of a list is referred to
    by its place. The bare name behind a key stands for the row only in the app that both belong to."""
    tool = tools.get(step.action.tool)
    if tool is None:
        return None
    if row := _row(tool, step, path):
        return row
    names = [key for key in path if isinstance(key, str)]
    places = [key for key in path if isinstance(key, int)]
    if len(places) > 1 or (places and places[0] >= len(ORDINALS)):
        return None
    template = _template(tool, step.action, names)
    if template is None:
        return None
    bare = _bare(template, step.action)
    if bare and (tool.app != app or places):
        return None
    if places:
        whole = at(output(step.observation), path[: path.index(places[0])])
        template = f"the {ORDINALS[places[0]] if len(whole) > 1 else 'only one'} of {template}"
    return Reference(template, bare)


def _row(tool: Tool, step: Step, path: tuple) -> Reference | None:
    """By the words of the row that the value is in; None where the language has none, or the row lacks them."""
    key = path[-1] if path else None
    if tool.language is None or not isinstance(key, str):
        return None
    template = tool.language.rows.get(key) or tool.language.facts.get(key)
    if template is None or row_words(template, output(step.observation), path[:-1]) is None:
        return None
    return Reference(template, key in tool.language.rows, path[:-1])


def row_words(template: str, told: Any, row: tuple) -> dict[str, str] | None:
    """What the slots of a phrase over a row say, None where the row has no text for one of them."""
    words = {}
    for slot in ROW_SLOT.findall(template):
        try:
            words[slot] = at(told, (*row, *slot.split(".")))
        except (KeyError, IndexError, TypeError):
            return None
    return words if all(isinstance(word, str) and word.strip() for word in words.values()) else None


def _template(tool: Tool, call: Call, names: Sequence[str]) -> str | None:
    if tool.language is None:
        return _described(tool, call, names)
    refer = tool.language.refer
    return next(
        (refer[key] for key in (".".join(names), names[-1] if names else "") if key in refer), None
    )


def _described(tool: Tool, call: Call, names: Sequence[str]) -> str:
    what = " ".join(names[-1].replace("_", " ").split()) if names else "answer"
    slots = ", ".join(f"{name}: {{{name}}}" for name in call.arguments)
    return f"the {what} from this: {sentence(tool)}" + (f" ({slots})" if slots else "")


def sentence(tool: Tool) -> str:
    """The first sentence of the tool's description, as a clause."""
    first = tool.description.strip().split("\n")[0].split(". ")[0].rstrip(".")
    return first[:1].lower() + first[1:]


def _bare(template: str, call: Call) -> bool:
    return template in {f"{{{name}}}" for name in call.arguments}


def _changed(steps: Sequence[Step], opened: Opened, tools: Mapping[str, Tool]) -> list[bool]:
    """By the hash of the state where the environment gives one, else every call that is not marked read-only."""
    before = [opened.state, *(step.state for step in steps)]
    return [
        step.state != last
        if step.state and last
        else not (isinstance(step.action, Call) and _read_only(tools, step.action))
        for last, step in zip(before, steps, strict=False)
    ]


def _read_only(tools: Mapping[str, Tool], call: Call) -> bool:
    return call.tool in tools and tools[call.tool].read_only
