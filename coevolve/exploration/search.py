"""Searching for how a tool is used, step by step from the last observation.

`achieve` wants an effect (or a checked response) of one tool. It uses a recipe that memory knows; else it looks for the
values that are missing, tries the tool with one choice of parameters after another, after a refusal tries it again with a
sibling tool of the same app called first, and when the call works without effect tries the siblings after it. Each attempt
is a `Lesson`. `relay` repeats what worked with an argument taken from another tool's output.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from coevolve.environments.protocol import Tool
from coevolve.exploration.arguments import (
    Shape,
    fits,
    literal,
    lookup_only,
    properties,
    required,
    resemblance,
    shapes,
)
from coevolve.exploration.memory import WORKED, Recipe
from coevolve.exploration.situation import Situation, outcome_of
from coevolve.records import Call, Step

Search = Generator[Call, Step, Recipe | None]
"""Ends with the recipe that worked, or None."""

HELPERS = 8
"""Siblings tried in each role."""
FAILURES = 2
"""Failures after which a sibling is no longer tried as the completion of a tool."""
LOOKS = 2
"""Tools called to find missing values."""


def achieve(here: Situation, tool: Tool, patience: int) -> Search:
    """Calls until the tool had an effect or a checked response, at most about `patience` steps."""
    end = len(here.steps) + patience
    known = here.memory.best(tool.name)
    if known:
        yield from inform(here, tool, known.shape)
        if (yield from attempt(here, tool, known)) in WORKED:
            return known
    alive = _shapes(here, tool)
    siblings = [sibling for sibling in here.siblings(tool) if not sibling.read_only]
    helpers = here.memory.helpers("before", tool, siblings, here.rng)[:HELPERS]
    for before in [(), *((helper.name,) for helper in helpers)]:
        for shape in list(alive):
            if len(here.steps) >= end:
                return None
            yield from inform(here, tool, shape)
            outcome = yield from attempt(here, tool, Recipe(shape, before))
            if outcome in WORKED:
                return Recipe(shape, before)
            if outcome == "nothing":
                return (yield from complete(here, tool, Recipe(shape, before), end))
            if outcome == "arguments" and len(alive) > 1 and here.steps[-1].error != "not_found":
                alive.remove(shape)
            if outcome == "situation" and here.tells_arguments():
                alive = [shape]
                break
    return None


def attempt(
    here: Situation,
    tool: Tool,
    recipe: Recipe,
    fixed: dict[str, Any] | None = None,
    source: str | None = None,
) -> Generator[Call, Step, str]:
    """Follows a recipe once, notes the lesson, and returns the outcome."""
    for name in recipe.before:
        if name in here.tools:
            yield from here.run(here.tools[name])
    step = yield from here.run(tool, recipe.shape, fixed)
    outcome = outcome_of(step, tool)
    if outcome != "nothing" or not recipe.after:
        here.note(
            tool, recipe if outcome == "nothing" else recipe._replace(after=()), outcome, source
        )
        return outcome
    for name in recipe.after:
        if name in here.tools:
            step = yield from here.run(here.tools[name])
    outcome = "effect" if step.effects else "nothing"
    here.note(tool, recipe, outcome, source)
    return outcome


def complete(here: Situation, tool: Tool, recipe: Recipe, end: int) -> Search:
    """The call just worked without effect: tries the siblings after it, and repeats the call between them, for a wrong
    completion may have thrown the change away."""
    if tool.read_only:
        return None
    again = False
    for helper in _completions(here, tool, recipe):
        if len(here.steps) >= end:
            return None
        if again and (outcome := (yield from attempt(here, tool, recipe))) != "nothing":
            return recipe if outcome in WORKED else None
        step = yield from here.run(helper, required(helper))
        whole = recipe._replace(after=(helper.name,))
        here.note(tool, whole, "effect" if step.effects else "nothing")
        if step.effects:
            return whole
        again = True
    return None


def _completions(here: Situation, tool: Tool, recipe: Recipe) -> list[Tool]:
    failed = here.memory.failed
    siblings = [
        sibling
        for sibling in here.siblings(tool)
        if not sibling.read_only
        and sibling.name not in recipe.before
        and failed["after", sibling.name, tool.name] < FAILURES
    ]
    return here.memory.helpers("after", tool, siblings, here.rng)[:HELPERS]


def inform(here: Situation, tool: Tool, shape: Shape) -> Generator[Call, Step, None]:
    """Calls tools that may show what the shape needs and nobody knows: tools whose outputs have such a key, of the same app
    first; else a read-only sibling that this episode has not called."""
    for parameter in here.missing(tool, shape):
        for name in _informants(here, tool, parameter)[:LOOKS]:
            yield from here.run(here.tools[name])
            if parameter not in here.missing(tool, shape):
                break


def _informants(here: Situation, tool: Tool, parameter: str) -> list[str]:
    own = [
        n for n in here.memory.producers(parameter, tool.app) if n in here.tools and n != tool.name
    ]
    if own:
        ready = [n for n in own if not _blind(here, here.tools[n])] or own
        return here.rng.sample(ready, len(ready))
    other = [n for n in here.memory.producers(parameter) if n in here.tools and n != tool.name]
    if other:
        return sorted(
            other, key=lambda name: (here.memory.pairs[name, tool.name], here.rng.random())
        )
    called = {step.action.tool for step in here.steps}
    unseen = [s.name for s in here.siblings(tool) if s.read_only and s.name not in called]
    return here.rng.sample(unseen, len(unseen))


def _blind(here: Situation, tool: Tool) -> bool:
    """Whether it cannot be called without a value that is to be looked up and was not."""
    wanted = [name for name in required(tool) if lookup_only(tool, name)]
    return bool(here.missing(tool, tuple(wanted)))


def relay(here: Situation, tool: Tool, recipe: Recipe) -> Generator[Call, Step, None]:
    """Repeats a recipe with one argument from the output of another tool: the pair with the fewest tasks so far."""
    chosen = _relay(here, tool, recipe.shape)
    if chosen is None:
        return
    parameter, source = chosen
    yield from here.run(here.tools[source])
    schema = properties(tool)[parameter]
    values = [
        leaf.value
        for leaf in here.fresh
        if leaf.said and resemblance(parameter, leaf.key) and fits(leaf.value, schema)
    ]
    if values:
        yield from attempt(here, tool, recipe, {parameter: here.rng.choice(values)}, source)


def _relay(here: Situation, tool: Tool, shape: Shape) -> tuple[str, str] | None:
    """(parameter, source): sources whose outputs name the parameter, for parameters the user could also give."""
    pairs = []
    for parameter in shape:
        schema = properties(tool)[parameter]
        spoken = "enum" in schema or schema.get("type") == "boolean" or literal(tool, parameter)
        if spoken or not here.known.given(tool.name, parameter, schema):
            continue
        for source in here.memory.producers(parameter, said=True):
            if source in here.tools and source != tool.name:
                pairs.append(
                    (here.memory.pairs[source, tool.name], here.rng.random(), parameter, source)
                )
    return min(pairs)[2:] if pairs else None


def _shapes(here: Situation, tool: Tool) -> list[Shape]:
    """Shapes in the order to try: refused ones last, then by size; equal ones by chance."""
    ranked = [
        (here.memory.refused[tool.name, shape], len(shape), here.rng.random(), shape)
        for shape in shapes(tool)
    ]
    return [shape for *_, shape in sorted(ranked)]
