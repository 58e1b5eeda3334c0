"""The BFCL adapter under strict parity against the official executor and checker:

    python tests/environments/bfcl_parity.py [MUTATIONS=4000] [SEED=0]

Any Python with coevolve will do: it hands over to the one of the bfcl environment.

Prints one JSON object: per category how many reference calls were compared, how many outputs differ
(under strict parity, and in the default mode), and the digest of the official outputs; then how
many mutated solutions of the four categories both judged, which verdicts differ, how many of each
verdict and of each kind of mutation there were, and where the default mode's validity differs.
Mutations include what the two read differently without strict parity: texts that look like calls,
wrong types and names, tweets that share their default lists. Exit status 1 when anything differs.
"""

from __future__ import annotations

import collections
import copy
import hashlib
import importlib.util
import itertools
import json
import os
import random
import sys
from pathlib import Path

if importlib.util.find_spec("bfcl_eval") is None:
    from coevolve.environments import install

    python = str(install.python("bfcl"))
    os.execve(python, [python, *sys.argv], {**os.environ, "PYTHONHASHSEED": "0", "TZ": "UTC"})

sys.path.append(str(Path(__file__).parents[2]))  # last: this interpreter has no coevolve

from bfcl_eval.eval_checker.multi_turn_eval import multi_turn_utils as official
from bfcl_eval.eval_checker.multi_turn_eval.multi_turn_checker import multi_turn_checker

from coevolve.environments.workers.bfcl import data
from coevolve.environments.workers.bfcl.judge import judge
from coevolve.environments.workers.bfcl.session import BfclSession
from coevolve.environments.workers.bfcl.worker import official_start

POST = data.source("TwitterAPI").TwitterAPI.post_tweet
TRAVEL = data.source("TravelAPI")
TABLES = {
    name: copy.deepcopy(getattr(TRAVEL, name))
    for name in ("CREDIT_CARD_EXTENSION", "BOOKING_RECORD_EXTENSION")
}
KINDS = (
    "drop swap double replace argument reads empty reverse foreign number text type name".split()
)
KINDS.append("tweet")
READS = (
    "pwd",
    "trading_get_login_status",
    "get_all_credit_cards",
    "list_users",
    "check_tire_pressure",
)
TWEETS = [
    {"tool": "post_tweet", "arguments": {"content": "hi"}},
    {"tool": "mention", "arguments": {"tweet_id": 10, "mentioned_usernames": ["@bob"]}},
    {"tool": "post_tweet", "arguments": {"content": "again", "tags": ["#a"]}},
]


def text(action: dict) -> str:
    """The call as the official executor reads it."""
    arguments = [f"{name}={value!r}" for name, value in action["arguments"].items()]
    return f"{action['tool']}({', '.join(arguments)})"


def raw_answers(category: str) -> dict[str, list[list[str]]]:
    found = data.lines(f"data/possible_answer/BFCL_v4_multi_turn_{category}.json")
    return {line["id"]: line["ground_truth"] for line in found}


def fresh(model: str) -> None:
    """Makes the official process as good as new: it keeps its objects, default lists and tables for
    ever."""
    for name in [
        name
        for name in vars(official)
        if name.startswith(f"{model}_") and name.endswith("_instance")
    ]:
        del vars(official)[name]
    for found in POST.__defaults__:
        found.clear()
    for name, rows in TABLES.items():
        getattr(TRAVEL, name).update(copy.deepcopy(rows))


def outputs(category: str) -> dict:
    """Both executors on the reference calls: ours reads them from data, the official one gets the
    package's own strings."""
    raw = raw_answers(category)
    calls, different, digest = 0, {"strict": 0, "default": 0}, hashlib.sha256()
    for name, entry in data.entries(category).items():
        sessions = {
            mode: BfclSession(official_start(entry, mode == "strict")) for mode in different
        }
        for number, (turn, actions) in enumerate(zip(raw[name], data.answer(name), strict=True)):
            theirs, _ = official.execute_multi_turn_func_call(
                turn,
                entry["initial_config"],
                entry["involved_classes"],
                "policy",
                name,
                category == "long_context",
            )
            for mode, session in sessions.items():
                ours = [session.step(number, action)["observation"] for action in actions]
                different[mode] += sum(a != b for a, b in zip(theirs, ours, strict=True))
            calls += len(turn)
            digest.update("".join(theirs).encode())
        fresh("policy")
    return {"calls": calls, "different": different, "digest": digest.hexdigest()[:16]}


def mutate(
    draw: random.Random, turns: list[list[dict]], pool: dict[str, list[dict]]
) -> tuple[str, list[list[dict]]]:
    """One change of a solution, some of which change nothing that matters."""
    kind, turns = draw.choice(KINDS), copy.deepcopy(turns)
    place = draw.choice([place for place, turn in enumerate(turns) if turn])
    turn = turns[place]
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
    elif kind == "tweet":
        turn[spot:spot] = copy.deepcopy(TWEETS)
    elif kind == "name":
        turn[spot]["tool"] = draw.choice(["no_such_function", "remove", "mkdirs"])
    else:
        _change_argument(draw, turn[spot]["arguments"], kind)
    return kind, turns


def _change_argument(draw: random.Random, arguments: dict, kind: str) -> None:
    """`text` writes what looks like a call, `type` breaks a type or a name, `number` and `argument`
    stay within them."""
    if kind == "type" and (not arguments or draw.random() < 0.3):
        arguments["no_such_parameter"] = 1
        return
    texts = [name for name, value in arguments.items() if isinstance(value, str)]
    names = texts if kind == "text" else sorted(arguments)
    if not names:
        return
    name = draw.choice(names)
    value = arguments[name]
    if kind == "text":
        arguments[name] = draw.choice(
            [f"{value} sort(x)", f"{value} (draft)", f"cd({value!r})\n\tls (now)"]
        )
    elif kind == "type":
        arguments[name] = draw.choice([None, [value], {"x": value}, str(value), 3.5, True])
    elif isinstance(value, str):
        arguments[name] = value + "x" if kind == "argument" else value.upper()
    elif isinstance(value, int | float) and not isinstance(value, bool):
        arguments[name] = value + 1 if kind == "argument" else float(value)


def official_verdict(model: str, entry: dict, turns: list[list[dict]], raw: list[list[str]]) -> str:
    steps = [[[text(action)] for action in turn] for turn in turns]
    try:
        verdict = multi_turn_checker(steps, raw, copy.deepcopy(entry), "", model)
        return "valid" if verdict["valid"] else verdict["error_type"].removeprefix("multi_turn:")
    except RecursionError:
        return "corrupt_state"
    finally:
        fresh(f"{model}_eval")
        fresh(f"{model}_ground_truth_eval")


def verdicts(count: int, seed: int) -> dict:
    draw = random.Random(f"parity-{seed}")
    pool: dict[str, list[dict]] = collections.defaultdict(list)
    for action in itertools.chain.from_iterable(
        turn for turns in data.answers("base").values() for turn in turns
    ):
        pool[action["tool"]].append(action)
    raw = {category: raw_answers(category) for category in data.CATEGORIES}
    tally, kinds, different = collections.Counter(), collections.Counter(), []
    repaired: collections.Counter[str] = collections.Counter()
    for number in range(count):
        category = data.CATEGORIES[number % len(data.CATEGORIES)]
        entry = draw.choice(list(data.entries(category).values()))
        kind, turns = mutate(draw, data.answer(entry["id"]), pool)
        expected = official_verdict(f"m{number}", entry, turns, raw[category][entry["id"]])
        strict, default = (
            judge(official_start(entry, mode), turns, data.answer(entry["id"]))
            for mode in (True, False)
        )
        found = "valid" if strict.valid else strict.error
        tally[expected] += 1
        kinds[kind] += 1
        repaired[kind] += (expected == "valid") != default.valid
        if expected != found:
            different.append([entry["id"], kind, expected, found])
    return {
        "judged": count,
        "different": different,
        "official": dict(sorted(tally.items())),
        "kinds": dict(sorted(kinds.items())),
        "default_mode_differs": dict(sorted((+repaired).items())),
    }


def main(count: int = 4000, seed: int = 0) -> int:
    report = {category: outputs(category) for category in data.CATEGORIES} | {
        "verdicts": verdicts(count, seed)
    }
    print(json.dumps(report, indent=1))
    return int(
        bool(report["verdicts"]["different"])
        or any(any(report[c]["different"].values()) for c in data.CATEGORIES)
    )


if __name__ == "__main__":
    sys.exit(main(*(int(argument) for argument in sys.argv[1:])))
