"""The OpenAI-compatible face of `engine.Engine`, on the loopback interface: GET /health and
/v1/models, POST /v1/chat/completions.

Messages and tools go through the model's chat template; the answer is one choice of plain text
(calls stay text, as the policy writes them) with its usage. What vLLM's server refuses is refused
with the same status, in OpenAI's form:

| what is wrong | status |
|---|---|
| no request: no JSON, no messages, a number out of range, messages without a template | 400 |
| prompt and `max_tokens` exceed the context | 400, in OpenAI's words, which clients know |
| something that this engine cannot do (`UNSUPPORTED`) | 400 |
| another model's name | 404, model_not_found |
| the engine failed | 500; the traceback is in the log |
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated, Any, Literal
from uuid import uuid4

import msgspec
from fastapi import FastAPI, Request, Response
from fastapi.responses import JSONResponse
from msgspec import Meta, Struct
from starlette.exceptions import HTTPException

from coevolve.errors import CoevolveError, UsageError
from coevolve.models.chat import ContextFull

if TYPE_CHECKING:
    from verl_cpu.engine import Engine

HOST = "127.0.0.1"
UNSUPPORTED = {
    "n": 1,
    "stream": False,
    "logprobs": False,
    "response_format": {"type": "text"},
    "tool_choice": "auto",
    "stop": [],
    "top_p": 1,
    "presence_penalty": 0,
    "frequency_penalty": 0,
}
"""Parameters that are taken at this value, the default, only."""
COLDEST = 0.01
"""Temperatures between 0 and this one are taken for it, as vLLM does: logits divided by less
overflow.
"""

Limit = Annotated[int, Meta(ge=1)] | None


class TextPart(Struct):
    text: str
    type: Literal["text"] = "text"


class Message(Struct):
    """What every message has; the template gets its other fields, too."""

    role: str
    content: str | list[TextPart] | None = None


class ChatRequest(Struct):
    """The parameters that count. `seed` names the draws."""

    messages: Annotated[list[Message], Meta(min_length=1)]
    model: str | None = None
    tools: list[dict[str, Any]] | None = None
    max_tokens: Limit = None
    max_completion_tokens: Limit = None
    temperature: Annotated[float, Meta(ge=0)] | None = None
    seed: int | None = None


class NoSuchModel(CoevolveError):
    """Another model is asked for."""


async def serve(engine: Engine) -> str:
    """Starts the server in the running event loop; returns its address."""
    from verl.workers.rollout.utils import run_uvicorn

    port, _ = await run_uvicorn(app(engine), None, HOST)
    return f"{HOST}:{port}"


def app(engine: Engine) -> FastAPI:
    """The routes."""
    app = FastAPI()

    @app.get("/health")
    async def health() -> Response:
        return Response()

    @app.get("/v1/models")
    async def models() -> dict[str, Any]:
        return {
            "object": "list",
            "data": [{"id": engine.name, "object": "model", "owned_by": "coevolve"}],
        }

    @app.post("/v1/chat/completions")
    async def completions(request: Request) -> JSONResponse:
        try:
            asked, prompt = _request(engine, await request.body())
            return JSONResponse(await _complete(engine, asked, prompt))
        except NoSuchModel as error:
            return _refusal(404, str(error), "model_not_found")
        except ContextFull as error:
            return _refusal(
                400,
                f"This model's maximum context length is exceeded: {error}",
                "context_length_exceeded",
            )
        except UsageError as error:
            return _refusal(400, str(error))

    @app.exception_handler(HTTPException)
    async def no_route(request: Request, error: HTTPException) -> JSONResponse:
        return _refusal(error.status_code, f"{request.method} {request.url.path}: {error.detail}")

    @app.exception_handler(Exception)
    async def failed(request: Request, error: Exception) -> JSONResponse:
        return _refusal(500, f"{type(error).__name__}: {error}", kind="server_error")

    return app


def _request(engine: Engine, body: bytes) -> tuple[ChatRequest, list[int]]:
    """What is asked, and the prompt's token ids. Raises UsageError, NoSuchModel, and ContextFull
    where prompt and reply do not fit.
    """
    try:
        raw = msgspec.json.decode(body)
        asked = msgspec.convert(raw, ChatRequest)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise UsageError(f"no chat completion is asked for: {error}") from error
    if asked.model not in (None, engine.name):
        raise NoSuchModel(f"The model `{asked.model}` does not exist.")
    for name, default in UNSUPPORTED.items():
        if raw.get(name) not in (None, default):
            raise UsageError(f"{name}={raw[name]!r} is not supported")
    messages = [
        {**m, "content": _text(told.content)}
        for m, told in zip(raw["messages"], asked.messages, strict=True)
    ]
    try:
        prompt = engine.model.chat.prompt(messages, asked.tools)
    except (
        LookupError,
        TypeError,
        ValueError,
    ) as error:  # templates have errors of their own for odd fields
        raise UsageError(f"the chat template cannot show this conversation: {error!r}") from error
    wanted, context = _limit(asked), engine.model.max_tokens
    if wanted and len(prompt) + wanted > context:
        raise ContextFull(
            f"the prompt is {len(prompt)} tokens, {wanted} more are asked for, and the context is "
            f"{context}"
        )
    return asked, prompt


def _limit(asked: ChatRequest) -> int | None:
    return asked.max_completion_tokens or asked.max_tokens


async def _complete(engine: Engine, asked: ChatRequest, prompt: list[int]) -> dict[str, Any]:
    model = engine.model
    temperature = 1.0 if asked.temperature is None else asked.temperature
    key = None if asked.seed is None else f"{asked.seed}"
    row, version = await engine.ask(
        prompt, key, temperature and max(temperature, COLDEST), _limit(asked) or model.max_tokens
    )
    ended = row.token_ids[-1] in model.stops
    text = model.chat.decode(row.token_ids[:-1] if ended else row.token_ids)
    return {
        "id": f"chatcmpl-{uuid4().hex}",
        "object": "chat.completion",
        "created": int(time.time()),
        "model": engine.name,
        "system_fingerprint": f"weights-{version}",
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": text},
                "finish_reason": "stop" if ended else "length",
            }
        ],
        "usage": {
            "prompt_tokens": len(prompt),
            "completion_tokens": len(row.token_ids),
            "total_tokens": len(prompt) + len(row.token_ids),
        },
    }


def _text(content: str | list[TextPart] | None) -> str:
    """Plain text of a message, parts joined; a message that only calls has none."""
    if isinstance(content, list):
        return "".join(part.text for part in content)
    return content or ""


def _refusal(
    status: int, message: str, code: str | None = None, kind: str = "invalid_request_error"
) -> JSONResponse:
    return JSONResponse(
        {"error": {"message": message, "type": kind, "param": None, "code": code}},
        status_code=status,
    )
