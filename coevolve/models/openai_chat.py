"""The client of an OpenAI-compatible server (vLLM, SGLang, llama.cpp, a vendor): one chat
completion per call.

Retries are the openai package's own: connection errors, 408, 409, 429 and 5xx, Retry-After honoured
up to a minute, nothing on top; `http_client` bounds each attempt in time and bytes. A server that
cannot be reached, refuses the key, asks for a longer rest or goes on failing raises Unreachable; a
request it calls wrong raises CoevolveError; a conversation longer than its context raises
ContextFull; an answer without content, or too long to be one, raises BadReply.

The key comes from OPENAI_API_KEY only. It is cut out of what the server says, however it is spelled
there (`secrets`), so that no record or error can hold it; so are the password and the query of an
address (`addresses`).

The body goes through the package's `post` and the answer is read as bytes: building the typed
objects of `chat.completions.create` costs more than the rest of the call. A server without
structured answers (it calls `response_format` wrong, with HTTP 400, 404, 422 or 501) is asked
without, once known. Results of calls that were read from a reply's text are `tool` messages, as in
training; a server that takes them for calls of its own only gets `user` messages, once known.
Several servers of one model (a trainer's replicas) are several addresses with commas between them:
each conversation stays with one of them, where its prefix is cached. Tool names that the API
refuses (dots) are sent with `__` in place of the other characters and mapped back.
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
from coevolve.models.servers import Server, environment_key, package

LONGEST = 300
"""Characters of what a server says that a message holds."""
POOLS = 4
_ALLOWED = re.compile(r"[A-Za-z0-9_-]{1,64}")
_CONTEXT = re.compile(r"context[_ ](length|window|size)|maximum context|too many tokens", re.I)
_FORMAT = re.compile(r"response_format|json_schema|guided|structured", re.I)
_NO_ID = "textcall0"
"""Nine letters and digits, which is what some templates ask of an id."""
_TOOL = re.compile(r"\btool", re.I)
_NO_FORMAT = (400, 404, 422, 501)
"""How servers refuse what they do not know."""


class ChatAnswer(NamedTuple):
    reply: ChatReply
    retries: int
    seconds: float
    """From the first attempt to the answer."""


class ChatClient:
    """`timeout` is in seconds, of one attempt. `base_url` is one address or several, `URL,URL`;
    None is OPENAI_BASE_URL; without either, nothing is sent anywhere (UsageError). Belongs to one
    event loop.

    `concurrency` is how many calls are expected at a time: their connections are spread over
    several pools, since a pool looks at every idle connection it has for every call. `at_server`
    has the server's name of a model, where that is another.
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
        pools = max(1, min(POOLS, concurrency // len(found) // POOLS))
        self._servers = [Server(at, key, timeout, pools) for at in found]
        proxies = [address(server.proxy) for server in self._servers if server.proxy]
        self._secrets = Redactor(
            key, *itertools.chain.from_iterable(at.secrets for at in [*found, *proxies])
        )
        self._at_server = at_server or {}
        self._without_schema: set[str] = set()
        self._without_results: set[str] = set()

    async def close(self) -> None:
        for server in self._servers:
            await server.close()

    async def complete(self, request: ChatRequest) -> ChatAnswer:
        names = _names(request.tools)
        began = time.monotonic()
        response = await self._post(request, names)
        seconds = round(time.monotonic() - began, 3)
        ours = {sent: name for name, sent in names.items()}
        try:
            found = _read(response.content, ours, request.may_be_silent)
        except BadReply as error:
            error.args = (self._said(str(error)),)
            raise
        return ChatAnswer(self._safe(found), response.retries_taken, seconds)

    def _safe(self, found: ChatReply) -> ChatReply:
        """The reply without secrets. They are cut here, out of what was read, for a server may
        spell them in any way of JSON's."""
        cut = self._secrets.cut
        calls = [
            {
                **call,
                "id": cut(call["id"]),
                "function": {name: cut(text) for name, text in call["function"].items()},
            }
            for call in found.tool_calls
        ]
        return replace(
            found, text=cut(found.text), reasoning=cut(found.reasoning), tool_calls=calls
        )

    async def _post(self, request: ChatRequest, names: dict[str, str]) -> Any:
        """The raw response; asks again where the server has no structured answers, or no `tool`
        messages of this kind."""
        server = self._servers[_conversation(request) % len(self._servers)]
        schema = request.model not in self._without_schema
        results = request.model not in self._without_results
        try:
            asked = replace(request, model=self._at_server.get(request.model, request.model))
            return await server.post(_body(asked, names, schema, results))
        except self._openai.APIError as error:
            status, said = getattr(error, "status_code", None), str(error)
            if status in _NO_FORMAT and request.schema and schema and _FORMAT.search(said):
                self._without_schema.add(request.model)
                return await self._post(request, names)
            if (
                status in _NO_FORMAT
                and results
                and _TOOL.search(said)
                and any(map(_lone, request.messages))
            ):
                self._without_results.add(request.model)
                return await self._post(request, names)
            if status in (400, 413) and _CONTEXT.search(said):
                raise ContextFull(
                    f"{server.name}: the conversation does not fit the context of model {request.model}"
                ) from None
            raise server.failure(error, request.model, self._said) from None

    def _said(self, text: str) -> str:
        """A server's words as a part of one line."""
        cut = self._secrets.cut(text)[: 10 * LONGEST]
        plain = "".join(letter if letter.isprintable() else " " for letter in cut)
        return " ".join(plain.split())[:LONGEST]


def _read(body: bytes, names: dict[str, str], may_be_silent: bool) -> ChatReply:
    if len(body) > MAX_BYTES:
        raise BadReply(f"the server's answer is longer than {MAX_BYTES >> 20} MiB")
    return read_reply(body, names, may_be_silent)


def _conversation(request: ChatRequest) -> int:
    """The same number for all requests of one conversation: what was said before the model's first
    word, and which sample it is."""
    began = itertools.takewhile(lambda message: message["role"] != "assistant", request.messages)
    words = "\0".join(str(message.get("content")) for message in began)
    return zlib.crc32(words.encode("utf-8", "replace")) + request.sample


def _body(
    request: ChatRequest, names: dict[str, str], schema: bool, results: bool
) -> dict[str, Any]:
    body: dict[str, Any] = {
        "model": request.model,
        "messages": _outgoing(request.messages, names, results),
    }
    if request.tools:
        body["tools"] = [_renamed(tool, names) for tool in request.tools]
    if request.schema and schema:
        body["response_format"] = {"type": "json_schema", "json_schema": request.schema}
    limits = {
        "temperature": request.temperature,
        "max_tokens": request.max_tokens,
        "seed": request.seed,
    }
    body |= {name: value for name, value in limits.items() if value is not None}
    return {name: value for name, value in (body | request.extra).items() if value is not None}


def _names(tools: list[dict[str, Any]]) -> dict[str, str]:
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


def _renamed(tool: dict[str, Any], names: dict[str, str]) -> dict[str, Any]:
    name = tool["function"]["name"]
    return (
        tool
        if names[name] == name
        else {**tool, "function": {**tool["function"], "name": names[name]}}
    )


def _lone(message: Message) -> bool:
    """Whether it is the result of a call that was read from a reply's text: one without an id."""
    return message["role"] == "tool" and "tool_call_id" not in message


def _outgoing(messages: list[Message], names: dict[str, str], results: bool) -> list[Message]:
    """Messages as the API takes them; `results`: whether it takes `tool` messages for calls without
    an id. Reasoning stays here."""
    sent = []
    for message in messages:
        if _lone(message):
            role = {"role": "tool", "tool_call_id": _NO_ID} if results else {"role": "user"}
            message = {**role, "content": message["content"]}
        elif message.get("tool_calls"):
            message = {
                **message,
                "tool_calls": [_renamed_call(call, names) for call in message["tool_calls"]],
            }
        if "reasoning" in message:
            message = {name: value for name, value in message.items() if name != "reasoning"}
        sent.append(message)
    return sent


def _renamed_call(call: dict[str, Any], names: dict[str, str]) -> dict[str, Any]:
    function = call["function"]
    return {**call, "function": {**function, "name": names.get(function["name"], function["name"])}}
