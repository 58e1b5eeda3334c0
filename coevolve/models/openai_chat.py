"""The client of an OpenAI-compatible server (vLLM, SGLang, llama.cpp, a vendor): one chat
completion per call.

`retries` has the retry policy; `http_client` bounds each attempt in time and bytes. A server that
cannot be asked at all (dead, refuses the key, asks for a longer rest) raises Unreachable, or
CoevolveError where it calls every request wrong; a call that fails where others may not raises
CallFailed (`servers` tells them apart); a conversation longer than its context raises ContextFull
(`refusals`); an answer without content, or too long to be one, raises BadReply.

The key comes from OPENAI_API_KEY only. It is cut out of what the server says, however it is spelled
there (`redaction`), so that no record or error can hold it; so are the password and the query of an
address (`addresses`).

`request_body` has the form in which a server is asked. Several servers of one model (a trainer's
replicas) are several addresses with commas between them: each conversation stays with one of them,
where its prefix is cached.
"""

from __future__ import annotations

import itertools
import os
import time
import zlib
from typing import Any, NamedTuple

from msgspec.structs import replace

from coevolve.errors import CoevolveError
from coevolve.models.addresses import address, addresses
from coevolve.models.chat import (
    KNOWN_CALL_FIELDS,
    BadReply,
    ChatReply,
    ChatRequest,
    ContextFull,
    read_reply,
)
from coevolve.models.http_client import MAX_BYTES
from coevolve.models.redaction import Redactor
from coevolve.models.refusals import is_too_long
from coevolve.models.request_body import RequestForm, server_names
from coevolve.models.servers import ModelServer, environment_key, package

MAX_QUOTED = 300  # Characters of what a server says that a message holds
MAX_POOLS = 4


class ChatAnswer(NamedTuple):
    """A reply and what it took."""

    reply: ChatReply
    retries: int
    seconds: float  # From the first attempt to the answer


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
        self._forms: dict[str, RequestForm] = {}

    async def close(self) -> None:
        for server in self._servers:
            await server.close()

    async def complete(self, request: ChatRequest) -> ChatAnswer:
        names = server_names(request.tools)
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
            unknown = {name: self._cut(call[name]) for name in call.keys() - KNOWN_CALL_FIELDS}
            calls.append({**call, "id": cut(call["id"]), "function": function, **unknown})
        text, reasoning, own = cut(reply.text), cut(reply.reasoning), self._cut(reply.unknown)
        return replace(reply, text=text, reasoning=reasoning, tool_calls=calls, unknown=own)

    def _cut(self, value: Any) -> Any:
        """A value of JSON, without secrets."""
        if isinstance(value, str):
            return self._redactor.cut(value)
        if isinstance(value, list):
            return list(map(self._cut, value))
        is_object = isinstance(value, dict)
        return {self._cut(n): self._cut(v) for n, v in value.items()} if is_object else value

    async def _post(self, request: ChatRequest, names: dict[str, str]) -> Any:
        """The raw response; asks again in another form where the server's refusal asks for one."""
        model, opening = request.model, _opening(request)
        server = self._servers[(opening + request.sample) % len(self._servers)]
        sent = replace(request, model=self._at_server.get(model, model))
        while True:
            form = self._forms.get(model, RequestForm())
            body = form.body(sent, names)
            try:
                return await server.post(body, opening)
            except self._openai.APIError as error:
                status = getattr(error, "status_code", None)
                message = f"{error} {getattr(error, 'body', '')}"
                if is_too_long(status, message, body):
                    server.answered()
                    full = f"the conversation does not fit the context of model {model}"
                    raise ContextFull(f"{server.name}: {full}") from None
                # Another call may have learned something since this one was sent.
                learned = self._forms.get(model, form).learned(request, status, message)
                if learned == form:
                    raise server.failure(error, model, self._quoted, opening) from None
                self._forms[model] = learned

    def unanswered(self) -> CoevolveError | None:
        """The failure of a server that has failed and never answered."""
        return next((s.failed for s in self._servers if s.failed and not s.answers), None)

    def _quoted(self, text: str) -> str:
        """A server's words as a part of one line."""
        cut = self._redactor.cut(text)[: 10 * MAX_QUOTED]
        plain = "".join(letter if letter.isprintable() else " " for letter in cut)
        return " ".join(plain.split())[:MAX_QUOTED]


def _opening(request: ChatRequest) -> int:
    """The same number for all requests of a conversation, and of its other samples."""
    began = itertools.takewhile(lambda message: message["role"] != "assistant", request.messages)
    words = "\0".join(str(message.get("content")) for message in began)
    return zlib.crc32(words.encode("utf-8", "replace"))
