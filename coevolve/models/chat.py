"""One call of a chat model: what is asked, what came back, and how a call fails.

`ChatRequest.key()` is the address of a call in the journal: model, messages, parameters, prompt
version and sample number, and nothing else; not the server, so that recorded answers serve
anywhere. A model that is retrained needs a name of its own.

`read_reply` reads an OpenAI-style answer: the first choice; reasoning from the server's own field
(``reasoning_content``, ``reasoning``) or from a ``<think>`` block that leads the text; tool calls,
and the older `function_call`. A choice without text, calls and reasoning is a BadReply, unless the
token limit cut it off, or the request says that silence is a reply (a policy's: it hands back) and
the model itself ended it there.

Whatever else the model did wrong is its reply, and kept: a call without a name, with a name that no
API takes or with arguments that are no JSON object makes text of all calls, in ``<tool_call>``
tags, for the parser of actions to read or to answer with a hint. So no later request holds a call
that a server would refuse. Reasoning that never ended stays in the text.

Fields that are not known here, of the message and of each call, are kept as they came (but for
empty ones): a server may want them back (`request_body`).
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

MAX_TOKENS = 2**53  # Tokens of one call that a server may count; a larger number counts nothing
MAX_DEPTH = 20
"""Levels of a field of the server's own; a deeper one is not kept, for its readers recurse."""
UNANSWERED = "the model gave no reply: "
"""Beginning of every BadReply, which is lost work but no environment's fault."""
_THINK = re.compile(r"\s*<think>(.*?)(?:</think>\s*|\Z)", re.DOTALL)
_OPENED_BY_TEMPLATE = re.compile(r"(?!\s*[{\[])(.*?)</think>\s*", re.DOTALL)
_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
_READ = {"reasoning_content", "refusal", "function_call"}
KNOWN_FIELDS = {"role", "content", "reasoning", "tool_calls"} | _READ
"""Fields of a reply whose meaning is known."""
KNOWN_CALL_FIELDS = {"id", "type", "function", "index"}  # Fields of a call whose meaning is known


class BadReply(CoevolveError):
    """The server answered with nothing that can be used: no JSON, no choice, no text.

    It is never an answer from the journal. `usage` and `cached_tokens` are what it took all the
    same.
    """

    def __init__(self, reason: str, usage: Usage = Usage(), cached_tokens: int = 0):
        self.usage, self.cached_tokens = usage, cached_tokens
        super().__init__(UNANSWERED + reason)


class CallFailed(BadReply):
    """The server failed one call, or refused it, and may well answer others: a lost item.

    `failure` is the error that the run ends with if it was not the item's own fault.
    """

    def __init__(self, failure: CoevolveError):
        self.failure = failure
        super().__init__(str(failure))


class ContextFull(CoevolveError):
    """The conversation does not fit the model's context."""


class AnswerRejected(CoevolveError):
    """A structured answer that was wrong, and wrong again after it was told why."""

    def __init__(self, reason: str, reply: str):
        self.reason, self.reply = reason, reply
        super().__init__(f"the model's answer was refused twice: {reason}")


class ChatRequest(Struct, frozen=True, kw_only=True):
    """One call. The same request with another `sample` is another call."""

    model: str
    messages: list[Message]
    tools: list[dict[str, Any]] = []  # OpenAI function schemas
    schema: dict[str, Any] | None = None  # JSON Schema of a structured answer
    temperature: float | None = None  # None: the server's own
    max_tokens: int | None = None  # Tokens of the reply
    sample: int = 0
    seed: int | None = None
    prompt_version: str = ""
    extra: dict[str, Any] = {}
    """Further fields of the request's body, as the server takes them; null removes one."""
    may_be_silent: bool = False
    """An empty answer is a reply. Says how the answer is read, and is no part of the key."""

    def key(self) -> str:
        """32 hex digits."""
        sampling = [self.temperature, self.max_tokens, self.seed]
        parameters = [self.tools, self.schema, *sampling, self.extra]
        parts = ["call/1", self.model, self.messages, parameters, self.prompt_version, self.sample]
        return hashlib.sha256(canonical(parts)).hexdigest()[:32]

    def describe(self) -> str:
        """One line for people: whom it asks what."""
        prompt = f", prompt {self.prompt_version}" if self.prompt_version else ""
        content = self.messages[-1].get("content") if self.messages else ""
        last = " ".join(str(content).split())[:120]
        asked = f"sample {self.sample}, {len(self.messages)} messages, the last: {last}"
        return f"model {self.model}{prompt}, {asked}"


class ChatReply(Struct, frozen=True, omit_defaults=True):
    """The model's answer."""

    text: str = ""
    reasoning: str = ""
    tool_calls: list[dict[str, Any]] = []  # OpenAI's shape; `arguments` is text
    truncated: bool = False  # Cut off by a token limit
    usage: Usage = Usage()
    cached_tokens: int = 0  # Tokens of the prompt that the server had in its cache
    unknown: dict[str, Any] = {}  # Fields of the message that are the server's own

    @property
    def is_silent(self) -> bool:
        """The model said nothing, and not for lack of tokens."""
        return not (self.text.strip() or self.reasoning or self.tool_calls or self.truncated)

    @property
    def message(self) -> Message:
        """The assistant's message, as a conversation goes on with it.

        Its reasoning is for the record: it is sent back only where a server asks for it.
        """
        message: Message = {"role": "assistant", "content": self.text}
        if self.reasoning:
            message["reasoning"] = self.reasoning
        if self.tool_calls:
            message["tool_calls"] = self.tool_calls
        return message | self.unknown


class _Choice(Struct):
    message: dict[str, Any]
    finish_reason: Any = None


class _Completion(Struct):
    choices: list[_Choice] | None = None
    usage: Any = None
    error: Any = None


_decoder = msgspec.json.Decoder(_Completion)


def read_reply(
    body: bytes, names: dict[str, str] | None = None, may_be_silent: bool = False
) -> ChatReply:
    """The first choice of a chat completion. Raises BadReply.

    `names` maps the tool names of the server to ours.
    """
    answer = _decode(body)
    usage, cached = _used(answer.usage)
    if not answer.choices:
        error = f": {_json(answer.error)}" if answer.error else ""
        raise BadReply(f"the server's answer holds no choice{error}", usage, cached)
    choice = answer.choices[0]
    truncated, message = choice.finish_reason == "length", choice.message
    text, reasoning = _split(message, truncated)
    found = message.get("tool_calls") or message.get("function_call") or []
    found = found if isinstance(found, list) else [found]
    calls = [_call(i, item, names or {}) for i, item in enumerate(found)]
    if not all(calls):
        tags = [f"<tool_call>\n{_json(_function(item))}\n</tool_call>" for item in found]
        text, calls = "\n".join([text, *tags] if text.strip() else tags), []
    unknown = _unknown(message, KNOWN_FIELDS)
    reply = ChatReply(text, reasoning, calls, truncated, usage, cached, unknown)
    if reply.is_silent and not (may_be_silent and choice.finish_reason in (None, "stop")):
        raise BadReply(f"it is empty (finish_reason {choice.finish_reason})", usage, cached)
    return reply


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _used(usage: Any) -> tuple[Usage, int]:
    """Tokens, and those of the prompt that were cached; 0 for what the server does not count."""
    usage = usage if isinstance(usage, dict) else {}
    details = usage.get("prompt_tokens_details")
    cached = _count(details.get("cached_tokens")) if isinstance(details, dict) else 0
    prompt, completion = _count(usage.get("prompt_tokens")), _count(usage.get("completion_tokens"))
    return Usage(prompt, completion), min(cached, prompt)


def _count(value: Any) -> int:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return int(value) if number and 0 <= value <= MAX_TOKENS and value == int(value) else 0


def _decode(body: bytes) -> _Completion:
    try:
        return _decoder.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        reason = error
    try:  # half surrogates are no valid text and still come from servers that cut tokens apart
        whole = json.loads(_json(json.loads(body)).encode("utf-8", "replace"))
        return msgspec.convert(whole, _Completion)
    except (ValueError, RecursionError):
        raise BadReply(f"the server's answer is no chat completion: {reason}") from None


def _split(message: Message, truncated: bool) -> tuple[str, str]:
    """Text and reasoning; reasoning that neither its mark nor the token limit ended is text."""
    content = _text(message.get("content")) or _text(message.get("refusal"))
    reasoning = message.get("reasoning_content") or message.get("reasoning")
    if reasoning and isinstance(reasoning, str):
        return content, reasoning
    thought = _THINK.match(content)
    if thought and "</think>" not in content and not truncated:
        return content, ""
    if not thought and "<think>" not in content:
        # A template that ends in <think> leaves it out of the reply.
        thought = _OPENED_BY_TEMPLATE.match(content)
    return (content[thought.end() :], thought[1].strip()) if thought else (content, "")


def _text(content: Any) -> str:
    """A message's content, which may come in parts."""
    if isinstance(content, list):
        parts = (part.get("text") if isinstance(part, dict) else part for part in content)
        return "".join(map(_text, parts))
    if isinstance(content, str):
        return content
    return "" if content is None else _json(content)


def _function(item: Any) -> Any:
    """The function of a call, as it came."""
    inner = item.get("function") if isinstance(item, dict) else None
    return inner if isinstance(inner, dict) else item


def _call(index: int, item: Any, names: dict[str, str]) -> dict[str, Any] | None:
    """The call in OpenAI's shape, with arguments as text; None where no server would take it."""
    function = _function(item)
    if not isinstance(function, dict) or not isinstance(function.get("name"), str):
        return None
    arguments = function.get("arguments") or ""
    if not isinstance(arguments, str):
        arguments = _json(arguments)
    sent = function["name"]
    if not (_is_object(arguments) and (sent in names or _NAME.fullmatch(sent))):
        return None
    named = {"name": names.get(sent, sent), "arguments": arguments}
    id_ = item.get("id")
    id_ = id_ if id_ and isinstance(id_, str) else f"call_{index}"
    unknown = _unknown(item, KNOWN_CALL_FIELDS) if item is not function else {}
    return {"id": id_, "type": "function", "function": named, **unknown}


def _unknown(fields: dict[str, Any], known: set[str]) -> dict[str, Any]:
    """The fields that are the server's own, without empty ones and what is nested too deeply."""
    own = {n: v for n, v in fields.items() if n not in known and v not in (None, "", [], {})}
    return {n: v for n, v in own.items() if _is_shallow(v, MAX_DEPTH)}


def _is_shallow(value: Any, depth: int) -> bool:
    inner = value.values() if isinstance(value, dict) else value
    nested = isinstance(value, dict | list)
    return depth > 0 and (not nested or all(_is_shallow(part, depth - 1) for part in inner))


def _is_object(text: str) -> bool:
    try:
        return not text.strip() or isinstance(json.loads(text), dict)
    except (ValueError, RecursionError):
        return False
