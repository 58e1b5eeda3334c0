"""Reading and writing of records: what is accepted, what is refused, and where it says so."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import msgspec
import pytest

from coevolve.errors import BadInput, UsageError, WriteFailed
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
    ids=[
        "torn",
        "type",
        "missing",
        "nan",
        "other record",
        "surrogate",
        "version",
        "no schema",
        "array",
        "no utf-8",
    ],
)
def test_refused(tmp_path: Path, text: bytes, reason: str):
    """A bad line is BadInput with file, line and reason; with `bad` given it's set aside and the
    rest is read."""
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
    for damaged in (gzip.compress(GOOD * 100)[:60], gzip.compress(GOOD)[:20] + b"\xff" * 90):
        with pytest.raises(BadInput, match="damaged"):
            records(path, damaged)


@pytest.mark.parametrize("suffix", ["gz", "zst"])
def test_a_packed_output_is_read_again(tmp_path: Path, suffix: str):
    """What is written under a suffix that the reader unpacks is packed, to the same bytes each
    time."""
    if suffix == "zst":
        pytest.importorskip("zstandard")
    first, second = tmp_path / f"a.{suffix}", tmp_path / f"b.{suffix}"
    for path in (first, second):
        write(path, [json.loads(GOOD)] * 1000)
    assert first.read_bytes() == second.read_bytes()
    assert first.stat().st_size < 1000 * len(GOOD) / 10
    assert [line.record.id for line in read([str(first)], Task)] == ["a"] * 1000


def test_the_head_is_enough(tmp_path: Path):
    """head=True decodes what stands before messages, even when the rest is damaged or the order is
    another."""

    class View(msgspec.Struct, tag_field="schema", tag="coevolve.rollout/1"):
        id: str
        success: bool = False

    line = encode(
        Rollout(
            id="r",
            task_id="t",
            env="e",
            group="g",
            success=True,
            messages=[{"role": "user", "content": "x"}],
        )
    )
    assert records(tmp_path / "t", line[:-20] + b"}\n", View, head=True)[0].success
    other = b'{"schema":"coevolve.rollout/1","messages":[],"id":"r","success":true}\n'
    assert records(tmp_path / "t", other, View, head=True)[0].success


def test_splice_keeps_unknown_fields_and_order():
    """Setting a field leaves the rest of the line as it was."""
    assert (
        splice(b'{"b":1,"x":{"y":[1.50]},"a":2}', a=3, c=None)
        == b'{"b":1,"x":{"y":[1.50]},"a":3,"c":null}\n'
    )


def test_atomic_replaces_at_success_only(tmp_path: Path):
    """The target changes when the block ends well; links are followed, the mode is the usual
    one."""
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
    with pytest.raises(WriteFailed, match="/dev/full"):
        write("/dev/full", [{"a": 1}])
    for name in (tmp_path, ""):
        with pytest.raises(UsageError):
            write(name, [])


def test_what_killed_writers_left_is_removed(tmp_path: Path):
    """The next writer removes a dead writer's temporary file, and neither a living one's nor a
    stranger's."""
    target = tmp_path / "out"
    code = (
        "import sys, time; from coevolve.jsonl import atomic\n"
        f"with atomic({str(target)!r}): print('up', flush=True); time.sleep(60)"
    )
    holders = [
        subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) for _ in range(2)
    ]
    try:
        for holder in holders:
            holder.stdout.readline()
        holders[0].kill()
        holders[0].wait()
        (tmp_path / ".out.old.tmp").write_text("a stranger's")
        assert len(os.listdir(tmp_path)) == 3
        for path in tmp_path.iterdir():
            os.utime(path, (0, time.time() - 3600))
        write(target, [])
        names = sorted(os.listdir(tmp_path))
        assert len(names) == 3 and {"out", ".out.old.tmp"} < set(names)
    finally:
        for holder in holders:
            holder.kill()
            holder.wait()
