"""What a finished iteration leaves for the rest of the toolkit: rollouts, metrics, and the policy as a Hugging Face directory.

Episodes are gathered from the files of all attempts and workers: of a step that was played twice, because a process was
killed, the last attempt's records count and no others. RUN/policy is a link into the newest checkpoint.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from coevolve import jsonl
from coevolve.records import Task
from coevolve.training import batches
from coevolve.training.state import DamagedRun, RunState
from coevolve.training.verl.files import Ready, VerlFiles
from coevolve.training.verl.settings import VerlSettings

HUGGING_FACE = Path("actor") / "huggingface"
"""Where in a checkpoint verl puts the model with `hf_model` among its `save_contents`."""


class _Head(msgspec.Struct):
    """What places a rollout."""

    task_id: str
    step: int
    sample: int


class _Found(NamedTuple):
    key: tuple[int, int, str, int]
    file: Path
    offset: int
    size: int


def gather(
    files: VerlFiles, settings: VerlSettings, tasks: list[Task], ready: Ready, target: Path
) -> None:
    """Writes the iteration's rollouts, by step, then in the order of the step's tasks, then by sample; whole or not at all."""
    attempts: dict[int, int] = {}
    found: list[tuple[int, _Found]] = []
    order: dict[int, dict[str, int]] = {}
    for file in sorted(files.episodes(ready.iteration).glob("*.jsonl")):
        attempt = int(file.name.split("-")[0])
        for offset, raw in _lines(file):
            head = _decode(file, raw)
            places = order.setdefault(head.step, _places(settings, tasks, head.step))
            key = (head.step, places.get(head.task_id, len(places)), head.task_id, head.sample)
            found.append((attempt, _Found(key, file, offset, len(raw))))
            attempts[head.step] = max(attempt, attempts.get(head.step, 0))
    kept = sorted(f for attempt, f in found if attempt == attempts[f.key[0]])
    expected = settings.steps * settings.batch * settings.samples
    if len(kept) < expected:
        jsonl.warn(f"iteration {ready.iteration}: {len(kept)} of {expected} rollouts are on disk")
    with jsonl.atomic(target) as out:
        for item in kept:
            with open(item.file, "rb") as stream:
                stream.seek(item.offset)
                out.write(stream.read(item.size))


def _places(settings: VerlSettings, tasks: list[Task], step: int) -> dict[str, int]:
    """Position in the batch by task id."""
    plan = batches.plan(
        tasks,
        seed=settings.seed,
        step=step,
        size=settings.batch,
        newest_share=settings.newest_share,
    )
    return {task.id: place for place, task in reversed(list(enumerate(plan.tasks)))}


def _lines(file: Path) -> list[tuple[int, bytes]]:
    """Whole lines with their offsets: a killed worker may leave a torn one at the end."""
    lines, offset = [], 0
    with open(file, "rb", buffering=jsonl.BUFFER) as stream:
        for raw in stream:
            if raw.endswith(b"\n"):
                lines.append((offset, raw))
            offset += len(raw)
    return lines


def _decode(file: Path, raw: bytes) -> _Head:
    try:
        return msgspec.json.decode(raw, type=_Head)
    except (msgspec.MsgspecError, ValueError) as error:
        raise DamagedRun(file, error, "remove that line; its rollout is lost") from None


def metrics(files: VerlFiles, ready: Ready, target: Path) -> None:
    """Writes RUN/metrics.jsonl: a line for each step up to the iteration's end, the last attempt's. verl's own scalars stay
    in RUN/verl/metrics.jsonl."""
    last: dict[int, dict[str, Any]] = {}
    for line in (files.metrics.read_bytes() if files.metrics.exists() else b"").split(b"\n")[:-1]:
        try:
            values = msgspec.json.decode(line, type=dict[str, Any])
        except msgspec.MsgspecError:
            continue  # what a killed child left of a line
        values.pop("verl", None)
        last[values["step"]] = values
    jsonl.write(target, [last[step] for step in sorted(last) if step <= ready.step])


def policy(state: RunState, files: VerlFiles, ready: Ready, keep: int) -> None:
    """Points RUN/policy at the iteration's checkpoint and removes checkpoints that verl lost track of when it was restarted."""
    model = state.path / ready.checkpoint / HUGGING_FACE
    if any(model.glob("*.safetensors")):
        state.point(model)
    else:
        jsonl.warn(
            f"{model}: holds no weights, RUN/policy stays as it is (is hf_model among the save_contents?)"
        )
    done = [path for path in files.checkpoints.glob("global_step_*") if _step(path) <= ready.step]
    for old in sorted(done, key=_step)[: -max(1, keep)]:
        shutil.rmtree(old, ignore_errors=True)


def _step(checkpoint: Path) -> int:
    text = checkpoint.name.removeprefix("global_step_")
    return int(text) if text.isdecimal() else 0
