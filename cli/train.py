"""`coevolve train`: one iteration of GRPO on the given tasks; its rollouts on stdout."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, ClassVar, NamedTuple

from coevolve import jsonl
from coevolve.errors import UsageError
from coevolve.options import Advanced, Option, Settings, fields
from coevolve.records import Task
from coevolve.training.settings import LOCAL, LocalSettings, VerlLimits
from coevolve_cli.options import Files, Invocation
from coevolve_cli.stage_options import EnvStreams, Streams

OnStep = Callable[[dict[str, Any]], None]
KEEPS_REST = True  # Words after -- are overrides of verl's configuration


class TrainOptions(Settings, frozen=True, kw_only=True):
    """Where a run is and how it is carried out: may differ from call to call."""

    PANEL: ClassVar[str] = "Run"

    run: Annotated[str, Option(metavar="DIR")]
    """The run: checkpoints, metrics.jsonl, rollouts, the link policy."""
    iteration: Annotated[int | None, Option(default="the next", ge=1)] = None
    """Which iteration this is; a finished one only prints its rollouts."""
    backend: Annotated[
        str,
        Option(
            choices={
                "local": "this process",
                "verl": "Ray, FSDP and vLLM on many GPUs (docs/verl.md)",
            }
        ),
    ] = "local"
    """What trains."""
    stop: Annotated[bool, Advanced()] = False
    """Train nothing: end RUN's trainer, if one is there."""
    save_every: Annotated[int | None, Advanced(default="at the iteration's end", ge=1)] = None
    """Optimiser steps between checkpoints."""
    keep_checkpoints: Annotated[int | None, Advanced(default="1, with verl 2", ge=1)] = None
    """How many of the newest checkpoints are kept."""
    max_env_errors: Annotated[float, Advanced(ge=0, le=1)] = 0.25
    """Fail if more of a step's rollouts are lost to errors of the environment (share)."""
    device: Annotated[
        str | None,
        Advanced(
            panel=LOCAL,
            default="a GPU if there is one",
            choices={"cpu": "the processor", "cuda": "the first NVIDIA GPU"},
        ),
    ] = None
    """Where the model is."""
    threads: Annotated[
        int | None, Advanced(panel=LOCAL, default="OMP_NUM_THREADS, else 1", ge=1)
    ] = None
    """Threads of torch."""


class VerlOptions(VerlLimits, frozen=True, kw_only=True):
    """What only the verl backend knows."""

    preset: Annotated[str | None, Option(metavar="NAME|FILE")] = None
    """Settings for a model and a machine: qwen2.5-7b, qwen3-4b, qwen3-30b-a3b, or a TOML file like
    theirs."""
    prompt_tokens: Annotated[int | None, Advanced(default="half of --episode-tokens", ge=1)] = None
    """Tokens that an episode's prompt may have; a task with a longer one is refused."""


ALL = {**fields(TrainOptions), **fields(LocalSettings)}
ONLY = {
    "local": {name for name, field in ALL.items() if field.panel == LOCAL},
    "verl": {*fields(VerlOptions)},
}
"""Options of one backend."""


def command(
    files: Files,
    run: TrainOptions,
    settings: LocalSettings,
    verl: VerlOptions,
    io: EnvStreams,
    call: Invocation,
) -> None:
    """Train the policy for one iteration with GRPO on the tasks; print its rollouts.

    RUN keeps everything: a call that was killed goes on from the last checkpoint, and the same call
    again after it finished prints the same rollouts. RUN/policy is the trained model,
    RUN/metrics.jsonl has one line per step.

    With --backend verl the trainer stays when the call returns: it waits for the next iteration and
    serves the policy (RUN/verl/iterations/NNN/READY.json); --stop ends it. KEY=VALUE after -- are
    overrides of verl's configuration.
    """
    if run.stop:
        from coevolve.training.verl.stop import stop

        message = stop(run.run, dry_run=call.dry_run)
        if call.dry_run or not io.quiet:
            print(f"coevolve: {message}", file=sys.stderr)
        return
    _check_backend(run.backend, call)
    if run.backend == "verl":
        from coevolve_cli.train_verl import verl_backend

        backend = verl_backend(run, verl, io, call)
    else:
        backend = LocalBackend(run, _with_model(settings, run.run), io, call)
    if call.dry_run:
        tasks = _planned(files, io)
        return backend.dry_run(tasks, _environment(tasks, io.env) if tasks else io.env)
    with io.stage("train", files) as s:
        tasks = [line.record for line in s.read(Task)]
        env = _environment(tasks, io.env)
        with open(backend.train(tasks, env, None if io.quiet else _report), "rb") as lines:
            for line in lines:
                s.write_raw(line)


class LocalBackend(NamedTuple):
    """Training in this process."""

    run: TrainOptions
    settings: LocalSettings
    io: EnvStreams
    call: Invocation

    def dry_run(self, tasks: list[Task], env: str | None) -> None:
        s = self.settings
        rollouts = s.steps * s.batch * s.samples
        self.call.plan(tasks=len(tasks), rollouts=rollouts, updates=s.steps)

    def train(self, tasks: list[Task], env: str, on_step: OnStep | None) -> Path:
        """Returns the file of the rollouts."""
        from coevolve.environments.client import Pool
        from coevolve.training.local import train

        names = ("iteration", "save_every", "max_env_errors", "device", "threads")
        how = {name: getattr(self.run, name) for name in names}
        how |= {"keep_checkpoints": self.run.keep_checkpoints or 1, "on_step": on_step}
        with Pool(env, workers=self.io.workers, any_version=self.io.any_version) as pool:
            return train(tasks, self.settings, self.run.run, pool, **how)


def _with_model(settings: LocalSettings, run: str) -> LocalSettings:
    """Raises UsageError where none is named; of a run of the other backend it is not the model that
    is missing."""
    if settings.model:
        return settings
    begun = Path(run, "config.json")
    if begun.is_file() and b'"backend": "verl"' in begun.read_bytes():
        raise UsageError(
            f"{run} was begun with --backend verl, and --backend local cannot go on with it"
        )
    raise UsageError("--model is missing: the Hugging Face model that the run begins with")


def _check_backend(backend: str, call: Invocation) -> None:
    """Raises UsageError for what somebody chose that is of the other backend."""
    (other,) = ONLY.keys() - {backend}
    for name in call.given:
        if name in ONLY[other]:
            raise UsageError(f"--{name.replace('_', '-')} is an option of --backend {other}")
    if call.rest and backend != "verl":
        raise UsageError(
            f"what follows -- are overrides of verl's configuration ({call.rest[0]}): "
            "they need --backend verl"
        )


def _planned(files: list[str] | None, io: EnvStreams) -> list[Task]:
    """The tasks of a dry run, read as the run itself would; what it would set aside is kept
    nowhere."""
    reading = Streams(quiet=True, on_error=io.on_error, max_errors=io.max_errors)
    with reading.stage("train", files) as s:
        tasks = [line.record for line in s.read(Task)]
    if not tasks:
        jsonl.warn("the input is empty: the run itself would be refused")
    return tasks


def _environment(tasks: list[Task], env: str | None) -> str:
    from coevolve.environments.registry import BUILT_IN, find, recorded

    names = sorted({task.env for task in tasks})
    if not names:
        raise UsageError("no tasks to train on")
    if len(names) > 1:
        raise UsageError(
            f"the tasks are of several environments ({', '.join(names)}); train on one"
        )
    if env is not None and env != names[0]:
        if env not in BUILT_IN:
            find(env)  # a name that is none is told as such
        raise UsageError(f"--env is {env!r}, and the tasks are of {names[0]!r}")
    return recorded(names[0], env)


def _report(metrics: dict[str, Any]) -> None:
    shown = {
        "success": "success_mean",
        "informative": "informative_share",
        "kl": "kl",
        "entropy": "entropy",
    }
    numbers = "  ".join(
        f"{name} {metrics[key]:.4g}" for name, key in shown.items() if metrics.get(key) is not None
    )
    print(
        f"train: step {metrics['step']}  {numbers}  tokens {metrics['sampled_tokens']}",
        file=sys.stderr,
        flush=True,
    )
