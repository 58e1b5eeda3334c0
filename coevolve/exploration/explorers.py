"""The explorers without a model, one per mode: `uniform` (random), `curious`, `cover` (coverage),
`follow` (guided).

Each is a generator over one episode (`episode.Explorer`): it yields a call, is sent the executed
step, and chooses the next call from it. None of them ends before the episode does, as long as a
tool is offered.
"""

from __future__ import annotations

from collections.abc import Sequence

from coevolve.environments.protocol import Tool
from coevolve.exploration.arguments import literal, lookup_only, resemblance
from coevolve.exploration.episode import Explorer, ExplorerEpisode
from coevolve.exploration.memory import Recipe, is_goal
from coevolve.exploration.pattern import WeakPattern, repeat
from coevolve.exploration.schemas import fits, properties, required, shapes
from coevolve.exploration.search import achieve, attempt, repeat_with_observed
from coevolve.grounding.sources import trivial

TARGET_STEPS = 30  # Steps that coverage spends on one target
CURIOUS_STEPS = 6  # Steps that the curious explorer spends on one tool
REPEAT = 0.5
"""How often it repeats what worked with an observed argument, instead of passing one on."""
ANSWER = 0.4  # How often it tells the user a fact that it just read
GOAL = 3.0  # How much rather the curious explorer takes a tool that a task can be about


def uniform(here: ExplorerEpisode) -> Explorer:
    """Any tool in any of its shapes, typed arguments."""
    tools = list(here.tools.values())
    while tools:
        tool = here.rng.choice(tools)
        yield here.call(tool, here.rng.choice(shapes(tool)))


def curious(here: ExplorerEpisode) -> Explorer:
    """Untried actions of this state, then tools seldom called; a search around refusals."""
    tools = list(here.tools.values())
    while tools:
        tool = here.rng.choices(tools, [_curiosity(here, tool) for tool in tools])[0]
        recipe = yield from achieve(here, tool, CURIOUS_STEPS)
        if recipe is None:
            yield from answer_user(here)
        elif here.rng.random() < REPEAT:
            yield from repeat_with_observed(here, tool, recipe)
        else:
            yield from _pass_on(here)


def _curiosity(here: ExplorerEpisode, tool: Tool) -> float:
    tried = here.times_tried(tool.name, required(tool))
    own = sum(step.action.tool == tool.name for step in here.steps)
    called = here.memory.calls[tool.name] + own
    return (GOAL if is_goal(tool) else 1.0) / (1 + tried) ** 2 / (1 + called) ** 0.5


def _pass_on(here: ExplorerEpisode) -> Explorer:
    """Gives something that the last step showed to a tool that takes it."""
    choices = [
        (here.memory.pairs[seen.tool.name, tool.name], here.rng.random(), tool, name, seen)
        for seen in here.fresh
        if seen.has_phrase
        for tool in here.tools.values()
        for name, schema in properties(tool).items()
        if tool.name != seen.tool.name and is_goal(tool) and not literal(tool, name)
        if resemblance(name, seen.key) and fits(seen.value, schema)
    ]
    if choices:
        *_, tool, name, seen = min(choices, key=lambda choice: choice[:2])
        recipe = here.memory.best(tool.name) or Recipe((*required(tool), name))
        if name not in recipe.shape:
            recipe = recipe._replace(shape=(*required(tool), name))
        yield from attempt(here, tool, recipe, {name: seen.value}, seen.tool.name)


def answer_user(here: ExplorerEpisode) -> Explorer:
    """Now and then hands a fact that the last step showed to a tool that takes any."""
    facts = [seen for seen in here.fresh if seen.is_fact and not trivial(seen.value)]
    takers = [
        (tool, name)
        for tool in (here.tools.values() if facts else ())
        for name in properties(tool)
        if is_goal(tool) and lookup_only(tool, name) and not here.memory.producers(name)
    ]
    if takers and here.rng.random() < ANSWER:
        tool, name = here.rng.choice(takers)
        fact = here.rng.choice(facts)
        if fits(fact.value, properties(tool)[name]):
            recipe = Recipe(required(tool))
            yield from attempt(here, tool, recipe, {name: fact.value}, fact.tool.name)


def cover(here: ExplorerEpisode, targets: Sequence[str]) -> Explorer:
    """Insists on each target in turn, with given and observed arguments; then curiosity."""
    for tool in [here.tools[name] for name in targets if name in here.tools]:
        recipe = yield from achieve(here, tool, TARGET_STEPS)
        if recipe:
            yield from repeat_with_observed(here, tool, recipe)
    yield from curious(here)


def follow(here: ExplorerEpisode, pattern: WeakPattern, targets: Sequence[str]) -> Explorer:
    """Repeats a weak pattern on fresh ground, branches off its prefix, then covers the targets."""
    worked = yield from repeat(here, pattern)
    repeated = {step.action.tool for step in pattern.steps} if worked else set()
    for name in pattern.goals:
        if name in here.tools and name not in repeated:
            yield from achieve(here, here.tools[name], TARGET_STEPS)
    yield from _branch(here, pattern)
    yield from cover(here, targets)


def _branch(here: ExplorerEpisode, pattern: WeakPattern) -> Explorer:
    """A prefix of the pattern, then another tool of the same app instead of the next one."""
    if len(pattern.steps) < 2:
        return
    cut = here.rng.randrange(1, len(pattern.steps))
    yield from repeat(here, pattern, cut)
    after = here.tools.get(pattern.steps[cut].action.tool)
    siblings = [tool for tool in here.siblings(after) if is_goal(tool)] if after else []
    if siblings:
        weights = [1 / (1 + here.memory.used[tool.name]) for tool in siblings]
        yield from achieve(here, here.rng.choices(siblings, weights)[0], CURIOUS_STEPS)
