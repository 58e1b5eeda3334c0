"""`coevolve train --backend verl` whole: driver, real child, real stages at the boundary, a hang,
the rerun. No GPU.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import msgspec
import pytest

from coevolve import jsonl
from coevolve.environments.client import Pool
from coevolve.records import Rollout, Task
from coevolve.training import batches
from coevolve.training.settings import GrpoSettings
from coevolve.training.verl import child_process
from coevolve.training.verl.files import Child, VerlFiles, read
from conftest import run as command
from verl_cpu import PRESET as CPU

pytestmark = [pytest.mark.verl, pytest.mark.timeout(1800)]

HERE = Path(__file__).parent
SIZE = ["--steps", 1, "--batch", 4, "--samples", 4, "--reply-tokens", 48, "--call-timeout", 600]
LENGTHS = ["--prompt-tokens", 1920, "--episode-tokens", 2048]
"""Room for what `explore` asks the policy, 1,500 tokens; its own tasks take a hundredth of it."""


class Run:
    """A run over the desk that gets stuck while a file exists."""

    def __init__(self, folder: Path, model: Path, *overrides: str, **environment: str):
        self.path, self.files = folder / "run", VerlFiles(folder / "run")
        self.stuck, self.model, self._overrides = folder / "stuck", model, overrides
        self.env = f"{sys.executable} {HERE / 'stuck_desk.py'} {self.stuck}"
        self._environment = {
            **os.environ,
            "COEVOLVE_HOME": str(folder / "home"),
            "OMP_NUM_THREADS": "1",
            **environment,
        }
        self._folder = folder

    def tasks(self, number: int) -> list[Task]:
        with Pool("desk") as pool:
            own = [task for task in pool.tasks("dev") if task.kind.startswith(("bank", "mail"))]
        return [
            msgspec.structs.replace(task, env=self.env) for task in own[number * 8 : number * 8 + 8]
        ]

    def train(self, number: int, *options: object) -> subprocess.CompletedProcess:
        file = self._folder / f"tasks.{number}.jsonl"
        jsonl.write(file, self.tasks(number))
        fixed = [
            "--env",
            self.env,
            "--backend",
            "verl",
            "--preset",
            CPU,
            "--run",
            self.path,
            "--model",
            self.model,
        ]
        more = ["--", *self._overrides] if self._overrides else []
        return self.call(
            "train", file, *fixed, *SIZE, *LENGTHS, "--iteration", number, *options, *more
        )

    def call(self, *arguments: object) -> subprocess.CompletedProcess:
        return command(*map(str, arguments), check=False, env=self._environment)


class Story(NamedTuple):
    run: Run
    first: subprocess.CompletedProcess
    child: Child
    explored: subprocess.CompletedProcess
    asked: subprocess.CompletedProcess
    hung: subprocess.CompletedProcess
    left: dict[int, str]
    second: subprocess.CompletedProcess
    again: subprocess.CompletedProcess
    evaluated: subprocess.CompletedProcess
    stopped: subprocess.CompletedProcess


@pytest.fixture(scope="module")
def far_sighted(tmp_path_factory, laptop_policy) -> Path:
    """The laptop policy with a context in which the explorer's prompt has room: its positions are
    relative, and go on.
    """
    model = tmp_path_factory.mktemp("models") / "far-sighted"
    shutil.copytree(laptop_policy, model)
    config = json.loads((model / "config.json").read_text())
    (model / "config.json").write_text(json.dumps({**config, "max_position_embeddings": 2048}))
    return model


@pytest.fixture(scope="module")
def story(tmp_path_factory, far_sighted) -> Story:
    """An iteration; the policy at work at the boundary; an environment that hangs; the rerun; the
    end.
    """
    run = Run(tmp_path_factory.mktemp("whole"), far_sighted)
    try:
        first = run.train(1)
        assert first.returncode == 0, first.stderr.decode()
        child, served = read(run.files.child, Child), run.files.ready(1)
        explored = run.call(
            "explore",
            "--env",
            "desk",
            "--mode",
            "curious",
            "--episodes",
            1,
            "--max-actions",
            3,
            "--model",
            served,
        )
        asked = run.call(
            "rollout", "--env", "desk", "--split", "dev", "--limit", 4, "--model", served
        )
        run.stuck.touch()
        hung = run.train(2, "--stall-timeout", 20)
        left = child_process.processes(run.files)
        run.stuck.unlink()
        second, again = run.train(2), run.train(2)
        evaluated = run.call(
            "evaluate",
            "--env",
            "desk",
            "--split",
            "dev",
            "--limit",
            4,
            "--model",
            run.path / "policy",
            "--by",
            "none",
        )
        stopped = run.call("train", "--run", run.path, "--stop")
    finally:
        alive = child_process.processes(run.files)
        child_process.terminate(run.files, 0)
    assert not alive
    return Story(run, first, child, explored, asked, hung, left, second, again, evaluated, stopped)


def rollouts(done: subprocess.CompletedProcess) -> list[Rollout]:
    assert done.returncode == 0, done.stderr.decode()
    return [msgspec.json.decode(line, type=Rollout) for line in done.stdout.splitlines()]


def test_stdout_is_the_iterations_rollouts(story):
    """Both iterations print the rollouts of their own tasks, step by step in the plan's order, and
    nothing else.
    """
    for number, done in ((1, story.first), (2, story.second)):
        plan = batches.plan(story.run.tasks(number), GrpoSettings(batch=4), number - 1)
        made = rollouts(done)
        assert [(r.task_id, r.sample) for r in made] == [
            (task.id, n) for task in plan for n in range(4)
        ]
        assert {(r.iteration, r.step, r.policy.rpartition("@")[2]) for r in made} == {
            (number, number - 1, f"step-{number - 1}")
        }
    assert story.again.stdout == story.second.stdout


def test_the_policy_explores_at_the_boundary(story):
    """`explore --model` and `rollout --model` with READY.json get their answers from the policy
    that was just trained, under the name that it has in the next iteration's rollouts, and a
    digest. Half a million parameters answer in the form of their own tasks, which is hardly ever an
    explorer's: then the command fails and says so.
    """
    acted = any(json.loads(line)["steps"] for line in story.explored.stdout.splitlines())
    assert story.explored.returncode == (0 if acted else 1), story.explored.stderr.decode()
    assert acted or b"explorations ended before the first action" in story.explored.stderr
    assert int(re.search(rb": (\d+) calls", story.explored.stderr)[1]) > 0
    played = rollouts(story.asked)
    next_name = rollouts(story.second)[0].policy
    assert len(played) == 4 and all(r.policy.rpartition("@")[0] == next_name for r in played)
    assert any(r.tools for r in played) and "env_error" not in {r.stop_reason for r in played}


def test_a_hanging_environment(story):
    """The watchdog ends the run within its limit, says where it hung, leaves nothing behind; the
    rerun completes.
    """
    told = story.hung.stderr.decode()
    assert story.hung.returncode == 75 and story.hung.stdout == b""
    assert (
        "no progress for 20 s (in phase rollout of iteration 2, 1 steps done)" in told
        and "child.log" in told
    )
    assert story.left == {}
    assert read(story.run.files.child, Child).attempt == story.child.attempt + 1 == 2


def test_what_is_left_for_others(story):
    """RUN/policy is a model that `evaluate` plays; metrics are one line a step; `--stop` ended the
    trainer.
    """
    assert story.evaluated.returncode == 0, story.evaluated.stderr.decode()
    assert json.loads(story.evaluated.stdout)["tasks"] == 4
    lines = [
        json.loads(line) for line in (story.run.path / "metrics.jsonl").read_text().splitlines()
    ]
    assert [(line["step"], line["iteration"]) for line in lines] == [(1, 1), (2, 2)]
    assert story.run.path.joinpath("policy").resolve().parts[-3] == "global_step_2"
    assert (
        b"the trainer was ended" in story.stopped.stderr and b"middle" not in story.stopped.stderr
    )


@pytest.mark.slow
def test_a_weight_update_that_never_ends(tmp_path, far_sighted):
    """The watchdog ends a trainer that waits for its engine forever, and the rerun finds the
    finished step's checkpoint.
    """
    hook = "actor_rollout_ref.rollout.checkpoint_engine.custom_backend_module=stuck_weights"
    flag = tmp_path / "weights"
    run = Run(tmp_path, far_sighted, hook, PYTHONPATH=str(HERE), STUCK_WEIGHTS=str(flag))
    try:
        assert rollouts(run.train(1))
        flag.touch()
        hung = run.train(2, "--stall-timeout", 60)
        assert (
            hung.returncode == 75
            and "(in phase weights of iteration 2, 2 steps done)" in hung.stderr.decode()
        )
        assert not child_process.processes(run.files)
        flag.unlink()
        assert {r.step for r in rollouts(run.train(2, "--restart-each-iteration"))} == {1}
    finally:
        child_process.terminate(run.files, 0)
    assert len(list(run.files.episodes(2).glob("0002-*"))) == 0
