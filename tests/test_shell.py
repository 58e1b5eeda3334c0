"""The loop in miniature: shell/train_loop.sh with a tiny policy, killed and started again, and its
refusals."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytest.importorskip("torch")
import tiny_models
from verl_cpu import PRESET as CPU

LOOP = Path(__file__).parent.parent / "shell" / "train_loop.sh"
SMALL = ["--iterations", "2", "--initial", "10"]
STAGES = ("train.steps=1", "train.batch=3", "train.samples=2", "train.episode-tokens=120")
STAGES += ("explore.episodes=6", "explore.max-actions=40")


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> Path:
    """A random tiny policy."""
    folder = tmp_path_factory.mktemp("model")
    words = tiny_models.tokenizer()
    tiny_models.llama(len(words), context=256).save_pretrained(folder)
    words.save_pretrained(folder)
    return folder


def arguments(run: Path, model: Path, *more: str) -> list[str]:
    assigned = [word for text in STAGES for word in ("--set", text)]
    return ["bash", str(LOOP), str(run), "--model", str(model), *SMALL, *assigned, *more]


@pytest.fixture(scope="module")
def env(command_path: str) -> dict[str, str]:
    return {**os.environ, "PATH": command_path, "OMP_NUM_THREADS": "1"}


@pytest.fixture(scope="module")
def whole(tmp_path_factory, model, env) -> tuple[Path, str]:
    """A run that nothing disturbed, and the report it printed."""
    run = tmp_path_factory.mktemp("whole") / "a run"
    result = subprocess.run(arguments(run, model), env=env, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    return run, result.stdout


def outputs(run: Path) -> dict[str, bytes]:
    """The records of a run by file, without training's own files."""
    return {
        str(path.relative_to(run)): path.read_bytes()
        for path in sorted(run.glob("**/*.jsonl"))
        if path.name != "metrics.jsonl"
    }


def test_every_stage_leaves_its_file(whole):
    """Two iterations: rollouts and signals in both, new tasks after the first, a table at the
    end."""
    run, report = whole
    found = outputs(run)
    stages = (
        "tasks",
        "rollouts",
        "signals",
        "explorations",
        "candidates",
        "verdicts",
        "valid",
        "merged",
    )
    assert all(found[f"iterations/001/{name}.jsonl"] for name in stages)
    assert (
        found["iterations/002/tasks.jsonl"]
        == found["iterations/001/merged.jsonl"]
        != found["tasks.jsonl"]
    )
    assert len(found["iterations/002/rollouts.jsonl"].splitlines()) == 3 * 2
    assert not list(run.glob("**/*.journal")) and not list(run.glob("**/*.tmp"))
    assert [line.split()[0] for line in report.splitlines()] == ["iteration", "1", "2"]


def lend(whole: Path, run: Path, *iterations: str) -> None:
    """Puts iterations' rollouts where a run finds them, so that it does not train again what
    `whole` trained."""
    for name in iterations:
        (run / "iterations" / name).mkdir(parents=True)
        shutil.copy(whole / "iterations" / name / "rollouts.jsonl", run / "iterations" / name)


def test_killed_in_each_part_it_ends_the_same(whole, tmp_path, model, env):
    """kill -9 of everything while it explores, trains and makes new tasks: the same bytes as the
    undisturbed run."""
    run = tmp_path / "a run"
    lend(whole[0], run, "002")
    for begun in ("initial/*.journal", "config.json", "iterations/001/candidates.jsonl", None):
        process = subprocess.Popen(
            arguments(run, model),
            env=env,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        while begun and not list(run.glob(begun)):
            assert process.poll() is None, process.communicate()[1]
            time.sleep(0.02)
        if begun:
            os.killpg(process.pid, signal.SIGKILL)
        _, error = process.communicate()
    assert process.returncode == 0, error
    assert outputs(run) == outputs(whole[0])


@pytest.mark.slow
def test_killed_again_and_again_it_ends_the_same(whole, tmp_path, model, env):
    """kill -9 of everything after ever longer times, until it gets through: the same bytes as the
    undisturbed run."""
    run, kills = tmp_path / "a run", 0
    for seconds in (1, 2, 4, 6, 9, 12, 15, None):
        process = subprocess.Popen(
            arguments(run, model),
            env=env,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        try:
            _, error = process.communicate(timeout=seconds)
            assert process.returncode == 0, error
            break
        except subprocess.TimeoutExpired:
            kills += 1
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
    assert kills >= 2
    assert outputs(run) == outputs(whole[0])


def test_ablations(whole, tmp_path, model, env):
    """New tasks without a verdict enter the set, signals left out do not occur, held-out tasks stay
    out."""
    run, (first, _) = tmp_path / "run", whole
    lend(first, run, "001", "002")
    (held_out := tmp_path / "held_out.jsonl").write_bytes((first / "tasks.jsonl").read_bytes())
    ablation = (
        "--validation",
        "off",
        "--without",
        "unexplored,boundary",
        "--tasks",
        str(held_out),
        "--exclude",
        str(held_out),
    )
    result = subprocess.run(
        arguments(run, model, *ablation), env=env, capture_output=True, text=True
    )
    assert result.returncode == 0, result.stderr
    found, before = outputs(run), outputs(first)
    assert not {"iterations/001/valid.jsonl", "iterations/001/verdicts.jsonl"} & set(found)
    assert b'"kind":"unexplored"' in before["iterations/001/signals.jsonl"]
    assert b'"kind":"unexplored"' not in found["iterations/001/signals.jsonl"]
    old, new = (found[f"iterations/00{i}/tasks.jsonl"].splitlines() for i in (1, 2))
    assert new[: len(old)] == old == found["tasks.jsonl"].splitlines()
    assert len(new) > len(old) and not any(b'"validity":{' in line for line in new[len(old) :])


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["--set", "train.steps=2"], "begun with other settings: train.steps"),
        (["--set", "train.steps"], "--set takes TABLE.KEY=VALUE"),
        (["--set", "trian.steps=2"], "no table 'trian'. Did you mean 'train'?"),
        (["--set", "loop.initail=2"], "unknown key 'initail' in [loop]. Did you mean 'initial'?"),
        (["--initial", "abc"], "--initial takes a whole number"),
        (["--initial", "0"], "--initial takes a whole number of at least 1"),
        (["--seed", "x"], "--seed takes a whole number"),
        (["--tasks", "/nowhere.jsonl"], "no such file"),
        (["--arm", "nothing"], "--arm takes guided, coverage"),
        (["--model", "/nowhere"], "no model /nowhere"),
        (["--config", "/nowhere.toml"], "/nowhere.toml: No such file"),
        (["--set", "train.backend=tpu"], "backend"),
        (["--set", "train.backend=verl"], "train.backend verl needs train.preset"),
        (["--set", "train.preset=qwen3-4b"], "begun with other settings: train.preset"),
        (["--without", "rare", "--arm", "coverage"], "--without needs --arm guided"),
        (["--solver"], "--solver needs an explorer with a model"),
        (["--explorer", "server"], "--explorer server needs --explorer-model"),
        (["--explorer", "api", "--explorer-model", "m"], "--explorer api needs --base-url"),
        (["--explorer-model", "m"], "--explorer-model needs --explorer server or api"),
        (["--base-url", "http://127.0.0.1:9/v1"], "--base-url needs --explorer api"),
        (["--without", "rare"], "begun with other settings"),
        (["--validation", "off"], "begun with other settings"),
    ],
)
def test_it_refuses_what_it_cannot_do(whole, model, env, more: list[str], said: str):
    """A clear line and exit 2, and the run stays as it was."""
    before = outputs(whole[0])
    result = subprocess.run(
        arguments(whole[0], model, *more), env=env, capture_output=True, text=True
    )
    assert result.returncode == 2 and said in result.stderr
    assert outputs(whole[0]) == before


@pytest.mark.parametrize(
    ("more", "code", "said"),
    [
        (["--set", "train.samples=1"], 2, "samples in [train] takes a whole number of at least 2"),
        (["--set", "train.stps=2"], 2, "unknown key 'stps' in [train]. Did you mean 'steps'?"),
        (["--", "trainer.nnodes=2"], 2, "they need --backend verl"),
        (["--set", "train.preset=qwen3-4b"], 2, "--backend verl"),
        (["--model", "no/model"], 2, "no model no/model"),
        (["--without", "boundry"], 2, "--without: no kind 'boundry'. Did you mean 'boundary'?"),
        (["--config", "[abstract]\nwriters = 3"], 2, "unknown key 'writers'"),
        (["--env", "dsk"], 2, "Did you mean 'desk'?"),
        (["--env", "python nowhere.py"], 69, "nowhere.py"),
        (["--set", "train.steps=two"], 2, "coevolve: steps in [train] takes a whole number"),
        (["--explorer", "server", "--explorer-model", "m"], 69, "the server of m ended"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_arguments_that_a_stage_refuses_leave_no_run(
    tmp_path, model, env, more: list[str], code: int, said: str
):
    """They are refused before D_0 is made, and RUN takes others."""
    if more[0] == "--config":
        (config := tmp_path / "config.toml").write_text(more[1])
        more = ["--config", str(config)]
    (tools := tmp_path / "bin").mkdir()
    (tools / "vllm").symlink_to(shutil.which("false"))
    env = {
        **env,
        "PATH": f"{tools}:{env['PATH']}",
        "HF_HOME": str(tmp_path / "cache"),
        "HF_HUB_OFFLINE": "1",
    }
    run = tmp_path / "a run"
    result = subprocess.run(arguments(run, model, *more), env=env, capture_output=True, text=True)
    assert result.returncode == code and said in result.stderr
    assert not (run / "loop.toml").exists() and not list(run.glob("**/*.jsonl"))


@pytest.mark.verl
@pytest.mark.parametrize(
    ("preset", "train", "said"),
    [
        ("qwen3", "", "no preset 'qwen3'"),
        pytest.param(CPU, "-- trainer.nosuch=1", "trainer.nosuch", marks=pytest.mark.slow),
    ],
)
def test_arguments_that_verl_refuses_leave_no_run(
    tmp_path, model, env, preset: str, train: str, said: str
):
    """The preset and each override are verl's own to check, and are checked before D_0 is made."""
    run = tmp_path / "a run"
    flags = ["--set", "train.backend=verl", "--set", f"train.preset={preset}", *train.split()]
    result = subprocess.run(arguments(run, model, *flags), env=env, capture_output=True, text=True)
    assert result.returncode == 2 and said in result.stderr, result.stderr
    assert not run.exists()


@pytest.mark.parametrize(("stop", "told"), [("exit 0", False), ("exit 1", True)])
def test_a_trainer_that_was_not_stopped_is_told(tmp_path, model, env, stop: str, told: bool):
    """And one that was stopped is not, whatever ended the loop."""
    (tools := tmp_path / "bin").mkdir()
    (tools / "coevolve").write_text(
        "#!/usr/bin/env bash\n"
        f'[ "$1" != loop ] || exec {sys.executable} -m coevolve_cli.main "$@"\n'
        f'[[ "$*" != *--stop ]] || {stop}\nexit 1\n'
    )
    (tools / "coevolve").chmod(0o755)
    flags = ["--set", "train.backend=verl", "--set", f"train.preset={CPU}"]
    result = subprocess.run(
        arguments(tmp_path / "run", model, *flags), env={**env, "PATH": f"{tools}:{env['PATH']}"},
        capture_output=True, text=True,
    )  # fmt: skip
    assert result.returncode == 1
    assert ("was not stopped" in result.stderr) == told
