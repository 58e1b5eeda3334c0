"""What the tests of the verl child share: a weak laptop policy, jobs, and one whole run of the real child."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pytest

from coevolve import jsonl
from coevolve.environments.client import Pool
from coevolve.records import Start, Task
from coevolve.training.verl import settings
from coevolve.training.verl.files import MARK, Failure, Files, Heartbeat, Job, Ready, read, write

AGENTS = {"ray::DashboardAgent", "ray::RuntimeEnvAgent"}
LR = 6e-4
LEARNABLE = [f"{app}.{verb}/lookup" for app in ("bank", "calendar", "hotel", "notes") for verb in ("set", "copy")]
"""Kinds of tasks that the weak policy solves now and then."""


@pytest.fixture(scope="session")
def laptop_policy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The laptop policy after a fraction of its training, on a fraction of the demonstrations: right about as often as wrong."""
    import torch

    from coevolve.models.tiny import make_model, make_tokenizer
    from coevolve.training import bootstrap

    torch.set_num_threads(1)
    directory = tmp_path_factory.mktemp("models") / "laptop"
    with Pool("desk") as pool:
        tasks = pool.tasks(bootstrap.SPLIT)[:2000]
        said = [bootstrap.conversation(task, results) for task, results in bootstrap.replayed(pool, tasks)]
        tokenizer = make_tokenizer(bootstrap.corpus(pool, tasks, said))
    model = make_model(tokenizer, seed=0)
    options = bootstrap.Settings(env="desk", steps=450)
    bootstrap.fit(model, bootstrap.tokenise(tokenizer, said), options, lambda _: None)
    model.save_pretrained(directory)
    tokenizer.save_pretrained(directory)
    return directory


@pytest.fixture(scope="session")
def make_job():
    """Makes a job."""
    return job_of


def job_of(run: Path, model: Path, env: str = "desk", **changes: Any) -> Job:
    """A job on a CPU, as the driver writes it."""
    size = {"steps": 1, "batch": 6, "samples": 4, "temperature": 1.0, "max_prompt_tokens": 96, "max_tokens": 224}
    size |= {name: changes.pop(name) for name in list(changes) if name in size}
    chosen = settings.Settings(model=str(model), lr=changes.pop("lr", LR), beta=5e-3, **size)
    overrides = settings.overrides(chosen, settings.preset("cpu"), [], run.absolute(), save_every=1, keep_checkpoints=9)
    rest = {
        "attempt": 1,
        "prompt": "tools",
        "device": "cpu",
        "seed": 0,
        "newest_share": 0.5,
        "reward": "success",
        "max_steps": None,
        "max_turn_tokens": 48,
        "keep_tokens": True,
        "workers": 1,
        "call_timeout": 30.0,
        "episode_timeout": 600.0,
        "step_timeout": 900.0,
        "max_env_errors": 0.25,
        "wait_timeout": 120.0,
        "stop_after": None,
    }
    return Job(run=str(run.absolute()), model=str(model), env=env, overrides=overrides, **size, **(rest | changes))


def start(job: Job) -> subprocess.Popen:
    """Starts the child as the driver does."""
    files = Files(job.run)
    write(files.job, job)
    with open(files.log, "ab") as log:
        command = [sys.executable, "-m", "coevolve.training.verl.main", job.run]
        environment = {**os.environ, MARK: job.run}
        return subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True, env=environment)


def wait_for(what, child: subprocess.Popen, files: Files, seconds: float = 900) -> Any:
    """What the function gives, once it gives something; fails with the log's end when the child has died or time is over."""
    until = time.monotonic() + seconds
    while not (found := what()):
        if child.poll() is not None or time.monotonic() > until:
            tail = files.log.read_text(errors="replace")[-3000:]
            pytest.fail(f"child {child.poll()}, {read(files.heartbeat, Heartbeat)}\n{tail}")
        time.sleep(0.1)
    return found


def marked(run: str) -> dict[int, str]:
    """Processes that carry the run's mark, the child's and Ray's: id and command."""
    mark, found = f"{MARK}={run}".encode(), {}
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if mark in (process / "environ").read_bytes().split(b"\0") and _state(process) != "Z":
                found[int(process.name)] = (process / "cmdline").read_bytes().replace(b"\0", b" ").decode().strip()
        except (FileNotFoundError, PermissionError, ProcessLookupError):
            continue
    return found


def _state(process: Path) -> str:
    return process.joinpath("stat").read_text().rpartition(")")[2].split()[0]


def kill(child: subprocess.Popen, run: str) -> list[str]:
    """kill -9 of the child alone; returns the commands that a while later still run, and ends those, too.

    Two agents of Ray's own look only now and then whether their node is still there; they are not waited for.
    """
    child.kill()
    child.wait()
    until = time.monotonic() + 30
    while (left := set(marked(run).values()) - AGENTS) and time.monotonic() < until:
        time.sleep(0.2)
    for pid in marked(run):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    return sorted(left)


class LongRun(NamedTuple):
    """What one run of the real child left, and what it said while it ran."""

    files: Files
    job: Job
    tasks: dict[int, list[Task]]
    first: Ready
    second: Ready
    greedy: dict[str, Any]
    """Its answer over HTTP at the first boundary, at temperature 0."""
    models: dict[str, Any]
    left: list[str]
    """Processes that outlived a kill -9 of the child."""
    killed_at: Heartbeat
    third: Ready
    refusals: list[tuple[int, dict[str, Any]]]
    """Status and answer of the HTTP server to bad requests."""
    ended: int
    """Exit code of the second child, whose fourth iteration meets too many faults."""
    failure: Failure


@pytest.fixture(scope="session")
def long_run(laptop_policy: Path, tmp_path_factory: pytest.TempPathFactory) -> LongRun:
    """Two iterations in one process, kill -9 in the third, and a second process that goes on until too much fails."""
    run = tmp_path_factory.mktemp("runs") / "verl"
    env = f"{sys.executable} {Path(__file__).with_name('ill_desk.py')} 11"
    job, files = job_of(run, laptop_policy, env=env, steps=2), Files(run)
    tasks = {number: _tasks(env, number) for number in (1, 2, 3)}
    jsonl.write(files.tasks(1), tasks[1])
    child = start(job)
    try:
        first = wait_for(lambda: read(files.ready(1), Ready), child, files)
        greedy = _post(f"{first.addresses[0]}/chat/completions", question(tasks[1][0]))
        models = _get(f"{first.addresses[0]}/models")
        jsonl.write(files.tasks(2), tasks[2])
        second = wait_for(lambda: read(files.ready(2), Ready), child, files)
        jsonl.write(files.tasks(3), tasks[3])
        killed_at = wait_for(lambda: _second_step(files), child, files)
    finally:
        left = kill(child, job.run)
    child = start(msgspec.structs.replace(job, attempt=2))
    try:
        third = wait_for(lambda: read(files.ready(3), Ready), child, files)
        refusals = [_post(f"{third.addresses[0]}/chat/completions", body) for body in BAD]
        jsonl.write(files.tasks(4), [_refused(task) if n % 2 else task for n, task in enumerate(tasks[1])])
        ended = child.wait(timeout=900)
    finally:
        kill(child, job.run)
    failure = read(files.error, Failure)
    answer = [body for _, body in (greedy, models)]
    return LongRun(files, job, tasks, first, second, *answer, left, killed_at, third, refusals, ended, failure)


BAD = [
    {"model": "any"},
    {"messages": "no list"},
    {"messages": [{"role": "user", "content": "word " * 300}]},
    {"messages": [{"role": "user", "content": "hello"}], "temperature": "warm"},
]
"""Requests that the server must refuse in words."""


def _refused(task: Task) -> Task:
    """The task from a start state that the desk does not have."""
    return msgspec.structs.replace(task, start=Start(name="nowhere"))


def question(task: Task) -> dict[str, Any]:
    """A request to the served policy."""
    messages = [{"role": "user", "content": task.query[0]}]
    return {"model": "any", "messages": messages, "temperature": 0, "max_tokens": 24}


def _second_step(files: Files) -> Heartbeat | None:
    """The heartbeat once the last step of iteration 3 plays: its first step has a checkpoint by then."""
    beat = read(files.heartbeat, Heartbeat)
    return beat if beat and beat.step == 5 and beat.phase == "rollout" else None


def _tasks(env: str, iteration: int) -> list[Task]:
    """Eight tasks of desk's, different ones for each iteration, for another environment."""
    with Pool("desk") as pool:
        own = [task for task in pool.tasks("dev") if task.kind in LEARNABLE and len(task.query) == 1]
    return [msgspec.structs.replace(task, env=env) for task in own[iteration - 1 :: 3][:8]]


def _post(url: str, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
    return _get(url, msgspec.json.encode(body))


def _get(url: str, body: bytes | None = None) -> tuple[int, dict[str, Any]]:
    """Status and answer."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))  # loopback, whatever proxy is set
    request = urllib.request.Request(url, body, {"Content-Type": "application/json"})
    try:
        with opener.open(request, timeout=60) as answer:
            return answer.status, msgspec.json.decode(answer.read())
    except urllib.error.HTTPError as error:
        return error.code, msgspec.json.decode(error.read())
