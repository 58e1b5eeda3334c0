"""What exploration has learnt about an environment, shared by the episodes of a run.

Episodes of one block run side by side and read the memory as it was when the block began; between blocks `Memory.learn`
takes up what they did, in the order of the episodes, so that nothing depends on which worker
was faster. It holds the states seen, the actions tried in each state, the keys of each tool's outputs, and *recipes*: which
parameters a tool was given and which calls of its app came before and after it when it worked. `Lesson`s are plain records,
kept in the journal with their episode, so that a resumed run learns the same. Tasks teach as well: a solution is a recipe
that worked.
"""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Iterable
from typing import NamedTuple

from msgspec import Struct

from coevolve.agents.code.calls import api_calls
from coevolve.environments.protocol import Tool
from coevolve.exploration.arguments import Shape, leaves, resemblance, sayable
from coevolve.provenance import output
from coevolve.records import Call, Exploration, Step, Task

WORKED = ("effect", "response")
GOAL_WEIGHT = 4
"""A tool counts as used this often when it is the goal of a task, and once when it only helps."""
SAME_TOOL, SAME_HELPER, SAME_NAME, NO_PARAMETERS = 8.0, 2.0, 1.0, 0.5
"""How much a helper's earlier success counts: for this tool, for any tool, under the same name in another app; and that it
takes no required parameters, as openers and savers do."""


class Recipe(NamedTuple):
    """How a tool is used: the parameters it is given, the tools of its app called before and after it."""

    shape: Shape
    before: tuple[str, ...] = ()
    after: tuple[str, ...] = ()


class Lesson(Struct, frozen=True):
    """One attempt at a tool and what came of it."""

    tool: str
    recipe: Recipe
    outcome: str
    """`effect`, `response` (a checked one), `nothing` (no error, no effect); refused: `arguments` or `situation`."""
    source: str | None = None
    """The tool whose output gave an argument on purpose."""


class Memory:
    """Learns between blocks; reading it changes nothing."""

    def __init__(self, tools: dict[str, Tool]):
        self.tools = tools
        self.states: set[str] = set()
        self.tried: Counter[tuple[str, str, Shape]] = Counter()
        self.calls: Counter[str] = Counter()
        self.used: Counter[str] = Counter()
        self.pairs: Counter[tuple[str, str]] = Counter()
        self.recipes: defaultdict[str, Counter[Recipe]] = defaultdict(Counter)
        self.refused: Counter[tuple[str, Shape]] = Counter()
        self.vain: Counter[str] = Counter()
        self.helped: Counter[tuple[str, str, str]] = Counter()
        self.failed: Counter[tuple[str, str, str]] = Counter()
        self.keys = {tool.name: set(phrases_of(tool)) for tool in tools.values()}

    def learn(self, exploration: Exploration, lessons: Iterable[Lesson], opened: str) -> int:
        """Takes up an episode that began in the state `opened`; returns how many states it saw for the first time."""
        state = opened
        for step in exploration.steps:
            self._learn_step(state, step)
            state = step.state or state
        for lesson in lessons:
            self._learn_lesson(lesson)
        new = {step.state for step in exploration.steps if step.state} - self.states - {opened}
        self.states |= new | {opened}
        return len(new)

    def _learn_step(self, state: str, step: Step) -> None:
        if not isinstance(step.action, Call) or step.action.tool not in self.tools:
            return
        name = step.action.tool
        self.calls[name] += 1
        self.tried[state, name, tuple(step.action.arguments)] += 1
        if not step.error:
            self.keys[name].update(key for key, _ in leaves(output(step.observation)) if key)

    def _learn_lesson(self, lesson: Lesson) -> None:
        tool, recipe = lesson.tool, lesson.recipe
        if lesson.outcome in WORKED:
            self.recipes[tool][recipe] += 1
            self.used[tool] += GOAL_WEIGHT
            if lesson.source:
                self.pairs[lesson.source, tool] += 1
            self._help("before", recipe.before, tool)
            self._help("after", recipe.after, tool)
            return
        self.vain[tool] += 1
        if lesson.outcome == "nothing":
            self.failed.update(("after", helper, tool) for helper in recipe.after)
        elif lesson.outcome == "situation":
            self.failed.update(("before", helper, tool) for helper in recipe.before or ("",))
        else:
            self.refused[tool, recipe.shape] += 1

    def _help(self, role: str, helpers: tuple[str, ...], tool: str) -> None:
        for helper in helpers:
            self.helped.update(
                [(role, helper, tool), (role, helper, ""), (role, _last_word(helper), "")]
            )

    def learn_task(self, task: Task) -> None:
        """A task's goal tools and how its solution used them."""
        calls = [action for turn in task.solution for action in turn if isinstance(action, Call)]
        names = [name for name in called(task) if name in self.tools]
        self.used.update(names)
        for goal in sorted(set(goals_of(task, self.tools))):
            self.used[goal] += GOAL_WEIGHT - 1
            self.pairs.update(
                (name, goal)
                for name in sorted(set(names))
                if self.tools[name].read_only and name != goal
            )
            recipe = recipe_of(calls, goal, self.tools)
            if recipe:
                self.recipes[goal][recipe] += 1
                self._help("before", recipe.before, goal)
                self._help("after", recipe.after, goal)

    def best(self, tool: str) -> Recipe | None:
        """The recipe that worked most often."""
        known = self.recipes.get(tool)
        return max(known.items(), key=lambda item: (item[1], item[0]))[0] if known else None

    def helpers(
        self, role: str, tool: Tool, siblings: list[Tool], rng: random.Random
    ) -> list[Tool]:
        """The siblings worth calling `before` or `after` a tool, most promising first."""
        other = "after" if role == "before" else "before"

        def promise(helper: Tool) -> float:
            general = self.helped[role, helper.name, ""] - self.helped[other, helper.name, ""]
            named = (
                self.helped[role, _last_word(helper.name), ""]
                - self.helped[other, _last_word(helper.name), ""]
            )
            return (
                SAME_TOOL * min(1, self.helped[role, helper.name, tool.name])
                + SAME_HELPER * _clamp(general)
                + SAME_NAME * _clamp(named)
                + NO_PARAMETERS * (not helper.parameters.get("required"))
                - self.failed[role, helper.name, tool.name]
            )

        ranked = [(-promise(helper), rng.random(), helper) for helper in siblings]
        return [helper for *_, helper in sorted(ranked, key=lambda entry: entry[:2])]

    def producers(self, parameter: str, app: str | None = None, *, said: bool = False) -> list[str]:
        """Tools whose outputs have a key that resembles the parameter; of one app or of all; `said`: with a phrase for it."""
        return sorted(
            name
            for name, keys in self.keys.items()
            if (app is None or self.tools[name].app == app)
            and any(
                resemblance(parameter, key) and (not said or sayable(self.tools[name], key))
                for key in keys
            )
        )


def phrases_of(tool: Tool) -> list[str]:
    """Keys of the tool's outputs that people have a phrase for."""
    language = tool.language
    return [*language.refer, *language.rows, *language.facts] if language else []


def is_goal(tool: Tool) -> bool:
    """Whether a task can be about this tool: it changes state or its response is checked, and people ask for it."""
    if tool.read_only and not tool.checked:
        return False
    return tool.language is None or bool(tool.language.do)


def goals_of(task: Task, tools: dict[str, Tool]) -> list[str]:
    """The tools that a task is about: those its kind names, else the goal tools of its solution."""
    named = [part.rpartition("/")[0] or part for part in task.kind.split("+")]
    if task.kind and all(name in tools for name in named):
        return named
    return [name for name in called(task) if name in tools and is_goal(tools[name])]


def called(task: Task) -> list[str]:
    """Names of the tools that the task's solution calls, in order; in code, those of its API calls."""
    actions = (action for turn in task.solution for action in turn)
    return [
        name
        for action in actions
        for name in ([action.tool] if isinstance(action, Call) else api_calls(action))
    ]


def recipe_of(calls: list[Call], goal: str, tools: dict[str, Tool]) -> Recipe | None:
    """The recipe that a solution shows for its last call of the goal tool: helpers of the same app around it."""
    place = max((i for i, call in enumerate(calls) if call.tool == goal), default=None)
    if place is None:
        return None

    def helpers(part: list[Call]) -> tuple[str, ...]:
        same = [
            call.tool
            for call in part
            if call.tool in tools and tools[call.tool].app == tools[goal].app
        ]
        return tuple(
            name
            for name in same
            if not tools[name].read_only and not (tools[name].language and is_goal(tools[name]))
        )

    return Recipe(
        tuple(calls[place].arguments), helpers(calls[:place]), helpers(calls[place + 1 :])
    )


def _last_word(name: str) -> str:
    return name.replace(".", "_").rpartition("_")[2].lower()


def _clamp(value: int) -> int:
    return max(-1, min(1, value))
