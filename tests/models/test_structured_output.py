"""Structured answers: what decodes, what is repaired, what is refused, and what servers are
told."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
import pytest

from coevolve.models.chat import ChatReply
from coevolve.models.structured_output import decode, response_schema


class Step(msgspec.Struct):
    tool: str
    arguments: dict[str, Any]


class Idea(msgspec.Struct):
    query: str
    confidence: Annotated[float, msgspec.Meta(ge=0, le=1)]
    note: str | None = None


class Plan(msgspec.Struct):
    steps: list[Step]


@pytest.mark.parametrize(
    "text", ['{"query": "q", "confidence": 0.5}', ' {"query":"q","confidence":0.5,"more":1}\n']
)
def test_json_decodes_as_it_is(text):
    """Good JSON needs no repair; what it holds besides is passed over."""
    assert decode(ChatReply(text), Idea) == (Idea("q", 0.5), None, False)


@pytest.mark.parametrize(
    "text",
    [
        'Here it is:\n```json\n{"query": "q", "confidence": 0.5}\n```',
        '{"query": "q", "confidence": 0.5',
        "{'query': 'q', 'confidence': 0.5,}",
    ],
)
def test_broken_json_is_repaired_and_counted(text):
    """Fences, prose, single quotes, a missing bracket."""
    assert decode(ChatReply(text), Idea) == (Idea("q", 0.5), None, True)


@pytest.mark.parametrize(
    ("reply", "says"),
    [
        (ChatReply('{"query": "q", "confidence": 1.5}'), "<= 1"),
        (ChatReply('{"query": "q", "confidence": "0.5"}'), "Expected `float`, got `str`"),
        (ChatReply('{"query": "q"}'), "missing required field `confidence`"),
        (ChatReply("{'query': 'q'}"), "missing required field `confidence`"),
        (ChatReply('["q", 0.5]'), "Expected `object`"),
        (ChatReply("I would rather not say."), "no JSON"),
        (ChatReply('{"query": "q", "confidence": 0.5', truncated=True), "cut off"),
        (ChatReply(tool_calls=[{}]), "no text"),
    ],
)
def test_wrong_answers_have_a_reason(reply, says):
    """No silent coercion, no default for what is missing, nothing made of half an answer."""
    assert says in decode(reply, Idea).reason


@pytest.mark.parametrize("half", ["\\ud83d", "x \\ude00 y", "\\udc80\\ud83d"])
@pytest.mark.parametrize(
    "text",
    ['{"query": "%s", "confidence": 1}', '```json\n{"query": "q", "confidence": 1, "%s": 2}\n```'],
)
def test_half_a_surrogate_pair_is_no_text(half, text):
    """Wherever in the answer it stands, whichever reader of JSON takes it; a whole pair, or the
    escape as text, is fine."""
    assert "surrogate" in decode(ChatReply(text % half), Idea).reason
    assert decode(ChatReply(text % "\\ud83d\\ude00"), Idea).reason is None
    assert decode(ChatReply(text % "\\\\ud83d"), Idea).reason is None


def test_schema_for_the_server():
    """Every field is demanded and no other allowed; strict only where no object is free-form."""
    idea, plan = response_schema(Idea), response_schema(Plan)
    assert idea["strict"] and idea["name"] == "Idea"
    (definition,) = idea["schema"]["$defs"].values()
    assert (
        definition["required"] == ["query", "confidence", "note"]
        and definition["additionalProperties"] is False
    )
    assert "default" not in str(definition)
    assert not plan["strict"] and set(plan["schema"]["$defs"]) == {"Plan", "Step"}
