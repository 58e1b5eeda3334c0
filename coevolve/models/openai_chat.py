"""The client of an OpenAI-compatible server (vLLM, SGLang, llama.cpp, a vendor): one chat completion per call.

Retries are the openai package's own: connection errors, 408, 409, 429 and 5xx, Retry-After honoured, nothing on top; an attempt
that is not over after `timeout` seconds, however the server spends them, is one of its timeouts (`attempts`). A server that cannot be reached, refuses the key or goes on failing raises Unreachable; a request it calls wrong raises
CoevolveError; a conversation longer than its context raises Full; an answer without content raises BadReply.

The key comes from OPENAI_API_KEY only. It is cut out of what the server says, however it is spelled there (`secrets`), so that
no record or error can hold it; so is a password in the address, which goes out as a header and into no URL.

The body goes through the package's `post` and the answer is read as bytes: building the typed objects of
`chat.completions.create` costs more than the rest of the call. A server without structured answers (it calls
`response_format` wrong, with HTTP 400, 404, 422 or 501) is asked without, once known. Several servers of one model (a trainer's replicas) are several addresses
with commas between them: each conversation stays with one of them, where its prefix is cached. Tool names that the API refuses (dots) are sent with `__` in place of
the other characters and mapped back.
"""

from __future__ import annotations

import base64
import itertools
import os
import re
import time
import zlib
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from msgspec.structs import replace

from coevolve.errors import CoevolveError, MissingDependency, Unreachable, UsageError, installation
from coevolve.models.attempts import asked_wait, bounded
from coevolve.models.chat import BadReply, Full, Message, Reply, Request, reply
from coevolve.models.secrets import Secrets, shown, without_password

RETRIES = 4
LONGEST_WAIT = 60
"""Seconds of Retry-After that every version of the package waits for; beyond it some wait as they like, and some give up."""
LONGEST = 300
"""Characters of what a server says that a message holds."""
POOLS = 4
_RAW = {"headers": {"X-Stainless-Raw-Response": "true"}}
_ALLOWED = re.compile(r"[A-Za-z0-9_-]{1,64}")
_CONTEXT = re.compile(r"context[_ ](length|window|size)|maximum context|too many tokens", re.I)
_FORMAT = re.compile(r"response_format|json_schema|guided|structured", re.I)
_NO_FORMAT = (400, 404, 422, 501)
"""How servers refuse what they do not know."""


class Answered(NamedTuple):
    reply: Reply
    retries: int
    seconds: float
    """From the first attempt to the answer."""


class ChatClient:
    """`timeout` is in seconds, of one attempt. `base_url` is one address or several, `URL,URL`; None is OPENAI_BASE_URL;
    without either, nothing is sent anywhere (UsageError). Belongs to one event loop.

    `concurrency` is how many calls are expected at a time: their connections are spread over several pools, since a pool looks
    at every idle connection it has for every call.
    """

    def __init__(self, base_url: str | None, timeout: float = 600.0, concurrency: int = 1):
        try:
            import openai
        except ImportError as error:
            raise MissingDependency("openai (needed for a model at a server)", installation("models")) from error
        self._openai = openai
        addresses = _addresses(base_url or os.environ.get("OPENAI_BASE_URL"))
        self._key = (os.environ.get("OPENAI_API_KEY") or "none").strip()
        if not self._key.isascii() or not self._key.isprintable():
            raise UsageError("OPENAI_API_KEY holds characters that no request can carry")
        options = {"api_key": self._key, "timeout": timeout, "max_retries": RETRIES}
        pools = max(1, min(POOLS, concurrency // len(addresses) // POOLS))
        servers = [
            [openai.AsyncOpenAI(**options, **_at(url), http_client=bounded(timeout)) for _ in range(pools)]
            for url in addresses
        ]
        self._clients = [client for clients in servers for client in clients]
        self._turns = [itertools.cycle(clients) for clients in servers]
        self._url = ", ".join(shown(str(clients[0].base_url)) for clients in servers)
        self._secrets = Secrets(self._key, *filter(None, (without_password(url).password for url in addresses)))
        self._without_schema: set[str] = set()

    async def close(self) -> None:
        for client in self._clients:
            await client.close()

    async def complete(self, request: Request) -> Answered:
        names = _names(request.tools)
        began = time.monotonic()
        response = await self._post(request, names)
        seconds = round(time.monotonic() - began, 3)
        ours = {sent: name for name, sent in names.items()}
        try:
            found = reply(response.content, ours, request.may_be_silent)
        except BadReply as error:
            error.args = (self._said(str(error)),)
            raise
        return Answered(self._safe(found), response.retries_taken, seconds)

    def _safe(self, found: Reply) -> Reply:
        """The reply without secrets. They are cut here, out of what was read, for a server may spell them in any way of JSON's."""
        cut = self._secrets.cut
        calls = [
            {**call, "id": cut(call["id"]), "function": {name: cut(text) for name, text in call["function"].items()}}
            for call in found.tool_calls
        ]
        return replace(found, text=cut(found.text), reasoning=cut(found.reasoning), tool_calls=calls)

    async def _post(self, request: Request, names: dict[str, str]) -> Any:
        """The raw response; asks again without the schema where the server has no structured answers."""
        schema = request.model not in self._without_schema
        try:
            return await next(self._turns[_conversation(request) % len(self._turns)]).post(
                "/chat/completions", cast_to=object, body=_body(request, names, schema), options=_RAW
            )
        except self._openai.APIError as error:
            status, said = getattr(error, "status_code", None), str(error)
            if status in _NO_FORMAT and request.schema and schema and _FORMAT.search(said):
                self._without_schema.add(request.model)
                return await self._post(request, names)
            if status in (400, 413) and _CONTEXT.search(said):
                raise Full(f"{self._url}: the conversation does not fit the context of model {request.model}") from None
            raise self._readable(error, request.model) from None

    def _readable(self, error: Exception, model: str) -> CoevolveError:
        """One line, without anything that could hold the key."""
        status, why = getattr(error, "status_code", None), self._said(_reason(error))
        if status in (401, 403):
            return Unreachable(f"{self._url}: the server refuses the key in OPENAI_API_KEY (HTTP {status}): {why}")
        wait = asked_wait(getattr(getattr(error, "response", None), "headers", {}))
        if wait > LONGEST_WAIT:
            return Unreachable(
                f"{self._url}: HTTP {status} from model {model}: it asks to be left alone for {wait:.0f} seconds: {why}"
            )
        if status is None or status in (408, 409, 429) or status >= 500:
            what = f"HTTP {status}: {why}" if status else type(error).__name__
            return Unreachable(f"{self._url}: no answer from model {model} after {RETRIES} retries: {what}")
        return CoevolveError(f"{self._url}: the server refuses the request (HTTP {status}): {why}")

    def _said(self, text: str) -> str:
        """A server's words as a part of one line."""
        plain = "".join(letter if letter.isprintable() else " " for letter in self._secrets.cut(text))
        return " ".join(plain.split())[:LONGEST]


def _reason(error: Exception) -> str:
    """What the body of an error says is wrong, in any of the forms that servers have; else the error's own message."""
    said = getattr(error, "body", None)
    while isinstance(said, dict):
        said = next((said[name] for name in ("message", "detail", "error") if said.get(name)), None) or str(said)
    return str(said or getattr(error, "message", ""))


def _conversation(request: Request) -> int:
    """The same number for all requests of one conversation: what was said before the model's first word, and which sample it is."""
    began = itertools.takewhile(lambda message: message["role"] != "assistant", request.messages)
    words = "\0".join(str(message.get("content")) for message in began)
    return zlib.crc32(words.encode("utf-8", "replace")) + request.sample


def _body(request: Request, names: dict[str, str], schema: bool) -> dict[str, Any]:
    body: dict[str, Any] = {"model": request.model, "messages": _outgoing(request.messages, names)}
    if request.tools:
        body["tools"] = [_renamed(tool, names) for tool in request.tools]
    if request.schema and schema:
        body["response_format"] = {"type": "json_schema", "json_schema": request.schema}
    limits = {"temperature": request.temperature, "max_tokens": request.max_tokens, "seed": request.seed}
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
    return tool if names[name] == name else {**tool, "function": {**tool["function"], "name": names[name]}}


def _outgoing(messages: list[Message], names: dict[str, str]) -> list[Message]:
    """Messages as the API takes them: results that answer no call by id are user messages; reasoning stays here."""
    sent = []
    for message in messages:
        if message["role"] == "tool" and "tool_call_id" not in message:
            message = {"role": "user", "content": message["content"]}
        elif message.get("tool_calls"):
            message = {**message, "tool_calls": [_renamed_call(call, names) for call in message["tool_calls"]]}
        if "reasoning" in message:
            message = {name: value for name, value in message.items() if name != "reasoning"}
        sent.append(message)
    return sent


def _renamed_call(call: dict[str, Any], names: dict[str, str]) -> dict[str, Any]:
    function = call["function"]
    return {**call, "function": {**function, "name": names.get(function["name"], function["name"])}}


def _addresses(urls: str | None) -> list[str]:
    """The servers' addresses, if they can be some. Raises UsageError."""
    if not urls:
        raise UsageError("the model is at a server: name it with --base-url, or OPENAI_BASE_URL")
    return [_address(url.strip()) for url in urls.split(",")]


def _at(url: str) -> dict[str, Any]:
    """How a client is told of an address: a password in it is a header, in place of the key's."""
    plain, user, password = without_password(url)
    if user is None:
        return {"base_url": plain}
    credentials = base64.b64encode(f"{user}:{password}".encode()).decode()
    return {"base_url": plain, "default_headers": {"Authorization": f"Basic {credentials}"}}


def _address(url: str) -> str:
    try:
        parts = urlsplit(url)
        good = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        good = False
    if not good:
        raise UsageError(f"--base-url {shown(url)!r} is no address of a server, as in http://localhost:8000/v1")
    return url
