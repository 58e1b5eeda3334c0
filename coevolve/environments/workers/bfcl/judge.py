"""The verdict on an episode: the official decision procedure on private objects, and a dense progress beside it.

Official rule (`multi_turn_checker` of the package): after each turn, the public attributes of the model's objects must equal
those that the reference's calls give, and every response of the reference's calls in this turn must have occurred among all
of the model's responses so far; a turn for which the reference has calls must have some; turns without reference calls are
not checked. Its own `state_checker` and `response_checker` decide, on objects that only this judgement knows: the model's
actions are run again from the start, so nothing that happened in another session, or between the turns, can enter.
Beyond it, a corrupt state fails the episode. Steps are not counted here: who counts the policy's replies ends its turn.

What the official verdict does not see is told beside it: `hidden` lists the classes whose private state (the current folder,
the brake's force) differs at the end, and `typed` is the verdict with all numbers of both sides written in their documented
types (the official comparison of texts tells 10 from 10.0). The worker takes the latter for a task that is not an official one,
whose reference was written here: it says a value, and never how to write it.

`progress` is 0 for doing nothing and below 1 unless the verdict is success: the mean over checked turns of how much of the
reference's state change is there (wrong cells count against it) and how many of its responses occurred.
"""

from __future__ import annotations

from collections import Counter
from typing import Any, NamedTuple

from bfcl_eval.eval_checker.multi_turn_eval.multi_turn_checker import (
    response_checker,
    state_checker,
)

from . import state
from .data import functions
from .quirks import Shared
from .world import Scene, World

ALMOST = 0.99

Turns = list[list[dict]]


class Verdict(NamedTuple):
    valid: bool
    error: str = ""
    """The official error type without its prefix, `corrupt_state` beside those."""
    turn: int | None = None
    progress: float = 0.0
    hidden: list[str] = []


class Turn(NamedTuple):
    """What one turn contributed, for the dense part."""

    state: float | None
    """Share of the reference's state change that is there; None where there is none to make."""
    responses: float


def typed(scene: Scene, actions: Turns, reference: Turns) -> Verdict | None:
    """The verdict with every number of both sides in its documented type; None where all are written so."""
    written = [_as_documented(actions), _as_documented(reference)]
    return judge(scene, *written) if repr(written) != repr([actions, reference]) else None


def _as_documented(turns: Turns) -> Turns:
    return [
        [call | {"arguments": _converted(call["tool"], call["arguments"])} for call in turn]
        for turn in turns
    ]


def _converted(tool: Any, arguments: Any) -> Any:
    known = isinstance(tool, str) and tool in functions()
    return _typed(arguments, functions()[tool][1]["parameters"]) if known else arguments


def _typed(value: Any, schema: dict) -> Any:
    """The value with its numbers, those in lists and objects included, in the types that a document gives. What has none there
    is left as it is, however deep."""
    type_ = schema.get("type")
    if isinstance(value, dict) and (fields := schema.get("properties")):
        return {name: _typed(item, fields.get(name, {})) for name, item in value.items()}
    if isinstance(value, list) and (items := schema.get("items")):
        return [_typed(item, items) for item in value]
    if (
        type_ == "float"
        and isinstance(value, int)
        and not isinstance(value, bool)
        and abs(value) < 2**53
    ):
        return float(value)
    return (
        int(value)
        if type_ == "integer" and isinstance(value, float) and value.is_integer()
        else value
    )


def judge(scene: Scene, actions: Turns, reference: Turns) -> Verdict:
    """Runs both from the same start state, turn by turn; `actions` has one list per asked turn."""
    if len(actions) != len(reference):
        return Verdict(False, "force_terminated", min(len(actions), len(reference)))
    shared = Shared()
    model, truth, seen = World(scene, shared), World(scene, shared, "reference"), []
    untouched = _cells(truth)
    failure: tuple[str, int] | None = None
    turns: list[Turn] = []
    for number, (done, wanted) in enumerate(zip(actions, reference, strict=True)):
        seen += _run(model, done, number)
        expected = _run(truth, wanted, number)
        if not wanted:
            continue
        try:
            failure = failure or _fault(number, done, model, truth, seen, expected)
            turns.append(_turn(untouched, _cells(model), _cells(truth), seen, expected))
        except (RecursionError, state.Corrupt):
            return Verdict(
                False, *(failure or ("corrupt_state", number)), _mean(turns, len(reference))
            )
    hidden = [name for name in scene.classes if _private(model, name) != _private(truth, name)]
    if failure is None:
        return Verdict(True, progress=1.0, hidden=hidden)
    return Verdict(False, *failure, min(_mean(turns, len(turns)), ALMOST), hidden)


def _private(world: World, class_: str) -> list:
    return state.hidden(world.instances[class_])


def _run(world: World, calls: list[dict], turn: int) -> list[str]:
    return [world.call(call["tool"], call["arguments"], turn).text for call in calls]


def _fault(
    number: int, done: list, model: World, truth: World, seen: list, expected: list
) -> tuple[str, int] | None:
    """The official checks of one turn."""
    if not done:
        return "empty_turn_model_response", number
    if not state_checker(model.instances, truth.instances)["valid"]:
        return "instance_state_mismatch", number
    if not response_checker(seen, expected, number)["valid"]:
        return "execution_response_mismatch", number
    return None


def _cells(world_: World) -> dict:
    """All cells of a world, by class, key and field."""
    return {
        (class_, *key): value
        for class_, instance in world_.instances.items()
        for key, value in state.freeze(state.cells(instance)).items()
    }


def _turn(untouched: dict, model: dict, truth: dict, seen: list[str], expected: list[str]) -> Turn:
    needed, wrong = _distance(untouched, truth), _distance(model, truth)
    if needed:
        share: float | None = max(0.0, 1 - wrong / needed)
    else:
        share = 0.0 if wrong else None
    hits = sum((Counter(expected) & Counter(seen)).values())
    return Turn(share, hits / len(expected))


def _distance(one: dict, other: dict) -> int:
    absent = object()
    return sum(one.get(key, absent) != other.get(key, absent) for key in one.keys() | other.keys())


def _mean(turns: list[Turn], count: int) -> float:
    """Mean over `count` turns of the mean of both parts; where there is no state to change, and none was, of the responses."""
    worth = [
        turn.responses if turn.state is None else (turn.state + turn.responses) / 2
        for turn in turns
    ]
    return sum(worth) / count if count else 0.0
