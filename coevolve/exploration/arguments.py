"""Typed arguments: the values that an explorer without a model puts into a call.

A value comes from one of three places, best first where several offer one: an earlier output of
this episode whose key resembles the parameter (`ticket_id` takes `id`, `symbol` takes a member of
`symbols`), what a user of the start state would know (`Opened.values`; ``tool.parameter`` wins over
``parameter``), and the schema itself (enum, default, bounds, type). Parameters that the environment
calls `lookup_only` take observed values alone while there are any, `literal` ones none. Everything
is a pure function of its arguments and the generator.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, NamedTuple

from coevolve.environments.protocol import Language, Tool
from coevolve.exploration.schemas import Schema, fits, invent, properties
from coevolve.grounding.sources import output
from coevolve.records import Step, canonical

MAX_MEMBERS = 20  # Members of an observed list that are remembered
MAX_TEXT_CHARS = 400  # Characters of an observed text that can still be an argument
OWN_APP, OTHER_APP, GIVEN, ANY_NUMBER = 2.0, 1.0, 1.0, 0.15
"""Weights of the places that a value can come from."""
NO_PHRASE = 0.1  # Weight of an observed value that the environment's language has no phrase for
AGEING = 0.1  # How fast an observed value loses weight, per step
NOT_FOUND = 0.05  # Weight of a value that this app answered with `not_found`


class ObservedValue(NamedTuple):
    """A value seen in an output, under its key, and the tool and step that showed it."""

    key: str
    value: Any
    tool: Tool
    step: int
    has_phrase: bool
    """Whether people have a phrase for it; else no request can ask for what is done with it."""

    @property
    def names_row(self) -> bool:
        """It stands for the row that it is in, and is no answer to anything."""
        return self.tool.language is not None and self.key in self.tool.language.rows

    @property
    def is_fact(self) -> bool:
        """It tells something about the row that it is in."""
        return self.tool.language is not None and self.key in self.tool.language.facts


class KnownValues:
    """The values that one episode offers as arguments; they grow with every step."""

    def __init__(self, values: dict[str, list[Any]]):
        self.values = values
        self.steps = 0
        self.seen: list[ObservedValue] = []
        self.not_found: set[tuple[str, bytes]] = set()

    def see(self, step: Step, tool: Tool) -> list[ObservedValue]:
        """Remembers and returns the output values of a step that worked."""
        self.steps += 1
        if step.error == "not_found":
            self.not_found |= {(tool.app, canonical(v)) for v in step.action.arguments.values()}
        if step.error:
            return []
        found = [
            ObservedValue(key, value, tool, self.steps, has_phrase(tool, key))
            for key, value in leaves(output(step.observation))
        ]
        self.seen += found
        return found

    def given(self, tool: Tool, parameter: str) -> list[Any]:
        """The values that a user of the start state knows for the parameter."""
        schema = properties(tool).get(parameter, {})
        values = self.values.get(f"{tool.name}.{parameter}", self.values.get(parameter, []))
        return [value for value in values if fits(value, schema)]

    def observed(self, tool: Tool, parameter: str) -> list[tuple[float, ObservedValue]]:
        """Values whose key resembles the parameter, weighted by likeness, app and recency."""
        schema = properties(tool).get(parameter, {})
        if schema.get("type") == "boolean" or literal(tool, parameter):
            return []
        found = []
        for seen in self.seen:
            likeness = resemblance(parameter, seen.key)
            if likeness and fits(seen.value, schema):
                place = OWN_APP if seen.tool.app == tool.app else OTHER_APP
                place *= 1.0 if seen.has_phrase else NO_PHRASE
                found.append((likeness * place / (1 + AGEING * (self.steps - seen.step)), seen))
        return found

    def of_type(self, schema: Schema) -> list[ObservedValue]:
        """Values that fit by their type, whatever their keys."""
        sayable = (seen for seen in self.seen if seen.has_phrase and not seen.names_row)
        return [seen for seen in sayable if fits(seen.value, schema)]

    def weight(self, app: str, value: Any) -> float:
        return NOT_FOUND if (app, canonical(value)) in self.not_found else 1.0

    def choose(self, rng: random.Random, app: str, values: list[Any]) -> Any:
        """One of the values; those that the app did not find come seldom."""
        return rng.choices(values, [self.weight(app, value) for value in values])[0]


def phrases_of(language: Language) -> list[str]:
    """Keys of a tool's outputs that people have a phrase for."""
    return [*language.refer, *language.rows, *language.facts]


def has_phrase(tool: Tool, key: str) -> bool:
    """Whether the environment's language, if it has one, has a phrase for a key of the output."""
    language = tool.language
    return language is None or any(
        key in phrases for phrases in (language.refer, language.rows, language.facts)
    )


def lookup_only(tool: Tool, parameter: str) -> bool:
    return tool.language is not None and parameter in tool.language.lookup_only


def literal(tool: Tool, parameter: str) -> bool:
    return tool.language is not None and parameter in tool.language.literal


def leaves(value: Any, key: str = "") -> Iterator[tuple[str, Any]]:
    """(key, value) of the scalars and flat lists in an output; members carry their list's key."""
    if isinstance(value, dict):
        for name, member in value.items():
            yield from leaves(member, name)
    elif isinstance(value, list):
        if value and not any(isinstance(member, (dict, list)) for member in value):
            yield key, value
        for member in value[:MAX_MEMBERS]:
            yield from leaves(member, key)
    elif isinstance(value, str):
        if 0 < len(value) <= MAX_TEXT_CHARS:
            yield key, value
    elif value is not None:
        yield key, value


_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+|\d+")


@lru_cache(maxsize=4096)
def words(name: str) -> tuple[str, ...]:
    """The words of a name, in the singular: `orderIds` → ("order", "id")."""
    found = [word.lower() for word in _WORD.findall(name)]
    return tuple(re.sub(r"(?<=..[^s])s$", "", word) for word in found)


@lru_cache(maxsize=65536)
def resemblance(parameter: str, key: str) -> float:
    """1 for the same name, 0.6 where one name ends with the other, else 0."""
    short, long = sorted((words(parameter), words(key)), key=len)
    if not short or long[len(long) - len(short) :] != short:
        return 0.0
    return 1.0 if len(short) == len(long) else 0.6


def draw(rng: random.Random, tool: Tool, parameter: str, known: KnownValues) -> Any:
    """A value for one parameter."""
    schema = properties(tool).get(parameter, {})
    observed, given = known.observed(tool, parameter), known.given(tool, parameter)
    if lookup_only(tool, parameter):
        own = [(weight, seen) for weight, seen in observed if seen.tool.app == tool.app]
        observed = own or observed
        if not observed and not given:
            observed = [(1.0, seen) for seen in known.of_type(schema)]
        given = [] if observed else given
    if not observed and not given:
        number = None if literal(tool, parameter) else _any_number(rng, schema, known)
        return number or invent(rng, schema)
    strength = max((weight for weight, _ in observed), default=0.0)
    if observed and rng.random() * (strength + (GIVEN if given else 0.0)) < strength:
        weights = [weight * known.weight(tool.app, seen.value) for weight, seen in observed]
        return rng.choices(observed, weights)[0][1].value
    return known.choose(rng, tool.app, given)


def _any_number(rng: random.Random, schema: Schema, known: KnownValues) -> Any:
    """Now and then a number seen anywhere: sums and conversions take what other tools report."""
    number = schema.get("type") in ("integer", "number")
    if not number or rng.random() > ANY_NUMBER * len(known.seen):
        return None
    numbers = [seen.value for seen in known.of_type(schema) if abs(seen.value) >= 10]
    return rng.choice(numbers) if numbers else None
