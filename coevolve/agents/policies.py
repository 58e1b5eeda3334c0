"""Policies without a model: controls and references for validation, tests and parity checks.

| name | plays |
|---|---|
| solution | the task's reference actions, one a reply, more where replies are few |
| nothing | hands every turn back at once |
| hollow | one harmless call of the environment per turn, then hands back: reading without doing |
| random | random tools with arguments drawn from what a user of the start state knows |

Each is a function of the episode and the pool that writes the next reply's text. Where actions are
code, calls are written as programs (`Description.code`), and `hollow` says that it has completed
the task.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from coevolve.agents.actions.replies import to_text
from coevolve.agents.code.replies import to_text as code_text
from coevolve.agents.episode import Episode
from coevolve.environments.programs import program_of_calls
from coevolve.environments.protocol import Tool
from coevolve.errors import UsageError
from coevolve.records import Call

if TYPE_CHECKING:
    from coevolve.environments.client import Pool

Program = Callable[[Episode, "Pool"], str]

HAND_BACK = "done"
CONTINUE = 0.75  # Probability that the random policy acts once more in a turn


def solution(episode: Episode, pool: Pool) -> str:
    turns = episode.task.solution
    actions = turns[episode.turn] if episode.turn < len(turns) else []
    if episode.turn_steps >= len(actions):
        return HAND_BACK
    size = -(-len(actions) // (episode.limits.max_steps_per_turn or len(actions)))
    wanted = actions[episode.turn_steps : episode.turn_steps + size]
    code = episode.acts_in_code
    if not all(isinstance(action, str if code else Call) for action in wanted):
        kinds = "code, and this solution has calls" if code else "calls, and this solution is code"
        raise UsageError(f"task {episode.task.id}: policy 'solution' replays {kinds}")
    # An environment of code takes one block in each reply.
    return code_text(wanted[0]) if code else "".join(map(to_text, wanted))


def nothing(episode: Episode, pool: Pool) -> str:
    return HAND_BACK


def hollow(episode: Episode, pool: Pool) -> str:
    names = set(episode.offered())
    if pool.description.actions == "code" and pool.description.code is None:
        return HAND_BACK
    calls = [call for call in pool.description.harmless if call["tool"] in names]
    if episode.turn_steps or not calls:
        return HAND_BACK
    return _written(pool, Call(calls[0]["tool"], calls[0].get("arguments", {})), completed=True)


def _written(pool: Pool, call: Call, *, completed: bool = False) -> str:
    """The call as a reply of the environment's kind. Raises UsageError where there is none."""
    description = pool.description
    if description.actions != "code":
        return to_text(call)
    if description.code is None:
        raise UsageError(
            f"{pool.name} takes code as actions and does not say how calls are written as code"
        )
    code = description.code if completed else replace(description.code, end="")
    return code_text(program_of_calls(code, [call]))


def random_calls(episode: Episode, pool: Pool) -> str:
    draw = random.Random(f"{episode.key}-{episode.replies}")
    if draw.random() > CONTINUE:
        return HAND_BACK
    names = episode.offered()
    if not names:
        return HAND_BACK
    tool = pool.tools[draw.choice(names)]
    required = tool.parameters.get("required", [])
    arguments = {
        name: _value(draw, tool, name, schema, episode.session.opened.values)
        for name, schema in tool.parameters.get("properties", {}).items()
        if name in required or draw.random() < 0.2
    }
    return _written(pool, Call(tool.name, arguments))


def _value(
    draw: random.Random, tool: Tool, name: str, schema: dict[str, Any], values: dict[str, list[Any]]
) -> Any:
    known = values.get(f"{tool.name}.{name}") or values.get(name) or schema.get("enum")
    if known:
        return draw.choice(known)
    # All three are drawn, so that the next draw does not depend on the type.
    whole, decimal, truth = draw.randint(0, 9), draw.randint(0, 90) / 10, draw.random() < 0.5
    examples = {"integer": whole, "number": decimal, "boolean": truth, "array": [], "object": {}}
    return examples.get(schema.get("type"), "x")


PROGRAMS: dict[str, Program] = {
    "solution": solution,
    "nothing": nothing,
    "hollow": hollow,
    "random": random_calls,
}
