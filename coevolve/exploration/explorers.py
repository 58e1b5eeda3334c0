"""The explorers without a model, one per mode: `uniform` (random), `curious`, `cover` (coverage), `follow` (guided).

Each is a generator over one episode (`situation.Explorer`): it yields a call, is sent the executed step, and chooses the next
call from it. None of them ends before the episode does, as long as a tool is offered.
"""

from __future__ import annotations

from collections.abc import Sequence

from coevolve.environments.protocol import Tool
from coevolve.exploration.arguments import (
    fits,
    literal,
    lookup_only,
    properties,
    required,
    resemblance,
    shapes,
)
from coevolve.exploration.memory import Recipe, is_goal
from coevolve.exploration.pattern import Pattern, repeat
from coevolve.exploration.search import achieve, attempt, relay
from coevolve.exploration.situation import Explorer, Situation
from coevolve.provenance import trivial

PATIENCE = 30
"""Steps that coverage spends on one target."""
CURIOSITY = 6
"""Steps that the curious explorer spends on one tool."""
RELAY = 0.5
"""How often the curious explorer repeats what worked with an observed argument, rather than passing on what it just saw."""
TELL = 0.4
"""How often it tells the user a fact that it just read."""
GOAL = 3.0
"""How much rather the curious explorer takes a tool that a task can be about."""


def uniform(here: Situation) -> Explorer:
    """Any tool in any of its shapes, typed arguments."""
    tools = list(here.tools.values())
    while tools:
        tool = here.rng.choice(tools)
        yield here.call(tool, here.rng.choice(shapes(tool)))


def curious(here: Situation) -> Explorer:
    """Actions not yet tried in this state, then tools seldom called; a short search around what is refused."""
    while here.tools:
        tool = _most_curious(here)
        recipe = yield from achieve(here, tool, CURIOSITY)
        if recipe is None:
            yield from _tell(here)
            continue
        if here.rng.random() < RELAY:
            yield from relay(here, tool, recipe)
        else:
            yield from _pass_on(here)


def _most_curious(here: Situation) -> Tool:
    tools = list(here.tools.values())
    return here.rng.choices(tools, [_curiosity(here, tool) for tool in tools])[0]


def _curiosity(here: Situation, tool: Tool) -> float:
    tried = here.times_tried(tool.name, required(tool))
    called = here.memory.calls[tool.name] + sum(
        step.action.tool == tool.name for step in here.steps
    )
    return (GOAL if is_goal(tool) else 1.0) / (1 + tried) ** 2 / (1 + called) ** 0.5


def _pass_on(here: Situation) -> Explorer:
    """Gives something that the last step showed to a tool that takes it."""
    choices = [
        (here.memory.pairs[leaf.tool, tool.name], here.rng.random(), tool, name, leaf)
        for leaf in here.fresh
        if leaf.said
        for tool in here.tools.values()
        for name, schema in properties(tool).items()
        if tool.name != leaf.tool and is_goal(tool) and not literal(tool, name)
        if resemblance(name, leaf.key) and fits(leaf.value, schema)
    ]
    if choices:
        *_, tool, name, leaf = min(choices, key=lambda choice: choice[:2])
        recipe = here.memory.best(tool.name)
        shape = recipe.shape if recipe and name in recipe.shape else (*required(tool), name)
        whole = recipe._replace(shape=shape) if recipe else Recipe(shape)
        yield from attempt(here, tool, whole, {name: leaf.value}, leaf.tool)


def _tell(here: Situation) -> Explorer:
    """Now and then hands a fact that the last step showed to a tool that takes any: an answer to the user."""
    facts = [leaf for leaf in here.fresh if leaf.fact and not trivial(leaf.value)]
    takers = [
        (tool, name)
        for tool in (here.tools.values() if facts else ())
        for name in properties(tool)
        if is_goal(tool) and lookup_only(tool, name) and not here.memory.producers(name)
    ]
    if takers and here.rng.random() < TELL:
        tool, name = here.rng.choice(takers)
        leaf = here.rng.choice(facts)
        if fits(leaf.value, properties(tool)[name]):
            yield from attempt(here, tool, Recipe(required(tool)), {name: leaf.value}, leaf.tool)


def cover(here: Situation, targets: Sequence[str]) -> Explorer:
    """Insists on each target in turn, with given arguments and with observed ones; then goes on out of curiosity."""
    for name in targets:
        if name not in here.tools:
            continue
        tool = here.tools[name]
        recipe = yield from achieve(here, tool, PATIENCE)
        if recipe:
            yield from relay(here, tool, recipe)
    yield from curious(here)


def follow(here: Situation, pattern: Pattern, targets: Sequence[str]) -> Explorer:
    """Repeats a weak pattern on fresh ground, branches off its prefix, and extends it to the least used tools beside it."""
    worked = yield from repeat(here, pattern)
    repeated = {step.action.tool for step in pattern.steps} if worked else set()
    for name in pattern.goals:
        if name in here.tools and name not in repeated:
            yield from achieve(here, here.tools[name], PATIENCE)
    yield from _branch(here, pattern)
    yield from cover(here, targets)


def _branch(here: Situation, pattern: Pattern) -> Explorer:
    """A prefix of the pattern, then another tool of the same app instead of the next one."""
    if len(pattern.steps) < 2:
        return
    cut = here.rng.randrange(1, len(pattern.steps))
    yield from repeat(here, pattern, cut)
    after = here.tools.get(pattern.steps[cut].action.tool)
    siblings = [tool for tool in here.siblings(after) if is_goal(tool)] if after else []
    if siblings:
        weights = [1 / (1 + here.memory.used[tool.name]) for tool in siblings]
        yield from achieve(here, here.rng.choices(siblings, weights)[0], CURIOSITY)
