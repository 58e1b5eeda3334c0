"""The journal of paid calls: append-only files of answers, found by the hash of what was asked.

    journal/3.jsonl     {"key": "3f2a…", "stage": …, "asked": …, "reply": …, "seconds": …, …}
    journal/lock        nothing: processes lock its bytes, one per call

The first digit of the key chooses the file; a file is indexed when it is first needed, and read on
where other processes append. A line that a killed process left torn is no answer, and never spoils
the line after it; one that cannot be read is said and asked again. Several processes may use one
journal: the second to ask a question that another is asking waits for that answer (a lock that dies
with its holder), and asks itself if the other failed. Without calls (`--offline`) a journal is a
cassette: copy it, commit it, play it.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
from msgspec import Struct

from coevolve.jsonl import encode, warn, writing
from coevolve.models.chat import ChatReply
from coevolve.records import Usage

MIN_WAIT, MAX_WAIT = 0.02, 0.5  # Seconds between two looks at a lock that another process holds
_HEAD = b'{"key":"'
_KEY = slice(len(_HEAD), len(_HEAD) + 32)


class JournalQuestion(Struct, frozen=True):
    """The part of a call by which a person recognises it; the whole of it is in the key."""

    model: str
    prompt: str
    sample: int
    messages: int
    last: str


class JournalEntry(Struct, frozen=True, kw_only=True):
    """An answer and what it took."""

    key: str
    stage: str
    asked: JournalQuestion
    reply: ChatReply
    seconds: float = 0.0
    retries: int = 0
    cost: float | None = None
    estimated: Usage | None = None  # Tokens, where the server's reply did not count them
    unusable: str | None = None
    """The reason why the reply holds its usage only: the question is open, and asked again."""
    wasted: Usage = Usage()  # Tokens of all unusable answers to this question


_decoder = msgspec.json.Decoder(JournalEntry)


class CallJournal:
    """The entries of a directory by key; `writes=False` creates nothing on disk.

    Raises WriteFailed, before anything is paid, where nothing can be written.
    """

    def __init__(self, directory: str | os.PathLike[str], writes: bool = True):
        self.directory = Path(directory)
        self._writes = writes
        self._files: dict[str, _JournalFile] = {}
        self._lock: int | None = None
        if writes:
            with writing(self.directory):
                self.directory.mkdir(parents=True, exist_ok=True)
                self._lock = os.open(self.directory / "lock", os.O_RDWR | os.O_CREAT, 0o666)

    def close(self) -> None:
        """Closes files and locks; the journal is not to be used after it."""
        for file in self._files.values():
            file.close()
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def get(self, key: str) -> JournalEntry | None:
        raw = self._file(key).find(key.encode())
        if raw is None:
            return None
        try:
            return _decoder.decode(raw)
        except msgspec.MsgspecError as error:
            warn(f"{self.directory}: answer {key} cannot be read, asking again: {error}")
            return None

    def put(self, entry: JournalEntry) -> None:
        with writing(self.directory):
            self._file(entry.key).append(encode(entry))

    @contextlib.asynccontextmanager
    async def asking(self, key: str) -> AsyncIterator[None]:
        """No other process asks this at the same time."""
        place, wait = int(key[:15], 16), MIN_WAIT
        while not self._try_lock(place):
            await asyncio.sleep(wait)
            wait = min(2 * wait, MAX_WAIT)
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

    def _file(self, key: str) -> _JournalFile:
        name = key[0]
        if name not in self._files:
            with writing(self.directory):
                self._files[name] = _JournalFile(self.directory / f"{name}.jsonl", self._writes)
        return self._files[name]


class _JournalFile:
    """One file of the journal, with the places of its lines by key; the last of two counts."""

    def __init__(self, path: Path, writes: bool):
        self._places: dict[bytes, tuple[int, int]] = {}
        self._scanned = 0
        self._handle: int | None = None
        mode = os.O_RDWR | os.O_APPEND | os.O_CREAT if writes else os.O_RDONLY
        with contextlib.suppress(FileNotFoundError):  # a cassette need not have every file
            self._handle = os.open(path, mode, 0o666)

    def close(self) -> None:
        if self._handle is not None:
            os.close(self._handle)

    def find(self, key: bytes) -> bytes | None:
        """The line, without its end."""
        if self._handle is None:
            return None
        if key not in self._places:
            self._scan()
        place = self._places.get(key)
        return os.pread(self._handle, place[1], place[0]) if place else None

    def append(self, line: bytes) -> None:
        """Appends the whole line or, where that fails midway, a part that counts for nothing."""
        fcntl.flock(self._handle, fcntl.LOCK_EX)
        try:
            end = os.fstat(self._handle).st_size
            if end and os.pread(self._handle, 1, end - 1) != b"\n":
                line = b"\n" + line
            while line:
                line = line[os.write(self._handle, line) :]
        finally:
            fcntl.flock(self._handle, fcntl.LOCK_UN)
        self._scan()

    def _scan(self) -> None:
        """Takes in the whole lines that were appended since."""
        size = os.fstat(self._handle).st_size - self._scanned
        data = os.pread(self._handle, size, self._scanned) if size > 0 else b""
        start = 0
        while (end := data.find(b"\n", start)) >= 0:
            if data.startswith(_HEAD, start):
                self._places[data[start:end][_KEY]] = (self._scanned + start, end - start)
            start = end + 1
        self._scanned += start
