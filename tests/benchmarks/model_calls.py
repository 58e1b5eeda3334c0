"""Measures our own side of a model call: the wall time of many concurrent calls against the ideal,
calls × latency / concurrency.

    python tests/benchmarks/model_calls.py [--calls 1024] [--concurrency 32] [--latency S] [--bare]

Every request has 20 messages and 24 tools, and a key of its own; every answer goes through the
journal. The server is a process of its own that does nothing but wait. `--bare` adds the openai
package's typed call, alone and without journal. Prints one JSON line, with the CPU that a call
takes here (a busy machine lengthens the wall time only); exits 1 where the wall time is more than
25 % over the ideal.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import tempfile
import time
from multiprocessing.connection import Connection

ALLOWED = 1.25
ANSWER = {
    "id": "x",
    "object": "chat.completion",
    "created": 0,
    "model": "m",
    "choices": [
        {
            "index": 0,
            "finish_reason": "stop",
            "message": {"role": "assistant", "content": "word " * 60},
        }
    ],
    "usage": {"prompt_tokens": 4000, "completion_tokens": 60, "total_tokens": 4060},
}


def serve(latency: float, port: Connection) -> None:
    """Answers every POST on a kept-alive connection after the latency."""
    body = json.dumps(ANSWER).encode()
    fields = f"Content-Type: application/json\r\nContent-Length: {len(body)}"
    head = f"HTTP/1.1 200 OK\r\n{fields}\r\n\r\n".encode()

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        loop = asyncio.get_running_loop()
        while header := await _header(reader):
            due = loop.time() + latency
            await reader.readexactly(_length(header))
            await asyncio.sleep(due - loop.time())
            writer.write(head + body)
        writer.close()

    async def run() -> None:
        server = await asyncio.start_server(talk, "127.0.0.1", 0, limit=1 << 20)
        port.send(server.sockets[0].getsockname()[1])
        await server.serve_forever()

    asyncio.run(run())


async def _header(reader: asyncio.StreamReader) -> bytes:
    try:
        return await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError:
        return b""


def _length(header: bytes) -> int:
    lines = (line.split(b":", 1) for line in header.split(b"\r\n") if b":" in line)
    return next(int(value) for name, value in lines if name.lower() == b"content-length")


def conversation(number: int) -> tuple[list[dict], list[dict]]:
    """20 messages and 24 tools, as an agent in the middle of an episode sends them: about 25 kB."""
    property_ = {
        "type": "string",
        "description": "What it is for, in a sentence of about the usual length.",
    }
    tools = [
        {
            "type": "function",
            "function": {
                "name": f"tool_{i}",
                "description": "Does something to something else, and says what came of it. " * 2,
                "parameters": {
                    "type": "object",
                    "properties": {f"argument_{j}": property_ for j in range(5)},
                },
            },
        }
        for i in range(24)
    ]
    turns = [
        {"role": ("user", "assistant")[i % 2], "content": f"turn {i}: " + "some words " * 30}
        for i in range(19)
    ]
    return [*turns, {"role": "user", "content": f"request {number}"}], tools


def ours(url: str, calls: int, concurrency: int) -> tuple[float, float]:
    """Seconds for all calls through `Models`: on the clock and of our CPU."""
    from coevolve.models.chat import ChatRequest
    from coevolve.models.options import ServiceOptions
    from coevolve.models.service import Models

    requests = []
    for number in range(calls):
        messages, tools = conversation(number)
        requests.append(ChatRequest(model="m", messages=messages, tools=tools, temperature=1.0))
    with tempfile.TemporaryDirectory() as folder:
        options = ServiceOptions(base_url=url, journal=folder, concurrency=concurrency)
        with Models("bench", options) as models:
            began, busy = time.perf_counter(), time.process_time()
            for reply in models.each(requests, models.chat):
                assert reply.usage.prompt_tokens == 4000
            return time.perf_counter() - began, time.process_time() - busy


async def typed(url: str, calls: int, concurrency: int) -> float:
    """Seconds for the same calls through `chat.completions.create`."""
    import openai

    client = openai.AsyncOpenAI(base_url=url, api_key="none")
    slots = asyncio.Semaphore(concurrency)
    asked = [conversation(number) for number in range(calls)]

    async def one(messages: list[dict], tools: list[dict]) -> None:
        async with slots:
            await client.chat.completions.create(
                model="m", messages=messages, tools=tools, temperature=1.0
            )

    began = time.perf_counter()
    await asyncio.gather(*(one(*pair) for pair in asked))
    return time.perf_counter() - began


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--calls", type=int, default=1024)
    parser.add_argument("--concurrency", type=int, default=32)
    parser.add_argument("--latency", type=float, default=0.1)
    parser.add_argument("--bare", action="store_true")
    options = parser.parse_args()
    here, there = multiprocessing.Pipe()
    server = multiprocessing.get_context("spawn").Process(
        target=serve, args=(options.latency, there), daemon=True
    )
    server.start()
    url = f"http://127.0.0.1:{here.recv()}/v1"
    ideal = options.calls * options.latency / options.concurrency
    wall, busy = ours(url, options.calls, options.concurrency)
    result = {
        **vars(options),
        "ideal_s": ideal,
        "wall_s": round(wall, 2),
        "ratio": round(wall / ideal, 3),
    }
    result["cpu_ms_a_call"] = round(1000 * busy / options.calls, 2)
    if options.bare:
        result["typed_ratio"] = round(
            asyncio.run(typed(url, options.calls, options.concurrency)) / ideal, 3
        )
    server.terminate()
    print(json.dumps(result))
    return int(wall > ALLOWED * ideal)


if __name__ == "__main__":
    raise SystemExit(main())
