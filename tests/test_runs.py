"""Journals: nothing finished is lost, nothing is mixed, a second process is refused."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from coevolve.errors import Partial, UsageError
from coevolve.runs import Journal


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


def test_a_second_process_is_refused(tmp_path: Path):
    """Two writers never share a journal."""
    path = tmp_path / "j"
    code = f"import time; from coevolve.runs import Journal; j = Journal({str(path)!r}, {{}}); print('up', flush=True); time.sleep(60)"
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
