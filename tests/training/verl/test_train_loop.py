"""shell/train_loop.sh on the verl backend, whole: real trainer, real stages, kill -9 between two
iterations, two Ray nodes.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from loop_in_miniature import put_ssh

from coevolve.training.verl.files import MARK, Child, Ready, VerlFiles, read
from verl_cpu import PRESET as CPU

pytestmark = [pytest.mark.verl, pytest.mark.slow, pytest.mark.timeout(1200)]

SHELL = Path(__file__).parents[3] / "shell"
STAGES = ("backend=verl", f"preset={CPU}", "steps=1", "batch=6", "samples=4", "episode-tokens=224")
SMALL = ["--iterations", "2", "--set", "explore.episodes=12"]
SMALL += [word for option in STAGES for word in ("--set", f"train.{option}")]


def living(run: Path) -> list[int]:
    """Processes of the run's trainer."""
    mark, found = f"{MARK}={run}".encode(), []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            state = (entry / "stat").read_text().rpartition(")")[2].split()[0]
            if state != "Z" and mark in (entry / "environ").read_bytes().split(b"\0"):
                found.append(int(entry.name))
        except OSError:
            continue
    return found


@pytest.fixture
def loop(tmp_path: Path, laptop_policy: Path, command_path: str, coevolve):
    """Starts the script; whatever a failing test leaves of the trainer is ended."""
    run, tasks = tmp_path / "run", tmp_path / "tasks.jsonl"
    own = coevolve("env", "tasks", "desk", "--split", "dev").stdout.splitlines(keepends=True)
    tasks.write_bytes(
        b"".join(
            line for line in own if b'"kind":"bank.add/given"' in line or b'"kind":"mail.' in line
        )
    )
    env = {**os.environ, "PATH": command_path, "OMP_NUM_THREADS": "1"}
    command = [SHELL / "train_loop.sh", run, "--model", laptop_policy, "--tasks", tasks, *SMALL]

    def start(*more: str, under: tuple = (), **variables: str) -> subprocess.Popen:
        return subprocess.Popen(
            [*under, *command, *more], env=env | variables,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
        )  # fmt: skip

    yield run, start
    for pid in living(run):
        os.kill(pid, signal.SIGKILL)


def test_two_iterations_and_a_kill_between_them(loop):
    """The script is killed with -9 while the trainer waits; the same command attaches to it, and
    ends it in the end.
    """
    run, start = loop
    files, process = VerlFiles(run), start()
    while not (run / "iterations" / "001" / "signals.jsonl").exists():
        assert process.poll() is None, process.communicate()[1]
        time.sleep(0.2)
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    waiting = read(files.child, Child)
    assert waiting.pid in living(run)

    process = start()
    report, error = process.communicate()
    assert process.returncode == 0, error
    assert read(files.child, Child) == waiting
    assert not living(run)
    assert [line.split()[0] for line in report.splitlines()] == ["iteration", "1", "2"]

    def records(name: str) -> list[dict]:
        return [json.loads(line) for line in (run / name).read_text().splitlines()]

    for number in (1, 2):
        rollouts = records(f"iterations/00{number}/rollouts.jsonl")
        assert len(rollouts) == 6 * 4 and {r["iteration"] for r in rollouts} == {number}
        assert read(files.ready(number), Ready).step == number
    assert len(records("iterations/002/tasks.jsonl")) > len(records("tasks.jsonl"))
    assert (run / "policy" / "model.safetensors").exists() and (
        run / "policy" / "tokenizer.json"
    ).exists()


def test_two_nodes(loop, tmp_path: Path):
    """Under shell/ray_cluster.sh the trainer joins the cluster: a worker on each of two nodes, and
    all ends with the loop.
    """
    run, start = loop
    tools = tmp_path / "bin"
    put_ssh(tools)
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = str(probe.getsockname()[1])
    cluster = (
        SHELL / "ray_cluster.sh",
        "--nodes",
        "here there",
        "--gpus",
        "1",
        "--port",
        port,
        "--",
    )
    more = ("--iterations", "1", "--", "trainer.nnodes=2")
    path = f"{tools}:{Path(sys.executable).parent}:{os.environ['PATH']}"
    process = start(
        *more, under=cluster, PATH=path, RAY_FLAGS="--num-cpus=16", HOSTS=str(tmp_path / "hosts")
    )
    _, error = process.communicate()
    assert process.returncode == 0, error[-3000:]
    assert (tmp_path / "hosts").read_text() == "there\n"
    assert len((run / "iterations" / "001" / "rollouts.jsonl").read_text().splitlines()) == 6 * 4
    weights = run / "verl" / "checkpoints" / "global_step_1" / "actor"
    assert sorted(path.name for path in weights.glob("model_world_size_*")) == [
        "model_world_size_2_rank_0.pt", "model_world_size_2_rank_1.pt",
    ]  # fmt: skip
    assert (run / "policy" / "model.safetensors").exists()
    assert not living(run)
