"""The driver of the verl backend over a stand-in child (tests/stand_in_child.py says why):
boundary, resumption, refusals.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import drive_verl
import msgspec
import pytest

import tiny_models
from coevolve import jsonl
from coevolve.errors import BadInput, Partial, UsageError
from coevolve.records import Rollout
from coevolve.training import batches
from coevolve.training.settings import GrpoSettings
from coevolve.training.verl import child_process, replicas
from coevolve.training.verl.files import Child, Ready, VerlFiles, VerlJob, read, write
from coevolve.training.verl.stop import stop
from conftest import run as command
from verl_cpu import PRESET as CPU

SHOP = f"{sys.executable} {Path(__file__).parents[2] / 'grocer.py'}"
TASKS = tiny_models.shop_tasks(SHOP, 5)


def rollouts(file: Path) -> list[Rollout]:
    return [line.record for line in jsonl.read([str(file)], Rollout)]


def process(run, tasks_file, model, *more):
    command = [
        sys.executable,
        str(Path(drive_verl.__file__)),
        str(run),
        str(tasks_file),
        str(model),
        SHOP,
        *more,
    ]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def until(condition, seconds=300):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.02)


@pytest.fixture
def tasks_file(tmp_path):
    jsonl.write(tmp_path / "tasks.jsonl", TASKS)
    return tmp_path / "tasks.jsonl"


def test_two_iterations_in_one_child(run, model):
    """The child stays at the boundary, gets the next tasks, and each iteration's rollouts are in
    the order of its plan.
    """
    first = rollouts(drive_verl.drive(run, TASKS, model, SHOP))
    child = read(VerlFiles(run).child, Child)
    assert child_process.alive(VerlFiles(run))
    second = rollouts(drive_verl.drive(run, TASKS[:3], model, SHOP))
    assert read(VerlFiles(run).child, Child) == child
    for number, (made, tasks) in enumerate(((first, TASKS), (second, TASKS[:3]))):
        planned = [
            (step, task.id, sample)
            for step in range(3 * number, 3 * number + 3)
            for task in batches.plan(tasks, GrpoSettings(batch=2), step)
            for sample in range(2)
        ]
        assert [(r.step, r.task_id, r.sample) for r in made] == planned
        assert {r.iteration for r in made} == {number + 1}
    steps = [json.loads(line)["step"] for line in (run / "metrics.jsonl").read_text().splitlines()]
    assert steps == [1, 2, 3, 4, 5, 6]
    assert (run / "policy" / "model.safetensors").read_text() == "weights 6"


def test_finished_iteration_starts_nothing(run, model):
    """A call for a finished iteration gives the same rollouts and starts no child."""
    file = drive_verl.drive(run, TASKS, model, SHOP)
    before = file.read_bytes()
    assert "was ended" in stop(str(run)) and "no trainer" in stop(str(run))
    assert drive_verl.drive(run, TASKS, model, SHOP, iteration=1).read_bytes() == before
    file.unlink()
    assert drive_verl.drive(run, TASKS, model, SHOP, iteration=1).read_bytes() == before
    assert not child_process.alive(VerlFiles(run))


def test_restart_each_iteration(run, model):
    """With --restart-each-iteration no process is left behind, and the next call starts another
    child that resumes.
    """
    for iteration in (1, 2):
        made = rollouts(drive_verl.drive(run, TASKS, model, SHOP, restart_each_iteration=True))
        assert [r.policy for r in made] == [f"attempt {iteration}"] * 12
        assert not child_process.alive(VerlFiles(run)) and not child_process.processes(
            VerlFiles(run)
        )
    assert read(VerlFiles(run).job, VerlJob).stop_after == 2


def test_the_child_gave_up_waiting(run, model):
    """A child whose deadline at the boundary passed has ended by itself; the next call starts a new
    one.
    """
    drive_verl.drive(run, TASKS, model, SHOP, wait_timeout=1)
    until(lambda: not child_process.alive(VerlFiles(run)))
    assert rollouts(drive_verl.drive(run, TASKS, model, SHOP))[0].policy == "attempt 2"


@pytest.mark.parametrize("late", [False, True])
def test_driver_killed(run, model, tasks_file, late):
    """kill -9 of the driver: the child finishes the iteration and waits; the same call again gets
    that iteration's rollouts.
    """
    running = process(run, tasks_file, model)
    until(lambda: VerlFiles(run).heartbeat.exists())
    running.kill()
    running.communicate()
    if late:
        until(lambda: VerlFiles(run).ready(1).exists())
    made = rollouts(drive_verl.drive(run, TASKS, model, SHOP))
    assert {(r.policy, r.iteration) for r in made} == {("attempt 1", 1)} and len(made) == 12
    assert read(VerlFiles(run).child, Child).attempt == 1


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_driver_interrupted(run, model, tasks_file, number):
    """An interrupted driver takes its child along, and every process of the child; a rerun trains
    the iteration.
    """
    Path(f"{run}.plan").write_text("hang")
    running = process(run, tasks_file, model)
    until(
        lambda: (
            b"collective"
            in (VerlFiles(run).log.read_bytes() if VerlFiles(run).log.exists() else b"")
        )
    )
    child = read(VerlFiles(run).child, Child)
    running.send_signal(number)
    time.sleep(0.5)
    os.kill(child.pid, signal.SIGKILL)  # it ignores SIGTERM; the grace is not this test's matter
    running.communicate(timeout=60)
    assert not child_process.alive(VerlFiles(run)) and not child_process.processes(VerlFiles(run))
    made = rollouts(drive_verl.drive(run, TASKS, model, SHOP))
    assert len(made) == 12 and {r.policy for r in made} == {"attempt 2"}


def test_a_step_played_twice(run, model):
    """Of a step that a dead child had begun, only the last attempt's records count, torn lines and
    all.
    """
    Path(f"{run}.plan").write_text("well\nwell\ndie")
    with pytest.raises(Exception, match="no room for the KV cache"):
        drive_verl.drive(run, TASKS, model, SHOP)
    made = rollouts(drive_verl.drive(run, TASKS, model, SHOP))
    assert [r.policy for r in made] == [
        "attempt 2"
    ] * 12  # no checkpoint inside the iteration: all steps were repeated
    attempts = {
        json.loads(line)["attempt"] for line in (run / "metrics.jsonl").read_text().splitlines()
    }
    assert attempts == {2}


def test_two_drivers(run, model, tasks_file):
    """The second driver of a run is told so, and does not disturb the first."""
    Path(f"{run}.plan").write_text("lively")
    running = process(run, tasks_file, model, "stall_timeout=600")
    until(
        lambda: (
            b"collective"
            in (VerlFiles(run).log.read_bytes() if VerlFiles(run).log.exists() else b"")
        )
    )
    with pytest.raises(Partial, match="another process is training"):
        drive_verl.drive(run, TASKS, model, SHOP)
    assert child_process.alive(VerlFiles(run))
    running.kill()
    running.communicate()


def test_refusals(run, model):
    """Other settings, other tasks, an iteration too far and a checkpoint distance that does not fit
    are refused.
    """
    with pytest.raises(UsageError, match="must divide"):
        drive_verl.drive(run, TASKS, model, SHOP, save_every=2)
    drive_verl.drive(run, TASKS, model, SHOP, restart_each_iteration=True)
    with pytest.raises(UsageError, match="lr was"):
        drive_verl.drive(run, TASKS, model, SHOP, settings={"lr": 0.5})
    with pytest.raises(UsageError, match="other tasks"):
        drive_verl.drive(run, TASKS[:2], model, SHOP, iteration=1)
    with pytest.raises(UsageError, match="can't be trained"):
        drive_verl.drive(run, TASKS, model, SHOP, iteration=3)


def test_long_prompt(run, model):
    """A prompt over the limit is refused with the task's id and its length; nothing is written that
    would bind the run.
    """
    long = msgspec.structs.replace(TASKS[3], id="a-long-one", query=["put tea on my list " * 20])
    with pytest.raises(
        UsageError, match=r"task a-long-one: its prompt is \d\d tokens, above --prompt-tokens 64"
    ):
        drive_verl.drive(run, [*TASKS, long], model, SHOP)
    assert not (run / "config.json").exists() and not VerlFiles(run).tasks(1).exists()
    assert not child_process.alive(VerlFiles(run))


def test_a_model_that_cannot_be_fetched(tmp_path):
    """An id that is not in the cache, and a hub that does not answer: said after one request, exit
    69.
    """
    code = (
        "from coevolve.training.verl.prompt_length import tokenizer_of; "
        "tokenizer_of('nobody/has-this')"
    )
    unreachable = {
        "HF_HOME": str(tmp_path),
        "HTTPS_PROXY": "http://127.0.0.1:9",
        "HF_HUB_OFFLINE": "0",
    }
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        env={**os.environ, **unreachable},
    )
    assert "Unreachable: nobody/has-this: is no directory and not in the cache" in done.stderr
    assert "Retry" not in done.stderr


def test_lost_checkpoints(run, model):
    """A run whose checkpoints are gone is not trained again from the first model without a word."""
    drive_verl.drive(run, TASKS, model, SHOP, restart_each_iteration=True)
    (VerlFiles(run).checkpoints / "latest_checkpointed_iteration.txt").unlink()
    with pytest.raises(BadInput, match="restore the checkpoints"):
        drive_verl.drive(run, TASKS, model, SHOP)


def test_old_checkpoints_go(run, model):
    """Children that were restarted lose track of older checkpoints; the driver keeps the newest
    ones only.
    """
    for _ in range(3):
        drive_verl.drive(run, TASKS, model, SHOP, restart_each_iteration=True, keep_checkpoints=2)
    assert sorted(p.name for p in VerlFiles(run).checkpoints.glob("global_step_*")) == [
        "global_step_6",
        "global_step_9",
    ]
    assert (run / "policy" / "model.safetensors").read_text() == "weights 9"


def test_other_options_of_a_living_child(run, model, capsys):
    """Options and overrides that would need another child are told to have no effect on the one
    that runs.
    """
    drive_verl.drive(run, TASKS, model, SHOP)
    drive_verl.drive(
        run, TASKS, model, SHOP, workers=2, overrides=["trainer.logger=[console,wandb]"]
    )
    told = capsys.readouterr().err
    assert (
        "another workers, trainer.logger=[console,wandb]:" in told
        and "--stop this one first" in told
    )


def test_overrides_are_settings_of_the_run(run, model):
    """Overrides that decide the result are kept in config.json and bind the run; the machine's may
    change.
    """
    chosen = ["algorithm.filter_groups.enable=True", "trainer.nnodes=1"]
    drive_verl.drive(run, TASKS, model, SHOP, restart_each_iteration=True, overrides=chosen)
    kept = json.loads((run / "config.json").read_text())["overrides"]
    assert kept["algorithm.filter_groups.enable"] == "True" and "trainer.nnodes" not in kept
    for other, told in (
        ([], "algorithm.filter_groups.enable was 'True', here not given"),
        (
            ["algorithm.filter_groups.enable=False"],
            "algorithm.filter_groups.enable was 'True', here 'False'",
        ),
        ([*chosen, "+trainer.nonsense=1"], "trainer.nonsense was not given, here '1'"),
    ):
        with pytest.raises(UsageError, match=rf"other settings \({told}\)\."):
            drive_verl.drive(run, TASKS, model, SHOP, restart_each_iteration=True, overrides=other)
    drive_verl.drive(
        run,
        TASKS,
        model,
        SHOP,
        restart_each_iteration=True,
        overrides=[chosen[0], "trainer.nnodes=2"],
    )
    assert VerlFiles(run).ready(2).exists()


def test_what_is_refused_binds_nothing(run, model):
    """An override that contradicts an option, or that the check before the start refuses, leaves no
    settings and no child.
    """

    def refuse(job):
        raise UsageError(f"not {job.overrides[-1]}")

    for how, told in (
        ({"overrides": ["data.train_batch_size=9"]}, "follows from --batch"),
        ({"overrides": ["trainer.typo=9"], "check": refuse}, "not trainer.typo=9"),
    ):
        with pytest.raises(UsageError, match=told):
            drive_verl.drive(run, TASKS, model, SHOP, **how)
        assert (
            not (run / "config.json").exists()
            and not VerlFiles(run).tasks(1).exists()
            and not VerlFiles(run).log.exists()
        )
    drive_verl.drive(run, TASKS, model, SHOP)
    drive_verl.drive(run, TASKS, model, SHOP, check=refuse)  # the child lives, nothing is started


def test_a_dry_stop(run, model):
    """`--stop --dry-run` says what would be ended, and ends nothing."""
    drive_verl.drive(run, TASKS, model, SHOP)
    assert (
        b"would be ended (it is waiting)"
        in command("train", "--run", run, "--stop", "--dry-run").stderr
    )
    assert child_process.alive(VerlFiles(run))
    command("train", "--run", run, "--stop")
    assert b"no trainer is running" in command("train", "--run", run, "--stop", "--dry-run").stderr


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (
            ["--backend", "verl", "--preset", CPU, "--lora-rank", "4"],
            "--lora-rank is an option of --backend local",
        ),
        (["--preset", CPU], "--preset is an option of --backend verl"),
        (["--", "trainer.nnodes=2"], "they need --backend verl"),
        (["--backend", "both"], "--backend takes local or verl"),
        ([], "--model is missing"),
    ],
    ids=lambda value: value if isinstance(value, str) else " ".join(value) or "none",
)
def test_options_of_the_other_backend(tmp_path, options, told):
    """An option that would have no effect is refused, exit 2, and the run directory is not made."""
    done = command("train", "--run", tmp_path / "run", *options, check=False)
    assert done.returncode == 2 and told in done.stderr.decode() and not (tmp_path / "run").exists()


def test_stop_where_nothing_runs(tmp_path):
    """`--stop` needs no tasks, no model and no trainer; it is no failure that there is none, but
    that there is no run.
    """
    for more in ([], ["--dry-run"]):
        done = command("train", "--run", tmp_path, "--stop", *more)
        assert b"no trainer is running" in done.stderr and done.stdout == b""
        done = command("train", "--run", tmp_path / "nosuchrun", "--stop", *more, check=False)
        assert done.returncode == 2 and b"nosuchrun: there is no such run" in done.stderr
        assert not (tmp_path / "nosuchrun").exists()


def test_a_run_of_the_other_backend(run, model):
    """A run of this backend cannot go on with the local one, and that is what is said."""
    drive_verl.drive(run, TASKS, model, SHOP, restart_each_iteration=True)
    for more, told in (
        ([], b"was begun with --backend verl"),
        (["--model", model], b"backend was 'verl'"),
    ):
        options = ["--run", run, "--env", SHOP, *more]
        done = command("train", "-", *options, stdin=jsonl.encode(TASKS[0]), check=False)
        assert done.returncode == 2 and told in done.stderr


@pytest.mark.parametrize("how", ["gone", "ill"])
def test_dead_engines_at_the_boundary(run, model, capsys, monkeypatch, how):
    """A trainer whose engine does not answer is ended before it gets tasks, and another one trains
    them; a proxy is no matter.
    """
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    files = VerlFiles(run)
    for _ in range(2):
        drive_verl.drive(run, TASKS, model, SHOP)
    assert read(files.child, Child).attempt == 1
    ready = read(files.ready(2), Ready)
    server = ready.addresses[0].removesuffix("/v1")
    other, dead = (
        f"{server}/other/v1",
        "http://127.0.0.1:9/v1" if how == "gone" else f"{server}/ill/v1",
    )
    assert (
        replicas.unhealthy(msgspec.structs.replace(ready, addresses=[other])) is None
    )  # no such route, but a server
    write(files.ready(2), msgspec.structs.replace(ready, addresses=[*ready.addresses, dead]))
    capsys.readouterr()
    assert {r.policy for r in rollouts(drive_verl.drive(run, TASKS, model, SHOP))} == {"attempt 2"}
    (line,) = (line for line in capsys.readouterr().err.splitlines() if "engine" in line)
    assert (
        dead in line
        and "the trainer was ended, and another one goes on from the last checkpoint" in line
    )
