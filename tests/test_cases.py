"""Runs tests/cases: a directory with `cmd` is a case; `expout`, `experr`, `exprc` are what it must print and return.

`cmd` is bash, run in a copy of its directory with `coevolve` on the PATH. A line of `experr` must occur in stderr.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

CASES = Path(__file__).parent / "cases"
NAMES = sorted(str(path.parent.relative_to(CASES)) for path in CASES.glob("**/cmd"))


@pytest.fixture(scope="session")
def path(tmp_path_factory) -> str:
    """A PATH whose `coevolve` is this interpreter's."""
    folder = tmp_path_factory.mktemp("bin")
    script = folder / "coevolve"
    script.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m coevolve_cli.main "$@"\n')
    script.chmod(0o755)
    return f"{folder}:{os.environ['PATH']}"


@pytest.mark.parametrize("name", NAMES)
def test_case(name: str, path: str, tmp_path: Path):
    """The command prints and returns exactly what the case says."""
    case = tmp_path / "case"
    shutil.copytree(CASES / name, case)
    result = subprocess.run(
        ["bash", "cmd"], cwd=case, capture_output=True, env={**os.environ, "PATH": path}, stdin=subprocess.DEVNULL
    )
    code = int((case / "exprc").read_text()) if (case / "exprc").exists() else 0
    assert result.returncode == code, result.stderr.decode()
    if (case / "expout").exists():
        assert result.stdout == (case / "expout").read_bytes()
    if (case / "experr").exists():
        for line in (case / "experr").read_text().splitlines():
            assert line in result.stderr.decode()
