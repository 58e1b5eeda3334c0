"""What the tests share: the installed command as a subprocess, and guards for what a machine may lack."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

COEVOLVE = [sys.executable, "-m", "coevolve_cli.main"]
REQUIRED = os.environ.get("COEVOLVE_REQUIRE", "").split(",")


def run(*arguments: str | Path, stdin: str | bytes = b"", check: bool = True, **options) -> subprocess.CompletedProcess:
    """Runs `coevolve` with the arguments; stdin is text or bytes; returns bytes on stdout and stderr."""
    data = stdin.encode() if isinstance(stdin, str) else stdin
    result = subprocess.run([*COEVOLVE, *map(str, arguments)], input=data, capture_output=True, **options)
    if check and result.returncode:
        raise AssertionError(
            f"coevolve {' '.join(map(str, arguments))} exited {result.returncode}: {result.stderr.decode()[-2000:]}"
        )
    return result


@pytest.fixture
def coevolve():
    """The command, through a real process."""
    return run


def _missing(what: str, reason: str) -> None:
    if what in REQUIRED:
        pytest.fail(f"{what} is required here: {reason}")
    pytest.skip(reason)


@pytest.fixture(autouse=True)
def _needs(request: pytest.FixtureRequest):
    """Skips a `bfcl` test where that environment is not installed, unless COEVOLVE_REQUIRE demands it."""
    if request.node.get_closest_marker("bfcl") and not _bfcl_installed():
        _missing("bfcl", "run: coevolve env install bfcl")


def _bfcl_installed() -> bool:
    from coevolve.environments.install import installed

    return installed("bfcl")
