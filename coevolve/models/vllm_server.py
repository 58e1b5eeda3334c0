"""A model behind `vllm serve` on loopback, for as long as a command runs: `--backend vllm`.

    with serve("runs/a/policy", "policy@1a2b3c4d", "--tensor-parallel-size 2") as url: ...

vLLM is a process of its own, found on the PATH or beside this interpreter; nothing of it is imported. It is ended with all its
engine processes when the block ends, and by the kernel when this process dies (Linux). Its log is kept until then and quoted
when it does not start. Raises MissingDependency without vLLM, Unreachable when it ends or does not answer within `SECONDS`.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from typing import IO

from coevolve.errors import MissingDependency, Unreachable, UsageError, installation

INSTALL = f"{installation('local', 'verl')} (Linux, an NVIDIA GPU)"
SECONDS = 1800.0
"""For loading the weights."""
GRACE = 20.0
ARGUMENTS = "--dtype bfloat16 --enable-auto-tool-choice --tool-call-parser hermes"
"""For the Qwen models: their tool calls, and the precision they are trained in."""
_PR_SET_PDEATHSIG = 1


@contextlib.contextmanager
def serve(model: str, name: str, arguments: str = ARGUMENTS) -> Iterator[str]:
    """The base URL of a server that calls `model` (directory or id) `name`. `arguments` are vLLM's own."""
    try:
        own = shlex.split(arguments)
    except ValueError as error:
        raise UsageError(f"--vllm-args {arguments!r}: {error}") from None
    program = shutil.which("vllm") or shutil.which("vllm", path=os.path.dirname(sys.executable))
    if program is None:
        raise MissingDependency("vllm", INSTALL)
    port = _free_port()
    # The model's own sampling defaults (top_p, repetition penalty …) would bend the distribution that was trained.
    command = [program, "serve", model, "--served-model-name", name, "--generation-config", "vllm"]
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen(
            [*command, "--host", "127.0.0.1", "--port", str(port), *own],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
            preexec_fn=_die_with_parent if sys.platform == "linux" else None,
        )
        try:
            _wait(process, f"http://127.0.0.1:{port}/health", log)
            yield f"http://127.0.0.1:{port}/v1"
        finally:
            _end(process)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def _die_with_parent() -> None:
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


def _wait(process: subprocess.Popen, url: str, log: IO[bytes]) -> None:
    deadline = time.monotonic() + SECONDS
    while process.poll() is None:
        if time.monotonic() > deadline:
            raise Unreachable(f"vllm serve did not answer within {SECONDS:g} s: {_last(log)}")
        with contextlib.suppress(urllib.error.URLError, ConnectionError, TimeoutError):
            urllib.request.urlopen(url, timeout=5).close()
            return
        time.sleep(0.2)
    raise Unreachable(f"vllm serve ended with exit code {process.returncode}: {_last(log)}")


def _last(log: IO[bytes]) -> str:
    log.seek(max(0, os.fstat(log.fileno()).st_size - (1 << 16)))
    lines = log.read().decode("utf-8", "replace").strip().splitlines()
    return lines[-1].strip()[:400] if lines else "it said nothing"


def _end(process: subprocess.Popen) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGTERM)
    try:
        process.wait(GRACE)
    except subprocess.TimeoutExpired:
        pass
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
