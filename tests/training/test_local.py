"""`coevolve train` as a process: learning, resumption after kill -9, locks, refusals, metrics."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import msgspec
import pytest
import torch

import tiny_models
from coevolve import jsonl
from coevolve.environments.client import Pool
from coevolve.errors import CoevolveError, Partial, UsageError
from coevolve.records import Rollout, Start
from coevolve.training import metrics
from coevolve.training.local import train
from coevolve.training.settings import LocalSettings
from conftest import COEVOLVE, run

SHOP = f"{sys.executable} {Path(__file__).parent.parent / 'grocer.py'}"
TIMES = ("seconds_rollout", "seconds_reference", "seconds_update")
FAST = ["--lr", "2e-3", "--temperature", "1", "--samples", "8", "--batch", "6"]


@pytest.fixture(scope="module")
def policy(tmp_path_factory):
    return tiny_models.shop_policy(tmp_path_factory.mktemp("models") / "shop", steps=150)


@pytest.fixture(scope="module")
def tasks(tmp_path_factory):
    path = tmp_path_factory.mktemp("tasks") / "tasks.jsonl"
    jsonl.write(path, tiny_models.shop_tasks(SHOP, 12))
    return path


@pytest.fixture(scope="module")
def finished(policy, tasks, tmp_path_factory):
    """An uninterrupted run of one iteration of ten steps: directory and stdout."""
    directory = tmp_path_factory.mktemp("runs") / "whole"
    return directory, command(tasks, directory, policy).stdout


@pytest.fixture
def pool():
    with Pool(SHOP) as pool:
        yield pool


def command(tasks, directory, policy, *more, **options):
    return run(
        "train",
        tasks,
        "--env",
        SHOP,
        "--run",
        directory,
        "--model",
        policy,
        "--steps",
        10,
        *FAST,
        *more,
        **options,
    )


def lines(directory):
    return [json.loads(line) for line in (directory / "metrics.jsonl").read_text().splitlines()]


def weights(directory):
    return (directory / "policy" / "model.safetensors").read_bytes()


def settings(policy, **changes):
    return LocalSettings(
        **{
            "model": str(policy),
            "steps": 1,
            "batch": 4,
            "samples": 4,
            "lr": 1e-3,
            "temperature": 1.0,
        }
        | changes
    )


def test_it_learns(finished, policy):
    """Ten steps raise the success rate, move the weights away from the reference, and print every
    rollout.
    """
    directory, out = finished
    reports = lines(directory)
    assert [r["step"] for r in reports] == list(range(1, 11))
    assert (
        sum(r["success_mean"] for r in reports[-3:]) / 3
        > sum(r["success_mean"] for r in reports[:3]) / 3 + 0.1
    )
    assert reports[0]["kl"] == pytest.approx(0, abs=1e-6) and reports[-1]["kl"] > 1e-3
    assert max(r["logprob_gap_max"] for r in reports) < 1e-3
    rollouts = [msgspec.json.decode(line, type=Rollout) for line in out.splitlines()]
    assert len(rollouts) == 10 * 6 * 8 and {r.iteration for r in rollouts} == {1}
    assert [r.step for r in rollouts] == [step for step in range(10) for _ in range(48)]
    assert rollouts[0].token_ids is None
    assert (directory / "iterations" / "001" / "rollouts.jsonl").read_bytes() == out
    assert weights(directory) != (policy / "model.safetensors").read_bytes()


def test_every_metric_is_documented(finished):
    """The lines hold exactly the table's metrics, and a metric that isn't in it is refused."""
    assert all(list(report) == list(metrics.METRICS) for report in lines(finished[0]))
    with pytest.raises(ValueError, match="surprise"):
        metrics.line({**lines(finished[0])[0], "surprise": 1})


def test_metrics_agree_with_the_rollouts(finished):
    """Reported means are those of the printed rollouts."""
    directory, out = finished
    rollouts = [msgspec.json.decode(line, type=Rollout) for line in out.splitlines()]
    for report in lines(directory):
        own = [r for r in rollouts if r.step == report["step"] - 1]
        assert report["success_mean"] == pytest.approx(sum(r.success for r in own) / len(own))
        assert (
            report["sampled_tokens"]
            == report["update_tokens"]
            == sum(r.usage.completion_tokens for r in own)
        )
        by_group: dict[str, set[bool]] = {}
        for r in own:
            by_group.setdefault(r.group, set()).add(r.success)
        assert report["informative_share"] == pytest.approx(
            sum(len(v) == 2 for v in by_group.values()) / len(by_group)
        )


def test_finished_iteration_only_prints(finished, tasks, policy):
    """The same call again prints the same bytes and changes nothing."""
    directory, out = finished
    before = {
        p: p.stat().st_mtime_ns
        for p in directory.rglob("*")
        if p.is_file() and p.name != "train.lock"
    }
    assert command(tasks, directory, policy, "--iteration", 1).stdout == out
    assert before == {
        p: p.stat().st_mtime_ns
        for p in directory.rglob("*")
        if p.is_file() and p.name != "train.lock"
    }


def test_killed_anywhere_gives_the_same_bytes(finished, tasks, policy, tmp_path):
    """kill -9 after a few steps, twice, then a rerun: rollouts, metrics and weights of an
    uninterrupted run.
    """
    directory, out = finished
    again = tmp_path / "killed"
    arguments = [
        "train",
        tasks,
        "--env",
        SHOP,
        "--run",
        again,
        "--model",
        policy,
        "--steps",
        10,
        *FAST,
        "--save-every",
        3,
        "--iteration",
        1,
    ]
    for steps in (2, 5):
        process = subprocess.Popen(
            [*COEVOLVE, *map(str, arguments)],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        wait_for(again / "metrics.jsonl", steps, process)
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
    assert run(*arguments).stdout == out
    assert weights(again) == weights(directory)
    assert [{k: v for k, v in r.items() if k not in TIMES} for r in lines(again)] == [
        {k: v for k, v in r.items() if k not in TIMES} for r in lines(directory)
    ]
    assert len(list((again / "checkpoints").iterdir())) == 1


def wait_for(file, count, process):
    """Until the file has that many lines."""
    while not (file.exists() and file.read_bytes().count(b"\n") >= count):
        assert process.poll() is None, "the process ended by itself"
        time.sleep(0.01)


def test_iterations_follow_one_another(policy, tasks, pool, tmp_path):
    """The second iteration goes on from the first one's weights, steps and optimiser, also with new
    tasks; a third can't come first.
    """
    known = [line.record for line in jsonl.read([str(tasks)], tiny_models.Task)]
    where = str(tmp_path / "run")
    train(known, settings(policy), where, pool)
    newer = tiny_models.shop_tasks(SHOP, 18, iteration=1)[12:]
    with pytest.raises(UsageError, match="iteration 1 is the last finished"):
        train(known, settings(policy), where, pool, iteration=3)
    second = train([*known, *newer], settings(policy), where, pool)
    assert second.parent.name == "002"
    reports = lines(tmp_path / "run")
    assert [(r["iteration"], r["step"]) for r in reports] == [(1, 1), (2, 2)]
    assert reports[1]["made_share"] >= 0.5 and reports[1]["kl"] > 0
    state = torch.load(tmp_path / "run" / "policy" / "optimizer.pt", weights_only=True)["state"]
    assert {int(s["step"]) for s in state.values()} == {2}
    with pytest.raises(UsageError, match="other tasks"):
        train(known, settings(policy), where, pool, iteration=2)


def test_lost_rollouts_are_reported(policy, pool, tmp_path):
    """A shell that truncates the kept rollouts doesn't make an empty iteration look finished."""
    kept = train(tiny_models.shop_tasks(SHOP), settings(policy), str(tmp_path / "run"), pool)
    kept.write_bytes(b"")
    with pytest.raises(UsageError, match="gone"):
        train(
            tiny_models.shop_tasks(SHOP), settings(policy), str(tmp_path / "run"), pool, iteration=1
        )


def test_other_settings_are_refused(finished, tasks, policy):
    """A run goes on with the settings it began with; the message names what differs."""
    result = command(tasks, finished[0], policy, "--lr", "1e-5", "--beta", "0.5", check=False)
    assert (
        result.returncode == 2
        and b"beta was 0.001" in result.stderr
        and b"lr was 0.002" in result.stderr
    )


def test_one_process_per_run(policy, pool, tmp_path):
    """While another process holds the run, a second is told so."""
    (tmp_path / "run").mkdir()
    with open(tmp_path / "run" / "train.lock", "wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(Partial, match="another process"):
            train(tiny_models.shop_tasks(SHOP), settings(policy), str(tmp_path / "run"), pool)


def test_environment_errors_stop_the_run(policy, tmp_path):
    """More lost rollouts than allowed fail the run before its update, and name the fault."""
    with Pool("desk") as desk:
        bad = msgspec.structs.replace(
            tiny_models.shop_tasks("desk", 1)[0], start=Start(name="no-such-state")
        )
        mixed = [bad, *desk.tasks("dev")[:3]]
        with pytest.raises(CoevolveError, match="4 of 16 rollouts"):
            train(mixed, settings(policy), str(tmp_path / "strict"), desk, max_env_errors=0.2)
        assert not (tmp_path / "strict" / "metrics.jsonl").exists()
        train(mixed, settings(policy), str(tmp_path / "lenient"), desk, max_env_errors=0.3)
    (report,) = lines(tmp_path / "lenient")
    assert report["masked_share"] == 0.25 and report["stop_reasons"]["env_error"] == 4


def test_no_informative_group_no_step(policy, pool, tmp_path):
    """With --drop-zero-variance an update without information leaves the weights; without it their
    KL still counts.
    """
    impossible = [
        msgspec.structs.replace(t, solution=[[]]) for t in tiny_models.shop_tasks(SHOP, 4)
    ]
    pay = {"query": ["put tea on my list"], "solution": [[tiny_models.Call("pay", {"amount": 1})]]}
    impossible = [msgspec.structs.replace(t, **pay) for t in impossible]
    for drop in (True, False):
        train(
            impossible, settings(policy, drop_zero_variance=drop), str(tmp_path / str(drop)), pool
        )
    (dropped,), (kept,) = lines(tmp_path / "True"), lines(tmp_path / "False")
    assert dropped["informative_share"] == kept["informative_share"] == 0
    assert (dropped["updated"], dropped["update_tokens"]) == (False, 0)
    assert (
        kept["updated"]
        and kept["update_tokens"] == kept["sampled_tokens"]
        and kept["policy_loss"] == 0
    )
    before = tiny_models.LlamaForCausalLM.from_pretrained(policy).state_dict()
    after = tiny_models.LlamaForCausalLM.from_pretrained(tmp_path / "True" / "policy").state_dict()
    assert all(torch.equal(before[name], after[name]) for name in before)


def test_usage_errors(tasks, policy, tmp_path):
    """Mistakes are named before anything is loaded."""
    base = ["train", "--env", SHOP, "--run", tmp_path / "r", "--model", policy]
    assert b"--reward takes" in run(*base, tasks, "--reward", "joy", check=False).stderr
    assert b"temperature" in run(*base, tasks, "--temperature", 0, check=False).stderr
    for option, value in (
        ("--lr", "-1"),
        ("--lr", "nan"),
        ("--beta", "inf"),
        ("--grad-clip", "0"),
        ("--clip-low", "-0.2"),
    ):
        wrong = run(*base, tasks, "--dry-run", option, value, check=False)
        assert wrong.returncode == 2 and f"{option} takes" in wrong.stderr.decode()
    empty = run(*base, check=False, stdin="")
    assert empty.returncode == 2 and b"no tasks" in empty.stderr
    plan = run(*base, tasks, "--dry-run", "--steps", 3)
    assert plan.stdout == b"" and b'"updates": 3' in plan.stderr and b'"tasks": 12' in plan.stderr
    assert b"the input is empty" in run(*base, "--dry-run").stderr
    for env, told in (
        ("desk", b"--env is 'desk', and the tasks are of"),
        ("nosuch", b"no program is called 'nosuch'"),
    ):
        for more in ([], ["--dry-run"]):
            other = run(*base, tasks, "--env", env, *more, check=False)
            assert other.returncode == 2 and told in other.stderr
    assert not (tmp_path / "r").exists()


def test_adapters_train_and_resume(policy, pool, tmp_path):
    """With LoRA only adapters are trained, the reference is the model without them, and a second
    iteration goes on.
    """
    pytest.importorskip("peft")
    known = tiny_models.shop_tasks(SHOP, 6)
    for _ in range(2):
        train(known, settings(policy, lora_rank=4, lr=1e-2, steps=2), str(tmp_path / "lora"), pool)
    reports = lines(tmp_path / "lora")
    assert [r["step"] for r in reports] == [1, 2, 3, 4]
    assert (
        reports[0]["kl"] == pytest.approx(0, abs=1e-6)
        and reports[3]["kl"] > reports[1]["kl"] > 1e-6
    )
    assert (tmp_path / "lora" / "policy" / "adapter_config.json").exists()


def test_a_wrong_model_leaves_no_settings(tasks, policy, tmp_path):
    """After a directory that is no model the right one is taken; its relative path is the same
    setting as its absolute one.
    """
    directory = tmp_path / "run"
    short = ["--env", SHOP, "--run", directory, "--steps", 1, "--samples", 2, "--batch", 1]
    wrong = run("train", tasks, *short, "--model", "/etc", check=False)
    assert wrong.returncode == 2 and b"/etc: cannot be loaded" in wrong.stderr
    assert not (directory / "config.json").exists()
    run("train", tasks, *short, "--model", policy)
    run("train", tasks, *short, "--model", f"./{policy.name}", "--iteration", 1, cwd=policy.parent)


@pytest.fixture(scope="module")
def small(policy, tasks, tmp_path_factory):
    """A run of one small iteration, with the arguments that made it."""
    directory = tmp_path_factory.mktemp("runs") / "small"
    more = ["--env", SHOP, "--model", policy, "--steps", 1, "--samples", 2, "--batch", 1]
    run("train", tasks, "--run", directory, *more)
    return directory, [tasks, *more]


@pytest.mark.parametrize("content", [b"", b"{"])
@pytest.mark.parametrize(
    "name",
    [
        "config.json",
        "metrics.jsonl",
        "policy/optimizer.pt",
        "policy/model.safetensors",
        "iterations/001/training.json",
    ],
)
def test_a_damaged_file_is_named(small, tmp_path, name, content):
    """One line with the file and what to do, for an empty file and for a torn one; no traceback, no
    `interrupted`.
    """
    directory = tmp_path / "run"
    shutil.copytree(small[0], directory, symlinks=True)
    whole = name == "metrics.jsonl"
    (directory / name).write_bytes(
        (directory / name).read_bytes() + content + b"\n" if whole else content
    )
    iteration = 1 if "training" in name else 2
    result = run("train", *small[1], "--run", directory, "--iteration", iteration, check=False)
    if whole and not content:
        assert result.returncode == 0
        return
    assert result.returncode == 3 and result.stderr.count(b"\n") == 1, result.stderr
    folder = name.removeprefix("policy/")
    where = b"step-000001" if folder.startswith("model") else folder.encode()
    assert where in result.stderr and (b"delete" in result.stderr or b"remove" in result.stderr)


def test_rollouts_name_the_policy_of_their_iteration(policy, tasks, tmp_path):
    """The second iteration's policy is not the first one's."""
    base = ["train", tasks, "--env", SHOP, "--run", tmp_path / "run", "--model", policy]
    names = [
        {
            json.loads(line)["policy"]
            for line in run(*base, "--steps", 2, "--samples", 2, "--batch", 1).stdout.splitlines()
        }
        for _ in range(2)
    ]
    assert [len(found) for found in names] == [1, 1]
    (first,), (second,) = names
    assert first.endswith("@step-0") and second.endswith("@step-2")
