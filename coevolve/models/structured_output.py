"""Structured answers: a type becomes the server's JSON Schema, and a reply becomes a value of that
type or a reason why not.

Decoding is strict (no "3" for 3; ranges and patterns of the type's annotations hold). Only text
that is no JSON goes through json-repair (fences, prose around it, a missing bracket), which the
caller counts; JSON of the wrong shape never does, and a reply that was cut off isn't made to look
whole. A value that holds half of a surrogate pair is refused.
"""

from __future__ import annotations

from typing import Any, NamedTuple, TypeVar

import msgspec

from coevolve.errors import installation, require
from coevolve.models.chat import ChatReply, Message

T = TypeVar("T")

AGAIN = (
    "This is not the answer that was asked for: {reason}. "
    "Answer again, with one JSON object and nothing around it."
)
NO_TEXT = "a text in it holds half of a surrogate pair"


class DecodedAnswer(NamedTuple):
    """The value of an answer, or why there is none."""

    value: Any = None
    reason: str | None = None  # The reason why there is no value
    repaired: bool = False


def response_schema(type_: type) -> dict[str, Any]:
    """`json_schema` of the API's response format.

    `strict` where the schema has no free-form object, which strict forbids.
    """
    (schema,), components = msgspec.json.schema_components([type_], ref_template="#/$defs/{name}")
    closed = all([_close(schema), *map(_close, components.values())])
    whole = {**schema, **({"$defs": components} if components else {})}
    return {"name": type_.__name__.strip("_") or "Answer", "schema": whole, "strict": closed}


def _close(schema: dict[str, Any]) -> bool:
    """Demands every property and no other, as strict mode does; False where an object takes any."""
    schema.pop("default", None)
    closed = True
    if "properties" in schema:
        schema["required"] = list(schema["properties"])
        schema["additionalProperties"] = False
    elif schema.get("type") == "object" or not schema:
        closed = False
    inner = [*schema.get("properties", {}).values(), *schema.get("anyOf", []), schema.get("items")]
    return all([closed, *(_close(part) for part in inner if isinstance(part, dict))])


def decode(reply: ChatReply, type_: type) -> DecodedAnswer:
    """The reply's text as a value of the type. Raises MissingDependency (json-repair)."""
    if reply.truncated:
        return DecodedAnswer(reason="it was cut off by the token limit")
    text = reply.text.strip()
    if not text:
        return DecodedAnswer(reason="it holds a tool call and no text")
    try:
        return DecodedAnswer(msgspec.json.decode(text, type=type_))
    except msgspec.ValidationError as error:
        return DecodedAnswer(reason=str(error))
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return _repaired(text, type_)


def _repaired(text: str, type_: type) -> DecodedAnswer:
    json_repair = require("json_repair", "an answer that is no JSON", installation("models"))
    try:
        value = json_repair.loads(text)
        if not is_text(value):
            return DecodedAnswer(reason=NO_TEXT)
        if value == "":
            return DecodedAnswer(reason="it is no JSON")
        return DecodedAnswer(msgspec.convert(value, type_), repaired=True)
    except msgspec.ValidationError as error:
        return DecodedAnswer(reason=str(error), repaired=True)
    except (ValueError, RecursionError) as error:
        return DecodedAnswer(reason=f"it is no JSON: {error}")


def is_text(value: Any) -> bool:
    """Tells whether every text in a decoded answer can be written."""
    try:  # lenient readers of JSON let a lone `\ud83d` pass
        msgspec.json.encode(value)
    except UnicodeEncodeError:
        return False
    return True


def again(messages: list[Message], reply: ChatReply, reason: str) -> list[Message]:
    """The conversation that shows the model its mistake."""
    wrong = {"role": "assistant", "content": reply.text or "(no text)"}
    return [*messages, wrong, {"role": "user", "content": AGAIN.format(reason=reason)}]
