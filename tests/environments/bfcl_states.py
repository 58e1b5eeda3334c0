"""Effects and hashes of states, computed from whole states for the tests; run by the bfcl
environment's own Python.

Plays reference solutions (as they are, and each changed in one place) and random calls in generated
start states. After every call the effects and the hash that the session tells are compared with
those of the whole state before and after it. Prints one JSON object: how many steps were played,
those that differ, and a digest of all results of the reference solutions.
"""

from __future__ import annotations

import collections
import hashlib
import itertools
import json
import random
import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[2]))  # last: this interpreter has no coevolve

from bfcl_parity import mutate

from coevolve.environments.workers.bfcl import data
from coevolve.environments.workers.bfcl.effects import EffectNames
from coevolve.environments.workers.bfcl.session import BfclSession
from coevolve.environments.workers.bfcl.starts import generate
from coevolve.environments.workers.bfcl.state import cells, freeze, hidden
from coevolve.environments.workers.bfcl.values import values
from coevolve.environments.workers.bfcl.worker import official_start
from coevolve.environments.workers.bfcl.world import BfclStart


class Whole:
    """A session beside which everything is computed anew from all cells."""

    def __init__(self, start: BfclStart):
        self.session = BfclSession(start)
        self._names = {class_: EffectNames(class_) for class_ in start.classes}
        self._cells, self._hidden, self._hashes = {}, {}, {}
        for class_ in start.classes:
            self._look(class_)

    def _look(self, class_: str) -> list[dict]:
        instance = self.session.world.instances[class_]
        before, after, private = self._cells.get(class_, {}), cells(instance), hidden(instance)
        first, same = class_ not in self._cells, before == after
        if same and not first and private == self._hidden[class_]:
            return []
        self._cells[class_], self._hidden[class_] = freeze(after), private
        text = json.dumps(
            [sorted((list(key), value) for key, value in after.items()), private], default=str
        )
        self._hashes[class_] = hashlib.sha256(text.encode()).hexdigest()
        return [] if same or first else self._names[class_].effects(before, after)

    def expected(self, tool: str) -> dict:
        class_ = data.functions().get(tool, (None,))[0]
        effects = self._look(class_) if class_ in self._cells else []
        text = ";".join(f"{name}={self._hashes[name]}" for name in sorted(self._hashes))
        return {"effects": effects, "state": hashlib.sha256(text.encode()).hexdigest()[:16]}

    def play(self, turns: list[list[dict]]) -> tuple[list[dict], list]:
        results, different = [], []
        for number, turn in enumerate(turns):
            for action in turn:
                result = self.session.step(number, action)
                results.append(result)
                if result.get("fatal"):
                    return results, different
                wanted = self.expected(action["tool"])
                if any(json.dumps(result[key]) != json.dumps(wanted[key]) for key in wanted):
                    different.append([action, result, wanted])
        return results, different


def random_calls(
    draw: random.Random, session: BfclSession, pool: dict[str, list[dict]]
) -> list[list[dict]]:
    """Two turns of calls with what a user of the start state may say, and some with a reference's
    own arguments."""
    start = session.start
    known = values(start.classes, start.state, session.world.instances)
    return [
        [_call(draw, draw.choice(session.world.tools()), known, pool) for _ in range(15)]
        for _ in range(2)
    ]


def _call(
    draw: random.Random, tool: str, known: dict[str, list], pool: dict[str, list[dict]]
) -> dict:
    if pool[tool] and draw.random() < 0.2:
        return draw.choice(pool[tool])
    document = data.functions()[tool][1]["parameters"]
    options = {
        name: known.get(f"{tool}.{name}") or known.get(name) for name in document["properties"]
    }
    wanted = [
        name
        for name, found in options.items()
        if found and (name in document.get("required", []) or draw.random() < 0.5)
    ]
    return {"tool": tool, "arguments": {name: draw.choice(options[name]) for name in wanted}}


def main() -> None:
    draw, digest, different, steps = random.Random("states"), hashlib.sha256(), [], 0
    pool: dict[str, list[dict]] = collections.defaultdict(list)
    answers = {
        name: answer
        for category in data.CATEGORIES
        for name, answer in data.answers(category).items()
    }
    for action in itertools.chain.from_iterable(
        turn for turns in answers.values() for turn in turns
    ):
        pool[action["tool"]].append(action)
    for name, answer in answers.items():
        start = official_start(data.entry(name), False)
        results, wrong = Whole(start).play(answer)
        digest.update(json.dumps(results).encode())
        changed, also_wrong = Whole(start).play(mutate(draw, answer, pool)[1])
        steps += len(results) + len(changed)
        different += wrong + also_wrong
    for number in range(200):
        config = generate(f"states-{number}", None)
        whole = Whole(BfclStart(config["classes"], config["state"]))
        results, wrong = whole.play(random_calls(draw, whole.session, pool))
        steps += len(results)
        different += wrong
    print(
        json.dumps({"steps": steps, "different": different[:3], "digest": digest.hexdigest()[:16]})
    )


if __name__ == "__main__":
    main()
