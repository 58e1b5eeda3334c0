"""A policy behind an OpenAI-compatible server (vLLM, SGLang, llama.cpp, a vendor): one chat completion per reply.

The key comes from OPENAI_API_KEY only and never enters a record or an error. A server that cannot be reached, refuses the
key or goes on failing after the client's own retries raises Unreachable; a request it calls wrong raises CoevolveError; a
conversation longer than its context is no error: `complete` returns None.

Tool names that OpenAI's API would refuse (dots) are sent with `__` in place of the other characters and mapped back.
"""

from __future__ import annotations

import hashlib
import os
import re
from typing import Any, NamedTuple

from coevolve.errors import CoevolveError, MissingDependency, Unreachable
from coevolve.records import Usage

Message = dict[str, Any]

TIMEOUT = 600.0
RETRIES = 4
_ALLOWED = re.compile(r"[A-Za-z0-9_-]{1,64}")
_CONTEXT = re.compile(r"context[_ ](length|window)|maximum context|too many tokens", re.I)


class Completion(NamedTuple):
    message: Message
    truncated: bool
    usage: Usage


class ChatServer:
    """`max_turn_tokens` caps a reply, if given; `temperature` as the server understands it. `open` it before `complete`."""

    def __init__(self, model: str, base_url: str, temperature: float, max_turn_tokens: int | None = None):
        try:
            import openai
        except ImportError as error:
            raise MissingDependency("openai (needed for --base-url)", "pip install 'coevolve[models]'") from error
        self._model, self._url, self._temperature, self._cap = model, base_url, temperature, max_turn_tokens
        key = os.environ.get("OPENAI_API_KEY") or "none"
        self._arguments = {"api_key": key, "base_url": base_url, "timeout": TIMEOUT, "max_retries": RETRIES}
        self._openai = openai
        self._client: Any = None

    async def open(self) -> None:
        """Makes the client, which belongs to the running event loop."""
        self._client = self._openai.AsyncOpenAI(**self._arguments)

    async def close(self) -> None:
        await self._client.close()

    async def complete(self, messages: list[Message], tools: list[dict[str, Any]], seed: str) -> Completion | None:
        """The next assistant message, None when the conversation no longer fits. `seed` (text) is passed on as a number."""
        names = _names(tools)
        request = {"model": self._model, "messages": _outgoing(messages, names), "temperature": self._temperature}
        if tools:
            request["tools"] = [_renamed(tool, names) for tool in tools]
        if self._cap:
            request["max_tokens"] = self._cap
        try:
            answer = await self._client.chat.completions.create(**request, seed=_number(seed))
        except self._openai.APIError as error:
            if self._is_full(error):
                return None
            raise self._readable(error) from None
        return _incoming(answer, {sent: name for name, sent in names.items()})

    def _is_full(self, error: Exception) -> bool:
        return getattr(error, "status_code", None) == 400 and bool(_CONTEXT.search(str(error)))

    def _readable(self, error: Exception) -> CoevolveError:
        """One line without anything that could hold the key."""
        status = getattr(error, "status_code", None)
        if status in (401, 403):
            return Unreachable(f"{self._url}: the server refuses the key in OPENAI_API_KEY (HTTP {status})")
        if status is None or status == 429 or status >= 500:
            what = f"HTTP {status}" if status else type(error).__name__
            return Unreachable(f"{self._url}: no answer from model {self._model} after {RETRIES} retries: {what}")
        said = " ".join(str(getattr(error, "message", "")).replace(self._arguments["api_key"], "***").split())
        return CoevolveError(f"{self._url}: the server refuses the request (HTTP {status}): {said[:300]}")


def _names(tools: list[dict[str, Any]]) -> dict[str, str]:
    """Tool name → the name the API accepts, different for every tool."""
    names: dict[str, str] = {}
    for tool in tools:
        name = tool["function"]["name"]
        sent = name if _ALLOWED.fullmatch(name) else re.sub(r"[^A-Za-z0-9_-]", "__", name)[:64]
        while sent in names.values():
            sent = f"{sent[:60]}_{len(names)}"
        names[name] = sent
    return names


def _renamed(tool: dict[str, Any], names: dict[str, str]) -> dict[str, Any]:
    return {**tool, "function": {**tool["function"], "name": names[tool["function"]["name"]]}}


def _outgoing(messages: list[Message], names: dict[str, str]) -> list[Message]:
    """Messages as the API takes them: results that answer no call by id are user messages."""
    sent = []
    for message in messages:
        if message["role"] == "tool" and "tool_call_id" not in message:
            message = {"role": "user", "content": message["content"]}
        elif message.get("tool_calls"):
            message = {**message, "tool_calls": [_renamed_call(call, names) for call in message["tool_calls"]]}
        sent.append(message)
    return sent


def _renamed_call(call: dict[str, Any], names: dict[str, str]) -> dict[str, Any]:
    function = call["function"]
    return {**call, "function": {**function, "name": names.get(function["name"], function["name"])}}


def _incoming(answer: Any, names: dict[str, str]) -> Completion:
    """The first choice as a plain message; half surrogates, which no record can hold, are replaced."""
    if not answer.choices:
        raise CoevolveError("the server's answer holds no choice")
    choice = answer.choices[0]
    message: Message = {"role": "assistant", "content": _clean(choice.message.content or "")}
    calls = [
        {
            "id": call.id,
            "type": "function",
            "function": {
                "name": names.get(call.function.name, _clean(call.function.name)),
                "arguments": _clean(call.function.arguments or ""),
            },
        }
        for call in choice.message.tool_calls or []
        if call.type == "function"
    ]
    if calls:
        message["tool_calls"] = calls
    used = answer.usage
    usage = Usage(used.prompt_tokens, used.completion_tokens) if used else Usage()
    return Completion(message, choice.finish_reason == "length", usage)


def _clean(text: str) -> str:
    return text.encode("utf-8", "replace").decode()


def _number(seed: str) -> int:
    """A 31-bit seed, as servers take it."""
    return int.from_bytes(hashlib.sha256(seed.encode()).digest()[:4], "big") >> 1
