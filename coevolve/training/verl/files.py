"""The files through which `coevolve train --backend verl` (the driver) and its child (Ray and verl)
talk; no other channel exists. All are below RUN/verl:

    job.json                  driver → child  `VerlJob`, written anew before every start
    child.json                driver          `Child`, the process that runs
    child.lock                held by the child as long as it lives (the driver hands it on)
    child.log                 stdout and stderr of the child, all attempts one after another
    stop                      driver → child  end at the next boundary
    heartbeat.json            child → driver  `Heartbeat`, replaced every few seconds
    error.json                child → driver  `TrainerFailure`, the error that ended the child
    metrics.jsonl             child → driver  a line per step; the last attempt's counts
    iterations/NNN/tasks.jsonl     driver → child  Task records
    iterations/NNN/episodes/ATTEMPT-HOST-PID.jsonl  child → driver  Rollouts, as episodes end
    iterations/NNN/READY.json      child → driver  `Ready`, once checkpoint and weights are out
    checkpoints/global_step_N/     verl's own

Iterations count from 1. `step` of a rollout counts optimiser steps done before it, from 0; `step`
of a checkpoint, of a metrics line, of a heartbeat and of READY.json counts those that are done.
Iteration i holds the steps (i-1)·steps … i·steps-1. A file appears whole (written beside, renamed);
only episodes, metrics and the log grow, and may end in a torn line.
"""

from __future__ import annotations

import os
import platform
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from coevolve import jsonl
from coevolve.errors import BadInput
from coevolve.training.settings import VerlLimits
from coevolve.training.verl.settings import VerlSettings

T = TypeVar("T")

MARK = "COEVOLVE_VERL_RUN"
"""Variable that every process of a child carries, Ray's too: the absolute run directory."""


class VerlJob(msgspec.Struct, frozen=True, kw_only=True):
    """All that the child needs to know."""

    run: str  # Absolute run directory
    attempt: int  # Number of this start of the child, from 1
    env: str  # Name of an environment, or its command line
    settings: VerlSettings  # What decides the results; prompts beyond `prompt_tokens` were refused
    workers: int  # Environment processes of each agent-loop worker
    limits: VerlLimits
    max_env_errors: float
    """Share of a step's rollouts lost to environment errors beyond which the run fails."""
    stop_after: int | None
    """Iteration after whose READY.json the child ends by itself; None: it waits for the next."""
    device: str  # `cuda`, or what the preset's plugin brings
    plugin: str | None
    """A module that each of verl's processes imports, in the place of our agent loop's."""
    environment: dict[str, str]
    """Variables of the child and of Ray's processes, as the preset has them."""
    overrides: list[str]
    """Hydra overrides on verl's `ppo_trainer`: preset, settings and the user's, in this order."""


class Child(msgspec.Struct, frozen=True):
    pid: int  # The process, which leads a session and a process group
    attempt: int


class Heartbeat(msgspec.Struct, frozen=True):
    pid: int
    phase: str  # What it is doing: starting, waiting, rollout, update, saving, …
    iteration: int
    step: int
    progress: int
    """Moves only when something advanced: an episode or phase ended, a wait began or ended."""
    time: float  # Unix time of writing


class Ready(msgspec.Struct, frozen=True):
    """An iteration is trained; the child waits and serves its policy."""

    iteration: int
    step: int
    weights: int  # Version of the served weights: optimiser steps done
    addresses: list[str]
    """OpenAI-compatible base URLs; they answer until the next iteration begins."""
    model: str
    """The policy's name there, the same in every iteration (`served` gives these weights one)."""
    checkpoint: str  # Path of the checkpoint, relative to RUN: `verl/checkpoints/global_step_N`
    counts: dict[str, int] = {}
    """Episodes, in all and by stop reason; `other_weights`: sampled by others than `step`'s."""
    metrics: dict[str, Any] = {}  # The line of the last step


class TrainerFailure(msgspec.Struct, frozen=True):
    """A CoevolveError of the child: the driver ends with the same exit code and message."""

    exit: int
    message: str


class VerlFiles:
    """The paths of one run."""

    def __init__(self, run: str | Path):
        self.run = Path(os.path.realpath(run))
        self.root = self.run / "verl"
        self.job = self.root / "job.json"
        self.child = self.root / "child.json"
        self.lock = self.root / "child.lock"
        self.log = self.root / "child.log"
        self.stop = self.root / "stop"
        self.heartbeat = self.root / "heartbeat.json"
        self.error = self.root / "error.json"
        self.metrics = self.root / "metrics.jsonl"
        self.checkpoints = self.root / "checkpoints"

    def directory(self, iteration: int) -> Path:
        return self.root / "iterations" / f"{iteration:03d}"

    def tasks(self, iteration: int) -> Path:
        return self.directory(iteration) / "tasks.jsonl"

    def ready(self, iteration: int) -> Path:
        return self.directory(iteration) / "READY.json"

    def episodes(self, iteration: int) -> Path:
        """Directory of the iteration's episode files."""
        return self.directory(iteration) / "episodes"

    def episode_file(self, iteration: int, attempt: int, pid: int) -> Path:
        return self.episodes(iteration) / f"{attempt:04d}-{platform.node()}-{pid}.jsonl"


def read(path: Path, type_: type[T]) -> T | None:
    """The file's value, None where there is no file. Raises BadInput for an unreadable one."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=type_)
    except FileNotFoundError:
        return None
    except (msgspec.MsgspecError, ValueError) as error:
        raise BadInput(str(path), None, f"damaged ({error})") from error


def append(path: Path, value: Any) -> None:
    """Adds a line in one write: a killed process leaves a torn last line at most."""
    with jsonl.writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(path, "ab", buffering=0) as stream:
            stream.write(jsonl.encode(value))


def write(path: Path, value: msgspec.Struct) -> None:
    """Writes the value, whole or not at all; folders are made."""
    with jsonl.atomic(path) as stream:
        stream.write(msgspec.json.format(msgspec.json.encode(value)) + b"\n")
