"""A warm process that forks one child per request, and the handle on it. Standard library only.

The zygote has imported what its children need and holds nothing else: no request's text, no session, no database. It is asked
over a socket to fork a child that gets the descriptors sent along, and to kill a child it forked. It collects a child only
when asked to, so that a process id never comes to mean somebody else's process. Zygote and children die with their parent.
"""

from __future__ import annotations

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
from . import confine

_LARGEST = 1 << 16
_START_SECONDS = 120.0
OUT_OF_MEMORY = 77

Role = Callable[[list[socket.socket]], None]
"""What a child does with the sockets that it was sent."""


class Zygote:
    """The handle in the process that asks, which cannot go on without it: when the zygote is gone, so is the process."""

    def __init__(self, module: str, environment: dict[str, str]):
        """Starts a zygote with the `roles` of a module that lies beside this one; returns before it is warm."""
        self._module = module
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        descriptor, me = str(theirs.fileno()), str(os.getpid())
        command = launch.command(sys.executable, "appworld.zygote", module, descriptor, me)
        with theirs:
            self._process = subprocess.Popen(
                command,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=2,
                pass_fds=[theirs.fileno()],
            )
        self._socket.settimeout(_START_SECONDS)

    def warm(self) -> None:
        """Waits until it is ready to fork."""
        self._answer()

    def fork(self, role: str, descriptors: list[int]) -> int:
        """The process id of a new child that has the descriptors."""
        return self._ask({"fork": role}, descriptors)["pid"]

    def kill(self, pid: int, grace: float = 0.0) -> int:
        """Ends a child that may have ended already, or does so within `grace` seconds; returns its wait status."""
        return self._ask({"kill": pid, "grace": grace}, [])["status"]

    def _ask(self, request: dict, descriptors: list[int]) -> dict:
        try:
            socket.send_fds(self._socket, [json.dumps(request).encode()], descriptors)
        except OSError as error:
            self._lost(str(error))
        return self._answer()

    def _answer(self) -> dict:
        try:
            data = self._socket.recv(_LARGEST)
        except OSError as error:
            self._lost(str(error))
        return json.loads(data) if data else self._lost("it ended")

    def _lost(self, why: str) -> NoReturn:
        print(f"{self._module}: {why}", file=sys.stderr, flush=True)
        os._exit(1)


def main(module: str, descriptor: str, parent: str) -> None:
    """The process that a `Zygote` started. What is imported is never collected."""
    gc.disable()
    serve(importlib.import_module(f".{module}", __package__).roles(), int(descriptor), int(parent))


def serve(roles: dict[str, Role], descriptor: int, parent: int) -> None:
    """The zygote's loop, when it is warm: never returns.

    A child runs its role with the sockets it was sent, in a process without any other descriptor.
    """
    line = socket.socket(fileno=descriptor)
    confine.die_with_parent(parent)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    gc.collect()
    gc.freeze()
    gc.enable()
    line.send(b"{}")
    me = os.getpid()
    while True:
        data, descriptors, _, _ = socket.recv_fds(line, _LARGEST, 8)
        if not data:
            os._exit(0)
        request = json.loads(data)
        if "kill" in request:
            line.send(json.dumps({"status": _end(request["kill"], request["grace"])}).encode())
            continue
        pid = os.fork()
        if pid == 0:
            _child(me, line, roles[request["fork"]], descriptors)
        for descriptor in descriptors:
            os.close(descriptor)
        line.send(json.dumps({"pid": pid}).encode())


def _end(pid: int, grace: float) -> int:
    done, status = os.waitpid(pid, os.WNOHANG)
    until = time.monotonic() + grace
    while not done and time.monotonic() < until:
        time.sleep(0.005)
        done, status = os.waitpid(pid, os.WNOHANG)
    if not done:
        os.kill(pid, signal.SIGKILL)
        _, status = os.waitpid(pid, 0)
    return status


def _child(parent: int, line: socket.socket, role: Role, descriptors: list[int]) -> None:
    code = 1
    try:
        confine.die_with_parent(parent)
        os.setsid()
        line.close()
        nothing = os.open(os.devnull, os.O_RDWR)
        for descriptor in (0, 1, 2) if not os.environ.get("COEVOLVE_DEBUG") else (0, 1):
            os.dup2(nothing, descriptor)
        os.close(nothing)
        role([socket.socket(fileno=descriptor) for descriptor in descriptors])
        code = 0
    except MemoryError:
        code = OUT_OF_MEMORY
    except BaseException:  # noqa: BLE001 - boundary: a forked child must not return into its parent's frames
        traceback.print_exc()
    finally:
        os._exit(code)
