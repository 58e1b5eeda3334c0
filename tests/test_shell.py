"""The loop in miniature: shell/train_loop.sh with a tiny policy, killed and started again, and its refusals."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import pytest

pytest.importorskip("torch")
import tiny_models

LOOP = Path(__file__).parent.parent / "shell" / "train_loop.sh"
SMALL = ["--iterations", "2", "--steps", "1", "--batch", "3", "--episodes", "6", "--initial", "10"]
TRAIN = ["--train", "--max-tokens 120 --samples 2"]


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> Path:
    """A random tiny policy."""
    folder = tmp_path_factory.mktemp("model")
    words = tiny_models.tokenizer()
    tiny_models.llama(len(words), context=256).save_pretrained(folder)
    words.save_pretrained(folder)
    return folder


def arguments(run: Path, model: Path, *more: str) -> list[str]:
    return ["bash", str(LOOP), str(run), "--model", str(model), *SMALL, *TRAIN, *more]


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
    """Two iterations: rollouts and signals in both, new tasks after the first, a table at the end."""
    run, report = whole
    found = outputs(run)
    stages = ("tasks", "rollouts", "signals", "explorations", "candidates", "verdicts", "valid", "merged")
    assert all(found[f"iterations/001/{name}.jsonl"] for name in stages)
    assert found["iterations/002/tasks.jsonl"] == found["iterations/001/merged.jsonl"] != found["tasks.jsonl"]
    assert len(found["iterations/002/rollouts.jsonl"].splitlines()) == 3 * 2
    assert not list(run.glob("**/*.journal")) and not list(run.glob("**/*.tmp"))
    assert [line.split()[0] for line in report.splitlines()] == ["iteration", "1", "2"]


def test_killed_again_and_again_it_ends_the_same(whole, tmp_path, model, env):
    """kill -9 of everything after ever longer times, until it gets through: the same bytes as the undisturbed run."""
    run, kills = tmp_path / "a run", 0
    for seconds in (1, 2, 4, 6, 9, 12, 15, None):
        process = subprocess.Popen(
            arguments(run, model), env=env, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, start_new_session=True
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


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["--steps", "2"], "begun with other arguments"),
        (["--steps", "abc"], "not a positive number"),
        (["--tasks", "/nowhere.jsonl"], "no such file"),
        (["--arm", "nothing"], "usage:"),
        (["--model", "/nowhere"], "no model in"),
    ],
)
def test_it_refuses_what_it_cannot_do(whole, model, env, more: list[str], said: str):
    """A clear line and exit 2, and the run stays as it was."""
    before = outputs(whole[0])
    result = subprocess.run(arguments(whole[0], model, *more), env=env, capture_output=True, text=True)
    assert result.returncode == 2 and said in result.stderr
    assert outputs(whole[0]) == before
