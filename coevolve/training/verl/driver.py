"""The verl backend: one iteration of the loop per call, trained by a child that stays (files.py has the protocol).

In: the iteration's tasks. Out: its rollouts, in RUN/iterations/NNN/rollouts.jsonl, as with the local backend. A call starts
the run's child, or attaches to the one that waits, gives it the tasks, and returns when the iteration is trained; the child
stays behind, serves the policy (addresses in READY.json) and waits for the next tasks, `wait_timeout` seconds at most. With
`restart_each_iteration` it ends instead, and the next call starts another one that resumes.

| what happens to the driver | what happens to the child |
|---|---|
| it returns | it waits and serves (`restart_each_iteration`: it ends) |
| it is interrupted, or fails (SIGINT, SIGTERM, SIGHUP) | it is ended, with every process of its own |
| it is killed with SIGKILL | it goes on to the boundary and waits there; the next call attaches |

A child at a boundary whose engines do not answer is ended, and another one goes on from its checkpoint.

A call for a finished iteration changes nothing and starts nothing. Nothing here is repeated bit by bit: verl and its engines
make no such promise. But which tasks a step sees follows from seed, step and tasks alone, and a killed run goes on from its
last checkpoint.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

from coevolve import jsonl
from coevolve.environments.client import Pool
from coevolve.errors import UsageError, WriteFailed
from coevolve.records import Task
from coevolve.training.settings import VerlLimits
from coevolve.training.state import Damaged, RunState
from coevolve.training.verl import child_process, export, replicas
from coevolve.training.verl.files import Files, Heartbeat, Job, Ready, read, write
from coevolve.training.verl.prompt_length import prompt_lengths, tokenizer_here, tokenizer_of
from coevolve.training.verl.settings import Preset, VerlSettings, overrides, recorded
from coevolve.training.verl.watchdog import EndedWaiting, Watch

OnStep = Callable[[dict[str, Any]], None]


class VerlRun(VerlLimits, frozen=True):
    """How a run is carried out: may differ from call to call. Times are in seconds."""

    preset: Preset
    overrides: list[str] = []
    """The user's own, on verl's configuration."""
    workers: int = 1
    save_every: int | None = None
    """Steps between checkpoints; None: at the iteration's end."""
    keep_checkpoints: int = 2
    max_env_errors: float = 0.25
    any_version: bool = False
    """Tasks that another version of the environment made are played, too."""
    check_at_once: Callable[[Job], None] | None = None
    """Asked before the environment is started: raises for what is seen in no time."""
    check: Callable[[VerlSettings, Job], None] | None = None
    """Asked before anything is written and a child is started: raises for a configuration or a machine that cannot work."""
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
    """Trains one iteration (default: the one after the last that was handed out) and returns the file of its rollouts.

    `env` is a name or a command line. Raises UsageError for tasks, settings or an iteration that don't fit the run, Partial
    while another process trains it and when it stalled, and what watchdog.Watch raises.
    """
    if not tasks:
        raise UsageError("no tasks to train on")
    with _state(settings, run, env, options) as state:
        files = Files(state.path)
        finished = _finished(files)
        iteration = _which(state, files, tasks, iteration)
        if iteration > finished:
            driver = _Driver(settings, options, state, files, env)
            driver.iterate(tasks, iteration, finished, on_step)
        if not state.rollouts(iteration).exists():
            _export(state, files, settings, options, tasks, iteration)
        return state.finish(iteration)


def rehearse(
    tasks: list[Task],
    settings: VerlSettings,
    run: str,
    env: str,
    options: VerlRun,
    *,
    iteration: int | None = None,
) -> list[str]:
    """Raises what `train` would before it asks `options.check`; writes nothing. Returns what could not be looked at."""
    state, files = _state(settings, run, env, options), Files(run)
    state.check_settings()
    if not tasks:
        return []
    iteration = _which(state, files, tasks, iteration)
    if _handed_over(state, files, iteration):
        return []
    find = (
        tokenizer_of if Path(settings.model).is_dir() else tokenizer_here
    )  # a rehearsal asks no hub
    tokenizer = find(settings.model)
    _check_tasks(tasks, settings, env, options, tokenizer)
    if tokenizer is None:
        return [
            f"{settings.model} has no tokenizer on this machine: the lengths of the prompts were not compared"
        ]
    return []


def _state(settings: VerlSettings, run: str, env: str, options: VerlRun) -> RunState:
    """The run, not opened. Raises UsageError for what contradicts itself."""
    steps = options.save_every or settings.steps
    if settings.steps % steps:
        raise UsageError(
            f"--save-every {steps} must divide --steps {settings.steps}: an iteration ends with a checkpoint"
        )
    files = _files(run)
    job(settings, options, files, env)  # raises for overrides that contradict the settings
    told = recorded(settings, options.preset, options.overrides)
    return RunState(run, told, bound=child_process.alive(files))


def _files(run: str) -> Files:
    """Raises UsageError for a path that is no directory's."""
    here = next(
        path for path in (Path(run).absolute(), *Path(run).absolute().parents) if path.exists()
    )
    if not here.is_dir():
        raise UsageError(f"--run {run}: {here} is a file, and a run is a directory")
    return Files(run)


def _which(state: RunState, files: Files, tasks: list[Task], iteration: int | None) -> int:
    """The iteration that the call is for. Raises UsageError for one that cannot be, and for other tasks than its own."""
    finished = _finished(files)
    iteration = _next(state, finished) if iteration is None else iteration
    if not 1 <= iteration <= finished + 1:
        raise UsageError(
            f"{files.run}: iteration {iteration} can't be trained: {finished} is the last finished one"
        )
    if _handed_over(state, files, iteration):
        state.check_tasks(iteration, tasks)
    return iteration


def _handed_over(state: RunState, files: Files, iteration: int) -> bool:
    """Whether the iteration's tasks are settled: those of a run that has come to nothing can still be others."""
    return state.bound and files.tasks(iteration).exists()


def _check_tasks(
    tasks: list[Task], settings: VerlSettings, env: str, options: VerlRun, tokenizer: Any | None
) -> None:
    """The environment's version and, with a tokenizer, the prompts: verl would cut one that is too long at its head,
    without a word to anybody."""
    with Pool(
        env,
        workers=options.workers,
        call_timeout=options.call_timeout,
        any_version=options.any_version,
    ) as pool:
        pool.compare(task.env_version for task in tasks)
        lengths = (
            prompt_lengths(tasks, pool, tokenizer, settings.prompt_style)
            if tokenizer is not None
            else []
        )
    limit = settings.prompt_tokens
    long = [(t.id, n) for t, n in zip(tasks, lengths, strict=False) if n is not None and n > limit]
    if long:
        id_, length = long[0]
        more = f", and so are {len(long) - 1} more" if len(long) > 1 else ""
        raise UsageError(
            f"task {id_}: its prompt is {length} tokens, above --prompt-tokens {limit}{more}. Raise the limit for a "
            "new run, or leave the tasks out"
        )
    if refused := lengths.count(None):
        jsonl.warn(
            f"{refused} of {len(tasks)} tasks cannot be opened by the environment; their episodes will be masked"
        )


def _export(
    state: RunState,
    files: Files,
    settings: VerlSettings,
    options: VerlRun,
    tasks: list[Task],
    iteration: int,
) -> None:
    """Rollouts come last: where they are, all is done."""
    ready = read(files.ready(iteration), Ready)
    if iteration == _finished(files):
        export.metrics(files, ready, state.path / "metrics.jsonl")
        export.policy(state, files, ready, options.keep_checkpoints)
    export.gather(files, settings, tasks, ready, state.rollouts(iteration))


def stop(run: str) -> str:
    """Ends the run's child: at once where it waits, else after it was asked and did not react. Returns what happened.

    Raises UsageError where there is no such run.
    """
    files = _existing(run)
    if not child_process.alive(files):
        child_process.terminate(files, 0)
        return f"{run}: no trainer is running"
    beat = read(files.heartbeat, Heartbeat)
    files.stop.touch()
    watch = Watch(files, 0, None, child_process.GRACE if beat and beat.phase == "waiting" else 0)
    watch.until_ended()
    return f"{run}: the trainer was ended" + (
        "" if beat and beat.phase == "waiting" else " in the middle of its work"
    )


def running(run: str) -> str:
    """What `stop` would do; ends nothing."""
    files = _existing(run)
    if not child_process.alive(files):
        return f"{run}: no trainer is running"
    beat = read(files.heartbeat, Heartbeat)
    return f"{run}: the trainer would be ended (it is {beat.phase if beat else 'starting'})"


def _existing(run: str) -> Files:
    files = _files(run)
    if not files.run.is_dir():
        raise UsageError(f"{run}: there is no such run")
    return files


def _next(state: RunState, finished: int) -> int:
    """The iteration that a call without a number is for: one that was finished while no driver was there comes first."""
    return finished if finished and not state.rollouts(finished).exists() else finished + 1


def _finished(files: Files) -> int:
    number = 0
    while files.ready(number + 1).exists():
        number += 1
    return number


class _Driver:
    def __init__(
        self, settings: VerlSettings, options: VerlRun, state: RunState, files: Files, env: str
    ):
        self._settings, self._options, self._state, self._files, self._env = (
            settings,
            options,
            state,
            files,
            env,
        )

    def iterate(
        self, tasks: list[Task], iteration: int, finished: int, on_step: OnStep | None
    ) -> None:
        """Trains the iteration that comes next; the child is ended where that fails."""
        self._end_without_engines(finished)
        options, alive = self._options, child_process.alive(self._files)
        handed_over = _handed_over(self._state, self._files, iteration)
        if options.check_at_once and not alive:
            options.check_at_once(self._job(0, iteration))
        if not handed_over:
            _check_tasks(
                tasks, self._settings, self._env, options, tokenizer_of(self._settings.model)
            )
        if options.check and not alive:
            options.check(self._settings, self._job(0, iteration))
        if not handed_over:
            self._hand_over(tasks, iteration)
        try:
            self._train(iteration, finished, on_step)
        except EndedWaiting:
            self._train(iteration, finished, on_step)

    def _end_without_engines(self, finished: int) -> None:
        """A child that waits would take the tasks and lose every episode, if its engines are gone."""
        beat, ready = (
            read(self._files.heartbeat, Heartbeat),
            read(self._files.ready(finished), Ready),
        )
        if not (beat and ready and beat.phase == "waiting" and child_process.alive(self._files)):
            return
        if why := replicas.silent(ready):
            stop(str(self._files.run))
            jsonl.warn(
                f"an engine of the trainer does not answer ({why}): the trainer was ended, and another one goes on from the "
                "last checkpoint"
            )

    def _hand_over(self, tasks: list[Task], iteration: int) -> None:
        self._state.keep_settings()
        self._state.note_tasks(iteration, tasks)
        jsonl.write(self._files.tasks(iteration), tasks)

    def _train(self, iteration: int, finished: int, on_step: OnStep | None) -> None:
        """Starts or finds the child and watches it. Whatever interrupts the watch ends the child."""
        files, options = self._files, self._options
        if files.stop.exists():
            Watch(files, iteration, None, options.stall_timeout).until_ended()
        attach = child_process.alive(files)
        if attach:
            self._compare()
        else:
            self._check_checkpoint(finished)
        try:
            process = None if attach else self._start(iteration)
            watch = Watch(files, iteration, process, options.stall_timeout, on_step)
            watch.until_ready()
            if options.restart_each_iteration:
                files.stop.touch()
                watch.until_ended()
        except BaseException:
            child_process.terminate(files)
            raise

    def _compare(self) -> None:
        """VerlRun take effect when a child starts."""
        old, new = read(self._files.job, Job), self._job(0, 0)
        same = ("attempt", "stop_after")
        fields = [n for n in Job.__struct_fields__ if n not in (*same, "overrides")]
        names = [n for n in fields if getattr(old, n, None) != getattr(new, n)]
        names += sorted({*new.overrides} ^ {*(old.overrides if old else [])})
        if names:
            jsonl.warn(
                f"the trainer that runs was started with another {', '.join(names)}: what this call says takes effect when a "
                "trainer starts (--stop this one first)"
            )

    def _start(self, iteration: int) -> subprocess.Popen:
        old = read(self._files.job, Job)
        attempt = old.attempt + 1 if old else 1
        write(self._files.job, self._job(attempt, iteration))
        try:
            return child_process.start(self._files, attempt, self._options.command)
        except OSError as error:
            raise WriteFailed(f"{self._options.command[0]}: cannot be started: {error}") from error

    def _check_checkpoint(self, finished: int) -> None:
        """A child without the checkpoint of finished iterations would train them again, on the first model."""
        tracker = self._files.checkpoints / "latest_checkpointed_iteration.txt"
        text = tracker.read_text().strip() if tracker.exists() else "0"
        if not text.isdecimal() or int(text) < finished * self._settings.steps:
            raise Damaged(
                tracker,
                f"it names step {text}, and {finished * self._settings.steps} are done",
                f"restore the checkpoints, or delete the folders of the iterations beyond it in {self._files.root}/iterations",
            )

    def _job(self, attempt: int, iteration: int) -> Job:
        stop_after = iteration if self._options.restart_each_iteration else None
        return job(
            self._settings,
            self._options,
            self._files,
            self._env,
            attempt=attempt,
            stop_after=stop_after,
        )


def job(
    settings: VerlSettings,
    options: VerlRun,
    files: Files,
    env: str,
    *,
    attempt: int = 0,
    stop_after: int | None = None,
) -> Job:
    """What the child is told. Raises UsageError for overrides that contradict the settings."""
    s, o = settings, options
    return Job(
        run=str(files.run),
        attempt=attempt,
        model=s.model,
        env=env,
        prompt=s.prompt_style,
        device=o.preset.device,
        steps=s.steps,
        batch=s.batch,
        samples=s.samples,
        seed=s.seed,
        newest_share=s.newest_share,
        reward=s.reward,
        temperature=s.temperature,
        max_steps=s.max_actions,
        max_prompt_tokens=s.prompt_tokens,
        max_tokens=s.episode_tokens,
        max_turn_tokens=s.reply_tokens,
        keep_tokens=s.keep_tokens,
        workers=o.workers,
        call_timeout=o.call_timeout,
        episode_timeout=o.episode_timeout,
        step_timeout=o.step_timeout,
        max_env_errors=o.max_env_errors,
        wait_timeout=o.wait_timeout,
        stop_after=stop_after,
        overrides=overrides(
            s,
            o.preset,
            o.overrides,
            files.run,
            save_every=o.save_every or s.steps,
            keep_checkpoints=o.keep_checkpoints,
        ),
    )
