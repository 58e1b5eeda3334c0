"""The watchdog over a stand-in child (tests/stand_in_child.py says why): what it makes of every way
to end or not to end.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import drive_verl
import pytest

import tiny_models
from coevolve import jsonl
from coevolve.errors import CoevolveError, Exit, Partial, WriteFailed
from coevolve.records import Rollout
from coevolve.training.verl import child_process, driver, watchdog
from coevolve.training.verl.files import MARK, TrainerFailure, VerlFiles

SHOP = f"{sys.executable} {Path(__file__).parents[2] / 'grocer.py'}"
TASKS = tiny_models.shop_tasks(SHOP, 4)


@pytest.fixture
def run(tmp_path, monkeypatch):
    monkeypatch.setattr(child_process, "GRACE", 1.0)
    monkeypatch.setattr(child_process.terminate, "__defaults__", (1.0,))
    path = tmp_path / "run"
    yield path
    child_process.terminate(VerlFiles(path), 0)


def fails(run, model, plan, **how) -> CoevolveError:
    """The error of a call in which the child behaves so; nothing of the child is left, and a rerun
    trains the iteration.
    """
    Path(f"{run}.plan").write_text(plan)
    with pytest.raises(CoevolveError) as caught:
        drive_verl.drive(run, TASKS, model, SHOP, **how)
    assert not child_process.alive(VerlFiles(run)) and not child_process.processes(VerlFiles(run))
    file = drive_verl.drive(run, TASKS, model, SHOP)
    assert len([line.record for line in jsonl.read([str(file)], Rollout)]) == 12
    return caught.value


@pytest.fixture(scope="module")
def stall() -> float:
    """Seconds without progress that are no slow start: a multiple of what the child's imports take
    on this machine now.
    """
    began = time.monotonic()
    folder = str(Path(drive_verl.__file__).parent)
    command = [sys.executable, "-c", "import stand_in_child"]
    subprocess.run(command, check=True, env={**os.environ, "PYTHONPATH": folder})
    return 1 + round(5 * (time.monotonic() - began))


@pytest.mark.parametrize("kind", ["hang", "lively"])
def test_no_progress(run, model, kind, stall, capfd):
    """A child that stands still is ended with all its processes, SIGTERM or not, heartbeat or not;
    the last lines are shown.
    """
    error = fails(run, model, kind, stall_timeout=stall)
    told = f"no progress for {stall} s (in phase rollout of iteration 1, 0 steps done)"
    assert isinstance(error, Partial) and told in str(error)
    assert "child.log: entering a collective operation" in capfd.readouterr().err


def test_death(run, model):
    """The exception that killed the child is quoted, with the log's path; exit 1."""
    error = fails(run, model, "well\ndie")
    assert error.exit == Exit.FAILED and "ValueError: no room for the KV cache" in str(error)
    assert "1 steps done" in str(error) and str(VerlFiles(run).log) in str(error)


def test_killed(run, model):
    """A child that something killed is told from one that failed."""
    assert "killed by signal 9 (in phase rollout" in str(fails(run, model, "kill"))


@pytest.mark.parametrize(
    ("log", "told"),
    [
        (
            "ValueError: old\n---- attempt 2\nloaded\rTraining:  10%|#    | 1/10 [00:01<00:09]\n",
            "loaded",
        ),
        (
            "---- attempt 2\n(pid=7) ray.exceptions.OutOfMemoryError: too big\nlater\n 50%|##  | "
            "1/2\n",
            "ray.exceptions.Out",
        ),
        ("---- attempt 2\nERROR worker 3 is lost\nbye\n", "ERROR worker 3 is lost"),
        ("---- attempt 2\n 50%|##  | 1/2\n", "its log says nothing"),
        ("", "its log says nothing"),
    ],
)
def test_what_is_quoted(tmp_path, log, told):
    """The last exception or error line of this attempt; a progress bar never."""
    files = VerlFiles(tmp_path)
    files.root.mkdir()
    files.log.write_text(log)
    assert watchdog.last_error(files).startswith(told)


@pytest.mark.parametrize("plan", ["die", "kill", "hang"])
def test_full_disk(run, model, plan, stall, monkeypatch):
    """Whatever a trainer on a full disk came to, the disk is what is told; exit 74. The numbers are
    set: mounting a small file system needs rights that a test does not have.
    """
    total = 5 << 20
    monkeypatch.setattr(
        shutil, "disk_usage", lambda path: shutil._ntuple_diskusage(total, total - 4096, 4096)
    )
    Path(f"{run}.plan").write_text(plan)
    with pytest.raises(
        WriteFailed, match=rf"no space on the disk of {run} \(0.0 of 5 MB are free\): the trainer "
    ):
        drive_verl.drive(run, TASKS, model, SHOP, stall_timeout=stall)


@pytest.mark.parametrize(
    ("total", "free", "log", "told"),
    [
        (10**12, 65 << 20, "ValueError: old", ""),
        (10**9, 63 << 20, "ValueError: old", ""),
        (10**12, 63 << 20, "ValueError: old", "no space on the disk of"),
        (
            10**12,
            10**11,
            "OSError: [Errno 28] No space left on device: '/tmp/ray'",
            "no space where the trainer wrote",
        ),
        (
            10**12,
            10**11,
            "OSError: [Errno 122] Disk quota exceeded",
            "no space where the trainer wrote",
        ),
    ],
)
def test_what_is_a_full_disk(tmp_path, monkeypatch, total, free, log, told):
    """A hundredth of the disk, and not enough for anything, or a log that says so: Ray and verl
    write elsewhere, too.
    """
    monkeypatch.setattr(
        shutil, "disk_usage", lambda path: shutil._ntuple_diskusage(total, total - free, free)
    )
    files = VerlFiles(tmp_path)
    files.root.mkdir()
    files.log.write_text(f"---- attempt 1\nNo space left on device\n---- attempt 2\n{log}\n")
    assert watchdog.no_space(files).startswith(told) and bool(watchdog.no_space(files)) == bool(
        told
    )


def test_an_error_of_many_lines(tmp_path):
    """What Ray hands over with a traceback is told in one line, beginning and end, with the log
    that has the rest.
    """
    text = (
        "all 6 rollouts met faults, the last one: ray::generate()\n  File x\n\nEngineDeadError: "
        "EngineCore died\n"
    )
    error = watchdog.TrainerFailed(TrainerFailure(69, text), tmp_path / "child.log")
    assert str(error) == (
        "all 6 rollouts met faults, the last one: ray::generate() … EngineDeadError: EngineCore "
        f"died (log: {tmp_path}/child.log)"
    )
    assert error.exit == Exit.UNREACHABLE


def test_error_of_ours(run, model):
    """An error that the child wrote down keeps its text and its exit code."""
    error = fails(run, model, "error")
    assert (error.exit, str(error)) == (Exit.UNREACHABLE, "the environment cannot be started")


def test_nothing_trained(run, model):
    """A child that ends well without having trained the iteration is an error."""
    assert "ended without training iteration 1" in str(fails(run, model, "nothing"))


def test_stop_in_the_middle(run, model):
    """`--stop` ends a child that is at work, too, within its grace."""
    Path(f"{run}.plan").write_text("hang")
    command = [sys.executable, drive_verl.__file__, run, "/dev/stdin", model, SHOP]
    tasks = b"".join(jsonl.encode(task) for task in TASKS)
    running = subprocess.Popen(
        command, stdin=subprocess.PIPE, stderr=subprocess.PIPE, stdout=subprocess.PIPE
    )
    running.stdin.write(tasks)
    running.stdin.close()
    while b"collective" not in (
        VerlFiles(run).log.read_bytes() if VerlFiles(run).log.exists() else b""
    ):
        assert running.poll() is None
    assert "in the middle" in driver.stop(str(run))
    assert running.stderr.read().splitlines()[-1].startswith(b"75 the trainer was told to stop")
    running.stdout.close()
    running.stderr.close()
    assert running.wait() == 1 and not child_process.processes(VerlFiles(run))


def test_only_its_own(tmp_path):
    """Processes of another run, or of nobody's, are never touched."""
    others = [
        subprocess.Popen(["sleep", "60"], env={MARK: str(tmp_path / "run-b")}),
        subprocess.Popen(["sleep", "60"], env={MARK: str(tmp_path / "run") + "/deeper"}),
        subprocess.Popen(["sleep", "60"]),
    ]
    own = subprocess.Popen(
        ["sleep", "60"], env={MARK: str(tmp_path / "run")}, start_new_session=True
    )
    while not child_process.processes(VerlFiles(tmp_path / "run")):
        pass
    child_process.terminate(VerlFiles(tmp_path / "run"), 0)
    assert own.wait() == -9 and [p.poll() for p in others] == [None] * 3
    for process in others:
        process.kill()
        process.wait()
