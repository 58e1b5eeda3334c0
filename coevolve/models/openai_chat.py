"""The client of an OpenAI-compatible server (vLLM, SGLang, llama.cpp, a vendor): one chat completion per call.

Retries are the openai package's own: connection errors, 408, 409, 429 and 5xx, Retry-After honoured, nothing on top. A
server that cannot be reached, refuses the key or goes on failing raises Unreachable; a request it calls wrong raises
CoevolveError; a conversation longer than its context raises Full; an answer without content raises BadReply.

The key comes from OPENAI_API_KEY only. It is cut out of what the server says, so that no record or error can hold it.

The body goes through the package's `post` and the answer is read as bytes: building the typed objects of
`chat.completions.create` costs more than the rest of the call. A server without structured answers (it calls
`response_format` wrong) is asked without, once known. Tool names that the API refuses (dots) are sent with `__` in place of
the other characters and mapped back.
"""

from __future__ import annotations

import itertools
import os
import re
import time
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from coevolve.errors import CoevolveError, MissingDependency, Unreachable, UsageError
from coevolve.models.chat import Full, Message, Reply, Request, reply

RETRIES = 4
POOLS = 4
_RAW = {"headers": {"X-Stainless-Raw-Response": "true"}}
_ALLOWED = re.compile(r"[A-Za-z0-9_-]{1,64}")
_CONTEXT = re.compile(r"context[_ ](length|window|size)|maximum context|too many tokens", re.I)
_FORMAT = re.compile(r"response_format|json_schema|guided|structured", re.I)


class Answered(NamedTuple):
    reply: Reply
    retries: int
    seconds: float
    """From the first attempt to the answer."""


class ChatClient:
    """`timeout` is in seconds, of one attempt. `base_url` None is OPENAI_BASE_URL; without either, nothing is sent anywhere
    (UsageError). Belongs to one event loop.

    `concurrency` is how many calls are expected at a time: their connections are spread over several pools, since a pool looks
    at every idle connection it has for every call.
    """

    def __init__(self, base_url: str | None, timeout: float = 600.0, concurrency: int = 1):
        try:
            import openai
        except ImportError as error:
            raise MissingDependency(
                "openai (needed for a model at a server)", "pip install 'coevolve[models]'"
            ) from error
        self._openai = openai
        base_url = _address(base_url or os.environ.get("OPENAI_BASE_URL"))
        self._key = (os.environ.get("OPENAI_API_KEY") or "none").strip()
        if not self._key.isascii() or not self._key.isprintable():
            raise UsageError("OPENAI_API_KEY holds characters that no request can carry")
        options = {"api_key": self._key, "base_url": base_url, "timeout": timeout, "max_retries": RETRIES}
        pools = max(1, min(POOLS, concurrency // POOLS))
        self._clients = [openai.AsyncOpenAI(**options) for _ in range(pools)]
        self._turns = itertools.cycle(self._clients)
        self._url = _shown(str(self._clients[0].base_url))
        self._without_schema: set[str] = set()

    async def close(self) -> None:
        for client in self._clients:
            await client.close()

    async def complete(self, request: Request) -> Answered:
        names = _names(request.tools)
        began = time.monotonic()
        response = await self._post(request, names)
        body = response.content
        if len(self._key) > 4:
            body = body.replace(self._key.encode(), b"***")
        seconds = round(time.monotonic() - began, 3)
        return Answered(reply(body, {sent: name for name, sent in names.items()}), response.retries_taken, seconds)

    async def _post(self, request: Request, names: dict[str, str]) -> Any:
        """The raw response; asks again without the schema where the server has no structured answers."""
        schema = request.model not in self._without_schema
        try:
            return await next(self._turns).post(
                "/chat/completions", cast_to=object, body=_body(request, names, schema), options=_RAW
            )
        except self._openai.APIError as error:
            status, said = getattr(error, "status_code", None), str(error)
            if status == 400 and request.schema and schema and _FORMAT.search(said):
                self._without_schema.add(request.model)
                return await self._post(request, names)
            if status in (400, 413) and _CONTEXT.search(said):
                raise Full(f"{self._url}: the conversation does not fit the context of model {request.model}") from None
            raise self._readable(error, request.model) from None

    def _readable(self, error: Exception, model: str) -> CoevolveError:
        """One line without anything that could hold the key."""
        status = getattr(error, "status_code", None)
        if status in (401, 403):
            return Unreachable(f"{self._url}: the server refuses the key in OPENAI_API_KEY (HTTP {status})")
        if status is None or status in (408, 409, 429) or status >= 500:
            what = f"HTTP {status}" if status else type(error).__name__
            return Unreachable(f"{self._url}: no answer from model {model} after {RETRIES} retries: {what}")
        said = " ".join(str(getattr(error, "message", "")).replace(self._key, "***").split())
        return CoevolveError(f"{self._url}: the server refuses the request (HTTP {status}): {said[:300]}")


def _shown(url: str) -> str:
    """The address without a password that may stand in it."""
    parts = urlsplit(url)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()


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


def _address(url: str | None) -> str:
    """The server's address, if it can be one. Raises UsageError."""
    if not url:
        raise UsageError("the model is at a server: name it with --base-url, or OPENAI_BASE_URL")
    try:
        parts = urlsplit(url.strip())
        good = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        good = False
    if not good:
        raise UsageError(f"--base-url {url!r} is no address of a server, as in http://localhost:8000/v1")
    return url.strip()
