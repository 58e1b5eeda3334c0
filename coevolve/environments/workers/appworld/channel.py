"""Frames between the processes of an episode: four bytes of length, then JSON, over a stream
socket.

Nothing that the other side does can hold up or fill this one: sending and receiving end at a
deadline, and a frame has a greatest size. Standard library only.
"""

from __future__ import annotations

import json
import select
import socket
import struct
import time
from typing import Any

MAX_FRAME = 32 << 20  # Bytes of a message as JSON
_HEADER = struct.Struct("!I")
_CHUNK = 1 << 16
# bound before a process of the policy freezes the clocks of `time` at AppWorld's date
_clock, _MONOTONIC = time.clock_gettime, time.CLOCK_MONOTONIC


class ChannelError(Exception):
    """The exchange cannot go on."""


class ChannelClosed(ChannelError):
    """The other side is gone."""


class ChannelTimeout(ChannelError):
    """The deadline passed."""


class BadFrame(ChannelError):
    """The other side sent something other than a frame, or too long a one."""


def now() -> float:
    """Returns seconds of the real, monotonic clock."""
    return _clock(_MONOTONIC)


def pair() -> tuple[socket.socket, socket.socket]:
    """Returns two connected sockets."""
    return socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)


class Channel:
    """One end of a connection. Every `deadline` is a time of `now()`."""

    def __init__(self, connection: socket.socket):
        self.socket = connection
        connection.setblocking(False)
        self._buffer = bytearray()

    def fileno(self) -> int:
        return self.socket.fileno()

    def close(self) -> None:
        self.socket.close()

    def send(self, message: Any, deadline: float) -> None:
        """Raises ChannelClosed, ChannelTimeout; for what is no JSON or too long, before anything is
        sent, ValueError or TypeError."""
        data = json.dumps(message).encode()
        if len(data) > MAX_FRAME:
            raise ValueError(f"a message of {len(data)} bytes is too long")
        view = memoryview(_HEADER.pack(len(data)) + data)
        while view:
            try:
                view = view[self.socket.send(view) :]
            except BlockingIOError:
                _poll([self], select.POLLOUT, deadline)
            except OSError as error:
                raise ChannelClosed(str(error)) from None

    def receive(self, deadline: float) -> Any:
        """Returns the next message. Raises ChannelClosed, ChannelTimeout, BadFrame."""
        while not self.complete:
            if not self.fill():
                _poll([self], select.POLLIN, deadline)
        end = self._frame_end()
        frame = bytes(self._buffer[_HEADER.size : end])
        del self._buffer[:end]
        try:
            return json.loads(frame)
        except (ValueError, RecursionError):
            raise BadFrame("no JSON") from None

    def fill(self) -> bool:
        """Takes in the bytes that have come; False if there were none. Raises ChannelClosed."""
        try:
            data = self.socket.recv(_CHUNK)
        except BlockingIOError:
            return False
        except OSError as error:
            raise ChannelClosed(str(error)) from None
        if not data:
            raise ChannelClosed("end of stream")
        self._buffer += data
        return True

    @property
    def complete(self) -> bool:
        """Whether a whole message has come already. Raises BadFrame."""
        return len(self._buffer) >= _HEADER.size and len(self._buffer) >= self._frame_end()

    def _frame_end(self) -> int:
        (length,) = _HEADER.unpack_from(self._buffer)
        if length > MAX_FRAME:
            raise BadFrame(f"a frame of {length} bytes")
        return _HEADER.size + length


def wait_any(channels: list[Channel], deadline: float) -> None:
    """Returns when one of the channels has something to read, or its end. Raises ChannelTimeout."""
    _poll(channels, select.POLLIN, deadline)


def _poll(channels: list[Channel], event: int, deadline: float) -> None:
    left = deadline - now()
    poll = select.poll()
    for channel in channels:
        poll.register(channel, event)
    if left <= 0 or not poll.poll(left * 1000):
        raise ChannelTimeout
