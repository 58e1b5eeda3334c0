"""The verl backend: one iteration per call, trained by a child that stays (files.py: the protocol).

In: the iteration's tasks. Out: its rollouts, in RUN/iterations/NNN/rollouts.jsonl, as with the
local backend. A call starts the run's child, or attaches to the one that waits, gives it the tasks,
and returns when the iteration is trained; the child stays behind, serves the policy (addresses in
READY.json) and waits for the next tasks, `wait_timeout` seconds at most. With
`restart_each_iteration` it ends instead, and the next call starts another one that resumes.

| what happens to the driver | what happens to the child |
|---|---|
| it returns | it waits and serves (`restart_each_iteration`: it ends) |
| it is interrupted, or fails (SIGINT, SIGTERM, SIGHUP) | it is ended, with all its processes |
| it is killed with SIGKILL | it goes on to the boundary and waits there; the next call attaches |

A child at a boundary whose engines do not answer is ended, and another one goes on from its
checkpoint.

A call for a finished iteration changes nothing and starts nothing. Nothing here is repeated bit by
bit: verl and its engines make no such promise. But which tasks a step sees follows from seed, step
and tasks alone, and a killed run goes on from its last checkpoint.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from coevolve import jsonl
from coevolve.environments.client import Pool
from coevolve.errors import UsageError, WriteFailed
from coevolve.options import fields
from coevolve.records import Task
from coevolve.training.settings import VerlLimits
from coevolve.training.state import DamagedRun, RunState
from coevolve.training.verl import child_process, export, prompt_length, replicas
from coevolve.training.verl.files import Heartbeat, Ready, VerlFiles, VerlJob, read, write
from coevolve.training.verl.overrides import recorded, run_overrides
from coevolve.training.verl.prompt_length import tokenizer_here, tokenizer_of
from coevolve.training.verl.settings import Preset, VerlSettings
from coevolve.training.verl.stop import files_of, stop
from coevolve.training.verl.watchdog import TrainerGaveUp, TrainerWatch

OnStep = Callable[[dict[str, Any]], None]
DRIVERS = ("stall_timeout", "restart_each_iteration")  # The limits that the driver itself keeps


class VerlRun(VerlLimits, frozen=True):
    """How a run is carried out: may differ from call to call."""

    preset: Preset
    overrides: list[str] = []  # The user's own, on verl's configuration
    workers: int = 1
    save_every: int | None = None  # Steps between checkpoints; None: at the iteration's end
    keep_checkpoints: int = 2
    max_env_errors: float = 0.25
    any_version: bool = False  # Tasks that another version of the environment made are played, too
    check_at_once: Callable[[VerlJob], None] | None = None
    """Called before the environment is started: raises for what is seen in no time."""
    check: Callable[[VerlJob], None] | None = None
    """Called before anything is written and a child is started: raises for what cannot work."""
    command: tuple[str, ...] = child_process.COMMAND


def train(
    tasks: list[Task],
    settings: VerlSettings,
    run: str,
    env: str,
    options: VerlRun,
    *,
    iteration: int | None = None,
    on_step: OnStep | None = None,
) -> Path:
    """Trains one iteration (default: the next) and returns the file of its rollouts.

    `env` is a name or a command line. Raises UsageError for tasks, settings or an iteration that
    don't fit the run, Partial while another process trains it and when it stalled, and what
    watchdog.TrainerWatch raises.
    """
    if not tasks:
        raise UsageError("no tasks to train on")
    driver = _Driver(settings, run, env, options)
    with driver.state as state:
        iteration = driver.number(tasks, iteration)
        if iteration > driver.finished():
            driver.iterate(tasks, iteration, on_step)
        if not state.rollouts(iteration).exists():
            driver.export(tasks, iteration)
        return state.finish(iteration)


def dry_run(
    tasks: list[Task],
    settings: VerlSettings,
    run: str,
    env: str,
    options: VerlRun,
    *,
    iteration: int | None = None,
) -> list[str]:
    """Raises what `train` would before `options.check`; returns what could not be looked at."""
    driver = _Driver(settings, run, env, options)
    driver.state.check_settings()
    if not tasks or driver.handed_over(driver.number(tasks, iteration)):
        return []
    here = Path(settings.model).is_dir()  # a dry run asks no hub for a tokenizer that is not here
    if driver.check_tasks(tasks, tokenizer_of if here else tokenizer_here):
        return []
    unseen = "has no tokenizer on this machine: the lengths of the prompts were not compared"
    return [f"{settings.model} {unseen}"]


class _Driver:
    """One call. Raises UsageError for a path, settings and options that contradict one another."""

    def __init__(self, settings: VerlSettings, run: str, env: str, options: VerlRun):
        steps = options.save_every or settings.steps
        if settings.steps % steps:
            why = f"must divide --steps {settings.steps}: an iteration ends with a checkpoint"
            raise UsageError(f"--save-every {steps} {why}")
        self._settings, self._options, self._env = settings, options, env
        self._files = files_of(run)
        self._job = make_job(settings, options, self._files, env)
        decided = recorded(settings, options.preset, options.overrides)
        self.state = RunState(run, decided, bound=child_process.alive(self._files))

    def finished(self) -> int:
        """The last iteration that is trained; 0 where none is."""
        number = 0
        while self._files.ready(number + 1).exists():
            number += 1
        return number

    def number(self, tasks: list[Task], iteration: int | None) -> int:
        """The call's iteration. Raises UsageError for an impossible one, and for other tasks."""
        finished = self.finished()
        if iteration is None:  # one that was finished while no driver was there comes first
            left = finished and not self.state.rollouts(finished).exists()
            iteration = finished if left else finished + 1
        if not 1 <= iteration <= finished + 1:
            why = f"iteration {iteration} can't be trained: {finished} is the last finished one"
            raise UsageError(f"{self._files.run}: {why}")
        if self.handed_over(iteration):
            self.state.check_tasks(iteration, tasks)
        return iteration

    def handed_over(self, iteration: int) -> bool:
        """Whether the iteration's tasks are settled: until a run comes to something, no."""
        return self.state.bound and self._files.tasks(iteration).exists()

    def check_tasks(self, tasks: list[Task], find: Callable[[str], Any] = tokenizer_of) -> bool:
        """Compares versions and prompts (prompt_length.py). False where there is no tokenizer."""
        tokenizer, options = find(self._settings.model), self._options
        limits = {"call_timeout": options.call_timeout, "any_version": options.any_version}
        with Pool(self._env, workers=options.workers, **limits) as pool:
            prompt_length.check(tasks, self._settings, pool, tokenizer)
        return tokenizer is not None

    def iterate(self, tasks: list[Task], iteration: int, on_step: OnStep | None) -> None:
        """Trains the iteration that comes next; the child is ended where that fails."""
        self._end_without_engines()
        options, alive = self._options, child_process.alive(self._files)
        handed_over = self.handed_over(iteration)
        if options.check_at_once and not alive:
            options.check_at_once(self._job)
        if not handed_over:
            self.check_tasks(tasks)
        if options.check and not alive:
            options.check(self._job)
        if not handed_over:
            self.state.keep_settings()
            self.state.note_tasks(iteration, tasks)
            jsonl.write(self._files.tasks(iteration), tasks)
        try:
            self._train(iteration, on_step)
        except TrainerGaveUp:
            self._train(iteration, on_step)

    def export(self, tasks: list[Task], iteration: int) -> None:
        """Rollouts come last: where they are, all is done."""
        ready = read(self._files.ready(iteration), Ready)
        if iteration == self.finished():
            export.metrics(self._files, ready, self.state.path / "metrics.jsonl")
            export.policy(self.state, self._files, ready, self._options.keep_checkpoints)
        target = self.state.rollouts(iteration)
        export.gather(self._files, self._settings, tasks, ready, target)

    def _end_without_engines(self) -> None:
        """Without engines a child that waits would take the tasks and lose every episode."""
        beat = read(self._files.heartbeat, Heartbeat)
        ready = read(self._files.ready(self.finished()), Ready)
        if not (beat and ready and beat.phase == "waiting" and child_process.alive(self._files)):
            return
        if why := replicas.unhealthy(ready):
            stop(str(self._files.run))
            what = "the trainer was ended, and another one goes on from the last checkpoint"
            jsonl.warn(f"an engine of the trainer does not answer ({why}): {what}")

    def _train(self, iteration: int, on_step: OnStep | None) -> None:
        """Starts or finds the child and watches it; what interrupts the watch ends the child."""
        files, stall = self._files, self._options.stall_timeout
        if files.stop.exists():
            TrainerWatch(files, iteration, None, stall).until_ended()
        attach = child_process.alive(files)
        if attach:
            self._compare()
        else:
            self._check_checkpoint()
        try:
            process = None if attach else self._start(iteration)
            watch = TrainerWatch(files, iteration, process, stall, on_step)
            watch.until_ready()
            if self._options.restart_each_iteration:
                files.stop.touch()
                watch.until_ended()
        except BaseException:
            child_process.terminate(files)
            raise

    def _compare(self) -> None:
        """Warns of options that take effect only when a child starts."""
        old, new = read(self._files.job, VerlJob), self._job
        was, now = (msgspec.to_builtins(each.limits) for each in (old, new))
        names = [name for name in now if was[name] != now[name] and name not in DRIVERS]
        same = ("workers", "max_env_errors", "environment")
        names += [name for name in same if getattr(old, name) != getattr(new, name)]
        names += sorted({*new.overrides} ^ {*old.overrides})
        if names:
            jsonl.warn(
                f"the trainer that runs was started with another {', '.join(names)}: what this "
                "call says takes effect when a trainer starts (--stop this one first)"
            )

    def _start(self, iteration: int) -> subprocess.Popen:
        old, command = read(self._files.job, VerlJob), self._options.command
        attempt = old.attempt + 1 if old else 1
        last = iteration if self._options.restart_each_iteration else None
        job = msgspec.structs.replace(self._job, attempt=attempt, stop_after=last)
        write(self._files.job, job)
        try:
            return child_process.start(self._files, job, command)
        except OSError as error:
            raise WriteFailed(f"{command[0]}: cannot be started: {error}") from error

    def _check_checkpoint(self) -> None:
        """Without it a child would train finished iterations again, on the first model."""
        tracker = self._files.checkpoints / "latest_checkpointed_iteration.txt"
        text = tracker.read_text().strip() if tracker.exists() else "0"
        done = self.finished() * self._settings.steps
        if not text.isdecimal() or int(text) < done:
            raise DamagedRun(
                tracker,
                f"it names step {text}, and {done} are done",
                "restore the checkpoints, or delete the folders of the iterations beyond it in "
                f"{self._files.root}/iterations",
            )


def make_job(settings: VerlSettings, options: VerlRun, files: VerlFiles, env: str) -> VerlJob:
    """What the child is told. Raises UsageError for overrides that contradict the settings."""
    preset, save_every = options.preset, options.save_every or settings.steps
    return VerlJob(
        run=str(files.run),
        attempt=1,
        env=env,
        settings=settings,
        workers=options.workers,
        limits=VerlLimits(**{name: getattr(options, name) for name in fields(VerlLimits)}),
        max_env_errors=options.max_env_errors,
        stop_after=None,
        device=preset.device,
        plugin=preset.plugin,
        environment=preset.environment,
        overrides=run_overrides(
            settings, preset, options.overrides, files.run, save_every, options.keep_checkpoints
        ),
    )
