"""The files through which `coevolve train --backend verl` (the driver) and its child (Ray and verl) talk; no other channel exists.

    RUN/verl/job.json                          driver → child  `VerlJob`, written anew before every start of the child
    RUN/verl/child.json                        driver          `Child`, the process that runs
    RUN/verl/child.lock                        held by the child as long as it lives (the driver opens it and hands it on)
    RUN/verl/child.log                         the child's stdout and stderr, all attempts one after another
    RUN/verl/stop                              driver → child  end at the next boundary
    RUN/verl/heartbeat.json                    child → driver  `Heartbeat`, replaced every few seconds
    RUN/verl/error.json                        child → driver  `TrainerFailure`, the CoevolveError that ended the child
    RUN/verl/metrics.jsonl                     child → driver  a line per step, with `step` and `iteration`; last attempt wins
    RUN/verl/iterations/NNN/tasks.jsonl        driver → child  Task records; appears whole
    RUN/verl/iterations/NNN/episodes/A-HOST-PID.jsonl  child → driver  Rollout records of attempt A's worker, as episodes end
    RUN/verl/iterations/NNN/READY.json         child → driver  `Ready`, once checkpoint and weights are out
    RUN/verl/checkpoints/global_step_N/        verl's own

Iterations count from 1. `step` of a rollout counts optimiser steps done before it, from 0; `step` of a checkpoint, of a
metrics line, of a heartbeat and of READY.json counts those that are done. Iteration i holds the steps (i-1)·steps … i·steps-1.
A file appears whole (written beside, renamed); only episodes, metrics and the log grow, and may end in a torn line.
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
"""Environment variable that every process of a child carries, Ray's too: the absolute run directory."""


class VerlJob(msgspec.Struct, frozen=True, kw_only=True):
    """All that the child needs to know."""

    run: str
    """Absolute run directory."""
    attempt: int
    """Number of this start of the child, from 1."""
    env: str
    """Name of an environment, or its command line."""
    settings: VerlSettings
    """What decides the results. The driver has refused tasks whose prompt is longer than `prompt_tokens`."""
    workers: int
    """Environment processes of each agent-loop worker."""
    limits: VerlLimits
    max_env_errors: float
    """Share of a step's rollouts lost to environment errors beyond which the run fails."""
    stop_after: int | None
    """Iteration after whose READY.json the child ends by itself; None: it waits for the next."""
    device: str
    """`cuda`, or what the preset's plugin brings."""
    plugin: str | None
    """A module that each of verl's processes imports, in the place of our agent loop's."""
    environment: dict[str, str]
    """Variables of the child and of Ray's processes, as the preset has them."""
    overrides: list[str]
    """Hydra overrides on verl's `ppo_trainer`: preset, settings and the user's, in this order."""


class Child(msgspec.Struct, frozen=True):
    pid: int
    pgid: int
    started: float
    """Unix time."""
    interpreter: str
    attempt: int


class Heartbeat(msgspec.Struct, frozen=True):
    pid: int
    phase: str
    """What it is doing: starting, waiting, rollout, update, saving, …"""
    iteration: int
    step: int
    progress: int
    """Moves only when something advanced: an episode ended, a phase of a step ended, a wait began or ended."""
    time: float
    """Unix time of writing."""


class Ready(msgspec.Struct, frozen=True):
    """An iteration is trained; the child waits and serves its policy."""

    iteration: int
    step: int
    weights: int
    """Version of the served weights: optimiser steps done."""
    addresses: list[str]
    """OpenAI-compatible base URLs, `http://HOST:PORT/v1`; they answer until the next iteration begins or the child ends."""
    model: str
    """Name of the policy at these addresses, the same in every iteration; `served` has a name of these weights."""
    checkpoint: str
    """Path of the checkpoint, relative to RUN: `verl/checkpoints/global_step_N`."""
    counts: dict[str, int] = {}
    """Episodes of the iteration, in all and by stop reason; `other_weights` where the engine named another version than `step`."""
    metrics: dict[str, Any] = {}
    """Of the last step."""


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
    """The file's value, None where the file is not there. Raises BadInput for one that cannot be read."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=type_)
    except FileNotFoundError:
        return None
    except (msgspec.MsgspecError, ValueError) as error:
        raise BadInput(str(path), None, f"damaged ({error})") from error


def write(path: Path, value: msgspec.Struct) -> None:
    """Writes the value, whole or not at all; folders are made."""
    with jsonl.atomic(path) as stream:
        stream.write(msgspec.json.format(msgspec.json.encode(value)) + b"\n")
