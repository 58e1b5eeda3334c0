"""A training run on disk: what a killed run needs to go on as if nothing had happened.

    RUN/config.json               settings that decide the bytes; others are refused, once they have
                                  decided anything (EVIDENCE)
    RUN/metrics.jsonl             one line per step (training.metrics)
    RUN/policy                    link to the newest checkpoint, a Hugging Face directory
    RUN/checkpoints/step-000010/  model and tokenizer, optimizer.pt, trainer.json
    RUN/iterations/001/           training.json: the tasks; rollouts.jsonl

Checkpoints and finished rollout files appear under their names whole. Rollouts of an unfinished
iteration are in `rollouts.part.jsonl`; on resumption it and the metrics lose what is beyond the
last checkpoint. One process per run.
"""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any, TypeVar

import msgspec

from coevolve import jsonl
from coevolve.errors import BadInput, Partial, UsageError, WriteFailed
from coevolve.records import Task, content_id

T = TypeVar("T")

EVIDENCE = (
    *("checkpoints/step-*", "metrics.jsonl", "iterations/*/rollouts*.jsonl"),
    *("verl/checkpoints/global_step_*", "verl/metrics.jsonl", "verl/iterations/*/episodes/*.jsonl"),
)
"""What a run has come to, with either backend; without it no settings and tasks are bound."""


class IterationState(msgspec.Struct, frozen=True):
    """What an iteration is trained on."""

    iteration: int
    tasks: int
    digest: str


class _Step(msgspec.Struct):
    step: int


class DamagedRun(BadInput):
    """A file of the run that cannot be read, and what to do."""

    def __init__(self, file: Path, reason: object, advice: str, line: int | None = None):
        text = " ".join(str(reason).split()) or type(reason).__name__
        super().__init__(str(file), line, f"is damaged ({text}); {advice}")


class RunState:
    """Holds the run's lock in a `with`. `bound`: by work under way, whatever is on the disk."""

    def __init__(self, run: str, settings: msgspec.Struct, *, bound: bool = False):
        self.path = Path(run)
        self._settings = msgspec.to_builtins(settings)
        self._bound = bound
        self._lock: IO[bytes] | None = None

    def __enter__(self) -> RunState:
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            self._lock = open(self.path / "train.lock", "wb")
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._lock.close()
            raise Partial(
                f"{self.path}: another process is training this run (one that a killed script "
                "started, perhaps); wait for it, or choose another --run"
            ) from None
        except OSError as error:
            raise WriteFailed(f"{self.path}: cannot write: {error.strerror}") from error
        try:
            self.check_settings()
        except BaseException:
            self._lock.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._lock.close()

    def keep_settings(self) -> None:
        """Makes the settings those of the run."""
        file = self.path / "config.json"
        if not file.exists() or self._changed():
            with jsonl.atomic(file) as stream:
                stream.write(msgspec.json.format(msgspec.json.encode(self._settings)) + b"\n")

    @property
    def bound(self) -> bool:
        """Whether anything was done under the run's settings."""
        found = (path for pattern in EVIDENCE for path in self.path.glob(pattern))
        return self._bound or any(path.is_dir() or path.stat().st_size for path in found)

    def check_settings(self) -> None:
        """Raises UsageError where other settings have decided what the run has come to."""
        changed = self._changed()
        if changed and self.bound:
            raise UsageError(
                f"{self.path / 'config.json'}: the run was begun with other settings "
                f"({'; '.join(changed)}). Use the same ones, or another --run"
            )

    def _changed(self) -> list[str]:
        """The settings that differ from those of the run, in words; a table's keys one by one."""
        file = self.path / "config.json"
        if not file.exists():
            return []
        advice = "delete it: the next call writes it again from its own options"
        was, now = _flat(_decode(file, dict[str, Any], advice)), _flat(self._settings)
        names = sorted(k for k in {*was, *now} if was.get(k) != now.get(k))
        return [f"{k} was {_shown(was, k)}, here {_shown(now, k)}" for k in names]

    @property
    def step(self) -> int:
        """Optimiser steps done at the newest checkpoint, 0 without one."""
        newest = self.checkpoint
        return _number(newest) if newest else 0

    @property
    def checkpoint(self) -> Path | None:
        found = [path for path in (self.path / "checkpoints").glob("step-*") if _number(path)]
        return max(found, key=_number, default=None)

    def directory(self, iteration: int) -> Path:
        return self.path / "iterations" / f"{iteration:03d}"

    def rollouts(self, iteration: int) -> Path:
        return self.directory(iteration) / "rollouts.jsonl"

    def part(self, iteration: int) -> Path:
        return self.directory(iteration) / "rollouts.part.jsonl"

    def check_tasks(self, iteration: int, tasks: list[Task]) -> None:
        """Raises UsageError where the iteration was begun on other tasks."""
        file = self.directory(iteration) / "training.json"
        advice = "delete it: only the check that the tasks are the same is lost"
        if file.exists() and _decode(file, IterationState, advice) != _noted(iteration, tasks):
            raise UsageError(
                f"{self.path}: iteration {iteration} was trained on other tasks. Use the same, or "
                "another --run"
            )

    def note_tasks(self, iteration: int, tasks: list[Task]) -> None:
        jsonl.write(self.directory(iteration) / "training.json", [_noted(iteration, tasks)])

    def rewind(self, iteration: int) -> None:
        """Drops rollouts and metrics of steps that the newest checkpoint doesn't have."""
        _keep(self.part(iteration), lambda step: step < self.step)
        _keep(self.path / "metrics.jsonl", lambda step: step <= self.step)

    def append(self, file: Path, lines: list[object]) -> None:
        try:
            with open(file, "ab", buffering=jsonl.BUFFER) as stream:
                stream.writelines(jsonl.encode(line) for line in lines)
        except OSError as error:
            raise WriteFailed(f"{file}: cannot write: {error.strerror}") from error

    def save(
        self, step: int, write: Callable[[Path], None], about: dict[str, Any], keep: int
    ) -> Path:
        """Writes a checkpoint by `write(directory)`, points RUN/policy at it, keeps the newest."""
        final = self.path / "checkpoints" / f"step-{step:06d}"
        temporary = final.with_name(f".{final.name}.tmp")
        shutil.rmtree(temporary, ignore_errors=True)
        try:
            temporary.mkdir(parents=True)
            write(temporary)
            jsonl.write(temporary / "trainer.json", [{"step": step, **about}])
            os.replace(temporary, final)
            self.point(final)
        except Exception as error:  # torch and safetensors have errors of their own for a full disk
            raise WriteFailed(f"{final}: the checkpoint cannot be written: {error}") from error
        for old in sorted(final.parent.glob("step-*"))[: -max(1, keep)]:
            shutil.rmtree(old)
        return final

    def point(self, checkpoint: Path) -> None:
        """Makes RUN/policy a link to a directory of the run."""
        link = self.path / ".policy.tmp"
        link.unlink(missing_ok=True)
        link.symlink_to(checkpoint.relative_to(self.path))
        os.replace(link, self.path / "policy")

    def finish(self, iteration: int) -> Path:
        """The iteration's rollouts under their final name; safe to repeat."""
        file = self.rollouts(iteration)
        if self.part(iteration).exists():
            os.replace(self.part(iteration), file)
        if not file.exists() or not file.stat().st_size:
            raise UsageError(
                f"{file}: the iteration's rollouts are gone (was standard output redirected onto "
                "them?)"
            )
        return file


def _flat(settings: dict[str, Any]) -> dict[str, Any]:
    tables = [value for value in settings.values() if isinstance(value, dict)]
    return {
        k: v for table in (settings, *tables) for k, v in table.items() if not isinstance(v, dict)
    }


def _shown(settings: dict[str, Any], name: str) -> str:
    return repr(settings[name]) if name in settings else "not given"


def _keep(file: Path, wanted: Callable[[int], bool]) -> None:
    """Keeps the whole lines of the wanted steps."""
    if not file.exists():
        return
    lines = file.read_bytes().split(b"\n")[:-1]
    kept = [
        line + b"\n"
        for number, line in enumerate(lines, 1)
        if line and wanted(_step(file, number, line))
    ]
    with jsonl.atomic(file) as stream:
        stream.writelines(kept)


def _step(file: Path, number: int, line: bytes) -> int:
    try:
        return msgspec.json.decode(line, type=_Step).step
    except (msgspec.MsgspecError, ValueError) as error:
        raise DamagedRun(file, error, "remove that line", number) from None


def _decode(file: Path, type_: type[T], advice: str) -> T:
    try:
        return msgspec.json.decode(file.read_bytes(), type=type_)
    except (msgspec.MsgspecError, ValueError) as error:
        raise DamagedRun(file, error, advice) from None


def _number(checkpoint: Path) -> int:
    """Its step, 0 for a name that is none."""
    text = checkpoint.name.removeprefix("step-")
    return int(text) if text.isdecimal() else 0


def _noted(iteration: int, tasks: list[Task]) -> IterationState:
    return IterationState(iteration, len(tasks), content_id("tasks", tasks))
