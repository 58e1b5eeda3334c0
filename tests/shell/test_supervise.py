"""coevolve/supervise.py: a command ends with whoever holds its standard input, in every way that
one can end.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from loop_in_miniature import gone

SCRIPT = Path(__file__).parent.parent.parent / "coevolve" / "supervise.py"
SUPERVISED = ["python3", "-IS", str(SCRIPT), "30"]
FAMILY = (
    "import subprocess, sys, time; child = subprocess.Popen(['sleep', '600']); print(child.pid, "
    "flush=True); time.sleep(600)"
)
HOLDER = (
    "import subprocess, sys; subprocess.Popen(sys.argv[1:], stdin=subprocess.PIPE); "
    "sys.stdin.read()"
)


@pytest.fixture
def supervised():
    """A command with a child, supervised, its pipe in a process that can be killed: (holder, the
    child).
    """
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER, *SUPERVISED, sys.executable, "-c", FAMILY],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    grandchild = int(holder.stdout.readline())
    yield holder, grandchild
    holder.kill()
    holder.wait()


def test_it_ends_with_its_holder(supervised):
    """kill -9 of the process at the other end of the pipe ends the command and its children."""
    holder, grandchild = supervised
    os.kill(grandchild, 0)
    holder.send_signal(signal.SIGKILL)
    assert gone(grandchild)


def test_a_command_that_will_not_end_is_killed(tmp_path: Path):
    """One that ignores the request is killed after the grace period, and so are its children."""
    stubborn = f"import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); {FAMILY}"
    process = subprocess.Popen(
        [*SUPERVISED[:-1], "1", sys.executable, "-c", stubborn],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    grandchild = int(process.stdout.readline())
    process.stdin.close()
    assert process.wait() == 128 + signal.SIGKILL
    assert gone(grandchild)


def test_a_signal_to_the_supervisor_is_one_to_the_command():
    """SIGTERM, as srun and scancel send it, ends the command; the exit status says how."""
    process = subprocess.Popen(
        [*SUPERVISED, sys.executable, "-c", FAMILY],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    grandchild = int(process.stdout.readline())
    process.terminate()
    assert process.wait() == 128 + signal.SIGTERM
    assert gone(grandchild)


def test_its_exit_status_is_the_commands():
    """A command that ends by itself ends its supervisor, whose holder goes on."""
    process = subprocess.Popen([*SUPERVISED, "bash", "-c", "exit 7"], stdin=subprocess.PIPE)
    assert process.wait() == 7
