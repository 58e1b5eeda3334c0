"""Typed arguments: what an explorer without a model puts into a call.

A value comes from one of three places, best first where several offer one: an earlier output of this episode whose key
resembles the parameter (`ticket_id` takes `id`, `symbol` takes a member of `symbols`), what a user of the start state would
know (`Opened.values`; ``tool.parameter`` wins over ``parameter``), and the schema itself (enum, default, bounds, type).
Parameters that the environment calls `lookup_only` take observed values alone while there are any, `literal` ones none. Nothing here fails: a
schema that says nothing gets a short text. Everything is a pure function of its arguments and the generator.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, NamedTuple

from coevolve.environments.protocol import Tool
from coevolve.provenance import output
from coevolve.records import Step, canonical

Shape = tuple[str, ...]
"""The parameters that a call fills in, in the schema's order."""

MEMBERS = 20
"""Members of an observed list that are remembered."""
LONGEST = 400
"""Characters of an observed text that can still be an argument."""
WORDS = "apple river garden letter window market summer silver engine paper".split()
OWN_APP, OTHER_APP, GIVEN, ANY_NUMBER = 2.0, 1.0, 1.0, 0.15
"""Weights of the places that a value can come from."""
UNSAID = 0.1
"""Weight of an observed value that the environment's language has no phrase for."""
AGEING = 0.1
"""How fast an observed value loses weight, per step."""
REFUSED = 0.05
"""Weight of a value that this app answered with `not_found`."""


class Leaf(NamedTuple):
    """A value seen in an output: its key, and the step, tool and app that showed it."""

    key: str
    value: Any
    app: str
    tool: str
    step: int
    said: bool
    """Whether people have a phrase for it; without one, no request can ask for what is done with it."""
    named: bool = False
    """It stands for the row that it is in, and is no answer to anything."""
    fact: bool = False
    """It tells something about the row that it is in."""


class Known:
    """What one episode offers as arguments; grows with every step."""

    def __init__(self, values: dict[str, list[Any]]):
        self.values = values
        self.steps = 0
        self.leaves: list[Leaf] = []
        self.refused: set[tuple[str, bytes]] = set()

    def see(self, step: Step, tool: Tool) -> list[Leaf]:
        """Remembers the outputs of a step that worked; returns its leaves."""
        self.steps += 1
        if step.error:
            if step.error == "not_found":
                self.refused |= {
                    (tool.app, canonical(value)) for value in step.action.arguments.values()
                }
            return []
        parts = leaves(output(step.observation))
        found = [
            Leaf(
                key,
                value,
                tool.app,
                tool.name,
                self.steps,
                sayable(tool, key),
                *_about_row(tool, key),
            )
            for key, value in parts
        ]
        self.leaves += found
        return found

    def given(self, tool: str, parameter: str, schema: dict[str, Any]) -> list[Any]:
        values = self.values.get(f"{tool}.{parameter}", self.values.get(parameter, []))
        return [value for value in values if fits(value, schema)]

    def observed(
        self, tool: Tool, parameter: str, schema: dict[str, Any]
    ) -> list[tuple[float, Leaf]]:
        """Leaves whose key resembles the parameter, weighted: agreement of the names, app, recency."""
        if schema.get("type") == "boolean" or literal(tool, parameter):
            return []
        found = []
        for leaf in self.leaves:
            likeness = resemblance(parameter, leaf.key)
            if likeness and fits(leaf.value, schema):
                place = (OWN_APP if leaf.app == tool.app else OTHER_APP) * (
                    1.0 if leaf.said else UNSAID
                )
                found.append((likeness * place / (1 + AGEING * (self.steps - leaf.step)), leaf))
        return found

    def anything(self, schema: dict[str, Any]) -> list[Leaf]:
        """Leaves that fit by their type, whatever their keys."""
        return [
            leaf
            for leaf in self.leaves
            if leaf.said and not leaf.named and fits(leaf.value, schema)
        ]

    def weight(self, app: str, value: Any) -> float:
        return REFUSED if (app, canonical(value)) in self.refused else 1.0


def sayable(tool: Tool, key: str) -> bool:
    """Whether the environment's language has a phrase for a key of the tool's output, or has no language at all."""
    language = tool.language
    return language is None or any(
        key in phrases for phrases in (language.refer, language.rows, language.facts)
    )


def _about_row(tool: Tool, key: str) -> tuple[bool, bool]:
    """Whether a key names its row, and whether it tells something about it."""
    language = tool.language
    return (key in language.rows, key in language.facts) if language else (False, False)


def leaves(value: Any, key: str = "") -> Iterator[tuple[str, Any]]:
    """(key, value) of the scalars and flat lists in a parsed output; members of a list carry the list's key."""
    if isinstance(value, dict):
        for name, member in value.items():
            yield from leaves(member, name)
    elif isinstance(value, list):
        if value and not any(isinstance(member, (dict, list)) for member in value):
            yield key, value
        for member in value[:MEMBERS]:
            yield from leaves(member, key)
    elif value is not None and not (isinstance(value, str) and not 0 < len(value) <= LONGEST):
        yield key, value


_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+|\d+")


@lru_cache(maxsize=4096)
def words(name: str) -> tuple[str, ...]:
    """The words of a name, in the singular: `orderIds` → ("order", "id")."""
    found = [word.lower() for word in _WORD.findall(name)]
    return tuple(
        word[:-1] if len(word) > 3 and word.endswith("s") and not word.endswith("ss") else word
        for word in found
    )


@lru_cache(maxsize=65536)
def resemblance(parameter: str, key: str) -> float:
    """1 for the same name, 0.6 where one name ends with the other, else 0."""
    short, long = sorted((words(parameter), words(key)), key=len)
    if not short or long[len(long) - len(short) :] != short:
        return 0.0
    return 1.0 if len(short) == len(long) else 0.6


def fits(value: Any, schema: dict[str, Any]) -> bool:
    """Whether a value has the type that a schema asks for, and is in its enum."""
    if "enum" in schema and value not in schema["enum"]:
        return False
    kind = schema.get("type")
    if isinstance(kind, list):
        return any(fits(value, {**schema, "type": one}) for one in kind)
    if kind == "array":
        return isinstance(value, list) and all(
            fits(member, schema.get("items", {})) for member in value
        )
    if kind in ("integer", "number"):
        allowed = int if kind == "integer" else (int, float)
        return isinstance(value, allowed) and not isinstance(value, bool) and _within(value, schema)
    python = {"string": str, "boolean": bool, "object": dict, "null": type(None)}.get(kind)
    return python is None or isinstance(value, python)


def _within(value: float, schema: dict[str, Any]) -> bool:
    return schema.get("minimum", value) <= value <= schema.get("maximum", value)


def properties(tool: Tool) -> dict[str, dict[str, Any]]:
    return tool.parameters.get("properties", {})


def required(tool: Tool) -> Shape:
    wanted = tool.parameters.get("required", [])
    return tuple(name for name in properties(tool) if name in wanted)


def shapes(tool: Tool) -> list[Shape]:
    """The shapes worth trying: the required parameters alone, with each optional one, with all of them."""
    base = required(tool)
    optional = [name for name in properties(tool) if name not in base]
    chosen = [set(), *({name} for name in optional), set(optional)]
    chosen += [
        set(one.get("required", []))
        for key in ("anyOf", "oneOf")
        for one in tool.parameters.get(key, [])
    ]
    found = (
        tuple(name for name in properties(tool) if name in base or name in extra)
        for extra in chosen
    )
    return list(dict.fromkeys(found))


def usual_shape(rng: random.Random, tool: Tool, optional: float = 0.3) -> Shape:
    """The required parameters, and each optional one with the given probability."""
    base = required(tool)
    return tuple(name for name in properties(tool) if name in base or rng.random() < optional)


def lookup_only(tool: Tool, parameter: str) -> bool:
    return tool.language is not None and parameter in tool.language.lookup_only


def literal(tool: Tool, parameter: str) -> bool:
    return tool.language is not None and parameter in tool.language.literal


def draw(rng: random.Random, tool: Tool, parameter: str, known: Known) -> Any:
    """A value for one parameter."""
    schema = properties(tool).get(parameter, {})
    observed = known.observed(tool, parameter, schema)
    given = known.given(tool.name, parameter, schema)
    if lookup_only(tool, parameter):
        own = [(weight, leaf) for weight, leaf in observed if leaf.app == tool.app]
        observed = (
            own or observed or ([] if given else [(1.0, leaf) for leaf in known.anything(schema)])
        )
        given = [] if observed else given
    if not observed and not given:
        number = None if literal(tool, parameter) else _any_number(rng, schema, known)
        return number or invent(rng, parameter, schema)
    strength = max((weight for weight, _ in observed), default=0.0)
    if observed and rng.random() * (strength + (GIVEN if given else 0.0)) < strength:
        weights = [weight * known.weight(tool.app, leaf.value) for weight, leaf in observed]
        return rng.choices(observed, weights)[0][1].value
    return rng.choices(given, [known.weight(tool.app, value) for value in given])[0]


def _any_number(rng: random.Random, schema: dict[str, Any], known: Known) -> Any:
    """Now and then a number seen anywhere: sums and conversions take what other tools report."""
    if schema.get("type") not in ("integer", "number") or rng.random() > ANY_NUMBER * len(
        known.leaves
    ):
        return None
    numbers = [leaf.value for leaf in known.anything(schema) if abs(leaf.value) >= 10]
    return rng.choice(numbers) if numbers else None


def invent(rng: random.Random, parameter: str, schema: dict[str, Any]) -> Any:
    """A value from the schema alone."""
    if "enum" in schema:
        return rng.choice(schema["enum"])
    if "default" in schema and schema["default"] is not None and rng.random() < 0.3:
        return schema["default"]
    kind = schema.get("type")
    kind = kind[0] if isinstance(kind, list) else kind
    low = schema.get("minimum", 1)
    if kind == "integer":
        return rng.randint(int(low), int(schema.get("maximum", low + 19)))
    if kind == "number":
        return round(rng.uniform(low, schema.get("maximum", low + 99)), 1)
    if kind == "boolean":
        return rng.random() < 0.5
    if kind == "array":
        count = max(schema.get("minItems", 1), rng.randint(1, 3))
        return [invent(rng, parameter, schema.get("items", {})) for _ in range(count)]
    if kind == "object":
        inner = schema.get("properties", {})
        wanted = [
            name for name in inner if name in schema.get("required", []) or rng.random() < 0.5
        ]
        return {name: invent(rng, name, inner[name]) for name in wanted or list(inner)[:1]}
    return rng.choice(WORDS)
