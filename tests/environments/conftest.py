"""Command lines of the test workers."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from coevolve.environments.client import Pool, Pools

HERE = Path(__file__).parent


@pytest.fixture
def strange() -> str:
    return f"{sys.executable} {HERE / 'strange.py'}"


@pytest.fixture
def raw() -> Callable[[str], str]:
    """The command line of the toolkit-free worker in one of its modes."""
    return lambda mode: f"{sys.executable} {HERE / 'raw.py'} {mode}"


def running(pid: int) -> bool:
    """Whether the process runs (a zombie that nobody has waited for does not)."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


@pytest.fixture
def gone() -> Callable[[int], bool]:
    """Waits until a process has ended; False if it is still there after a long while."""

    def wait(pid: int) -> bool:
        deadline = time.monotonic() + 30
        while running(pid) and time.monotonic() < deadline:
            time.sleep(0.02)
        return not running(pid)

    return wait


@pytest.fixture(scope="module")
def pools() -> Iterator[Pools]:
    with Pools() as running:
        yield running


@pytest.fixture
def bfcl(pools: Pools) -> Pool:
    """One BFCL worker for a module; started by its first test, so that a test that is skipped needs
    none."""
    return pools("bfcl")


@pytest.fixture(scope="session")
def appworld_pools() -> Iterator[Pools]:
    with Pools() as running:
        yield running


@pytest.fixture
def appworld(appworld_pools: Pools) -> Pool:
    """One AppWorld worker for all modules, because it takes seconds to warm up; started by its
    first test."""
    return appworld_pools("appworld")
