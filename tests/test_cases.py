"""Runs tests/cases: a directory with `cmd` is a case; `expout`, `experr`, `exprc` are what it must
print and return.

`cmd` is bash, run in a copy of its directory with `coevolve` on the PATH. A line of `experr` must
occur in stderr.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

CASES = Path(__file__).parent / "cases"
NAMES = sorted(str(path.parent.relative_to(CASES)) for path in CASES.glob("**/cmd"))


@pytest.mark.parametrize("name", NAMES)
def test_case(name: str, command_path: str, tmp_path: Path):
    """The command prints and returns exactly what the case says."""
    case = tmp_path / "case"
    shutil.copytree(CASES / name, case)
    result = subprocess.run(
        ["bash", "cmd"],
        cwd=case,
        capture_output=True,
        env={**os.environ, "PATH": command_path},
        stdin=subprocess.DEVNULL,
    )
    code = int((case / "exprc").read_text()) if (case / "exprc").exists() else 0
    assert result.returncode == code, result.stderr.decode()
    if (case / "expout").exists():
        assert result.stdout == (case / "expout").read_bytes()
    if (case / "experr").exists():
        for line in (case / "experr").read_text().splitlines():
            assert line in result.stderr.decode()
