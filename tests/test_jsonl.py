"""Reading and writing of records: what is accepted, what is refused, and where it says so."""

from __future__ import annotations

import gzip
import json
import os
from pathlib import Path

import msgspec
import pytest

from coevolve.errors import BadInput, WriteFailed
from coevolve.jsonl import atomic, encode, read, splice, write
from coevolve.records import Rollout, Start, Task

GOOD = encode(Task(id="a", env="desk", start=Start(name="s"), query=["q"]))


def records(path: Path, text: bytes, type_: type = Task, **options) -> list:
    path.write_bytes(text)
    return [line.record for line in read([str(path)], type_, **options)]


@pytest.mark.parametrize(
    "text",
    [
        GOOD.replace(b"\n", b"\r\n"),
        b"\xef\xbb\xbf" + GOOD,
        b"\n\n" + GOOD + b"\n",
        GOOD.rstrip(b"\n"),
        GOOD.replace(b'"id"', b'"unknown":{"deep":[1]},"id"'),
    ],
    ids=["crlf", "bom", "blank lines", "no last newline", "unknown field"],
)
def test_accepted(tmp_path: Path, text: bytes):
    """What editors and other tools leave behind is no error."""
    assert [task.id for task in records(tmp_path / "t", text)] == ["a"]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (GOOD[:-9] + b"\n", "torn line"),
        (GOOD.replace(b'"a"', b"1"), "$.id"),
        (GOOD.replace(b',"env":"desk"', b""), "env"),
        (GOOD.replace(b'"split":"train"', b'"split":NaN'), "malformed"),
        (encode(Rollout(id="r", task_id="t", env="e", group="g")), "schema"),
        (GOOD.replace(b'"a"', b'"\\ud800"'), "malformed|surrogate|truncated|invalid"),
        (GOOD.replace(b"task/1", b"task/9"), "schema"),
        (GOOD.replace(b'"schema":"coevolve.task/1",', b""), "schema"),
        (b"[1, 2]\n", "object"),
        (b"\xff\xfe{}\n", "malformed|utf"),
    ],
    ids=["torn", "type", "missing", "nan", "other record", "surrogate", "version", "no schema", "array", "no utf-8"],
)
def test_refused(tmp_path: Path, text: bytes, reason: str):
    """A bad line is BadInput with file, line and reason; with `bad` given it's set aside and the rest is read."""
    path = tmp_path / "t"
    with pytest.raises(BadInput) as error:
        records(path, GOOD + text)
    assert f"{path}:2:" in str(error.value)
    assert any(word in str(error.value) for word in reason.split("|")), str(error.value)
    bad: list = []
    assert len(records(path, text + GOOD, bad=bad)) == 1
    assert bad[0].number == 1


def test_a_huge_line_is_refused_in_bounded_memory(tmp_path: Path):
    """A line over 64 MB is one bad line; what follows is read."""
    bad: list = []
    text = b'{"x":"' + b"a" * (65 << 20) + b'"}\n' + GOOD
    assert len(records(tmp_path / "t", text, bad=bad)) == 1
    assert "64 MB" in bad[0].reason


def test_gzip(tmp_path: Path):
    """.gz is unpacked; a damaged one is bad input."""
    path = tmp_path / "t.gz"
    assert records(path, gzip.compress(GOOD))[0].id == "a"
    with pytest.raises(BadInput):
        records(path, gzip.compress(GOOD * 100)[:60])


def test_the_head_is_enough(tmp_path: Path):
    """head=True decodes what stands before messages, even when the rest is damaged or the order is another."""

    class View(msgspec.Struct, tag_field="schema", tag="coevolve.rollout/1"):
        id: str
        success: bool = False

    line = encode(
        Rollout(id="r", task_id="t", env="e", group="g", success=True, messages=[{"role": "user", "content": "x"}])
    )
    assert records(tmp_path / "t", line[:-20] + b"}\n", View, head=True)[0].success
    other = b'{"schema":"coevolve.rollout/1","messages":[],"id":"r","success":true}\n'
    assert records(tmp_path / "t", other, View, head=True)[0].success


def test_splice_keeps_unknown_fields_and_order():
    """Setting a field leaves the rest of the line as it was."""
    assert splice(b'{"b":1,"x":{"y":[1.50]},"a":2}', a=3, c=None) == b'{"b":1,"x":{"y":[1.50]},"a":3,"c":null}\n'


def test_atomic_replaces_at_success_only(tmp_path: Path):
    """The target changes when the block ends well; links are followed, the mode is the usual one."""
    target, link = tmp_path / "t", tmp_path / "l"
    target.write_text("old")
    link.symlink_to(target)
    with pytest.raises(RuntimeError), atomic(target) as stream:
        stream.write(b"half")
        raise RuntimeError
    assert target.read_text() == "old"
    write(link, [{"a": 1}])
    assert json.loads(target.read_text()) == {"a": 1}
    assert link.is_symlink()
    assert sorted(os.listdir(tmp_path)) == ["l", "t"]
    assert os.stat(target).st_mode & 0o777 == 0o666 & ~_umask()


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def test_atomic_says_where_it_cannot_write(tmp_path: Path):
    """A directory that is a file is a write error, not a traceback."""
    (tmp_path / "f").write_text("")
    with pytest.raises(WriteFailed):
        write(tmp_path / "f" / "x", [])
