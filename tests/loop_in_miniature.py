"""What the tests of shell/ share: the loop's script with a small policy, and a `vllm` that stands
in for the real one.

vLLM needs a GPU or a long build, and the scripts only start it, wait until it answers, and end it:
the stand-in serves the scripted model of competent_model.py on a real socket, and writes down how
it was started.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

SHELL = Path(__file__).parent.parent / "shell"
STAGES = "train.steps=1 train.batch=3 train.samples=2 train.episode-tokens=120"
STAGES += " explore.episodes=6 explore.max-actions=12"
SMALL = ["--iterations", "2", "--initial", "6"]
SMALL += [word for text in STAGES.split() for word in ("--set", text)]
VLLM = """
import json, os, sys
sys.path.insert(0, TESTS)
from competent_model import competent
import scripted_server
arguments = sys.argv[1:]
with open(SEEN, "a") as seen:
    gpus = os.environ.get("CUDA_VISIBLE_DEVICES")
    print(json.dumps({"arguments": arguments, "gpus": gpus, "pid": os.getpid()}), file=seen)
if os.path.exists(FAILS):
    sys.exit("no such model here")
class Handler(scripted_server._Handler):
    server_owner = scripted_server.ScriptedServer(competent)
port = int(arguments[arguments.index("--port") + 1])
scripted_server._Server(("127.0.0.1", port), Handler).serve_forever()
"""

SSH = """#!/usr/bin/env bash
while [ "$1" = -o ]; do shift 2; done
echo "$1" >> "$HOSTS"
shift
env -i HOME="$HOME" HOSTS="$HOSTS" bash -c "$*"
"""
"""Stands in for the network: the other node is this machine, with nothing of the caller's
environment.
"""


def put_ssh(folder: Path) -> None:
    """A new folder with the `ssh` that stands in for the real one."""
    folder.mkdir()
    (folder / "ssh").write_text(SSH)
    (folder / "ssh").chmod(0o755)


class Loop:
    """Runs a script in a folder; `run` is its run directory, `tools` a folder of commands that come
    first in PATH.
    """

    def __init__(self, folder: Path, command_path: str):
        self.run, self.seen, self.fails, self.tools = (
            folder / name for name in ("run", "seen", "fails", "bin")
        )
        self.tools.mkdir()
        named = (
            f"TESTS, SEEN, FAILS = {str(Path(__file__).parent)!r}, {str(self.seen)!r}, "
            f"{str(self.fails)!r}"
        )
        self.tool("vllm", f"#!{sys.executable}\n{named}{VLLM}")
        foreign = ("COEVOLVE_", "EXPLORER_", "SERVE_", "SLURM_", "RAY_")
        self.env = {
            name: value for name, value in os.environ.items() if not name.startswith(foreign)
        }
        self.env |= {
            "PATH": f"{self.tools}:{command_path}",
            "OMP_NUM_THREADS": "1",
            "COEVOLVE_HOME": str(folder / "home"),
        }

    def tool(self, name: str, text: str) -> None:
        """Puts a command there."""
        (self.tools / name).write_text(text)
        (self.tools / name).chmod(0o755)

    def start(self, model: Path, *more: str, script: str = "train_loop.sh") -> subprocess.Popen:
        """The script in the background, in a process group of its own."""
        command = ["bash", SHELL / script, self.run, "--model", model, *SMALL, *more]
        return subprocess.Popen(
            command, cwd=SHELL.parent, env=self.env, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, text=True, start_new_session=True,
        )  # fmt: skip

    def __call__(self, model: Path, *more: str, script: str = "train_loop.sh") -> None:
        """Runs it to a good end."""
        process = self.start(model, *more, script=script)
        _, error = process.communicate()
        assert process.returncode == 0, error

    def until(self, pattern: str, process: subprocess.Popen) -> None:
        """Waits until the run has such a file; fails if the script ends before."""
        while not list(self.run.glob(pattern)):
            assert process.poll() is None, process.communicate()[1]
            time.sleep(0.05)

    def records(self, name: str) -> list[dict]:
        """Those of one file of the run."""
        return [json.loads(line) for line in (self.run / name).read_text().splitlines()]

    def served(self) -> list[dict]:
        """How `vllm` was started, each time."""
        return (
            [json.loads(line) for line in self.seen.read_text().splitlines()]
            if self.seen.exists()
            else []
        )


def gone(pid: int, within: float = 20.0) -> bool:
    """Whether the process has ended, or only waits to be reaped, before the time is over."""
    deadline = time.monotonic() + within
    while time.monotonic() < deadline:
        try:
            if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
                return True
        except (FileNotFoundError, ProcessLookupError):
            return True
        time.sleep(0.05)
    return False
