"""shell/ray_cluster.sh with real Ray: two nodes on this machine, the second reached over an `ssh`
that stands in for the network."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from loop_in_miniature import put_ssh

pytestmark = pytest.mark.verl

SCRIPT = Path(__file__).parent.parent.parent / "shell" / "ray_cluster.sh"
LOOK = """
import ray
ray.init(log_to_driver=False, logging_level="ERROR")
nodes, gpus = sum(node["Alive"] for node in ray.nodes()), int(ray.cluster_resources()["GPU"])
print(nodes, "nodes", gpus, "GPUs", flush=True)
"""


@pytest.fixture
def cluster(tmp_path: Path):
    """Starts the script with a command; the environment variable MARKED tells its processes from
    others'."""
    tools = tmp_path / "bin"
    put_ssh(tools)
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = str(probe.getsockname()[1])
    path = f"{tools}:{Path(sys.executable).parent}:{os.environ['PATH']}"
    env = {
        **os.environ,
        "PATH": path,
        "HEAD_IP": "127.0.0.1",
        "HOSTS": str(tmp_path / "hosts"),
        "MARKED": str(tmp_path),
    }
    env |= {"KEEP": "PATH MARKED OMP_NUM_THREADS", "RAY_FLAGS": "--num-cpus=1"}
    for name in ("RAY_ADDRESS", "RAY_AUTH_MODE", "RAY_AUTH_TOKEN"):
        env.pop(name, None)
    started: list[subprocess.Popen] = []

    def start(*command: str, nodes: str = "here there", flags: str = "") -> subprocess.Popen:
        arguments = [
            SCRIPT,
            "--nodes",
            nodes,
            "--gpus",
            "2",
            "--port",
            port,
            "--wait",
            "90",
            "--",
            *command,
        ]
        more = {"RAY_FLAGS": f"{env['RAY_FLAGS']} {flags}"}
        process = subprocess.Popen(
            arguments, env=env | more, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.wait()
    deadline = time.monotonic() + 40
    while (left := marked(str(tmp_path))) and time.monotonic() < deadline:
        time.sleep(0.2)
    for pid in left:
        os.kill(pid, signal.SIGKILL)
    assert not left, "processes of the cluster outlived the script"


def marked(text: str) -> list[int]:
    """Living processes with MARKED=text in their environment."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            if f"MARKED={text}".encode() in (entry / "environ").read_bytes().split(b"\0"):
                found.append(int(entry.name))
        except OSError:
            continue
    return found


def test_a_command_on_two_nodes(cluster, tmp_path: Path):
    """The command sees both nodes and all GPUs at RAY_ADDRESS, its exit code is the script's; the
    fixture looks for leftovers."""
    process = cluster("bash", "-c", f"{sys.executable} -c '{LOOK}'; exit 7")
    out, error = process.communicate()
    assert (process.returncode, out) == (7, "2 nodes 4 GPUs\n"), error
    assert (tmp_path / "hosts").read_text() == "there\n"


@pytest.mark.slow
def test_killed_it_leaves_nothing(cluster, tmp_path: Path):
    """kill -9 of the script ends Ray on every node; the fixture looks."""
    process = cluster("bash", "-c", "echo running; sleep 600", nodes="here")
    assert process.stdout.readline() == "running\n", process.stderr.read()
    assert len(marked(str(tmp_path))) > 3
    for pid in marked(str(tmp_path)):
        if b"sleep\x00600" in Path(f"/proc/{pid}/cmdline").read_bytes():
            os.kill(pid, signal.SIGKILL)  # the command itself is nobody's business here
    process.kill()


def test_ray_that_does_not_start(cluster):
    """The script ends at once, with Ray's words and exit 69, not after its patience for the other
    nodes."""
    process = cluster("true", flags="--no-such-flag")
    _, error = process.communicate()
    assert process.returncode == 69
    assert "No such option" in error and "Ray ended on a node" in error
