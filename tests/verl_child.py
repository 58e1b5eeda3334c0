"""How the tests run verl's child: a weak policy, tasks that it can learn, jobs, waiting, killing,
and asking it over HTTP.
"""

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
from typing import Any

import msgspec
import pytest

from coevolve.environments.client import Pool
from coevolve.options import fields
from coevolve.records import Task
from coevolve.training.settings import VerlLimits
from coevolve.training.verl import driver, overrides, settings
from coevolve.training.verl.files import MARK, Heartbeat, VerlFiles, VerlJob, read, write
from verl_cpu import PRESET as CPU

AGENTS = {"ray::DashboardAgent", "ray::RuntimeEnvAgent"}
LR = 6e-4
LEARNABLE = [
    f"{app}.{verb}/lookup"
    for app in ("bank", "calendar", "hotel", "notes")
    for verb in ("set", "copy")
]
"""Kinds of tasks that the weak policy solves now and then."""


def weak_policy(directory: Path, **shape: int) -> Path:
    """The laptop policy after a fraction of its training, on a fraction of the demonstrations:
    right about as often as wrong.
    """
    import torch

    from coevolve.models.tiny import make_model, make_tokenizer
    from coevolve.training import bootstrap
    from coevolve.training.settings import BootstrapSettings

    torch.set_num_threads(1)
    with Pool("desk") as pool:
        tasks = pool.tasks(bootstrap.SPLIT)[:2000]
        said = [
            bootstrap.conversation(task, results)
            for task, results in bootstrap.replayed(pool, tasks)
        ]
        tokenizer = make_tokenizer(bootstrap.corpus(pool, tasks, said))
    model = make_model(tokenizer, seed=0, **shape)
    options = BootstrapSettings(env="desk", steps=450)
    bootstrap.fit(model, bootstrap.tokenise(tokenizer, said), options, lambda _: None)
    model.save_pretrained(directory)
    tokenizer.save_pretrained(directory)
    return directory


def job_of(run: Path, model: Path, env: str = "desk", **changes: Any) -> VerlJob:
    """A job on a CPU, as the driver makes it; changes are the settings' or the job's own."""
    preset = settings.preset(CPU)
    own = {name: changes.pop(name) for name in list(changes) if name in VerlJob.__struct_fields__}
    limits = {name: changes.pop(name) for name in fields(VerlLimits) if name in changes}
    wanted = {
        "steps": 1,
        "batch": 6,
        "samples": 4,
        "temperature": 1.0,
        "lr": LR,
        "beta": 5e-3,
        "prompt_tokens": 96,
        "episode_tokens": 224,
        "reply_tokens": 48,
        "keep_tokens": True,
    }
    chosen = settings.VerlSettings(model=str(model), **wanted | changes)
    waits = {"episode_timeout": 600, "step_timeout": 900, "wait_timeout": 120} | limits
    options = driver.VerlRun(preset, save_every=1, keep_checkpoints=9, **waits)
    job = driver.make_job(chosen, options, VerlFiles(run), env)
    return msgspec.structs.replace(job, **own)


def start(job: VerlJob) -> subprocess.Popen:
    """Starts the child as the driver does."""
    files = VerlFiles(job.run)
    write(files.job, job)
    with open(files.log, "ab") as log:
        command = [sys.executable, "-m", "coevolve.training.verl.main", job.run]
        environment = {**os.environ, **overrides.environment(job)}
        return subprocess.Popen(
            command, stdout=log, stderr=log, start_new_session=True, env=environment
        )


def wait_for(what, child: subprocess.Popen, files: VerlFiles, seconds: float = 900) -> Any:
    """What the function gives, once it gives something; fails with the log's end when the child has
    died or time is over.
    """
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
                found[int(process.name)] = (
                    (process / "cmdline").read_bytes().replace(b"\0", b" ").decode().strip()
                )
        except (FileNotFoundError, PermissionError, ProcessLookupError):
            continue
    return found


def _state(process: Path) -> str:
    return process.joinpath("stat").read_text().rpartition(")")[2].split()[0]


def kill(child: subprocess.Popen, run: str) -> list[str]:
    """kill -9 of the child alone; returns what `left` does."""
    child.kill()
    child.wait()
    return left(run)


def left(run: str) -> list[str]:
    """The commands of a dead child that a while later still run; ends those, too.

    Two agents of Ray's own look only now and then whether their node is still there; they are not
    waited for.
    """
    until = time.monotonic() + 30
    while (alive := set(marked(run).values()) - AGENTS) and time.monotonic() < until:
        time.sleep(0.2)
    for pid in marked(run):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    return sorted(alive)


def tasks_of(env: str, iteration: int) -> list[Task]:
    """Eight tasks of desk's, different ones for each iteration, for another environment."""
    with Pool("desk") as pool:
        own = [
            task for task in pool.tasks("dev") if task.kind in LEARNABLE and len(task.query) == 1
        ]
    return [msgspec.structs.replace(task, env=env) for task in own[iteration - 1 :: 3][:8]]


def question(task: Task, model: str) -> dict[str, Any]:
    """A request to the policy that is served by this name."""
    messages = [{"role": "user", "content": task.query[0]}]
    return {"model": model, "messages": messages, "temperature": 0, "max_tokens": 24}


def post(url: str, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
    """Status and answer."""
    return get(url, msgspec.json.encode(body))


def get(url: str, body: bytes | None = None) -> tuple[int, dict[str, Any]]:
    """Status and answer."""
    opener = urllib.request.build_opener(
        urllib.request.ProxyHandler({})
    )  # loopback, whatever proxy is set
    request = urllib.request.Request(url, body, {"Content-Type": "application/json"})
    try:
        with opener.open(request, timeout=60) as answer:
            return answer.status, msgspec.json.decode(answer.read())
    except urllib.error.HTTPError as error:
        return error.code, msgspec.json.decode(error.read())
