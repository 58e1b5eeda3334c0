"""What a call refuses before anything is started, dry or not, over the stand-in child; and what a
run is bound to.
"""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import drive_verl
import msgspec
import pytest

import tiny_models
from coevolve import jsonl
from coevolve.errors import CoevolveError, UsageError
from coevolve.records import Rollout
from coevolve.training.verl import driver
from coevolve.training.verl.driver import VerlRun
from coevolve.training.verl.files import VerlFiles
from coevolve.training.verl.settings import VerlSettings, preset
from coevolve.training.verl.stop import stop
from conftest import run as command
from verl_cpu import PRESET as CPU

SHOP = f"{sys.executable} {Path(__file__).parents[2] / 'grocer.py'}"
TASKS = tiny_models.shop_tasks(SHOP, 5)


def test_a_run_that_came_to_nothing(run, model):
    """A trainer that dies before its first episode binds neither settings nor tasks; what has
    decided something binds.
    """
    with pytest.raises(CoevolveError, match="died"):
        drive_verl.drive(
            run,
            TASKS,
            model,
            SHOP,
            settings={"lr": 0.5},
            command=(sys.executable, "-c", "raise SystemExit(1)"),
        )
    assert json.loads((run / "config.json").read_text())["lr"] == 0.5
    made = [
        line.record
        for line in jsonl.read([str(drive_verl.drive(run, TASKS[:3], model, SHOP))], Rollout)
    ]
    assert {r.task_id for r in made} <= {task.id for task in TASKS[:3]}
    assert json.loads((run / "config.json").read_text())["lr"] == 1e-6
    stop(str(run))
    with pytest.raises(UsageError, match="lr was 1e-06, here 0.5"):
        drive_verl.drive(run, TASKS[:3], model, SHOP, settings={"lr": 0.5})


def test_a_trainer_at_work_binds_its_run(run, model):
    """Before its first episode, too: the settings of a trainer that lives cannot be replaced."""
    drive_verl.drive(run, TASKS, model, SHOP)
    for path in (
        VerlFiles(run).checkpoints,
        VerlFiles(run).tasks(1).parent / "episodes",
        run / "iterations",
    ):
        shutil.rmtree(path)
    for file in (VerlFiles(run).metrics, run / "metrics.jsonl"):
        file.unlink()
    with pytest.raises(UsageError, match="lr was 1e-06, here 0.5"):
        drive_verl.drive(run, TASKS, model, SHOP, settings={"lr": 0.5})


def test_the_environment_comes_before_the_configuration(run, model):
    """What is seen at once is asked first, then the environment, and what takes minutes last."""
    asked = []
    other = [msgspec.structs.replace(TASKS[0], env_version="another")]
    how = {
        "check_at_once": lambda job: asked.append("at once"),
        "check": lambda job: asked.append("late"),
    }
    with pytest.raises(UsageError, match="made with version another"):
        drive_verl.drive(run, other, model, SHOP, **how)
    assert asked == ["at once"] and not VerlFiles(run).tasks(1).exists()
    drive_verl.drive(run, TASKS, model, SHOP, **how)
    assert asked == ["at once", "at once", "late"]


def test_a_dry_run(run, model):
    """It refuses what the call would: settings, tasks and iteration of a run, versions, prompts; it
    writes nothing.
    """

    def dry_run(tasks, model=model, iteration=None, **settings):
        wanted = msgspec.convert({"model": str(model), **drive_verl.OWN, **settings}, VerlSettings)
        return driver.dry_run(
            tasks, wanted, str(run), SHOP, VerlRun(preset(CPU)), iteration=iteration
        )

    long = msgspec.structs.replace(TASKS[3], id="a-long-one", query=["put tea on my list " * 20])
    other = msgspec.structs.replace(TASKS[3], env_version="another")
    for tasks, told in (
        ([long], "task a-long-one: its prompt is"),
        ([other], "made with version another"),
    ):
        with pytest.raises(UsageError, match=told):
            dry_run(tasks)
    assert dry_run(TASKS) == dry_run([]) == [] and not run.exists()
    assert "no tokenizer on this machine" in dry_run([long], model="nobody/has-this")[0]
    drive_verl.drive(run, TASKS, model, SHOP, restart_each_iteration=True)
    before = sorted(run.rglob("*"))
    for how, told in (
        ({"tasks": TASKS, "lr": 0.5}, "lr was 1e-06, here 0.5"),
        ({"tasks": TASKS[:2], "iteration": 1}, "other tasks"),
        ({"tasks": TASKS, "iteration": 3}, "can't be trained"),
    ):
        with pytest.raises(UsageError, match=told):
            dry_run(**how)
    assert dry_run(TASKS) == [] and sorted(run.rglob("*")) == before


def test_a_file_is_no_run(tmp_path, model):
    """A path that is a file's, or below one, is refused by every call before anything is looked for
    in it.
    """
    (tmp_path / "file").write_text("")
    for path in (tmp_path / "file", tmp_path / "file" / "run"):
        for more in ([], ["--dry-run"]):
            done = command("train", "--run", path, "--stop", *more, check=False)
            assert done.returncode == 2 and b"is a file, and a run is a directory" in done.stderr
        with pytest.raises(UsageError, match="is a file, and a run is a directory"):
            drive_verl.drive(path, TASKS, model, SHOP)
