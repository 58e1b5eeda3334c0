"""Ends the trainer of a run: `coevolve train --run RUN --stop`, and its dry run."""

from __future__ import annotations

from pathlib import Path

from coevolve.errors import UsageError
from coevolve.training.verl import child_process
from coevolve.training.verl.files import Heartbeat, VerlFiles, read
from coevolve.training.verl.watchdog import TrainerWatch


def stop(run: str, *, dry_run: bool = False) -> str:
    """Ends the run's trainer: at once where it waits, else after it was asked and did not react.
    Returns what happened.

    A dry run returns what would happen. Raises UsageError where there is no such run.
    """
    files = files_of(run)
    if not files.run.is_dir():
        raise UsageError(f"{run}: there is no such run")
    if not child_process.alive(files):
        if not dry_run:
            child_process.terminate(files, 0)
        return f"{run}: no trainer is running"
    beat = read(files.heartbeat, Heartbeat)
    if dry_run:
        return f"{run}: the trainer would be ended (it is {beat.phase if beat else 'starting'})"
    waiting = beat is not None and beat.phase == "waiting"
    files.stop.touch()
    TrainerWatch(files, 0, None, child_process.GRACE if waiting else 0).until_ended()
    return f"{run}: the trainer was ended" + ("" if waiting else " in the middle of its work")


def files_of(run: str) -> VerlFiles:
    """Raises UsageError for a path that is no directory's."""
    path = Path(run).absolute()
    here = next(each for each in (path, *path.parents) if each.exists())
    if not here.is_dir():
        raise UsageError(f"--run {run}: {here} is a file, and a run is a directory")
    return VerlFiles(run)
