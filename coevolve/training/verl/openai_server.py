"""The OpenAI-compatible face of `hf_rollout.Engine`: GET /v1/models and POST /v1/chat/completions, on the loopback interface.

Messages and tools go through the model's chat template; the answer is one choice of plain text (calls stay text, as the
policy writes them) with its usage. A request that is none is answered by 400, one that is too long by 400 and OpenAI's words.
"""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse

from coevolve.errors import UsageError
from coevolve.models.chat import Full

if TYPE_CHECKING:
    from coevolve.training.verl.hf_rollout import Engine

HOST = "127.0.0.1"


async def serve(engine: Engine) -> str:
    """Starts the server in the running event loop; returns its address."""
    from verl.workers.rollout.utils import run_uvicorn

    port, _ = await run_uvicorn(app(engine), None, HOST)
    return f"{HOST}:{port}"


def app(engine: Engine) -> FastAPI:
    """The two routes."""
    app = FastAPI()

    @app.get("/v1/models")
    async def models() -> dict[str, Any]:
        return {"object": "list", "data": [{"id": engine.name, "object": "model", "owned_by": "coevolve"}]}

    @app.post("/v1/chat/completions")
    async def completions(request: Request) -> JSONResponse:
        try:
            body = json.loads(await request.body())
            return JSONResponse(await _complete(engine, body))
        except Full as error:
            return _refusal(f"This model's maximum context length is exceeded: {error}", "context_length_exceeded")
        except (KeyError, TypeError, ValueError, UsageError) as error:
            return _refusal(f"{type(error).__name__}: {error}", "invalid_request_error")

    return app


async def _complete(engine: Engine, body: dict[str, Any]) -> dict[str, Any]:
    chat, model = engine.model.chat, engine.model
    messages = [{**message, "content": _text(message.get("content"))} for message in body["messages"]]
    prompt = chat.prompt(messages, body.get("tools"))
    wanted = body.get("max_completion_tokens") or body.get("max_tokens")
    key = None if body.get("seed") is None else f"{body['seed']}"
    temperature = body.get("temperature")
    row, version = await engine.ask(
        prompt, key, 1.0 if temperature is None else float(temperature), int(wanted or model.max_tokens)
    )
    ended = row.token_ids[-1] in model.stops
    text = chat.decode(row.token_ids[:-1] if ended else row.token_ids)
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


def _text(content: Any) -> str:
    """Plain text of a message, parts joined; a message that only calls has none."""
    if isinstance(content, list):
        return "".join(part.get("text", "") for part in content)
    return content or ""


def _refusal(message: str, kind: str) -> JSONResponse:
    return JSONResponse({"error": {"message": message, "type": kind, "code": kind}}, status_code=400)
