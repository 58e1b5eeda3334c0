"""Typed JSON lines: reading with exact errors, writing whole or not at all.

A reader yields `Line` values: the record and the raw bytes it came from, so that a stage that adds
a field can pass unknown fields through. A bad line raises `BadInput`, or is set aside (`BadLine`)
when the caller allows it.
"""

from __future__ import annotations

import contextlib
import fcntl
import gzip
import io
import os
import re
import stat
import sys
import tempfile
import time
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, Any, Generic, NamedTuple, TypeVar

import msgspec

from coevolve.errors import WRITE_ERRORS, BadInput, PipeClosed, UsageError, WriteFailed, require
from coevolve.records import HEAD_END

T = TypeVar("T")
MAX_LINE = 64 << 20  # Bytes of a line, its newline included
BUFFER = 1 << 20  # Bytes of the buffer of a stream
_BOM = b"\xef\xbb\xbf"


class Line(NamedTuple, Generic[T]):
    """A record with the line that holds it: its bytes, the name of its file and its number."""

    record: T
    raw: bytes
    where: str
    number: int
    offset: int = 0  # Where the line begins in its (unpacked) stream, in bytes


class BadLine(NamedTuple):
    """A line that was set aside."""

    where: str
    number: int
    reason: str
    raw: bytes


def open_input(path: str) -> IO[bytes]:
    """A binary stream with a large buffer; `-` is stdin; `.gz` and `.zst` are unpacked."""
    try:
        if path == "-":
            return open(0, "rb", buffering=BUFFER, closefd=False)
        if path.endswith(".gz"):
            return gzip.open(path, "rb")
        if path.endswith(".zst"):
            unpacker = _zstandard().ZstdDecompressor()
            reader = unpacker.stream_reader(open(path, "rb"), read_across_frames=True)
            return io.BufferedReader(reader, BUFFER)
        return open(path, "rb", buffering=BUFFER)
    except IsADirectoryError as error:
        raise UsageError(f"{path}: is a directory, not a file of records") from error
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from error


def _zstandard() -> Any:
    return require("zstandard", ".zst", "pip install zstandard")


class Decoder(Generic[T]):
    """Decodes a line to one record type.

    `head=True` decodes a rollout's head only, where the type asks for no more: where the head holds
    every field of the type. What lies after the head is not checked then.
    """

    def __init__(self, type_: type[T], head: bool = False):
        self._decoder = msgspec.json.Decoder(type_)
        self._head = msgspec.json.Decoder(_complete(type_)) if head else None
        # A union of types has no tag of its own and tells its members apart itself.
        tag = getattr(getattr(type_, "__struct_config__", None), "tag", None)
        self._tag = None if tag is None else msgspec.json.encode(tag)

    def __call__(self, raw: bytes, *, whole: bool = False) -> T:
        """Raises ValueError with a reason. `whole` keeps off the head path."""
        if self._tag is not None and not raw.startswith(b'{"schema":' + self._tag):
            self._check_schema(raw)
        # One head and a closing brace: else a torn line, or two that ran into each other, would go
        # unnoticed.
        if self._head and not whole and raw.endswith(b"}"):
            end = raw.find(HEAD_END)
            if end > 0 and end == raw.rfind(HEAD_END):
                try:
                    return self._head.decode(raw[:end] + b"}")
                except (msgspec.MsgspecError, ValueError):
                    pass  # not written envelope-first: the whole line decides
        return self._decoder.decode(raw)

    def _check_schema(self, raw: bytes) -> None:
        schema = msgspec.json.decode(raw, type=_Schema).schema
        if msgspec.json.encode(schema) != self._tag:
            raise ValueError(f"expected schema {self._tag.decode()}, got {schema!r}")


class _Schema(msgspec.Struct):
    schema: str


def _complete(type_: type[T]) -> type[T]:
    """The same record type without defaults: a record that lacks a field is none."""
    fields = [(field.name, field.type) for field in msgspec.structs.fields(type_)]
    config = type_.__struct_config__
    kept = {name: getattr(config, name) for name in ("frozen", "gc", "tag_field", "tag")}
    return msgspec.defstruct(type_.__name__, fields, bases=(type_,), kw_only=True, **kept)


def read(
    paths: Iterable[str], type_: type[T], *, head: bool = False, bad: list[BadLine] | None = None
) -> Iterator[Line[T]]:
    """Yields the records of several files in turn. Bad lines go to `bad` if it is given, else raise
    `BadInput`. CRLF, a byte-order mark, blank lines and unknown fields are accepted."""
    decode = Decoder(type_, head)
    for path in paths:
        with contextlib.closing(open_input(path)) as stream:
            where = "stdin" if path == "-" else path
            offset = following = 0
            for number, (raw, size) in enumerate(_lines(stream, where), 1):
                offset, following = following, following + size
                ended = raw.endswith(b"\n")
                text = (raw.removeprefix(_BOM) if number == 1 else raw).strip()
                if not text:
                    continue
                try:
                    yield Line(_decode(decode, text, whole=not ended), text, where, number, offset)
                except ValueError as error:
                    if bad is None:
                        raise BadInput(where, number, str(error)) from None
                    bad.append(BadLine(where, number, str(error), text[:MAX_LINE]))


def _decode(decode: Decoder[T], text: bytes, *, whole: bool) -> T:
    if len(text) >= MAX_LINE:
        raise ValueError(f"line is longer than {MAX_LINE >> 20} MB")
    try:
        return decode(text, whole=whole)
    except msgspec.ValidationError:
        raise
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        torn = not text.endswith(b"}")
        raise ValueError(f"{'torn line: ' if torn else ''}{error}") from None


def _lines(stream: IO[bytes], where: str) -> Iterator[tuple[bytes, int]]:
    """Lines and their bytes; what is over `MAX_LINE` is cut and skipped to the next newline."""
    try:
        while raw := stream.readline(MAX_LINE):
            size = len(raw)
            if size == MAX_LINE and not raw.endswith(b"\n"):
                while rest := stream.readline(MAX_LINE):
                    size += len(rest)
                    if rest.endswith(b"\n"):
                        break
            yield raw, size
    except _damage() as error:
        raise BadInput(where, None, f"damaged compressed stream: {error}") from None
    except OSError as error:
        raise BadInput(where, None, f"cannot be read: {error}") from None


def _damage() -> tuple[type[Exception], ...]:
    """The errors of the unpackers on damaged data. zstandard is loaded where a .zst is read."""
    zstd = sys.modules.get("zstandard")
    return (EOFError, gzip.BadGzipFile, zlib.error, *([zstd.ZstdError] if zstd else []))


_encoder = msgspec.json.Encoder()


def encode(record: object) -> bytes:
    """One line with its newline. Non-finite floats become null (JSON has none)."""
    return _encoder.encode(record) + b"\n"


def is_stdout(path: str | os.PathLike[str]) -> bool:
    return os.fspath(path) in ("-", "/dev/stdout", "/dev/fd/1", "/proc/self/fd/1")


def is_special(path: str | os.PathLike[str]) -> bool:
    """Whether it is a device or a pipe: written to in place, and nothing is kept beside it. A name
    that cannot be written is a `UsageError`."""
    if not os.fspath(path):
        raise UsageError("an output needs a name, not ''")
    try:
        mode = os.stat(path).st_mode
    except OSError:
        return False
    if stat.S_ISDIR(mode):
        raise UsageError(f"{path}: is a directory, not a file to write")
    streams = ("/dev/fd/", "/dev/stderr", "/proc/self/fd/")
    return not stat.S_ISREG(mode) or os.fspath(path).startswith(streams)


@contextlib.contextmanager
def writing(path: str | os.PathLike[str]) -> Iterator[None]:
    """Turns a failed write into `WriteFailed`, or `PipeClosed`; both name the file."""
    try:
        yield
    except BrokenPipeError as error:
        raise PipeClosed(f"{path}: closed") from error
    except OSError as error:
        no_folder = isinstance(error, FileExistsError)
        reason = "what should be its folder is a file" if no_folder else error.strerror
        raise WriteFailed(f"{path}: cannot write: {reason}") from error


@contextlib.contextmanager
def packed(stream: IO[bytes], path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """Packs by the suffixes by which `open_input` unpacks; the same records give the same bytes."""
    if str(path).endswith(".gz"):
        packer = gzip.GzipFile(filename="", mode="wb", fileobj=stream, mtime=0)
    elif str(path).endswith(".zst"):
        packer = _zstandard().ZstdCompressor().stream_writer(stream, closefd=False)
    else:
        yield stream
        return
    with packer, io.BufferedWriter(packer, BUFFER) as buffered:
        yield buffered


@contextlib.contextmanager
def atomic(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """Opens a file that appears under its name only when the block ends well: written beside the
    target, flushed to disk, renamed. On any exception the target is untouched and the temporary
    file is gone. Links are followed; a device or a pipe is written in place."""
    if is_special(path):
        with _write_errors(path), open(path, "wb", BUFFER) as stream, packed(stream, path) as out:
            yield out
        return
    target = Path(os.path.realpath(path))
    with writing(path):
        target.parent.mkdir(parents=True, exist_ok=True)
        _sweep(target)
        handle, temporary = tempfile.mkstemp(".tmp", f".{target.name}.", target.parent)
    stream = open(handle, "wb", buffering=BUFFER)
    try:
        with _write_errors(path):
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
            with packed(stream, path) as out:
                yield out
            stream.flush()
            os.fsync(stream.fileno())
            umask = os.umask(0)
            os.umask(umask)
            os.fchmod(stream.fileno(), 0o666 & ~umask)
            stream.close()
            os.replace(temporary, target)
    except BaseException:
        with contextlib.suppress(OSError):
            stream.close()
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise


@contextlib.contextmanager
def _write_errors(path: str | os.PathLike[str]) -> Iterator[None]:
    """`writing` for a block that does other work too: only errors of a disk or a pipe count."""
    try:
        yield
    except OSError as error:
        if error.errno not in WRITE_ERRORS and not isinstance(error, BrokenPipeError):
            raise
        with writing(path):
            raise


STALE = 60
"""Seconds before a temporary file without a lock is a killed writer's: locks come after names."""


def _sweep(target: Path) -> None:
    """Removes the temporary files that killed writers of the target left."""
    name = re.compile(re.escape(f".{target.name}.") + r"[a-z0-9_]{8}\.tmp")
    for entry in os.scandir(target.parent):
        if not name.fullmatch(entry.name):
            continue
        with contextlib.suppress(OSError), open(entry.path, "rb") as stream:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if time.time() - os.fstat(stream.fileno()).st_mtime > STALE:
                os.unlink(entry.path)


def write(path: str | os.PathLike[str], records: Iterable[object]) -> int:
    """Writes records to a file, whole or not at all; returns how many."""
    count = 0
    with atomic(path) as stream:
        for record in records:
            stream.write(encode(record))
            count += 1
    return count


def splice(raw: bytes, **fields: object) -> bytes:
    """The raw object with top-level fields set; unknown fields stay, field order too."""
    value = msgspec.json.decode(raw, type=dict[str, msgspec.Raw])
    for name, field in fields.items():
        value[name] = msgspec.Raw(msgspec.json.encode(field))
    return msgspec.json.encode(value) + b"\n"


def warn(message: str) -> None:
    """Prints one line on stderr."""
    print(f"coevolve: {message}", file=sys.stderr, flush=True)
