"""The program writer: the words of a request, from the environment's language templates.

Slots hold given values as they are and observed ones as the phrase for the output they came from, recursively. Every argument of
a clause must be said: by a slot, or by the tool's `optional` phrase; an argument that equals the schema's default may stay
unsaid, unless the language says defaults too (`absent`). A phrase stands inside another one only at its end (the price of what the note names)
or as a bare name, and nowhere if two outputs of the conversation differ in what it refers to, or if two rows have the name. A tool without language is asked for by its description. `Unsayable` carries the reason why there is no request.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterator, Mapping
from typing import Any

from coevolve.abstraction.goals import Slice
from coevolve.abstraction.grounding import (
    ROW_SLOT,
    Reference,
    Trace,
    reference,
    row_words,
    sentence,
)
from coevolve.abstraction.turns import Turn
from coevolve.environments.protocol import Language, Tool
from coevolve.grounding.arguments import grounded
from coevolve.provenance import Source, at, identity, output
from coevolve.records import Call

LONGEST = 600
"""Characters of one user turn."""
_SLOT = re.compile(r"\{(\w+)\}")
_TWICE = re.compile(r"(?<!\w)([^\W\d]\w*(?: \w+){0,4}) \1(?!\w)")
"""A word or a few words that stand twice in a row, as where a phrase ends like the clause that it is put into."""
_IDENTIFIER = re.compile(r"[._]|[a-z][A-Z]")


class Unsayable(Exception):
    """Why no user would ask for this."""


class Writer:
    """Writes the requests of one slice."""

    def __init__(self, trace: Trace, tools: Mapping[str, Tool], found: Slice, rng: random.Random):
        self._trace, self._tools, self._found, self._rng = trace, tools, found, rng

    def request(self, turn: Turn) -> str:
        """One user turn. Raises Unsayable."""
        text = ", then ".join(self._clause(index) for index in turn.clauses)
        for index in turn.calls:
            if index not in turn.clauses:
                self._check_unasked(index, text)
        if not text.strip() or len(text) > LONGEST:
            raise Unsayable("too_long" if text.strip() else "empty")
        if self.names_tool(text):
            raise Unsayable("names_tool")
        if _TWICE.search(text):
            raise Unsayable("doubled_words")
        return text

    def names_tool(self, text: str) -> bool:
        """Whether it holds a tool's name; a name that is a plain word of the language may occur."""
        offered = self._trace.opened.tools or self._tools
        return any(
            re.search(rf"(?<!\w){re.escape(n)}(?!\w)", text)
            for n in offered
            if _IDENTIFIER.search(n)
        )

    def lookup(self, index: int) -> bool:
        """Whether an argument of the call has to be looked up, beyond the key behind a name."""
        step, app = self._trace.steps, self._tools[self._found.calls[index].tool].app
        found = (
            reference(self._tools, step[s.step], s.path, app)
            for s in self._trace.links[index].values()
        )
        return any(not phrase.bare for phrase in found)

    def _clause(self, index: int) -> str:
        call = self._found.calls[index]
        tool = self._tools[call.tool]
        if tool.language is None:
            said = ", ".join(
                f"{_spaced(name)}: {self._said(index, name)}" for name in call.arguments
            )
            return sentence(tool) + (f" ({said})" if said else "")
        fitting = [t for t in tool.language.do if not self._unsaid(index, t)]
        if not fitting:
            raise Unsayable("unstated_argument")
        template = self._rng.choice(fitting)
        slots = set(_SLOT.findall(template))
        extra = [
            _appended(tool.language, call, name)
            for name in tool.parameters.get("properties", {})
            if name not in slots
        ]
        return self._filled(index, template + "".join(extra))

    def _unsaid(self, index: int, template: str) -> bool:
        """Whether the template has a slot without an argument, or leaves an argument unsaid."""
        call = self._found.calls[index]
        tool, slots = self._tools[call.tool], set(_SLOT.findall(template))
        rest = [
            name
            for name in call.arguments
            if name not in slots and name not in tool.language.optional
        ]
        return not slots <= set(call.arguments) or any(
            not _default(tool, name, call.arguments[name]) for name in rest
        )

    def _check_unasked(self, index: int, text: str) -> None:
        """Raises Unsayable where a call that no clause asks for has a given argument that its turn does
        not state."""
        call = self._found.calls[index]
        tool, observed = self._tools[call.tool], {path[0] for path in self._trace.links[index]}
        for name in call.arguments.keys() - observed:
            if grounded(call.arguments, (name,), tool, text).kind == "unknown":
                raise Unsayable("unstated_argument")

    def _filled(self, index: int, template: str) -> str:
        return _SLOT.sub(lambda slot: self._said(index, slot[1]), template)

    def _said(self, index: int, name: str) -> str:
        call = self._found.calls[index]
        if name not in call.arguments:
            raise Unsayable("unstated_argument")
        if self._trace.problems[index]:
            raise Unsayable(self._trace.problems[index])
        tool, value = self._tools[call.tool], call.arguments[name]
        words = tool.language.words.get(name, {}) if tool.language else {}
        if isinstance(value, list) and _key(value) in words:
            return words[_key(value)]
        if isinstance(value, list) and (name,) not in self._trace.links[index]:
            return _listed(
                [self._member(index, (name, place), v, words) for place, v in enumerate(value)]
            )
        return self._member(index, (name,), value, words)

    def _member(self, index: int, path: tuple, value: Any, words: Mapping[str, str]) -> str:
        links = self._trace.links[index]
        if path in links:
            return self._phrase(index, path)
        if any(other[: len(path)] == path for other in links):
            raise Unsayable("unknowable")  # an observed value inside an object
        return words.get(_key(value)) or _text(value)

    def _phrase(self, index: int, path: tuple) -> str:
        source = self._trace.links[index][path]
        phrase = self._reference(index, source)
        if phrase.row is not None:
            return self._row_phrase(source, phrase)
        for name in _SLOT.findall(phrase.template):
            inner = self._trace.links[source.step].get((name,))
            if (
                inner
                and not phrase.template.endswith(f"{{{name}}}")
                and not self._reference(source.step, inner).bare
            ):
                raise Unsayable("nested_lookup")
        if self._ambiguous(source, _SLOT.findall(phrase.template)):
            raise Unsayable("ambiguous_reference")
        return self._filled(source.step, phrase.template)

    def _row_phrase(self, source: Source, phrase: Reference) -> str:
        told = output(self._found.results[source.step].observation)
        words = row_words(phrase.template, told, phrase.row)
        if words is None:
            raise Unsayable("unknowable")
        key, meant = source.path[-1], identity(at(told, source.path))
        observed = [*self._trace.steps, *self._found.results.values()]
        rows = (
            row
            for one in observed
            if one.error is None
            for row in objects(output(one.observation))
            if key in row
        )
        if any(
            row_words(phrase.template, row, ()) == words and identity(row[key]) != meant
            for row in rows
        ):
            raise Unsayable("ambiguous_reference")
        return ROW_SLOT.sub(lambda slot: words[slot[1]], phrase.template)

    def _ambiguous(self, source: Source, slots: list[str]) -> bool:
        """Whether another call of the tool that the phrase describes as well told another value in that place."""
        calls, results = self._found.calls, self._found.results
        tool, said = (
            calls[source.step].tool,
            [calls[source.step].arguments.get(slot) for slot in slots],
        )
        told = _told(results[source.step].observation, source.path)
        return any(
            call.tool == tool
            and [call.arguments.get(slot) for slot in slots] == said
            and _told(results[index].observation, source.path) != told
            for index, call in calls.items()
        )

    def _reference(self, index: int, source: Source) -> Reference:
        app = self._tools[self._found.calls[index].tool].app
        return reference(self._tools, self._trace.steps[source.step], source.path, app)


def objects(value: Any) -> Iterator[dict]:
    """The objects in a parsed output, at any depth."""
    if isinstance(value, dict):
        yield value
    for member in (
        value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    ):
        yield from objects(member)


def _told(observation: str, path: tuple) -> Any:
    """What an output has in a place, None where it has nothing there."""
    try:
        return at(output(observation), path)
    except (KeyError, IndexError, TypeError):
        return None


def _appended(language: Language, call: Call, name: str) -> str:
    return (
        language.optional.get(name, "") if name in call.arguments else language.absent.get(name, "")
    )


def _default(tool: Tool, name: str, value: Any) -> bool:
    schema = tool.parameters.get("properties", {}).get(name, {})
    return "default" in schema and identity(schema["default"]) == identity(value)


def _spaced(name: str) -> str:
    return " ".join(name.replace("_", " ").split())


def _text(value: Any) -> str:
    if isinstance(value, str):
        if not value.strip():
            raise Unsayable("empty_value")
        return value
    return json.dumps(value, ensure_ascii=False)


def _listed(texts: list[str]) -> str:
    if not texts:
        raise Unsayable("empty_value")
    return texts[0] if len(texts) == 1 else f"{', '.join(texts[:-1])} and {texts[-1]}"


def _key(value: Any) -> str:
    """The JSON text under which `Language.words` has a value."""
    return json.dumps(value, separators=(",", ":"))
