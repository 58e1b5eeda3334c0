"""shell/slurm/train_loop.sbatch for real, but for Slurm: its commands stand in here, and run on
this machine what they are given."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from loop_in_miniature import SHELL, Loop, gone

SCRIPT = "slurm/train_loop.sbatch"
SRUN = """#!/usr/bin/env bash
echo "srun $*" >> "$CALLS"
while [ "${1#-}" != "$1" ]; do shift; done
exec "$@"
"""
SCONTROL = """#!/usr/bin/env bash
echo "scontrol $*" >> "$CALLS"
[ "$1" = requeue ] || printf '%s\\n' ${3//,/ }
"""


@pytest.fixture
def job(trained: Loop, tmp_path: Path) -> Loop:
    """A job on one node, and a file of what was asked of Slurm."""
    trained.tool("srun", SRUN)
    trained.tool("scontrol", SCONTROL)
    with socket.create_server(("127.0.0.1", 0)) as probe:
        trained.env["EXPLORER_PORT"] = str(probe.getsockname()[1])
    trained.env |= {"CALLS": str(tmp_path / "calls"), "SLURM_JOB_ID": "42"}
    trained.env |= {"SLURM_JOB_NUM_NODES": "1", "SLURM_JOB_NODELIST": "localhost"}
    return trained


def calls(job: Loop, name: str) -> list[str]:
    return [
        line for line in Path(job.env["CALLS"]).read_text().splitlines() if line.startswith(name)
    ]


@pytest.mark.slow
def test_the_last_node_serves_the_explorer(job: Loop, given: tuple[Path, Path]):
    """Of two nodes one trains and one serves the model that explores; all ends with the loop, and
    the job is done."""
    job.env |= {
        "SLURM_JOB_NUM_NODES": "2",
        "SLURM_JOB_NODELIST": "here,localhost",
        "EXPLORER_MODEL": "org/teacher",
    }
    model, tasks = given
    job(model, "--tasks", str(tasks), script=SCRIPT)
    (started,) = job.served()
    assert started["arguments"][1] == "org/teacher" and gone(started["pid"])
    assert any("--nodelist=localhost" in call and "serve.sh" in call for call in calls(job, "srun"))
    assert all(
        e["usage"]["prompt_tokens"] for e in job.records("iterations/001/explorations.jsonl")
    )
    assert calls(job, "scontrol requeue") == []


@pytest.mark.parametrize(
    ("number", "restarts", "queued"),
    [
        (signal.SIGUSR1, "9", ["scontrol requeue 42"]),
        (signal.SIGUSR1, "10", []),
        (signal.SIGTERM, "0", []),
    ],
    ids=["time is over", "too often", "cancelled"],
)
def test_before_the_time_limit(
    job: Loop, given: tuple[Path, Path], number: int, restarts: str, queued: list[str]
):
    """Slurm's warning ends the loop and puts the job back into the queue, so many times; scancel
    only ends it."""
    job.env["SLURM_RESTART_COUNT"] = restarts
    process = job.start(given[0], "--initial", "5000", script=SCRIPT)
    job.until("initial/*.journal", process)
    process.send_signal(number)
    assert process.wait() == 143
    assert calls(job, "scontrol requeue") == queued
    assert not list(job.run.glob("initial/*.jsonl"))


def test_a_stalled_trainer(job: Loop, given: tuple[Path, Path]):
    """Exit 75, as the watchdog ends a trainer that hangs, puts the job back into the queue."""
    job.tool(
        "coevolve",
        "#!/usr/bin/env bash\n"
        f'[ "$1" != loop ] || exec {sys.executable} -m coevolve_cli.main "$@"\n'
        '[ "$1" = doctor ] || exit 75\n',
    )
    process = job.start(given[0], script=SCRIPT)
    process.communicate()
    assert process.returncode == 75 and calls(job, "scontrol requeue") == ["scontrol requeue 42"]


def test_too_few_nodes_for_the_preset(job: Loop, tmp_path: Path):
    """A warning that names the number; the last node does not count where it serves the explorer;
    an override decides."""
    flags = ["--set", "train.backend=verl", "--set", "train.preset=qwen3-30b-a3b", "--dry-run"]

    def said(nodes: str, *more: str, **env: str) -> str:
        job.env |= {
            "SLURM_JOB_NUM_NODES": str(len(nodes.split(","))),
            "SLURM_JOB_NODELIST": nodes,
        } | env
        command = ["bash", SHELL / SCRIPT, job.run, *flags, *more]
        result = subprocess.run(
            command, cwd=SHELL.parent, env=job.env, capture_output=True, text=True
        )
        assert result.returncode == 0, result.stderr
        return result.stderr

    assert "1 node(s) would train, and the preset is for 2: sbatch --nodes=2" in said("a")
    assert "WARNING" not in said("a", "--", "trainer.nnodes=1")
    assert "WARNING" not in said("a,b")
    assert "sbatch --nodes=3" in said("a,b", EXPLORER_MODEL="org/teacher")
