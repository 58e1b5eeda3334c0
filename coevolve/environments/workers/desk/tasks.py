"""The desk's own tasks: every kind, made for a world of its own and executed there.

A kind is a goal tool and where its text comes from: `farm.set/given` (the user says it),
`farm.set/lookup` (the user refers to a note that must be read first). Looking up the id behind a
name does not count. The request is the desk's own phrasing: the language templates of `tools`, with
a looked-up value said as the phrase of the call that tells it.

Splits: `demos` (shown to the laptop policy), `dev` and `heldout`, in worlds that no training start
shares. Demonstrations are uneven: `RARE_SKILLS` are shown once or twice, so a policy that learnt
from them starts weak there.
"""

from __future__ import annotations

import random
from typing import Any, NamedTuple

from .content import CONTENT
from .tools import requests
from .world import APPS, BARE_VERBS, CONVENTIONS, VALUE_VERBS, DeskWorld

DEMONSTRATIONS = 5000  # tasks of the split demos
RARE_SKILL_COUNT = 16  # of the 72 pairs of app and verb
ANSWER_WEIGHT = 6.0  # Demonstrations give an answer so much more often than another common kind
PER_KIND = {"dev": (6, 6), "heldout": (5, 12)}
"""Number of tasks of each common and of each rare kind."""
_SPLITS = ("train", "demos", "dev", "heldout")
SEEDS = {split: (n * 10**9, (n + 1) * 10**9) for n, split in enumerate(_SPLITS)}
"""World seeds of each split, from and below."""
GIVE = ("desk", "answer")  # the kind of task that wants an answer


class DeskKind(NamedTuple):
    """The behaviour that a task asks for: a verb of an app, with a text looked up or given."""

    app: str
    verb: str
    lookup: bool

    def __str__(self) -> str:
        return f"{self.app}.{self.verb}/{'lookup' if self.lookup else 'given'}"


KINDS = [DeskKind(app, v, look) for app in APPS for v in VALUE_VERBS for look in (False, True)]
KINDS += [DeskKind(app, verb, False) for app in APPS for verb in BARE_VERBS]
KINDS.append(DeskKind(*GIVE, True))

_HARD = [skill for skill, how in CONVENTIONS.items() if how.preparation and how.completion]
RARE_SKILLS = sorted(random.Random("desk-rare-skills").sample(_HARD, RARE_SKILL_COUNT))
"""Some of the (app, verb) whose convention asks for most: a preparation and a completion."""


def is_rare(kind: DeskKind) -> bool:
    return (kind.app, kind.verb) in RARE_SKILLS


def tasks(split: str) -> list[dict[str, Any]]:
    """The task records of a split, without schema, id and environment."""
    low, high = SEEDS[split]
    rng = random.Random(f"desk-tasks-{split}")
    kinds = _demonstrated(rng) if split == "demos" else _evenly(*PER_KIND[split])
    return [_record(kind, rng.randrange(low, high), split, rng) for kind in kinds]


def sizes() -> dict[str, int]:
    """Number of tasks per split."""
    even = {split: len(_evenly(*counts)) for split, counts in PER_KIND.items()}
    return {"demos": DEMONSTRATIONS} | even


def _demonstrated(rng: random.Random) -> list[DeskKind]:
    """Rare skills once or, every third, twice, and common kinds about 50 times each, shuffled."""
    common = [kind for kind in KINDS if not is_rare(kind)]
    chosen = [DeskKind(*skill, False) for skill in RARE_SKILLS]
    chosen += [DeskKind(*skill, skill[1] in VALUE_VERBS) for skill in RARE_SKILLS[::3]]
    weights = [ANSWER_WEIGHT if kind[:2] == GIVE else 1.0 for kind in common]
    chosen += rng.choices(common, weights, k=DEMONSTRATIONS - len(chosen))
    rng.shuffle(chosen)
    return chosen


def _evenly(common: int, rare: int) -> list[DeskKind]:
    return [kind for kind in KINDS for _ in range(rare if is_rare(kind) else common)]


def _record(kind: DeskKind, seed: int, split: str, rng: random.Random) -> dict[str, Any]:
    query, calls = instantiate(kind, seed, rng)
    return {
        "kind": str(kind),
        "tags": ["rare_in_demos"] if is_rare(kind) else [],
        "split": split,
        "origin": {"kind": "environment"},
        "verifier": {"kind": "state"},
        "query": [query],
        "solution": [calls],
        "start": {"config": {"seed": seed}},
    }


def instantiate(kind: DeskKind, seed: int, rng: random.Random) -> tuple[str, list[dict[str, Any]]]:
    """A request and the calls that fulfil it in the world of `seed`, where each was executed."""
    world, calls, arguments, said = DeskWorld(seed), [], {}, {}

    def call(tool: str, **values: str) -> dict[str, Any]:
        outcome = world.call(tool, values)
        if outcome.error:
            raise RuntimeError(f"{kind}: {tool} was refused: {outcome.output}")
        calls.append({"tool": tool, "arguments": values})
        return outcome.output

    if kind.lookup:
        source = rng.choice(APPS)
        owner = rng.choice(sorted(world.records[source]))
        arguments["text"] = call(f"{source}.read", owner=owner)["text"]
        said["text"] = f"the {source} note of {owner}"
    elif kind.verb in VALUE_VERBS:
        arguments["text"] = said["text"] = rng.choice(CONTENT.words)
    if kind[:2] == GIVE:
        call("desk.answer", **arguments)
        return rng.choice(CONTENT.answers).format_map(said), calls

    key, preparation, completion = CONVENTIONS[kind.app, kind.verb]
    name = said[key] = rng.choice(sorted(world.records[kind.app]))
    arguments[key] = name if key == "name" else call(f"{kind.app}.find", name=name)["id"]
    if preparation:
        call(f"{kind.app}.{preparation}")
    call(f"{kind.app}.{kind.verb}", **{n: arguments[n] for n in (key, "text") if n in arguments})
    if completion:
        call(f"{kind.app}.{completion}")
    return rng.choice(requests(kind.app, kind.verb, key)).format_map(said), calls
