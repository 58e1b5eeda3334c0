"""Searching for how a tool is used, step by step from the last observation.

`achieve` wants an effect (or a checked response) of one tool. It uses a recipe that memory knows;
else it looks for the values that are missing, tries the tool with one choice of parameters after
another, after a refusal tries it again with a sibling tool of the same app called first, and when
the call works without effect tries the siblings after it. Each attempt is a `Lesson`.
`repeat_with_observed` repeats what worked with an argument taken from another tool's output.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from coevolve.environments.protocol import Tool
from coevolve.exploration.arguments import literal, lookup_only, resemblance
from coevolve.exploration.episode import ExplorerEpisode, outcome_of
from coevolve.exploration.memory import WORKED, Recipe
from coevolve.exploration.schemas import Shape, fits, properties, required, shapes
from coevolve.records import Call, Step

Search = Generator[Call, Step, Recipe | None]  # Ends with the recipe that worked, or None

MAX_HELPERS = 8  # Siblings tried in each role
MAX_FAILURES = 2  # Failures after which a sibling is no longer tried as the completion of a tool
MAX_LOOKUPS = 2  # Tools called to find one missing value


def achieve(here: ExplorerEpisode, tool: Tool, patience: int) -> Search:
    """Calls until the tool had an effect or a checked response, at most about `patience` steps."""
    end = len(here.steps) + patience
    known = here.memory.best(tool.name)
    if known:
        yield from look_up(here, tool, known.shape)
        if (yield from attempt(here, tool, known)) in WORKED:
            return known
    open_shapes = _shapes(here, tool)
    siblings = [sibling for sibling in here.siblings(tool) if not sibling.read_only]
    helpers = here.memory.helpers("before", tool, siblings, here.rng)[:MAX_HELPERS]
    for before in [(), *((helper.name,) for helper in helpers)]:
        for shape in list(open_shapes):
            if len(here.steps) >= end:
                return None
            yield from look_up(here, tool, shape)
            outcome = yield from attempt(here, tool, Recipe(shape, before))
            if outcome in WORKED:
                return Recipe(shape, before)
            if outcome == "nothing":
                return (yield from complete(here, tool, Recipe(shape, before), end))
            refused = outcome == "arguments" and here.steps[-1].error != "not_found"
            if refused and len(open_shapes) > 1:
                open_shapes.remove(shape)
            if outcome == "state" and here.tells_arguments():
                open_shapes = [shape]
                break
    return None


def attempt(
    here: ExplorerEpisode,
    tool: Tool,
    recipe: Recipe,
    fixed: dict[str, Any] | None = None,
    source: str | None = None,
) -> Generator[Call, Step, str]:
    """Follows a recipe once, notes the lesson, and returns the outcome."""
    for name in recipe.before:
        if name in here.tools:
            yield here.call(here.tools[name])
    step = yield here.call(tool, recipe.shape, fixed)
    outcome = outcome_of(step, tool)
    if outcome != "nothing":
        recipe = recipe._replace(after=())
    elif recipe.after:
        for name in recipe.after:
            if name in here.tools:
                step = yield here.call(here.tools[name])
        outcome = "effect" if step.effects else "nothing"
    here.note(tool, recipe, outcome, source)
    return outcome


def complete(here: ExplorerEpisode, tool: Tool, recipe: Recipe, end: int) -> Search:
    """The call just worked without effect: tries the siblings after it."""
    again = False
    for helper in [] if tool.read_only else _completions(here, tool, recipe):
        if len(here.steps) >= end:
            return None
        # A wrong completion may have thrown the change away: the call is repeated first.
        if again and (outcome := (yield from attempt(here, tool, recipe))) != "nothing":
            return recipe if outcome in WORKED else None
        step = yield here.call(helper, required(helper))
        whole = recipe._replace(after=(helper.name,))
        here.note(tool, whole, "effect" if step.effects else "nothing")
        if step.effects:
            return whole
        again = True
    return None


def _completions(here: ExplorerEpisode, tool: Tool, recipe: Recipe) -> list[Tool]:
    failed = here.memory.failed
    siblings = [
        sibling
        for sibling in here.siblings(tool)
        if not sibling.read_only
        and sibling.name not in recipe.before
        and failed["after", sibling.name, tool.name] < MAX_FAILURES
    ]
    return here.memory.helpers("after", tool, siblings, here.rng)[:MAX_HELPERS]


def look_up(here: ExplorerEpisode, tool: Tool, shape: Shape) -> Generator[Call, Step, None]:
    """Calls tools that may show the values that the shape needs and nobody knows."""
    for parameter in here.missing(tool, shape):
        for name in _informants(here, tool, parameter)[:MAX_LOOKUPS]:
            yield here.call(here.tools[name])
            if parameter not in here.missing(tool, shape):
                break


def _informants(here: ExplorerEpisode, tool: Tool, parameter: str) -> list[str]:
    """Tools whose outputs have such a key, of the same app first; else read-only siblings."""

    def producers(app: str | None) -> list[str]:
        found = here.memory.producers(parameter, app)
        return [name for name in found if name in here.tools and name != tool.name]

    if own := producers(tool.app):
        ready = [name for name in own if not _lacks_values(here, here.tools[name])] or own
        return here.rng.sample(ready, len(ready))
    if other := producers(None):
        pairs = here.memory.pairs
        return sorted(other, key=lambda name: (pairs[name, tool.name], here.rng.random()))
    called = {step.action.tool for step in here.steps}
    unseen = [s.name for s in here.siblings(tool) if s.read_only and s.name not in called]
    return here.rng.sample(unseen, len(unseen))


def _lacks_values(here: ExplorerEpisode, tool: Tool) -> bool:
    """Whether it cannot be called without a value that is to be looked up and was not."""
    wanted = [name for name in required(tool) if lookup_only(tool, name)]
    return bool(here.missing(tool, tuple(wanted)))


def repeat_with_observed(
    here: ExplorerEpisode, tool: Tool, recipe: Recipe
) -> Generator[Call, Step, None]:
    """Repeats a recipe with one argument from another tool's output, the rarest pair of tools."""
    chosen = _rarest_source(here, tool, recipe.shape)
    if chosen is None:
        return
    parameter, source = chosen
    yield here.call(here.tools[source])
    schema = properties(tool)[parameter]
    fresh = (v for v in here.fresh if v.has_phrase and resemblance(parameter, v.key))
    values = [seen.value for seen in fresh if fits(seen.value, schema)]
    if values:
        yield from attempt(here, tool, recipe, {parameter: here.rng.choice(values)}, source)


def _rarest_source(here: ExplorerEpisode, tool: Tool, shape: Shape) -> tuple[str, str] | None:
    """(parameter, source): a tool whose output names a parameter that the user could also give."""
    pairs = []
    for parameter in shape:
        schema = properties(tool)[parameter]
        spoken = "enum" in schema or schema.get("type") == "boolean" or literal(tool, parameter)
        if spoken or not here.known.given(tool, parameter):
            continue
        for source in here.memory.producers(parameter, phrase=True):
            if source in here.tools and source != tool.name:
                used = here.memory.pairs[source, tool.name]
                pairs.append((used, here.rng.random(), parameter, source))
    return min(pairs)[2:] if pairs else None


def _shapes(here: ExplorerEpisode, tool: Tool) -> list[Shape]:
    """Shapes in the order to try: refused ones last, then by size; equal ones by chance."""
    refused = here.memory.refused
    ranked = [(refused[tool.name, s], len(s), here.rng.random(), s) for s in shapes(tool)]
    return [shape for *_, shape in sorted(ranked)]
