"""Typed JSON lines: reading with exact errors, writing whole or not at all.

A reader yields `Line` values: the record and the raw bytes it came from, so that a stage that adds a field can pass unknown
fields through. A bad line (see `decode_line`) raises `BadInput`, or is counted and set aside when the caller allows it.
"""

from __future__ import annotations

import contextlib
import gzip
import os
import sys
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, Generic, NamedTuple, TypeVar

import msgspec

from coevolve.errors import BadInput, MissingDependency, UsageError, WriteFailed
from coevolve.records import HEAD_END

T = TypeVar("T")
MAX_LINE = 64 << 20
BUFFER = 1 << 20
_BOM = b"\xef\xbb\xbf"


class Line(NamedTuple, Generic[T]):
    record: T
    raw: bytes
    where: str
    number: int
    offset: int = 0
    """Where the line begins in its (unpacked) stream, in bytes."""


class Bad(NamedTuple):
    """A line that was set aside."""

    where: str
    number: int
    reason: str
    raw: bytes


def open_input(path: str) -> IO[bytes]:
    """A binary stream with a large buffer; `-` is stdin; `.gz` and `.zst` are unpacked."""
    if path == "-":
        return open(0, "rb", buffering=BUFFER, closefd=False)
    try:
        if path.endswith(".gz"):
            return gzip.open(path, "rb")
        if path.endswith(".zst"):
            return _open_zstd(path)
        return open(path, "rb", buffering=BUFFER)
    except IsADirectoryError as error:
        raise UsageError(f"{path}: is a directory, not a file of records") from error
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from error


def _open_zstd(path: str) -> IO[bytes]:
    try:
        import zstandard
    except ImportError as error:
        raise MissingDependency("zstandard (needed for .zst)", "pip install zstandard") from error
    return zstandard.open(path, "rb")


class Decoder(Generic[T]):
    """Decodes a line to one record type; `head=True` decodes a rollout's head only, where the type asks for no more.

    The head path is taken only by a line that has one head and a closing brace, so that a torn line, or two that ran into
    each other, is still noticed. What lies after the head is not checked.
    """

    def __init__(self, type_: type[T], head: bool = False):
        self._decoder = msgspec.json.Decoder(type_)
        self._head = head
        tag = getattr(
            getattr(type_, "__struct_config__", None), "tag", None
        )  # a union of types tells them apart itself
        self._tag = None if tag is None else msgspec.json.encode(tag)

    def __call__(self, raw: bytes, *, whole: bool = False) -> T:
        """Raises ValueError with a reason. `whole` keeps off the head path."""
        if self._tag is not None and not raw.startswith(b'{"schema":' + self._tag):
            self._check_schema(raw)
        if self._head and not whole and (end := raw.find(HEAD_END)) == raw.rfind(HEAD_END) > 0 and raw.endswith(b"}"):
            try:
                return self._decoder.decode(raw[:end] + b"}")
            except (msgspec.MsgspecError, ValueError):
                pass  # not written envelope-first: the whole line decides
        return self._decoder.decode(raw)

    def _check_schema(self, raw: bytes) -> None:
        schema = msgspec.json.decode(raw, type=_Schema).schema
        if msgspec.json.encode(schema) != self._tag:
            raise ValueError(f"expected schema {self._tag.decode()}, got {schema!r}")


class _Schema(msgspec.Struct):
    schema: str


def read(
    paths: Iterable[str], type_: type[T], *, head: bool = False, bad: list[Bad] | None = None
) -> Iterator[Line[T]]:
    """Yields the records of several files in turn. Bad lines go to `bad` if it is given, else raise `BadInput`.

    Accepted: CRLF, a byte-order mark, blank lines, unknown fields.
    """
    decode = Decoder(type_, head)
    for path in paths:
        with contextlib.closing(open_input(path)) as stream:
            where = "stdin" if path == "-" else path
            offset = following = 0
            for number, (raw, size) in enumerate(_lines(stream, where), 1):
                offset, following = following, following + size
                ended = raw.endswith(b"\n")
                if number == 1 and raw.startswith(_BOM):
                    raw = raw[3:]
                text = raw.strip()
                if not text:
                    continue
                try:
                    yield Line(_decode(decode, text, whole=not ended), text, where, number, offset)
                except ValueError as error:
                    if bad is None:
                        raise BadInput(where, number, str(error)) from None
                    bad.append(Bad(where, number, str(error), text[:MAX_LINE]))


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
    """Lines of bounded length, and their size: what is over `MAX_LINE` is cut and skipped to the next newline."""
    try:
        while raw := stream.readline(MAX_LINE):
            size = len(raw)
            if size == MAX_LINE and not raw.endswith(b"\n"):
                while rest := stream.readline(MAX_LINE):
                    size += len(rest)
                    if rest.endswith(b"\n"):
                        break
            yield raw, size
    except (EOFError, gzip.BadGzipFile) as error:
        raise BadInput(where, None, f"damaged gzip stream: {error}") from None
    except OSError as error:
        raise BadInput(where, None, f"cannot be read: {error}") from None


_encoder = msgspec.json.Encoder()


def encode(record: object) -> bytes:
    """One line with its newline. Non-finite floats become null (JSON has none)."""
    return _encoder.encode(record) + b"\n"


@contextlib.contextmanager
def atomic(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """A file that appears under its name only when the block ends well: written beside the target, flushed to disk,
    renamed. On any exception the target is untouched and the temporary file is gone. Links are followed.
    """
    target = Path(path).resolve()
    if target.exists() and not target.is_file():  # /dev/null, a named pipe: nothing to rename onto
        with open(target, "wb", buffering=BUFFER) as stream:
            yield stream
        return
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(prefix=f".{target.name}.", suffix=".tmp", dir=target.parent)
    except OSError as error:
        raise WriteFailed(f"{path}: cannot write: {error.strerror}") from error
    stream = open(handle, "wb", buffering=BUFFER)
    try:
        yield stream
        stream.flush()
        os.fsync(stream.fileno())
        umask = os.umask(0)
        os.umask(umask)
        os.fchmod(stream.fileno(), 0o666 & ~umask)
        stream.close()
        os.replace(temporary, target)
    except BaseException as error:
        with contextlib.suppress(OSError):
            stream.close()
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        if isinstance(error, OSError) and error.errno in WRITE_ERRORS:
            raise WriteFailed(f"{path}: cannot write: {error.strerror}") from error
        raise


WRITE_ERRORS = {5, 27, 28, 30, 122}  # EIO, EFBIG, ENOSPC, EROFS, EDQUOT


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
    """One line on stderr."""
    print(f"coevolve: {message}", file=sys.stderr, flush=True)
