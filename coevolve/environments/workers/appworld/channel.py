"""Frames between the processes of an episode: four bytes of length, then JSON, over a stream socket. Standard library only.

Nothing that the other side does can hold up or fill this one: sending and receiving end at a deadline of the real clock (`now`;
the clocks of `time` stand still in a process that plays AppWorld's date), and a frame has a greatest size.
"""

from __future__ import annotations

import json
import select
import socket
import struct
import time
from typing import Any

MAX_FRAME = 32 << 20
_HEADER = struct.Struct("!I")
_CHUNK = 1 << 16
_clock, _MONOTONIC = time.clock_gettime, time.CLOCK_MONOTONIC


class Closed(Exception):
    """The other side is gone."""


class TimedOut(Exception):
    """The deadline passed."""


class Garbage(Exception):
    """The other side sent what is no frame, or too long a one."""


def now() -> float:
    """Seconds of the real, monotonic clock."""
    return _clock(_MONOTONIC)


def pair() -> tuple[socket.socket, socket.socket]:
    """Two connected sockets."""
    return socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)


class Channel:
    """One end of a connection. `deadline` is a time of `now()`."""

    def __init__(self, connection: socket.socket):
        self.socket = connection
        connection.setblocking(False)
        self._buffer = bytearray()

    def fileno(self) -> int:
        return self.socket.fileno()

    def close(self) -> None:
        self.socket.close()

    def send(self, message: Any, deadline: float) -> None:
        """Raises Closed, TimedOut; ValueError or TypeError for what is no JSON, before anything is sent."""
        data = json.dumps(message).encode()
        if len(data) > MAX_FRAME:
            raise ValueError(f"a message of {len(data)} bytes is too long")
        view = memoryview(_HEADER.pack(len(data)) + data)
        while view:
            try:
                view = view[self.socket.send(view) :]
            except BlockingIOError:
                self._wait(select.POLLOUT, deadline)
            except OSError as error:
                raise Closed(str(error)) from None

    def receive(self, deadline: float) -> Any:
        """The next message. Raises Closed, TimedOut, Garbage."""
        while True:
            frame = self._frame()
            if frame is not None:
                try:
                    return json.loads(frame)
                except (ValueError, RecursionError):
                    raise Garbage("no JSON") from None
            if not self.fill():
                self._wait(select.POLLIN, deadline)

    def fill(self) -> bool:
        """Takes in what has come; False if nothing had. Raises Closed."""
        try:
            data = self.socket.recv(_CHUNK)
        except BlockingIOError:
            return False
        except OSError as error:
            raise Closed(str(error)) from None
        if not data:
            raise Closed("end of stream")
        self._buffer += data
        return True

    @property
    def complete(self) -> bool:
        """Whether a whole message has come already. Raises Garbage."""
        return (
            len(self._buffer) >= _HEADER.size and len(self._buffer) >= _HEADER.size + self._length()
        )

    def _length(self) -> int:
        (length,) = _HEADER.unpack_from(self._buffer)
        if length > MAX_FRAME:
            raise Garbage(f"a frame of {length} bytes")
        return length

    def _frame(self) -> bytes | None:
        if not self.complete:
            return None
        end = _HEADER.size + self._length()
        frame = bytes(self._buffer[_HEADER.size : end])
        del self._buffer[:end]
        return frame

    def _wait(self, event: int, deadline: float) -> None:
        left = deadline - now()
        if left <= 0:
            raise TimedOut
        poll = select.poll()
        poll.register(self.socket, event)
        poll.poll(left * 1000)


def wait_any(channels: list[Channel], deadline: float) -> None:
    """Returns when one of the channels has something to read, or its end. Raises TimedOut."""
    left = deadline - now()
    if left <= 0:
        raise TimedOut
    poll = select.poll()
    for channel in channels:
        poll.register(channel, select.POLLIN)
    if not poll.poll(left * 1000):
        raise TimedOut
