"""Journals: nothing finished is lost, nothing is mixed, a second process is refused."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from coevolve.errors import BadInput, Partial, UsageError, WriteFailed
from coevolve.runs import Journal, journal_path


def test_finished_work_is_found_again(tmp_path: Path):
    """What was put is got by the next journal of the same settings; finishing removes the file."""
    path = tmp_path / "j"
    first = Journal(path, {"seed": 1})
    first.put("a", {"x": 1})
    first.close(finished=False)
    second = Journal(path, {"seed": 1})
    assert second.get("a", dict) == {"x": 1}
    assert second.get("b", dict) is None
    assert second.reused == 1
    second.close(finished=True)
    assert not path.exists()


def test_other_settings_are_refused_by_name(tmp_path: Path):
    """The names of the settings that differ are in the error."""
    path = tmp_path / "j"
    Journal(path, {"seed": 1, "same": 0}).close(finished=False)
    with pytest.raises(UsageError, match="seed"):
        Journal(path, {"seed": 2, "same": 0})


def test_a_torn_last_line_is_dropped(tmp_path: Path, capsys):
    """kill -9 in the middle of a line costs that line only."""
    path = tmp_path / "j"
    journal = Journal(path, {})
    journal.put("a", 1)
    journal.close(finished=False)
    with open(path, "ab") as stream:
        stream.write(b'{"key":"b","val')
    again = Journal(path, {})
    assert (again.get("a", int), again.get("b", int)) == (1, None)
    again.put("c", 3)
    again.close(finished=False)
    assert Journal(path, {}).get("c", int) == 3
    assert "torn" in capsys.readouterr().err


@pytest.mark.parametrize(
    "damage",
    [
        b"\0" * 64 + b"\n",
        b"\xff\xfe garbage\n",
        b"[]\n",
        b"null\n",
        b'{"key":1,"value":2}\n',
        b'{"config":7}\n',
    ],
)
@pytest.mark.parametrize("kept", [b"", b'{"config":{}}\n'], ids=["first", "later"])
def test_damage_is_said_with_the_remedy(tmp_path: Path, damage: bytes, kept: bytes):
    """A line that a power cut or another program left: bad input that names file and line, and the
    file stays as it is."""
    path = tmp_path / "j"
    path.write_bytes(kept + damage + b"torn")
    with pytest.raises(BadInput, match="Delete the file") as error:
        Journal(path, {})
    assert f"{path}:{2 if kept else 1}:" in str(error.value)
    assert path.read_bytes() == kept + damage + b"torn"


def test_a_value_of_another_type_is_damage(tmp_path: Path):
    """A value that is no longer what its reader expects names the journal."""
    path = tmp_path / "j"
    path.write_bytes(b'{"config":{}}\n{"key":"a","value":[1]}\n')
    with pytest.raises(BadInput, match="Delete the file"):
        Journal(path, {}).get("a", int)


def test_a_journal_is_beside_regular_files_only(tmp_path: Path):
    """Standard output has the run's, devices and pipes none; what cannot be an output is refused
    before a journal is made."""
    here = tmp_path / "run.journal"
    assert [journal_path(name, here) for name in ("-", "/dev/stdout")] == [here, here]
    assert [journal_path(name, here) for name in ("/dev/null", "/dev/full")] == [None, None]
    assert journal_path(str(tmp_path / "out")) == tmp_path / "out.journal"
    for name in ("", str(tmp_path)):
        with pytest.raises(UsageError):
            journal_path(name)
    here.write_text("")
    with pytest.raises(WriteFailed):
        Journal(here / "x", {})


def test_a_second_process_is_refused(tmp_path: Path):
    """Two writers never share a journal."""
    path = tmp_path / "j"
    code = f"import time; from coevolve.runs import Journal; j = Journal({str(path)!r}, {{}}); "
    code += "print('up', flush=True); time.sleep(60)"
    holder = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
    try:
        holder.stdout.readline()
        with pytest.raises(Partial, match="another process"):
            Journal(path, {})
    finally:
        holder.kill()
        holder.wait()


def test_without_a_path_nothing_is_kept():
    """Output to a pipe without a run directory has no journal."""
    journal = Journal(None, {})
    journal.put("a", 1)
    assert journal.get("a", int) is None
    journal.close(finished=True)
