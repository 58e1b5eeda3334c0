"""One call of a chat model: what is asked, what came back, and how a call fails.

`Request.key()` is the address of a call in the journal: model, messages, parameters, prompt version and sample number, and
nothing else; not the server, so that recorded answers serve anywhere. A model that is retrained needs a name of its own.

`reply` reads an OpenAI-style answer: the first choice; reasoning from the server's own field (``reasoning_content``,
``reasoning``) or from a ``<think>`` block that leads the text; tool calls as they are. A choice without text and calls is a
BadReply, unless the token limit cut it off.
"""

from __future__ import annotations

import hashlib
import json
import re
from typing import Any

import msgspec
from msgspec import Struct

from coevolve.errors import CoevolveError
from coevolve.records import Usage, canonical

Message = dict[str, Any]

_THINK = re.compile(r"\s*<think>(.*?)(?:</think>\s*|\Z)", re.DOTALL)
_OPENED_BY_TEMPLATE = re.compile(r"(?!\s*[{\[])(.*?)</think>\s*", re.DOTALL)


class BadReply(CoevolveError):
    """The server answered, but with nothing that can be used: no JSON, no choice, no text. Never journaled."""


class Full(CoevolveError):
    """The conversation does not fit the model's context."""


class Rejected(CoevolveError):
    """A structured answer that was wrong, and wrong again after it was told why."""

    def __init__(self, reason: str, reply: str):
        self.reason, self.reply = reason, reply
        super().__init__(f"the model's answer was refused twice: {reason}")


class Request(Struct, frozen=True, kw_only=True):
    """One call. The same request with another `sample` is another call."""

    model: str
    messages: list[Message]
    tools: list[dict[str, Any]] = []
    """OpenAI function schemas."""
    schema: dict[str, Any] | None = None
    """JSON Schema of a structured answer."""
    temperature: float | None = None
    """None: the server's own."""
    max_tokens: int | None = None
    """Of the reply."""
    sample: int = 0
    seed: int | None = None
    prompt_version: str = ""
    extra: dict[str, Any] = {}
    """Further fields of the request's body, as the server takes them; null removes one."""

    def key(self) -> str:
        """32 hex digits."""
        parameters = [self.tools, self.schema, self.temperature, self.max_tokens, self.seed, self.extra]
        parts = ["call/1", self.model, self.messages, parameters, self.prompt_version, self.sample]
        return hashlib.sha256(canonical(parts)).hexdigest()[:32]

    def describe(self) -> str:
        """One line for people: whom it asks what."""
        prompt = f", prompt {self.prompt_version}" if self.prompt_version else ""
        content = self.messages[-1].get("content") if self.messages else ""
        last = " ".join(str(content).split())
        return (
            f"model {self.model}{prompt}, sample {self.sample}, {len(self.messages)} messages, the last: {last[:120]}"
        )


class Reply(Struct, frozen=True, omit_defaults=True):
    """What the model said."""

    text: str = ""
    reasoning: str = ""
    tool_calls: list[dict[str, Any]] = []
    """OpenAI's shape; `arguments` is text."""
    truncated: bool = False
    """Cut off by a token limit."""
    usage: Usage = Usage()
    cached_tokens: int = 0
    """Of the prompt's tokens, those that the server had in its cache."""

    @property
    def message(self) -> Message:
        """The assistant's message, as a conversation goes on with it. Its reasoning is for the record: it isn't sent back."""
        message: Message = {"role": "assistant", "content": self.text}
        if self.reasoning:
            message["reasoning"] = self.reasoning
        if self.tool_calls:
            message["tool_calls"] = self.tool_calls
        return message


class _Function(Struct):
    name: str
    arguments: str | dict[str, Any] | None = ""


class _Call(Struct):
    function: _Function | None = None
    id: str | None = None


class _Message(Struct):
    content: str | list[dict[str, Any]] | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    refusal: str | None = None
    tool_calls: list[_Call] | None = None


class _Choice(Struct):
    message: _Message
    finish_reason: str | None = None


class _Cached(Struct):
    cached_tokens: int | None = None


class _Usage(Struct):
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    prompt_tokens_details: _Cached | None = None


class _Answer(Struct):
    choices: list[_Choice] | None = None
    usage: _Usage | None = None


_decoder = msgspec.json.Decoder(_Answer)


def reply(body: bytes, names: dict[str, str] | None = None) -> Reply:
    """The first choice of a chat completion. `names` maps the tool names of the server to ours. Raises BadReply."""
    answer = _decode(body)
    if not answer.choices:
        raise BadReply("the server's answer holds no choice")
    choice = answer.choices[0]
    text, reasoning = _split(choice.message)
    calls = [_call(i, call, names or {}) for i, call in enumerate(choice.message.tool_calls or []) if call.function]
    truncated = choice.finish_reason == "length"
    if not (text.strip() or calls or truncated):
        raise BadReply(f"the model's reply is empty (finish_reason {choice.finish_reason})")
    used = answer.usage or _Usage()
    cached = used.prompt_tokens_details.cached_tokens if used.prompt_tokens_details else 0
    usage = Usage(max(0, used.prompt_tokens or 0), max(0, used.completion_tokens or 0))
    return Reply(text, reasoning, calls, truncated, usage, max(0, cached or 0))


def _decode(body: bytes) -> _Answer:
    try:
        return _decoder.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        reason = error
    try:  # half surrogates are no valid text and still come from servers that cut tokens apart
        return msgspec.convert(_whole(json.loads(body)), _Answer)
    except (ValueError, RecursionError):
        raise BadReply(f"the server's answer is no chat completion: {reason}") from None


def _whole(value: Any) -> Any:
    """The value with half surrogates, which no record can hold, replaced."""
    return json.loads(json.dumps(value, ensure_ascii=False).encode("utf-8", "replace"))


def _split(message: _Message) -> tuple[str, str]:
    """Text and reasoning."""
    content = message.content or message.refusal or ""
    if isinstance(content, list):
        content = "".join(str(part.get("text") or "") for part in content)
    reasoning = message.reasoning_content or message.reasoning
    if reasoning:
        return content, reasoning
    thought = _THINK.match(content)
    if not thought and "<think>" not in content:  # a template that ends in <think> leaves it out of the reply
        thought = _OPENED_BY_TEMPLATE.match(content)
    return (content[thought.end() :], thought[1].strip()) if thought else (content, "")


def _call(index: int, call: _Call, names: dict[str, str]) -> dict[str, Any]:
    function = call.function
    arguments = function.arguments or ""
    if not isinstance(arguments, str):
        arguments = json.dumps(arguments, ensure_ascii=False)
    named = {"name": names.get(function.name, function.name), "arguments": arguments}
    return {"id": call.id or f"call_{index}", "type": "function", "function": named}
