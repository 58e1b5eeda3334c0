"""The plans of a run: what each episode is to do, decided block by block.

Guided plans come from contexts, one per round, each with another start state; coverage plans take
the goal tools of the inventory with the fewest tasks so far, tasks found in this run included, and
deal them out over the episodes of the block; random and curious plans only choose which app must
occur in the start state, in turn.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import NamedTuple

from coevolve.exploration.context import ContextSignals, context_of
from coevolve.exploration.episode import Explorer, ExplorerEpisode
from coevolve.exploration.explorers import cover, curious, follow, uniform
from coevolve.exploration.memory import Memory, is_goal
from coevolve.exploration.pattern import WeakPattern
from coevolve.records import Context

FAILURES_PER_USE = 8  # Failed attempts that put a target off as much as one use
MAX_AIMS = 3  # Targets named in a record's context: those an episode begins with


class Plan(NamedTuple):
    """One episode."""

    key: str
    mode: str
    round: int = 0
    app: str | None = None
    context: Context = Context()
    targets: list[str] = []
    pattern: WeakPattern = WeakPattern()
    rollouts: list[str] = []
    lost: bool = False  # Nothing can be done: the reflection on its context got no reply

    def explorer(self, here: ExplorerEpisode) -> Explorer:
        if self.mode == "random":
            return uniform(here)
        if self.mode == "curious":
            return curious(here)
        if self.mode == "coverage":
            return cover(here, self.targets)
        return follow(here, self.pattern, self.targets)


def unguided(mode: str, index: int, memory: Memory) -> Plan:
    """A random or curious episode; the apps take turns."""
    apps = list(dict.fromkeys(tool.app for tool in memory.tools.values() if tool.app))
    return Plan(f"{mode}-{index}", mode, app=apps[index % len(apps)] if apps else None)


def coverage(indices: Sequence[int], memory: Memory, rng: random.Random) -> list[Plan]:
    """The coverage episodes of one block: the least used goal tools, dealt out in turn."""
    ranked, plans = least_used(memory, rng), []
    for place, index in enumerate(indices):
        targets = ranked[place % len(ranked) :: len(indices)] if ranked else []
        app = memory.tools[targets[0]].app or None if targets else None
        nearby = [name for name in ranked if memory.tools[name].app == app and name not in targets]
        context = Context(aim=targets[:MAX_AIMS])
        plan = Plan(f"coverage-{index}", "coverage", app=app, context=context)
        plans.append(plan._replace(targets=targets + nearby))
    return plans


def least_used(memory: Memory, rng: random.Random) -> list[str]:
    """Goal tools, those of the fewest tasks first; long failures put a tool off; ties by chance."""
    goals = [name for name, tool in memory.tools.items() if is_goal(tool)]
    used = {name: memory.used[name] + memory.failures[name] // FAILURES_PER_USE for name in goals}
    return [name for *_, name in sorted((used[name], rng.random(), name) for name in goals)]


def guided(
    signals: ContextSignals,
    pattern: WeakPattern,
    index: int,
    round_: int,
    memory: Memory,
    rng: random.Random,
) -> Plan:
    """One round of a context: its pattern, then the least used goal tools of its apps."""
    names = pattern.goals or list(dict.fromkeys(step.action.tool for step in pattern.steps))
    apps = {memory.tools[name].app for name in names if name in memory.tools}
    others = (name for name in least_used(memory, rng) if name not in pattern.goals)
    near = [name for name in others if memory.tools[name].app in apps]
    app = memory.tools[names[0]].app or None if names else None
    context = context_of(signals, (names + near)[:MAX_AIMS])
    key = f"guided-{index}"
    return Plan(key, "guided", round_, app, context, near, pattern, signals.rollouts)
