"""The BFCL adapter against the official executor and checker. Run by the bfcl environment's own Python:

    bfcl-python tests/environments/bfcl_parity.py [MUTATIONS=300] [SEED=0]

Prints one JSON object: per category how many reference calls were compared, how many outputs differ, and the digest of the
official outputs; how many mutated solutions were judged by both, how many verdicts differ, and how many of each there were.
"""

from __future__ import annotations

import collections
import copy
import hashlib
import importlib.util
import itertools
import json
import random
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "coevolve" / "environments" / "workers"))

import _bfcl_data as data
from _bfcl_judge import judge
from _bfcl_session import Session
from bfcl_eval.eval_checker.multi_turn_eval import multi_turn_utils as official
from bfcl_eval.eval_checker.multi_turn_eval.multi_turn_checker import multi_turn_checker

KINDS = ("drop", "swap", "double", "replace", "argument", "reads", "empty", "reverse", "foreign", "number")
READS = ("pwd", "trading_get_login_status", "get_all_credit_cards", "list_users", "check_tire_pressure")


def text(action: dict) -> str:
    """The call as the official executor reads it."""
    return f"{action['tool']}({', '.join(f'{name}={value!r}' for name, value in action['arguments'].items())})"


def start_of(entry: dict) -> dict:
    return {
        "classes": entry["involved_classes"],
        "state": entry["initial_config"],
        "long_context": "long_context" in entry["id"],
    }


def outputs(category: str) -> dict:
    """Both executors on the reference calls: ours reads them from data, the official one gets the package's own strings."""
    raw = {
        line["id"]: line["ground_truth"]
        for line in data.lines(f"data/possible_answer/BFCL_v4_multi_turn_{category}.json")
    }
    calls = different = 0
    digest = hashlib.sha256()
    for name, entry in data.entries(category).items():
        session = Session(name, start_of(entry))
        for number, (turn, actions) in enumerate(zip(raw[name], data.answer(name), strict=True)):
            theirs, _ = official.execute_multi_turn_func_call(
                turn, entry["initial_config"], entry["involved_classes"], "parity", name, "long_context" in category
            )
            ours = [session.step(number, action)["observation"] for action in actions]
            calls += len(turn)
            different += sum(a != b for a, b in zip(theirs, ours, strict=True))
            for output in ours:
                digest.update(output.encode())
        forget("parity")
    return {"calls": calls, "different": different, "digest": digest.hexdigest()[:16]}


def forget(model: str) -> None:
    """The official executor keeps its objects for ever, under names that start with the model's."""
    for name in [name for name in vars(official) if name.startswith(f"{model}_") and name.endswith("_instance")]:
        del vars(official)[name]


def mutate(draw: random.Random, turns: list[list[dict]], pool: dict[str, list[dict]]) -> tuple[str, list[list[dict]]]:
    """One change of a solution, some of which change nothing that matters."""
    kind, turns = draw.choice(KINDS), copy.deepcopy(turns)
    place = draw.randrange(len(turns))
    turn = turns[place]
    if not turn:
        return kind, turns
    spot = draw.randrange(len(turn))
    if kind == "drop":
        turn.pop(spot)
    elif kind == "double":
        turn.insert(spot, turn[spot])
    elif kind == "empty":
        turn.clear()
    elif kind == "reverse":
        turn.reverse()
    elif kind == "replace":
        turn[spot] = draw.choice(pool[turn[spot]["tool"]])
    elif kind == "foreign":
        turn.insert(spot, draw.choice(pool[draw.choice(sorted(pool))]))
    elif kind == "reads":
        turn[:0] = [{"tool": name, "arguments": {}} for name in READS]
    elif kind == "swap":
        other = (place + 1) % len(turns)
        turns[place], turns[other] = turns[other], turn
    else:
        _change_argument(draw, turn[spot]["arguments"], kind)
    return kind, turns


def _change_argument(draw: random.Random, arguments: dict, kind: str) -> None:
    if not arguments:
        return
    name = draw.choice(sorted(arguments))
    value = arguments[name]
    if isinstance(value, str):
        arguments[name] = value + "x" if kind == "argument" else value.upper()
    elif isinstance(value, int | float) and not isinstance(value, bool):
        arguments[name] = value + 1 if kind == "argument" else float(value)


def verdicts(count: int, seed: int) -> dict:
    draw = random.Random(f"parity-{seed}")
    entries = data.entries("base")
    pool: dict[str, list[dict]] = collections.defaultdict(list)
    for action in itertools.chain.from_iterable(turn for turns in data.answers("base").values() for turn in turns):
        pool[action["tool"]].append(action)
    tally, different = collections.Counter(), []
    for number in range(count):
        name = draw.choice(sorted(entries))
        kind, turns = mutate(draw, data.answer(name), pool)
        raw = [[text(action) for action in turn] for turn in data.answer(name)]
        theirs = multi_turn_checker(
            [[[text(action)] for action in turn] for turn in turns], raw, entries[name], "multi_turn_base", f"m{number}"
        )
        forget(f"m{number}")
        ours = judge(start_of(entries[name]), turns, data.answer(name))
        expected = "valid" if theirs["valid"] else theirs["error_type"].removeprefix("multi_turn:")
        found = "valid" if ours.valid else ours.error
        tally[expected] += 1
        if expected != found:
            different.append([name, kind, expected, found])
    return {"judged": count, "different": different, "official": dict(sorted(tally.items()))}


if __name__ == "__main__":
    arguments = [int(argument) for argument in sys.argv[1:]] + [300, 0][len(sys.argv) - 1 :]
    assert importlib.util.find_spec("bfcl_eval"), "run this with the bfcl environment's Python"
    print(json.dumps({**{c: outputs(c) for c in data.CATEGORIES}, "verdicts": verdicts(*arguments)}, indent=1))
