"""`coevolve rollout` through real pipes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import msgspec
import pytest

import tiny_models
from coevolve import jsonl
from coevolve.records import Rollout
from conftest import COEVOLVE, run

SHOP = f"{sys.executable} {Path(__file__).parent.parent / 'grocer.py'}"


@pytest.fixture
def tasks(tmp_path):
    path = tmp_path / "tasks.jsonl"
    jsonl.write(path, tiny_models.shop_tasks(SHOP, 12))
    return path


def records(data):
    return [msgspec.json.decode(line, type=Rollout) for line in data.splitlines()]


def test_tasks_in_rollouts_out(tasks):
    """A pipe of tasks gives rollouts in their order; the summary counts them."""
    result = run(
        "rollout", "--env", SHOP, "--model", "solution", "--samples", 2, stdin=tasks.read_bytes()
    )
    assert [r.sample for r in records(result.stdout)] == [0, 1] * 12
    assert all(r.success for r in records(result.stdout))
    assert result.stderr.splitlines()[-1] == b"rollout: read 12, wrote 24"


def test_own_tasks_of_an_environment():
    """--env and --split play the environment's own tasks."""
    result = run("rollout", "--env", "desk", "--split", "dev", "--limit", 5, "--model", "solution")
    assert [r.success for r in records(result.stdout)] == [True] * 5


def test_mistakes(tasks):
    """Usage errors are one line and exit 2; --dry-run plays nothing."""
    for arguments in (["--split", "dev"], [tasks, "--env", "desk"], [tasks, "--on-error", "maybe"]):
        result = run("rollout", *arguments, check=False)
        said = [
            line for line in result.stderr.splitlines() if b"records without a version" not in line
        ]
        assert result.returncode == 2 and len(said) == 1 and result.stdout == b""
    assert b'"rollouts_per_task": 3' in run("rollout", tasks, "--samples", 3, "--dry-run").stderr


def test_killed_and_resumed(tmp_path):
    """kill -9 in the middle, then a rerun: the same bytes, what was finished is not played again,
    the journal is gone."""
    count = tmp_path / "opened"
    env = f"{SHOP} {count}"
    jsonl.write(tmp_path / "tasks.jsonl", tiny_models.shop_tasks(env, 96))
    arguments = [
        "rollout",
        "--env",
        env,
        tmp_path / "tasks.jsonl",
        "--model",
        "random",
        "--samples",
        8,
        "-o",
        tmp_path / "out.jsonl",
    ]
    process = subprocess.Popen(
        [*COEVOLVE, *map(str, arguments)], stderr=subprocess.DEVNULL, start_new_session=True
    )
    journal = tmp_path / "out.jsonl.journal"
    while not (journal.exists() and journal.read_bytes().count(b"\n") >= 2):
        assert process.poll() is None
        time.sleep(0.01)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    count.unlink()
    assert b"went on from the journal" in run(*arguments).stderr
    assert len(count.read_text()) < 96 * 8
    assert not journal.exists()
    assert run(*arguments[:-2]).stdout == (tmp_path / "out.jsonl").read_bytes()
