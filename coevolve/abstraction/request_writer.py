"""Writes the words of a request from the environment's language templates, without a model.

Slots hold given values as they are and observed ones as the phrase for the output they came from,
recursively. Every argument of a clause must be stated: by a slot, or by the tool's `optional`
phrase; an argument that equals the schema's default may be left out, unless the language states
defaults too (`absent`). A phrase stands inside another one only at its end (the price of what the
note names) or as a bare name, and nowhere if two outputs of the conversation differ in what it
refers to, or if two rows have the name. A tool without language is asked for by its description.
`Unwritable` carries the reason why there is no request.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Mapping
from typing import Any

from coevolve.abstraction.goals import GoalSlice
from coevolve.abstraction.references import ROW_SLOT, OutputPhrase, described, reference, row_words
from coevolve.abstraction.tool_names import named_tool
from coevolve.abstraction.trace import ExplorationTrace
from coevolve.abstraction.turns import TurnPlan
from coevolve.grounding.arguments import grounded, is_default, json_key
from coevolve.grounding.sources import ValueSource, at, identity, output, parts_of

MAX_TURN_CHARACTERS = 600
_SLOT = re.compile(r"\{(\w+)\}")
_TWICE = re.compile(r"(?<!\w)([^\W\d]\w*(?: \w+){0,4}) \1(?!\w)")
"""Words that stand twice in a row, as where a phrase ends like the clause that it is put into."""


class Unwritable(Exception):
    """Why there is no request, or no program, for a slice."""


class RequestWriter:
    """Writes the requests of one slice."""

    def __init__(self, trace: ExplorationTrace, found: GoalSlice, rng: random.Random):
        self._trace, self._found, self._rng = trace, found, rng

    def request(self, turn: TurnPlan) -> str:
        """One user turn. Raises Unwritable."""
        text = ", then ".join(self._clause(index) for index in turn.clauses)
        for index in turn.calls:
            if index not in turn.clauses:
                self._check_helper(index, text)
        if not text.strip() or len(text) > MAX_TURN_CHARACTERS:
            raise Unwritable("too_long" if text.strip() else "empty")
        tools = self._trace.tools
        if named_tool(text, tools, self._trace.opened.tools or list(tools)):
            raise Unwritable("names_tool")
        if _TWICE.search(text):
            raise Unwritable("doubled_words")
        return text

    def needs_lookup(self, index: int) -> bool:
        """Whether an argument of the call has to be looked up, beyond the key behind a name."""
        sources = self._trace.links[index].values()
        return any(not self._reference(index, source).bare for source in sources)

    def _clause(self, index: int) -> str:
        call, tool = self._found.calls[index], self._trace.tool(index)
        language = tool.language
        if language is None:
            spaced = {name: " ".join(name.replace("_", " ").split()) for name in call.arguments}
            listed = ", ".join(f"{words}: {self._value(index, n)}" for n, words in spaced.items())
            return described(tool) + (f" ({listed})" if listed else "")
        fitting = [template for template in language.do if self._complete(index, template)]
        if not fitting:
            raise Unwritable("unstated_argument")
        template = self._rng.choice(fitting)
        slots = set(_SLOT.findall(template))
        for name in tool.parameters.get("properties", {}):
            if name not in slots:
                phrases = language.optional if name in call.arguments else language.absent
                template += phrases.get(name, "")
        return self._filled(index, template)

    def _complete(self, index: int, template: str) -> bool:
        """Whether the call has an argument for every slot, and the template leaves none out."""
        call, tool = self._found.calls[index], self._trace.tool(index)
        slots = set(_SLOT.findall(template))
        rest = call.arguments.keys() - slots - tool.language.optional.keys()
        return slots <= call.arguments.keys() and all(
            is_default(tool, name, call.arguments[name]) for name in rest
        )

    def _check_helper(self, index: int, text: str) -> None:
        """Raises Unwritable where the turn leaves out an argument of a call without a clause."""
        arguments = self._found.calls[index].arguments
        for name in arguments.keys() - {path[0] for path in self._trace.links[index]}:
            if grounded(arguments, (name,), self._trace.tool(index), text).kind == "unknown":
                raise Unwritable("unstated_argument")

    def _filled(self, index: int, template: str) -> str:
        return _SLOT.sub(lambda slot: self._value(index, slot[1]), template)

    def _value(self, index: int, name: str) -> str:
        arguments = self._found.calls[index].arguments
        if name not in arguments:
            raise Unwritable("unstated_argument")
        if self._trace.problems[index]:
            raise Unwritable(self._trace.problems[index])
        language, value = self._trace.tool(index).language, arguments[name]
        words = language.words.get(name, {}) if language else {}
        if isinstance(value, list) and json_key(value) in words:
            return words[json_key(value)]
        if isinstance(value, list) and (name,) not in self._trace.links[index]:
            members = enumerate(value)
            return _listed([self._member(index, (name, n), v, words) for n, v in members])
        return self._member(index, (name,), value, words)

    def _member(self, index: int, path: tuple, value: Any, words: Mapping[str, str]) -> str:
        links = self._trace.links[index]
        if path in links:
            return self._phrase(index, path)
        if any(other[: len(path)] == path for other in links):
            raise Unwritable("unknowable")  # an observed value inside an object
        return words.get(json_key(value)) or _text(value)

    def _phrase(self, index: int, path: tuple) -> str:
        source = self._trace.links[index][path]
        phrase = self._reference(index, source)
        if phrase.row is not None:
            return self._row_phrase(source, phrase)
        slots = _SLOT.findall(phrase.template)
        for name in slots:
            inner = self._trace.links[source.step].get((name,))
            last = phrase.template.endswith(f"{{{name}}}")
            if inner and not last and not self._reference(source.step, inner).bare:
                raise Unwritable("nested_lookup")
        if self._ambiguous(source, slots):
            raise Unwritable("ambiguous_reference")
        return self._filled(source.step, phrase.template)

    def _row_phrase(self, source: ValueSource, phrase: OutputPhrase) -> str:
        parsed = output(self._found.results[source.step].observation)
        words = row_words(phrase.template, parsed, phrase.row)
        if words is None:
            raise Unwritable("unknowable")
        key, meant = source.path[-1], identity(at(parsed, source.path))
        observed = (*self._trace.steps, *self._found.results.values())
        for step in (step for step in observed if step.error is None):
            for _, row in parts_of(output(step.observation)):
                same = isinstance(row, dict) and row_words(phrase.template, row, ()) == words
                if same and key in row and identity(row[key]) != meant:
                    raise Unwritable("ambiguous_reference")
        return ROW_SLOT.sub(lambda slot: words[slot[1]], phrase.template)

    def _ambiguous(self, source: ValueSource, slots: list[str]) -> bool:
        """Whether the phrase describes another call as well, which returned another value there."""
        calls, results = self._found.calls, self._found.results
        own, meant = calls[source.step], _value_at(results[source.step].observation, source.path)
        return any(
            call.tool == own.tool
            and all(call.arguments.get(slot) == own.arguments.get(slot) for slot in slots)
            and _value_at(results[index].observation, source.path) != meant
            for index, call in calls.items()
        )

    def _reference(self, index: int, source: ValueSource) -> OutputPhrase:
        step, app = self._trace.steps[source.step], self._trace.tool(index).app
        return reference(self._trace.tools, step, source.path, app)


def _value_at(observation: str, path: tuple) -> Any:
    """The value of an output in a place, None where it has nothing there."""
    try:
        return at(output(observation), path)
    except (KeyError, IndexError, TypeError):
        return None


def _text(value: Any) -> str:
    if isinstance(value, str) and not value.strip():
        raise Unwritable("empty_value")
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _listed(texts: list[str]) -> str:
    if not texts:
        raise Unwritable("empty_value")
    return texts[0] if len(texts) == 1 else f"{', '.join(texts[:-1])} and {texts[-1]}"
