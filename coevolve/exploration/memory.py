"""What exploration has learnt about an environment, shared by the episodes of a run.

Episodes of one block run side by side and read the memory as it was when the block began; between
blocks `Memory.learn` takes up what they did, in the order of the episodes, so that nothing depends
on which worker was faster. `Lesson`s are plain records, kept in the journal with their episode, so
that a resumed run learns the same. Tasks teach as well: a solution is a recipe that worked.
"""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Iterable
from typing import NamedTuple

from msgspec import Struct

from coevolve.agents.code.calls import api_calls
from coevolve.environments.protocol import Tool
from coevolve.exploration.arguments import has_phrase, leaves, phrases_of, resemblance
from coevolve.exploration.schemas import Shape
from coevolve.grounding.sources import output
from coevolve.records import Call, Exploration, Step, Task

WORKED = ("effect", "response")
GOAL_WEIGHT = 4
"""A tool counts as used this often when it is the goal of a task, and once when it only helps."""
SAME_TOOL, SAME_HELPER, SAME_NAME, NO_PARAMETERS = 8.0, 2.0, 1.0, 0.5
"""How much a helper's earlier success counts: for this tool, for any tool, under the same name in
another app; and that it takes no required parameters, as openers and savers do."""


class Recipe(NamedTuple):
    """How a tool is used: its parameters, and the tools of its app called before and after it."""

    shape: Shape
    before: tuple[str, ...] = ()
    after: tuple[str, ...] = ()


class Lesson(Struct, frozen=True):
    """One attempt at a tool and what came of it."""

    tool: str
    recipe: Recipe
    outcome: str
    """`effect`, `response` (a checked one), `nothing` (no error, no effect); refused: `arguments`
    or `state` (of the environment)."""
    source: str | None = None  # The tool whose output gave an argument on purpose


class Memory:
    """Learns between blocks; reading it changes nothing."""

    def __init__(self, tools: dict[str, Tool]):
        self.tools = tools
        self.states: set[str] = set()
        self.tried: Counter[tuple[str, str, Shape]] = Counter()
        """Calls by the state in which they were made, tool and parameters."""
        self.calls: Counter[str] = Counter()
        self.used: Counter[str] = Counter()
        """Tasks by their tools, goals counted `GOAL_WEIGHT` times."""
        self.failures: Counter[str] = Counter()  # Attempts at a tool that did not work
        self.pairs: Counter[tuple[str, str]] = Counter()
        """Uses of one tool's output as another's argument: (source, tool)."""
        self.recipes: defaultdict[str, Counter[Recipe]] = defaultdict(Counter)
        """Recipes that worked, by tool."""
        self.refused: Counter[tuple[str, Shape]] = Counter()  # Shapes that were refused
        self.helped: Counter[tuple[str, str, str]] = Counter()
        """(`before` or `after`, helper or the last word of its name, tool or "" for any)."""
        self.failed: Counter[tuple[str, str, str]] = Counter()
        """The same of helpers that did not help."""
        self.keys = {
            tool.name: set(phrases_of(tool.language) if tool.language else ())
            for tool in tools.values()
        }
        """Keys of each tool's outputs."""

    def learn(self, exploration: Exploration, lessons: Iterable[Lesson], opened: str) -> int:
        """Takes up an episode that began in state `opened`; returns how many states were new."""
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
            self.used[tool] += GOAL_WEIGHT
            if lesson.source:
                self.pairs[lesson.source, tool] += 1
            self._learn_recipe(tool, recipe)
            return
        self.failures[tool] += 1
        if lesson.outcome == "nothing":
            self.failed.update(("after", helper, tool) for helper in recipe.after)
        elif lesson.outcome == "state":
            self.failed.update(("before", helper, tool) for helper in recipe.before or ("",))
        else:
            self.refused[tool, recipe.shape] += 1

    def _learn_recipe(self, tool: str, recipe: Recipe) -> None:
        self.recipes[tool][recipe] += 1
        for role, helpers in (("before", recipe.before), ("after", recipe.after)):
            for helper in helpers:
                names = ((helper, tool), (helper, ""), (_last_word(helper), ""))
                self.helped.update((role, *name) for name in names)

    def learn_task(self, task: Task) -> None:
        """A task's goal tools and how its solution used them."""
        calls = [action for turn in task.solution for action in turn if isinstance(action, Call)]
        names = [name for name in called(task) if name in self.tools]
        readers = [name for name in sorted(set(names)) if self.tools[name].read_only]
        self.used.update(names)
        for goal in sorted(set(goals_of(task, self.tools))):
            self.used[goal] += GOAL_WEIGHT - 1
            self.pairs.update((name, goal) for name in readers if name != goal)
            if recipe := recipe_of(calls, goal, self.tools):
                self._learn_recipe(goal, recipe)

    def best(self, tool: str) -> Recipe | None:
        """The recipe that worked most often."""
        known = self.recipes.get(tool)
        return max(known.items(), key=lambda item: (item[1], item[0]))[0] if known else None

    def helpers(
        self, role: str, tool: Tool, siblings: list[Tool], rng: random.Random
    ) -> list[Tool]:
        """The siblings worth calling `before` or `after` a tool, most promising first."""
        ranked = [(-self._promise(role, h, tool), rng.random(), h) for h in siblings]
        return [helper for *_, helper in sorted(ranked, key=lambda entry: entry[:2])]

    def _promise(self, role: str, helper: Tool, tool: Tool) -> float:
        other = "after" if role == "before" else "before"

        def balance(name: str) -> int:
            """+1 where it helped more often in this role than in the other, -1 where less."""
            difference = self.helped[role, name, ""] - self.helped[other, name, ""]
            return max(-1, min(1, difference))

        return (
            SAME_TOOL * min(1, self.helped[role, helper.name, tool.name])
            + SAME_HELPER * balance(helper.name)
            + SAME_NAME * balance(_last_word(helper.name))
            + NO_PARAMETERS * (not helper.parameters.get("required"))
            - self.failed[role, helper.name, tool.name]
        )

    def producers(
        self, parameter: str, app: str | None = None, *, phrase: bool = False
    ) -> list[str]:
        """Tools whose outputs have a key that resembles the parameter; of one app or of all.
        `phrase`: one that people have a phrase for."""
        return sorted(
            name
            for name, keys in self.keys.items()
            if app in (None, self.tools[name].app)
            and any(
                resemblance(parameter, key) and (not phrase or has_phrase(self.tools[name], key))
                for key in keys
            )
        )


def is_goal(tool: Tool) -> bool:
    """Whether a task can be about it: it changes state or is checked, and people ask for it."""
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
    """Names of the tools that the task's solution calls, in order; in code, its API calls."""
    found: list[str] = []
    for action in (action for turn in task.solution for action in turn):
        found += [action.tool] if isinstance(action, Call) else api_calls(action)
    return found


def recipe_of(calls: list[Call], goal: str, tools: dict[str, Tool]) -> Recipe | None:
    """The recipe in a solution's last call of the goal: helpers of the same app around it."""
    place = max((i for i, call in enumerate(calls) if call.tool == goal), default=None)
    if place is None:
        return None

    def helps(tool: Tool | None) -> bool:
        if tool is None or tool.app != tools[goal].app or tool.read_only:
            return False
        return tool.language is None or not is_goal(tool)

    before, after = (
        tuple(call.tool for call in part if helps(tools.get(call.tool)))
        for part in (calls[:place], calls[place + 1 :])
    )
    return Recipe(tuple(calls[place].arguments), before, after)


def _last_word(name: str) -> str:
    return name.replace(".", "_").rpartition("_")[2].lower()
