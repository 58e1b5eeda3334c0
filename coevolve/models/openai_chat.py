"""The client of an OpenAI-compatible server (vLLM, SGLang, llama.cpp, a vendor): one chat
completion per call.

`retries` has the retry policy; `http_client` bounds each attempt in time and bytes. A server that
cannot be reached, refuses the key, asks for a longer rest or goes on failing raises Unreachable; a
request it calls wrong raises CoevolveError; a conversation longer than its context raises
ContextFull; an answer without content, or too long to be one, raises BadReply.

The key comes from OPENAI_API_KEY only. It is cut out of what the server says, however it is spelled
there (`redaction`), so that no record or error can hold it; so are the password and the query of an
address (`addresses`).

A server without structured answers (it calls `response_format` wrong) is asked without, once known.
Results of calls that were read from a reply's text are `tool` messages, as in training; a server
that takes them for calls of its own only gets `user` messages, once known. Several servers of one
model (a trainer's replicas) are several addresses with commas between them: each conversation stays
with one of them, where its prefix is cached. Tool names that the API refuses (dots) are sent with
`__` in place of the other characters and mapped back.
"""

from __future__ import annotations

import itertools
import os
import re
import time
import zlib
from typing import Any, NamedTuple

from msgspec.structs import replace

from coevolve.models.addresses import address, addresses
from coevolve.models.chat import BadReply, ChatReply, ChatRequest, ContextFull, Message, read_reply
from coevolve.models.http_client import MAX_BYTES
from coevolve.models.redaction import Redactor
from coevolve.models.servers import ModelServer, environment_key, package

MAX_QUOTED = 300
"""Characters of what a server says that a message holds."""
MAX_POOLS = 4
_ALLOWED = re.compile(r"[A-Za-z0-9_-]{1,64}")
_CONTEXT = re.compile(r"context[_ ](length|window|size)|maximum context|too many tokens", re.I)
_FORMAT = re.compile(r"response_format|json_schema|guided|structured", re.I)
_TOOL = re.compile(r"\btool", re.I)
_UNSUPPORTED = (400, 404, 422, 501)
"""HTTP statuses by which servers refuse what they do not know."""
# Nine letters and digits, which is what some templates ask of an id.
_NO_ID = "textcall0"


class ChatAnswer(NamedTuple):
    """A reply and what it took."""

    reply: ChatReply
    retries: int
    seconds: float
    """From the first attempt to the answer."""


class ChatClient:
    """`timeout` is in seconds, of one attempt. `base_url` is one address or several, `URL,URL`;
    None is OPENAI_BASE_URL; without either, nothing is sent anywhere (UsageError). Belongs to one
    event loop.

    `concurrency` is how many calls are expected at a time. `at_server` has the server's name of a
    model, where that is another.
    """

    def __init__(
        self,
        base_url: str | None,
        timeout: float = 600.0,
        concurrency: int = 1,
        at_server: dict[str, str] | None = None,
    ):
        self._openai = package()
        key = environment_key()
        found = addresses(base_url or os.environ.get("OPENAI_BASE_URL"))
        # Several pools, since a pool looks at every idle connection it has for every call.
        pools = max(1, min(MAX_POOLS, concurrency // len(found) // MAX_POOLS))
        self._servers = [ModelServer(at, key, timeout, pools) for at in found]
        proxies = [address(server.proxy) for server in self._servers if server.proxy]
        self._redactor = Redactor(key, *(s for at in [*found, *proxies] for s in at.secrets))
        self._at_server = at_server or {}
        self._without_schema: set[str] = set()
        self._without_results: set[str] = set()

    async def close(self) -> None:
        for server in self._servers:
            await server.close()

    async def complete(self, request: ChatRequest) -> ChatAnswer:
        names = _server_names(request.tools)
        began = time.monotonic()
        response = await self._post(request, names)
        seconds = round(time.monotonic() - began, 3)
        ours = {sent: name for name, sent in names.items()}
        try:
            # Read as bytes: the typed objects of `chat.completions.create` cost more than the call.
            if len(response.content) > MAX_BYTES:
                raise BadReply(f"the server's answer is longer than {MAX_BYTES >> 20} MiB")
            reply = read_reply(response.content, ours, request.may_be_silent)
        except BadReply as error:
            error.args = (self._quoted(str(error)),)
            raise
        return ChatAnswer(self._redacted(reply), response.retries_taken, seconds)

    def _redacted(self, reply: ChatReply) -> ChatReply:
        # Secrets are cut out of what was read, for a server may spell them in any way of JSON's.
        cut, calls = self._redactor.cut, []
        for call in reply.tool_calls:
            function = {name: cut(text) for name, text in call["function"].items()}
            calls.append({**call, "id": cut(call["id"]), "function": function})
        text, reasoning = cut(reply.text), cut(reply.reasoning)
        return replace(reply, text=text, reasoning=reasoning, tool_calls=calls)

    async def _post(self, request: ChatRequest, names: dict[str, str]) -> Any:
        """The raw response; asks again without what the server turns out not to support."""
        model, server = request.model, self._servers[_conversation(request) % len(self._servers)]
        schema, results = model not in self._without_schema, model not in self._without_results
        try:
            sent = replace(request, model=self._at_server.get(model, model))
            return await server.post(_body(sent, names, schema, results))
        except self._openai.APIError as error:
            status, message = getattr(error, "status_code", None), str(error)
            lone = results and any(map(_is_lone_result, request.messages))
            if status in _UNSUPPORTED and request.schema and schema and _FORMAT.search(message):
                self._without_schema.add(model)
                return await self._post(request, names)
            if status in _UNSUPPORTED and lone and _TOOL.search(message):
                self._without_results.add(model)
                return await self._post(request, names)
            if status in (400, 413) and _CONTEXT.search(message):
                full = f"the conversation does not fit the context of model {model}"
                raise ContextFull(f"{server.name}: {full}") from None
            raise server.failure(error, model, self._quoted) from None

    def _quoted(self, text: str) -> str:
        """A server's words as a part of one line."""
        cut = self._redactor.cut(text)[: 10 * MAX_QUOTED]
        plain = "".join(letter if letter.isprintable() else " " for letter in cut)
        return " ".join(plain.split())[:MAX_QUOTED]


def _conversation(request: ChatRequest) -> int:
    """The same number for all requests of a conversation: its first messages and its sample."""
    began = itertools.takewhile(lambda message: message["role"] != "assistant", request.messages)
    words = "\0".join(str(message.get("content")) for message in began)
    return zlib.crc32(words.encode("utf-8", "replace")) + request.sample


def _body(
    request: ChatRequest, names: dict[str, str], schema: bool, results: bool
) -> dict[str, Any]:
    """The request as the API takes it; a value of None is a field that is not sent."""
    body: dict[str, Any] = {
        "model": request.model,
        "messages": [_sent_message(message, names, results) for message in request.messages],
        "temperature": request.temperature,
        "max_tokens": request.max_tokens,
        "seed": request.seed,
    }
    if request.tools:
        body["tools"] = [_renamed(tool, names) for tool in request.tools]
    if request.schema and schema:
        body["response_format"] = {"type": "json_schema", "json_schema": request.schema}
    return {name: value for name, value in (body | request.extra).items() if value is not None}


def _server_names(tools: list[dict[str, Any]]) -> dict[str, str]:
    """Tool name → the name the API accepts, different for every tool."""
    names: dict[str, str] = {}
    taken: set[str] = set()
    for tool in tools:
        name = tool["function"]["name"]
        sent = name if _ALLOWED.fullmatch(name) else re.sub(r"[^A-Za-z0-9_-]", "__", name)[:64]
        while sent in taken:
            sent = f"{sent[:60]}_{len(names)}"
        names[name] = sent
        taken.add(sent)
    return names


def _renamed(named: dict[str, Any], names: dict[str, str]) -> dict[str, Any]:
    """A tool or a call, with the server's name of its function."""
    function = named["function"]
    name = names.get(function["name"], function["name"])
    return named if name == function["name"] else {**named, "function": {**function, "name": name}}


def _is_lone_result(message: Message) -> bool:
    """Tells whether it is the result of a call without an id, read from a reply's text."""
    return message["role"] == "tool" and "tool_call_id" not in message


def _sent_message(message: Message, names: dict[str, str], results: bool) -> Message:
    """The message as the API takes it, without its reasoning.

    `results`: whether the server takes `tool` messages for calls without an id.
    """
    if _is_lone_result(message):
        role = {"role": "tool", "tool_call_id": _NO_ID} if results else {"role": "user"}
        return {**role, "content": message["content"]}
    if message.get("tool_calls"):
        calls = [_renamed(call, names) for call in message["tool_calls"]]
        message = {**message, "tool_calls": calls}
    if "reasoning" in message:
        message = {name: value for name, value in message.items() if name != "reasoning"}
    return message
