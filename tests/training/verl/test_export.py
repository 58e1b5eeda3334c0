"""What is gathered from the files of several attempts and workers, checked against a list made by
hand.
"""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest

import tiny_models
from coevolve import jsonl
from coevolve.errors import BadInput
from coevolve.records import Rollout
from coevolve.training import batches
from coevolve.training.state import RunState
from coevolve.training.verl import export
from coevolve.training.verl.files import Ready, VerlFiles
from coevolve.training.verl.settings import VerlSettings

TASKS = tiny_models.shop_tasks("desk", 4)
SETTINGS = VerlSettings(model="m", steps=2, batch=2, samples=2, prompt_tokens=1, episode_tokens=2)


def ready(step: int = 2) -> Ready:
    return Ready(
        iteration=1,
        step=step,
        weights=step,
        addresses=[],
        model="m",
        checkpoint=f"verl/checkpoints/global_step_{step}",
    )


def record(step: int, task: int, sample: int, policy: str) -> bytes:
    """The rollout of the batch's task number `task`."""
    plan = batches.plan(TASKS, SETTINGS, step)
    return jsonl.encode(
        Rollout(
            id="i",
            task_id=plan[task].id,
            env="desk",
            group="g",
            sample=sample,
            step=step,
            policy=policy,
        )
    )


@pytest.fixture
def files(tmp_path) -> VerlFiles:
    files = VerlFiles(tmp_path / "run")
    files.episodes(1).mkdir(parents=True)
    return files


def put(files: VerlFiles, name: str, *lines: bytes) -> None:
    (files.episodes(1) / name).write_bytes(b"".join(lines))


def test_attempts_and_workers(files, tmp_path):
    """Step 0 is whole in the first attempt; step 1 was cut off there and played again by two
    workers of the second.
    """
    put(
        files,
        "0001-a-5.jsonl",
        record(0, 1, 1, "1a"),
        record(0, 0, 0, "1a"),
        record(1, 0, 0, "1a"),
        record(1, 0, 1, "1a")[:40],
    )
    put(
        files, "0001-b-5.jsonl", record(0, 0, 1, "1b"), record(0, 1, 0, "1b"), record(1, 1, 1, "1b")
    )
    put(files, "0002-a-9.jsonl", record(1, 1, 0, "2a"), record(1, 0, 1, "2a"))
    put(files, "0002-b-7.jsonl", record(1, 0, 0, "2b"), record(1, 1, 1, "2b"))
    export.gather(files, SETTINGS, TASKS, ready(), tmp_path / "out.jsonl")
    made = [line.record for line in jsonl.read([str(tmp_path / "out.jsonl")], Rollout)]
    expected = [(0, 0, 0, "1a"), (0, 0, 1, "1b"), (0, 1, 0, "1b"), (0, 1, 1, "1a")]
    expected += [(1, 0, 0, "2b"), (1, 0, 1, "2a"), (1, 1, 0, "2a"), (1, 1, 1, "2b")]
    assert b"".join(map(jsonl.encode, made)) == b"".join(record(*key) for key in expected)


def test_a_tenth_attempt_comes_after_the_ninth(files, tmp_path):
    """Attempts are numbers, not text."""
    put(files, "9-a-1.jsonl", record(0, 0, 0, "ninth"))
    put(files, "10-a-1.jsonl", record(0, 0, 0, "tenth"))
    export.gather(files, SETTINGS, TASKS, ready(), tmp_path / "out.jsonl")
    assert json.loads((tmp_path / "out.jsonl").read_bytes())["policy"] == "tenth"


def test_too_few(files, tmp_path, capsys):
    """Records that are missing are told."""
    put(files, "0001-a-1.jsonl", record(0, 0, 0, "p"))
    export.gather(files, SETTINGS, TASKS, ready(), tmp_path / "out.jsonl")
    assert "1 of 8 rollouts are on disk" in capsys.readouterr().err


def test_damage_in_the_middle(files, tmp_path):
    """A line that is no record, and not the torn end of a file, is an error that names the file;
    nothing is written.
    """
    put(files, "0001-a-1.jsonl", b"{}\n", record(0, 0, 0, "p"))
    with pytest.raises(BadInput, match="0001-a-1.jsonl: is damaged"):
        export.gather(files, SETTINGS, TASKS, ready(), tmp_path / "out.jsonl")
    assert not (tmp_path / "out.jsonl").exists()


def test_metrics(files, tmp_path):
    """One line a step, the last one's, none beyond the checkpoint, without verl's own scalars; torn
    lines are passed over.
    """
    lines = [
        {"step": 1, "x": "old"},
        {"step": 2, "x": "old"},
        {"step": 2, "x": "new", "verl": {"a": 1}},
        {"step": 3, "x": "beyond"},
    ]
    torn = b'{"step":2,"x":"to'
    files.metrics.write_bytes(
        b"".join(
            [
                *map(jsonl.encode, lines[:2]),
                torn + jsonl.encode({"step": 9}),
                *map(jsonl.encode, lines[2:]),
            ]
        )
    )
    export.metrics(files, ready(2), tmp_path / "metrics.jsonl")
    made = [
        msgspec.json.decode(line) for line in (tmp_path / "metrics.jsonl").read_bytes().splitlines()
    ]
    assert made == [{"step": 1, "x": "old"}, {"step": 2, "x": "new"}]


def checkpoint(files: VerlFiles, step: int, weights: bool = True) -> Path:
    folder = files.checkpoints / f"global_step_{step}" / "actor" / "huggingface"
    folder.mkdir(parents=True)
    if weights:
        (folder / "model.safetensors").write_text(str(step))
    return folder


def test_policy_without_weights(files, capsys):
    """Where verl was told not to save the Hugging Face copy, RUN/policy stays at the last one that
    there is.
    """
    state = RunState(str(files.run), SETTINGS)
    checkpoint(files, 2)
    export.policy(state, files, ready(2), 2)
    checkpoint(files, 4, weights=False)
    export.policy(state, files, ready(4), 2)
    assert "holds no weights" in capsys.readouterr().err
    assert (files.run / "policy" / "model.safetensors").read_text() == "2"


def test_a_newer_checkpoint_is_nobodys_to_remove(files):
    """Only what is older than the finished iteration's is counted and removed."""
    state = RunState(str(files.run), SETTINGS)
    for step in (1, 2, 3):
        checkpoint(files, step)
    export.policy(state, files, ready(2), 1)
    assert sorted(path.name for path in files.checkpoints.iterdir()) == [
        "global_step_2",
        "global_step_3",
    ]
