"""One worker process: it is started, given requests and a time for each, and killed with all its
children.

`Worker.exchange` sends requests and returns their replies in order; a worker works on one request
at a time, so the first request without a reply is the one during which it died. Its clock, this
process's, starts when the reply before it has come. Memory is the resident size of the process,
read from /proc every `MEMORY_POLL` seconds while a reply is awaited; where there is no /proc there
is no such limit.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import msgspec

from coevolve.environments.registry import Launch
from coevolve.environments.workers.serve import OUT_OF_MEMORY
from coevolve.jsonl import MAX_LINE

# A limit on address space (RLIMIT_AS) would stop runtimes that reserve much and use little.
MEMORY_POLL = 0.05
"""Seconds between two looks at the memory of a worker, and the longest wait for its output."""
CHUNK = 1 << 18  # Bytes read at a time
TAIL = 4096  # Bytes of a worker's stderr that are kept for the message of its death
_GUARD = Path(__file__).with_name("workers") / "guard.py"
_PAGE = os.sysconf("SC_PAGE_SIZE")


class Death(NamedTuple):
    """The end of a worker."""

    kind: str
    """`timeout`, `memory`, `died`, `garbage` (it printed something that is not the protocol)."""
    message: str
    replaying: str = ""
    """Op of the request that it died of, if that was part of a replay (slot.py)."""


class WorkerRequest(NamedTuple):
    """A request of the protocol, without the id."""

    op: str
    fields: bytes  # JSON object of the op's fields
    seconds: float  # Time that the reply may take


class ErrorReply(msgspec.Struct, frozen=True):
    """The `error` of a reply."""

    kind: str
    message: str


class WorkerReply(msgspec.Struct, frozen=True):
    """A reply of the protocol: exactly one of `result` and `error` is there."""

    id: int
    result: msgspec.Raw = msgspec.Raw()
    error: ErrorReply | None = None


_decode = msgspec.json.Decoder(WorkerReply).decode


class Guard:
    """The process that outlives this one by a moment, to kill the workers it leaves behind."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", str(_GUARD), str(os.getpid())],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            bufsize=0,
            start_new_session=True,
        )

    def watch(self, pid: int) -> None:
        """Has it kill the process group of `pid` after the end of this process."""
        self._send(f"+{pid}\n")

    def unwatch(self, pid: int) -> None:
        self._send(f"-{pid}\n")

    def _send(self, line: str) -> None:
        # Without its guard, a worker still ends at the end of its stdin.
        with contextlib.suppress(OSError):
            self._process.stdin.write(line.encode())

    def close(self) -> None:
        self._process.stdin.close()
        self._process.wait()


class Worker:
    """A running worker. One thread at a time may use it; `kill` may come from any.

    Raises OSError where the program cannot be started.
    """

    def __init__(self, launch: Launch, guard: Guard, memory_mb: int):
        self._memory_mb, self._guard, self._name = memory_mb, guard, launch.name
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(
            launch.command,
            env=launch.environment,
            stdin=pipe,
            stdout=pipe,
            stderr=pipe,
            bufsize=0,
            start_new_session=True,
        )
        guard.watch(self._process.pid)
        self._pipes = (self._process.stdin, self._process.stdout, self._process.stderr)
        for pipe in self._pipes:
            os.set_blocking(pipe.fileno(), False)
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._process.stdout, selectors.EVENT_READ)
        self._selector.register(self._process.stderr, selectors.EVENT_READ)
        self._kill_lock = threading.Lock()
        self._sent = 0
        self._partial: list[bytes] = []
        self._partial_size = 0
        self._stderr = b""
        self._memory_checked = 0.0

    def exchange(self, requests: list[WorkerRequest]) -> tuple[list[WorkerReply], Death | None]:
        """Sends all requests, returns the replies that came and, if not all did, why.

        After a death the worker is gone.
        """
        try:
            return self._exchange(requests)
        except BaseException:
            self.kill()  # interrupted midway: what it would answer next belongs to no request
            raise

    def _exchange(self, requests: list[WorkerRequest]) -> tuple[list[WorkerReply], Death | None]:
        first, replies = self._sent, []
        self._sent += len(requests)
        messages = (_message(first + i, request) for i, request in enumerate(requests))
        outgoing = memoryview(b"".join(messages))
        deadline = time.monotonic() + requests[0].seconds
        while len(replies) < len(requests):
            outgoing = self._send(outgoing)
            seconds = requests[len(replies)].seconds
            lines, death = self._receive(deadline, seconds, writing=bool(outgoing))
            for line in lines:
                reply = _read_reply(line, first + len(replies))
                if reply is None:
                    what = f"printed what is no reply: {_shorten(line)}"
                    return replies, self._die("garbage", what)
                replies.append(reply)
                if len(replies) == len(requests):
                    return replies, None
                deadline = time.monotonic() + requests[len(replies)].seconds
            if death:
                return replies, death
        return replies, None

    def _send(self, outgoing: memoryview) -> memoryview:
        """Writes what fits; the rest is returned."""
        while outgoing:
            try:
                outgoing = outgoing[os.write(self._process.stdin.fileno(), outgoing) :]
            except BlockingIOError:
                return outgoing
            except OSError:
                return memoryview(b"")  # nobody reads any more; the end of stdout will tell
        return outgoing

    def _receive(
        self, deadline: float, seconds: float, writing: bool
    ) -> tuple[list[bytes], Death | None]:
        """Waits at most `MEMORY_POLL`; returns whole lines, and the death if there was one."""
        now = time.monotonic()
        if writing:
            self._selector.register(self._process.stdin, selectors.EVENT_WRITE)
        wait = min(MEMORY_POLL, max(0.0, deadline - now))
        ready = {key.fileobj for key, _ in self._selector.select(wait)}
        if writing:
            self._selector.unregister(self._process.stdin)
        if self._process.stderr in ready:
            self._read_stderr()
        lines: list[bytes] = []
        if self._process.stdout in ready:
            data = os.read(self._process.stdout.fileno(), CHUNK)
            if not data:
                return [], self._ended()
            lines = list(self._split(data))
        now = time.monotonic()
        if self._partial_size > MAX_LINE:
            return lines, self._die("memory", f"answered with more than {MAX_LINE >> 20} MB")
        if now - self._memory_checked > MEMORY_POLL:
            self._memory_checked = now
            if self._resident_mb() > self._memory_mb:
                return lines, self._die("memory", f"used more than {self._memory_mb} MB of memory")
        if not lines and now > deadline:
            return lines, self._die("timeout", f"did not finish within {seconds:g} seconds")
        return lines, None

    def _split(self, data: bytes) -> Iterator[bytes]:
        *lines, rest = data.split(b"\n")
        for line in lines:
            yield b"".join((*self._partial, line))
            self._partial, self._partial_size = [], 0
        if rest:
            self._partial.append(rest)
            self._partial_size += len(rest)

    def _read_stderr(self) -> None:
        with contextlib.suppress(BlockingIOError):
            while data := os.read(self._process.stderr.fileno(), CHUNK):
                self._stderr = (self._stderr + data)[-TAIL:]
                if os.environ.get("COEVOLVE_DEBUG"):
                    sys.stderr.write(data.decode("utf-8", "replace"))
            if self._selector.get_map().get(self._process.stderr.fileno()):
                self._selector.unregister(self._process.stderr)

    def _resident_mb(self) -> float:
        try:
            with open(f"/proc/{self._process.pid}/statm", "rb") as stream:
                return int(stream.read().split()[1]) * _PAGE / (1 << 20)
        except (OSError, IndexError):
            return 0.0

    def _ended(self) -> Death:
        code = self.kill()
        if code == OUT_OF_MEMORY:
            return Death("memory", "ran out of memory")
        self._read_stderr()
        how = f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
        if lines := self._stderr.strip().splitlines():
            how += f": {_shorten(lines[-1])}"
        return Death("died", f"ended the environment's process ({how})")

    def _die(self, kind: str, message: str) -> Death:
        self.kill()
        return Death(kind, message)

    def kill(self) -> int:
        """Ends the process and its group, if they still run; returns the exit code."""
        with self._kill_lock:
            if self._process.returncode is None:
                # before wait(): until then the process id cannot belong to anyone else
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.killpg(self._process.pid, signal.SIGKILL)
                self._process.wait()
                self._guard.unwatch(self._process.pid)
            return self._process.returncode

    def close(self) -> None:
        self.kill()
        self._selector.close()
        for pipe in self._pipes:
            pipe.close()


def _message(id_: int, request: WorkerRequest) -> bytes:
    fields = b"," + request.fields[1:] if len(request.fields) > 2 else b"}"
    return b'{"id":%d,"op":"%s"%s\n' % (id_, request.op.encode(), fields)


def _read_reply(line: bytes, id_: int) -> WorkerReply | None:
    """The reply in a line, None where it is none to the request of this id."""
    try:
        reply = _decode(line)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return None
    one = bool(bytes(reply.result)) != bool(reply.error)
    return reply if one and reply.id == id_ else None


def _shorten(text: bytes, limit: int = 200) -> str:
    line = printable(" ".join(text[: 4 * limit].decode("utf-8", "replace").split()))
    return line if len(line) <= limit else line[:limit] + "…"


def printable(text: str) -> str:
    """The text with control characters escaped."""
    # What a worker says must not move a terminal's cursor.
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
