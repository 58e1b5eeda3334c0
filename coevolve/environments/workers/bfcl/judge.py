"""The verdict on an episode: the official decision procedure, and a dense progress beside it.

Official rule (`multi_turn_checker` of the package): after each turn, the public attributes of the
model's objects must equal those that the reference's calls give, and every response of the
reference's calls in this turn must have occurred among all of the model's responses so far; a turn
for which the reference has calls must have some; turns without reference calls are not checked. The
package's own `state_checker` and `response_checker` decide, on objects that only this judgement
knows: the model's actions are run again from the start, so nothing that happened in another
session, or between the turns, can enter. Beyond it, a corrupt state fails the episode. Steps are
not counted here: whoever counts the policy's replies ends its turn.

Two things stand beside the official verdict. `hidden` lists the classes whose private state (the
current folder, the brake's force) differs at the end. `typed` is the verdict with all numbers of
both sides in their documented types, as the official comparison of texts tells 10 from 10.0; the
worker takes it for a task that is not official, whose reference says a value and never how to write
it.

`progress` is 0 for doing nothing and below 1 unless the verdict is success: the mean over checked
turns of the share of the reference's state change that is there (wrong cells count against it) and
the share of its responses that occurred.
"""

from __future__ import annotations

from collections import Counter
from typing import Any, NamedTuple

from bfcl_eval.eval_checker.multi_turn_eval import multi_turn_checker as official

from . import state
from .data import functions
from .strict_parity import SharedObjects
from .world import BfclStart, BfclWorld

ALMOST = 0.99  # Progress of a failed episode at most

Turns = list[list[dict]]


class BfclVerdict(NamedTuple):
    valid: bool
    error: str = ""  # The official error type without its prefix, `corrupt_state` beside those
    turn: int | None = None
    progress: float = 0.0
    hidden: list[str] = []


class TurnProgress(NamedTuple):
    """One turn's part of the progress."""

    state: float | None
    """Share of the reference's state change that is there; None where there is none to make."""
    responses: float  # Share of the reference's responses that occurred


def typed(start: BfclStart, actions: Turns, reference: Turns) -> BfclVerdict | None:
    """The verdict with every number in its documented type; None where all are written so."""
    written = [
        [[_as_documented(c) for c in turn] for turn in side] for side in (actions, reference)
    ]
    return judge(start, *written) if repr(written) != repr([actions, reference]) else None


def _as_documented(call: dict) -> dict:
    tool, arguments = call["tool"], call["arguments"]
    if not isinstance(tool, str) or tool not in functions():
        return call
    return call | {"arguments": _typed(arguments, functions()[tool][1]["parameters"])}


def _typed(value: Any, schema: dict) -> Any:
    """The value with its numbers, however deep, in the types that a document gives them."""
    type_ = schema.get("type")
    if isinstance(value, dict) and (fields := schema.get("properties")):
        return {name: _typed(item, fields.get(name, {})) for name, item in value.items()}
    if isinstance(value, list) and (items := schema.get("items")):
        return [_typed(item, items) for item in value]
    if type_ == "float" and type(value) is int and abs(value) < 2**53:
        return float(value)
    if type_ == "integer" and isinstance(value, float) and value.is_integer():
        return int(value)
    return value


def judge(start: BfclStart, actions: Turns, reference: Turns) -> BfclVerdict:
    """Runs both from the same start, turn by turn; `actions` has one list per asked turn."""
    if len(actions) != len(reference):
        return BfclVerdict(False, "force_terminated", min(len(actions), len(reference)))
    shared, seen = SharedObjects(), []
    model, truth = BfclWorld(start, shared), BfclWorld(start, shared, "reference")
    untouched = _cells(truth)
    failure: tuple[str, int] | None = None
    turns: list[TurnProgress] = []
    for number, (done, wanted) in enumerate(zip(actions, reference, strict=True)):
        seen += _run(model, done, number)
        expected = _run(truth, wanted, number)
        if not wanted:
            continue
        try:
            error = "" if failure else _fault(number, done, model, truth, seen, expected)
            failure = (error, number) if error else failure
            turns.append(_turn(untouched, _cells(model), _cells(truth), seen, expected))
        except (RecursionError, state.CorruptState):
            failure = failure or ("corrupt_state", number)
            return BfclVerdict(False, *failure, _mean(turns, len(reference)))
    hidden = [name for name in start.classes if _private(model, name) != _private(truth, name)]
    if failure is None:
        return BfclVerdict(True, progress=1.0, hidden=hidden)
    return BfclVerdict(False, *failure, min(_mean(turns, len(turns)), ALMOST), hidden)


def _private(world: BfclWorld, class_: str) -> list:
    return state.hidden(world.instances[class_])


def _run(world: BfclWorld, calls: list[dict], turn: int) -> list[str]:
    return [world.call(call["tool"], call["arguments"], turn).text for call in calls]


def _fault(
    number: int, done: list, model: BfclWorld, truth: BfclWorld, seen: list, expected: list
) -> str:
    """The official error of one turn, empty if it passes the official checks."""
    if not done:
        return "empty_turn_model_response"
    if not official.state_checker(model.instances, truth.instances)["valid"]:
        return "instance_state_mismatch"
    if not official.response_checker(seen, expected, number)["valid"]:
        return "execution_response_mismatch"
    return ""


def _cells(world: BfclWorld) -> dict:
    """All cells of a world, by class, key and field."""
    return {
        (class_, *key): value
        for class_, instance in world.instances.items()
        for key, value in state.freeze(state.cells(instance)).items()
    }


def _turn(
    untouched: dict, model: dict, truth: dict, seen: list[str], expected: list[str]
) -> TurnProgress:
    needed, wrong = _distance(untouched, truth), _distance(model, truth)
    share = max(0.0, 1 - wrong / needed) if needed else 0.0 if wrong else None
    hits = sum((Counter(expected) & Counter(seen)).values())
    return TurnProgress(share, hits / len(expected))


def _distance(one: dict, other: dict) -> int:
    absent = object()
    return sum(one.get(key, absent) != other.get(key, absent) for key in one.keys() | other.keys())


def _mean(turns: list[TurnProgress], count: int) -> float:
    """Mean over `count` turns of the mean of both parts, of the responses where state is None."""
    worth = [t.responses if t.state is None else (t.state + t.responses) / 2 for t in turns]
    return sum(worth) / count if count else 0.0
