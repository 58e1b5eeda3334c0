"""A fork server: a warm process that forks one child per request, and the handle on it.

The server has imported what its children need and holds nothing else: no request's text, no
session, no database. It is asked over a socket to fork a child, which gets the descriptors sent
along, and to kill a child that it forked. Server and children die with their parent. Standard
library only.
"""

from __future__ import annotations

import ctypes
import gc
import importlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
import traceback
from collections.abc import Callable
from typing import NoReturn

from .. import launch

MAX_MESSAGE = 1 << 16  # Bytes of a request to the server or of its answer
START_SECONDS = 120.0
OUT_OF_MEMORY = 77  # Exit code of a child that could not allocate
_PR_SET_PDEATHSIG = 1

Child = Callable[[list[socket.socket]], None]
"""The function that a child runs, given the sockets that it was sent."""


class ForkServer:
    """The handle of the process that asks. That process ends when the server is gone."""

    def __init__(self, module: str, environment: dict[str, str]):
        """Starts a server for the child that `prepare_child` of a module beside this one returns;
        does not wait until it is warm."""
        self._module = module
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        line, me = theirs.fileno(), os.getpid()
        command = launch.command(sys.executable, "appworld.fork_server", module, str(line), str(me))
        with theirs:
            self._process = subprocess.Popen(
                command, env=environment, stdin=subprocess.DEVNULL, stdout=2, pass_fds=[line]
            )
        self._socket.settimeout(START_SECONDS)

    def wait_until_warm(self) -> None:
        self._answer()

    def fork(self, descriptors: list[int]) -> int:
        """Returns the process id of a new child that has the descriptors."""
        return self._ask({}, descriptors)["pid"]

    def kill(self, pid: int, grace: float = 0.0) -> int:
        """Kills a child unless it ends within `grace` seconds; returns its wait status."""
        return self._ask({"kill": pid, "grace": grace}, [])["status"]

    def _ask(self, request: dict, descriptors: list[int]) -> dict:
        try:
            socket.send_fds(self._socket, [json.dumps(request).encode()], descriptors)
        except OSError as error:
            self._lost(str(error))
        return self._answer()

    def _answer(self) -> dict:
        try:
            data = self._socket.recv(MAX_MESSAGE)
        except OSError as error:
            self._lost(str(error))
        return json.loads(data) if data else self._lost("it ended")

    def _lost(self, why: str) -> NoReturn:
        print(f"{self._module}: {why}", file=sys.stderr, flush=True)
        os._exit(1)


def die_with_parent(parent: int) -> None:
    """Has the kernel kill this process when its parent ends; ends at once if that has happened."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, ctypes.c_ulong(signal.SIGKILL))
    if os.getppid() != parent:
        os._exit(1)


def main(module: str, descriptor: str, parent: str) -> None:
    """Runs the process that a `ForkServer` started."""
    gc.disable()
    child = importlib.import_module(f".{module}", __package__).prepare_child()
    serve(child, int(descriptor), int(parent))


def serve(child: Child, descriptor: int, parent: int) -> NoReturn:
    """Answers requests until the other end of the socket is closed."""
    line = socket.socket(fileno=descriptor)
    die_with_parent(parent)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    gc.collect()
    gc.freeze()  # what is imported is never collected, so children share its memory pages
    gc.enable()
    line.send(b"{}")
    me = os.getpid()
    while True:
        data, descriptors, _, _ = socket.recv_fds(line, MAX_MESSAGE, 8)
        if not data:
            os._exit(0)
        request = json.loads(data)
        if "kill" in request:
            answer = {"status": _end(request["kill"], request["grace"])}
        else:
            pid = os.fork()
            if pid == 0:
                _run(me, line, child, descriptors)
            for received in descriptors:
                os.close(received)
            answer = {"pid": pid}
        line.send(json.dumps(answer).encode())


def _end(pid: int, grace: float) -> int:
    # a child is reaped only here, so that its process id cannot come to mean another process
    done, status = os.waitpid(pid, os.WNOHANG)
    until = time.monotonic() + grace
    while not done and time.monotonic() < until:
        time.sleep(0.005)
        done, status = os.waitpid(pid, os.WNOHANG)
    if not done:
        os.kill(pid, signal.SIGKILL)
        _, status = os.waitpid(pid, 0)
    return status


def _run(parent: int, line: socket.socket, child: Child, descriptors: list[int]) -> NoReturn:
    """Runs a child in a session of its own, with no descriptor but those it was sent."""
    code = 1
    try:
        die_with_parent(parent)
        os.setsid()
        line.close()
        nothing = os.open(os.devnull, os.O_RDWR)
        for descriptor in (0, 1) if os.environ.get("COEVOLVE_DEBUG") else (0, 1, 2):
            os.dup2(nothing, descriptor)
        os.close(nothing)
        child([socket.socket(fileno=descriptor) for descriptor in descriptors])
        code = 0
    except MemoryError:
        code = OUT_OF_MEMORY
    except BaseException:  # noqa: BLE001 - boundary: a child must not return into its parent's frames
        traceback.print_exc()
    finally:
        os._exit(code)
