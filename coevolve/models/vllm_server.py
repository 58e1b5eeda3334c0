"""A model behind `vllm serve` on loopback, for as long as a command runs: `--backend vllm`.

    with serve("runs/a/policy", "policy@1a2b3c4d", "--tensor-parallel-size 2") as url: ...

vLLM is a process of its own, found on the PATH or beside this interpreter; nothing of it is
imported. It is ended with all its engine processes when the block ends, and by its supervisor when
this process dies. Its log is kept only where it fails: the error, or the warning where it ends
before the block does, quotes the cause and names the file. Raises UsageError for arguments that are
not the user's to set, MissingDependency without vLLM, Unreachable when it ends or does not answer
within `SECONDS`.
"""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from coevolve import jsonl
from coevolve.errors import MissingDependency, Unreachable, UsageError, installation

INSTALL = f"{installation('local', 'verl')} (Linux, an NVIDIA GPU)"
SECONDS = 1800.0  # Time that loading the weights may take
GRACE = 20.0  # Seconds that vLLM has to end before it is killed
DEFAULTS = "--dtype bfloat16 --enable-auto-tool-choice --tool-call-parser hermes"
"""For Qwen: tool calls and precision; of an option given twice vLLM takes the last."""
FIXED = (
    *("host", "port", "uds", "model", "served-model-name", "api-key"),
    *("ssl-keyfile", "ssl-certfile", "headless", "grpc"),
)
"""Options that would put the server, or the model, where this command does not find it."""
TAIL = 1 << 20
"""Bytes of a log that are searched; every process repeats the traceback that ends it."""
_PREFIX = r"(?:\([^()\n]+\) )?(?:(?:ERROR|CRITICAL) [\d-]+ [\d:]+ \[[^\]\n]*\] )?"
"""Matches the start of a line of vLLM's log: the process; level, time and place."""
_EXCEPTION = re.compile(
    rf"^{_PREFIX}((?:(?:\w+\.)*\w*(?:Error|Exception)|\w+: error)(?:: .*)?(?:\n  \S.*)?)$",
    re.MULTILINE,
)
_ELSEWHERE = "root cause"
"""Stands in exceptions of vLLM that tell of another one: "See root cause above"."""
_SUPERVISE = Path(__file__).parents[1] / "supervise.py"


@contextlib.contextmanager
def serve(model: str, name: str, arguments: str = "") -> Iterator[str]:
    """The base URL of a server that calls `model` (directory or id) `name`.

    `arguments` are vLLM's own, after the defaults.
    """
    own = _checked(arguments)
    program = shutil.which("vllm") or shutil.which("vllm", path=os.path.dirname(sys.executable))
    if program is None:
        raise MissingDependency("vllm", INSTALL)
    port = _free_port()
    # The model's own sampling defaults (top_p, …) would bend the distribution that was trained.
    command = [program, "serve", model, "--served-model-name", name, "--generation-config", "vllm"]
    command += ["--host", "127.0.0.1", "--port", str(port), *shlex.split(DEFAULTS), *own]
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen(
            [sys.executable, "-IS", str(_SUPERVISE), str(GRACE), *command],
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
        try:
            _wait(process, f"http://127.0.0.1:{port}/health", log)
            try:
                yield f"http://127.0.0.1:{port}/v1"
            finally:
                if process.poll() is not None:
                    jsonl.warn(_ended(process, log))
        finally:
            _end(process)


def _checked(arguments: str) -> list[str]:
    try:
        own = shlex.split(arguments)
    except ValueError as error:
        raise UsageError(f"--vllm-args {arguments!r}: {error}") from None
    for option in (each.partition("=")[0] for each in own if each.startswith("--")):
        # vLLM takes _ for - and the beginning of a name for the name.
        if any(fixed.startswith(option[2:].replace("_", "-")) for fixed in FIXED):
            why = "the server is this command's own, on loopback"
            raise UsageError(f"--vllm-args: {option} is not to be set: {why}")
    return own


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def _wait(process: subprocess.Popen, url: str, log: IO[bytes]) -> None:
    deadline = time.monotonic() + SECONDS
    # On loopback, whatever proxy is set.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    while process.poll() is None:
        if time.monotonic() > deadline:
            raise Unreachable(f"vllm serve did not answer within {SECONDS:g} s: {_cause(log)}")
        with contextlib.suppress(urllib.error.URLError, ConnectionError, TimeoutError):
            opener.open(url, timeout=5).close()
            return
        time.sleep(0.2)
    raise Unreachable(_ended(process, log))


def _ended(process: subprocess.Popen, log: IO[bytes]) -> str:
    return f"vllm serve ended with exit code {process.returncode}: {_cause(log)}"


def _cause(log: IO[bytes]) -> str:
    """The last exception that points to no other one, else the last line, and the log's name."""
    log.seek(max(0, os.fstat(log.fileno()).st_size - TAIL))
    text = log.read().decode("utf-8", "replace").strip()
    if not text:
        return "it said nothing"
    causes = [cause for cause in _EXCEPTION.findall(text) if _ELSEWHERE not in cause]
    return f"{' '.join((causes or text.splitlines())[-1].split())[:400]} (its log: {_kept(log)})"


def _kept(log: IO[bytes]) -> str:
    log.seek(0)
    with tempfile.NamedTemporaryFile(prefix="coevolve-vllm-", suffix=".log", delete=False) as copy:
        shutil.copyfileobj(log, copy)
    return copy.name


def _end(process: subprocess.Popen) -> None:
    process.stdin.close()
    try:
        process.wait()
    finally:  # where the wait was interrupted, without the grace
        process.terminate()
        process.wait()
