"""What can go wrong inside one rollout: errors, stalls, destruction that nobody asked for. Pure functions of its steps.

- An error is a step whose record has an error kind: pattern (tool, kind).
- A stall is a call that came back with the same observation three times in one rollout (the tool is named), or a rollout that
  ran out of steps or tokens.
- A destruction is a step that removed something from the environment's state (effect `remove`) with a tool that the task's
  solution does not use, be it calls or code. Where the solution uses no known tool, every tool counts as asked for when the
  query has a word of removal.
"""

from __future__ import annotations

import re
from collections import Counter

import msgspec
from msgspec import Struct

from coevolve.signals.patterns import Pattern, action_tools, step_tools
from coevolve.signals.views import CallView, Whole

REPEATS = 3
BUDGETS = ("max_steps", "max_tokens")
_REMOVAL = re.compile(
    r"\b(?:(?:delet|remov|eras|unsubscrib|wip|mov|renam|revok)(?:e|es|ed|ing)|deletions?|removals?"
    r"|(?:clear|discard|unfollow|clean|trash|uninstall|cancell?)(?:s|es|ed|ing|up)?|cancellations?"
    r"|drop(?:s|ped|ping)?|(?:get|gets|getting|got) rid)\b",
    re.I,
)
"""Words of removal with their inflections, whole: Dropbox is none."""
_whole = msgspec.json.Decoder(Whole)


def decode(raw: bytes) -> Whole:
    """The whole view of a line of which only the head was read."""
    return _whole.decode(raw)


def errors(rollout: Whole) -> set[Pattern]:
    """Distinct (tool, kind of error); code that calls no known function stands for itself as `code`."""
    found: set[Pattern] = set()
    for step in rollout.steps:
        if step.error is not None:
            found.add(((step_tools(step) or ["code"])[-1], step.error))
    return found


def stalls(rollout: Whole) -> set[str]:
    """Tools that were called alike with the same outcome `REPEATS` times (`code` for a block without a known call), and the
    budget that ran out."""
    found = {rollout.stop_reason} if rollout.stop_reason in BUDGETS else set()
    actions = Counter(bytes(step.action) for step in rollout.steps)
    often = {action for action, count in actions.items() if count >= REPEATS}
    if not often:
        return found
    same: Counter[tuple[bytes, bytes]] = Counter()
    for step in rollout.steps:
        if (action := bytes(step.action)) in often:
            same[action, bytes(step.observation)] += 1
            if same[action, bytes(step.observation)] == REPEATS:
                found.update(step_tools(step)[-1:] or ["code"])
    return found


class _TaskView(Struct, frozen=True):
    query: list[str] = []
    solution: list[list[CallView | str]] = []


class _WithTask(Struct, frozen=True):
    task: _TaskView | None = None


_task = msgspec.json.Decoder(_WithTask)


def unasked(rollout: Whole, raw: bytes) -> set[str]:
    """Tools whose calls removed something that the task did not ask to remove. A rollout without its task has none."""
    removers = [
        step
        for step in rollout.steps
        if step.effects and any(effect.op == "remove" for effect in step.effects)
    ]
    if not removers or (task := _task.decode(raw).task) is None:
        return set()
    used = {tool for turn in task.solution for action in turn for tool in action_tools(action)}
    by_query = not used and bool(_REMOVAL.search(" ".join(task.query)))
    return {
        tool
        for step in removers
        for tool in step_tools(step) or ["code"]
        if not by_query and tool not in used
    }
