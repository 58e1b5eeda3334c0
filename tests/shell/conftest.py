"""Fixtures of the loop in miniature."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from loop_in_miniature import Loop

from conftest import run as coevolve


@pytest.fixture(scope="session")
def given(tmp_path_factory) -> tuple[Path, Path]:
    """What passes for a model, and a small task set."""
    folder = tmp_path_factory.mktemp("given")
    (folder / "model").mkdir()
    (folder / "model" / "config.json").write_text("{}")
    tasks = coevolve("env", "tasks", "desk", "--split", "dev").stdout.splitlines(keepends=True)
    (folder / "tasks.jsonl").write_bytes(b"".join(tasks[:6]))
    return folder / "model", folder / "tasks.jsonl"


@pytest.fixture(scope="session")
def rollouts(given, tmp_path_factory) -> Path:
    """A random policy's, of the task set."""
    path = tmp_path_factory.mktemp("rollouts") / "rollouts.jsonl"
    coevolve("rollout", given[1], "--model", "random", "-k", "2", "-o", path)
    return path


@pytest.fixture
def loop(tmp_path: Path, command_path: str) -> Loop:
    return Loop(tmp_path, command_path)


@pytest.fixture
def trained(loop: Loop, rollouts: Path) -> Loop:
    """One whose iterations are trained: the stages around training are what its tests are about
    (tests/test_shell.py trains)."""
    for name in ("001", "002"):
        (loop.run / "iterations" / name).mkdir(parents=True)
        shutil.copy(rollouts, loop.run / "iterations" / name)
    return loop
