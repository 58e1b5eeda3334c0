"""A real OpenAI-compatible server on loopback: `transformers serve` with a model directory, started
and ended here."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

NEEDS = ("fastapi", "uvicorn", "accelerate", "requests")
STARTS_WITHIN = 180


def missing() -> list[str]:
    """Packages that `transformers serve` lacks here."""
    return [name for name in NEEDS if importlib.util.find_spec(name) is None]


@contextlib.contextmanager
def serve(model: Path, log: Path) -> Iterator[str]:
    """The base URL. The model's name at the server is its directory."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [
        sys.executable,
        "-m",
        "transformers.cli.transformers",
        "serve",
        str(model),
        "--device",
        "cpu",
    ]
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}
    with open(log, "wb") as stream:
        process = subprocess.Popen(
            [*command, "--host", "127.0.0.1", "--port", str(port)],
            stdout=stream,
            stderr=stream,
            env=environment,
        )
    try:
        _wait(process, f"http://127.0.0.1:{port}/health", log)
        yield f"http://127.0.0.1:{port}/v1"
    finally:
        process.kill()
        process.wait()


def _wait(process: subprocess.Popen, url: str, log: Path) -> None:
    deadline = time.monotonic() + STARTS_WITHIN
    while time.monotonic() < deadline and process.poll() is None:
        with contextlib.suppress(urllib.error.URLError, ConnectionError):
            urllib.request.urlopen(url, timeout=5).close()
            return
        time.sleep(0.2)
    raise RuntimeError(f"transformers serve did not start: {log.read_text()[-2000:]}")
