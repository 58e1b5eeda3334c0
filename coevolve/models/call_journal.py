"""The journal of paid calls: one file per answer, named by the hash of what was asked.

    journal/3f/3f2a….json      {"stage": …, "request": …, "reply": …, "usage"…, "seconds": …, "cost": …}
    journal/lock               nothing: processes lock its bytes, one per call

An answer is written beside its name and renamed, so that it is there whole or not at all, whatever is killed. Several
processes may use one journal: the second to ask a question that another is asking waits for that answer (a lock that dies
with its holder), and asks itself if the other failed. A file that cannot be read, as a power cut may leave it, is a miss and
a warning. Without calls (`--offline`) a journal is a cassette: copy it, commit it, play it.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
from msgspec import Struct

from coevolve.errors import WriteFailed
from coevolve.jsonl import warn
from coevolve.models.chat import Reply

SHORTEST, LONGEST = 0.02, 0.5
"""Seconds between two looks at a lock that another process holds."""


class Asked(Struct, frozen=True):
    """What a person needs to recognise a call; the whole of it is in the key."""

    model: str
    prompt: str
    sample: int
    messages: int
    last: str


class Entry(Struct, frozen=True, kw_only=True):
    """An answer and what it took."""

    stage: str
    asked: Asked
    reply: Reply
    seconds: float = 0.0
    retries: int = 0
    cost: float | None = None


_decoder = msgspec.json.Decoder(Entry)


class CallJournal:
    """`writes=False` creates nothing on disk."""

    def __init__(self, directory: str | os.PathLike[str], writes: bool = True):
        self.directory = Path(directory)
        self._lock: int | None = None
        if writes:
            self._open()

    def _open(self) -> None:
        try:
            self.directory.mkdir(parents=True, exist_ok=True)
            self._lock = os.open(self.directory / "lock", os.O_RDWR | os.O_CREAT, 0o666)
        except OSError as error:
            raise WriteFailed(f"{self.directory}: cannot write: {error.strerror}") from error

    def close(self) -> None:
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def get(self, key: str) -> Entry | None:
        path = self._path(key)
        try:
            return _decoder.decode(path.read_bytes())
        except FileNotFoundError:
            return None
        except (OSError, msgspec.MsgspecError) as error:
            warn(f"{path}: cannot be read, asking again: {error}")
            return None

    def put(self, key: str, entry: Entry) -> None:
        path = self._path(key)
        try:
            path.parent.mkdir(exist_ok=True)
            handle, temporary = tempfile.mkstemp(prefix=f".{key}.", suffix=".tmp", dir=path.parent)
            with open(handle, "wb") as stream:
                stream.write(msgspec.json.encode(entry) + b"\n")
            os.replace(temporary, path)
        except OSError as error:
            raise WriteFailed(f"{self.directory}: cannot write: {error.strerror}") from error

    @contextlib.asynccontextmanager
    async def asking(self, key: str) -> AsyncIterator[None]:
        """No other process asks this at the same time."""
        place = int(key[:15], 16)
        wait = SHORTEST
        while not self._try_lock(place):
            await asyncio.sleep(wait)
            wait = min(2 * wait, LONGEST)
        try:
            yield
        finally:
            if self._lock is not None:
                fcntl.lockf(self._lock, fcntl.LOCK_UN, 1, place)

    def _try_lock(self, place: int) -> bool:
        try:
            fcntl.lockf(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, place)
        except (BlockingIOError, PermissionError):  # systems differ in which of the two says "held"
            return False
        return True

    def _path(self, key: str) -> Path:
        return self.directory / key[:2] / f"{key}.json"
