"""What a finished iteration leaves for other commands: rollouts, metrics, and the policy.

Episodes are gathered from the files of all attempts and workers: of a step that was played twice,
because a process was killed, the last attempt's records count and no others. RUN/policy is a link
into the newest checkpoint, a Hugging Face directory.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import msgspec

from coevolve import jsonl
from coevolve.records import Task
from coevolve.training import batches
from coevolve.training.state import DamagedRun, RunState
from coevolve.training.verl import measures
from coevolve.training.verl.files import Ready, VerlFiles
from coevolve.training.verl.settings import VerlSettings

HUGGING_FACE = Path("actor") / "huggingface"
"""Where in a checkpoint verl puts the model with `hf_model` among its `save_contents`."""


class _Head(msgspec.Struct):
    """What places a rollout."""

    task_id: str
    step: int
    sample: int


def gather(
    files: VerlFiles, settings: VerlSettings, tasks: list[Task], ready: Ready, target: Path
) -> None:
    """Writes the rollouts, by step, place of the task in its batch, and sample; whole or not."""
    order: dict[int, dict[str, int]] = {}
    attempts: dict[int, int] = {}
    found = []
    for file in sorted(files.episodes(ready.iteration).glob("*.jsonl")):
        attempt = int(file.name.split("-")[0])
        for offset, raw in _lines(file):
            head = _decode(file, raw)
            if head.step not in order:
                planned = batches.plan(tasks, settings, head.step)
                order[head.step] = {task.id: n for n, task in reversed([*enumerate(planned)])}
            place = order[head.step].get(head.task_id, len(tasks))
            key = (head.step, place, head.task_id, head.sample)
            found.append((key, attempt, file, offset, len(raw)))
            attempts[head.step] = max(attempt, attempts.get(head.step, 0))
    kept = sorted(each for each in found if each[1] == attempts[each[0][0]])
    expected = settings.steps * settings.batch * settings.samples
    if len(kept) < expected:
        jsonl.warn(f"iteration {ready.iteration}: {len(kept)} of {expected} rollouts are on disk")
    with jsonl.atomic(target) as out:
        for *_, file, offset, size in kept:
            with open(file, "rb") as stream:
                stream.seek(offset)
                out.write(stream.read(size))


def _lines(file: Path) -> Iterator[tuple[int, bytes]]:
    """Whole lines with their offsets: a killed worker may leave a torn one at the end."""
    offset = 0
    with open(file, "rb", buffering=jsonl.BUFFER) as stream:
        for raw in stream:
            if raw.endswith(b"\n"):
                yield offset, raw
            offset += len(raw)


def _decode(file: Path, raw: bytes) -> _Head:
    try:
        return msgspec.json.decode(raw, type=_Head)
    except (msgspec.MsgspecError, ValueError) as error:
        raise DamagedRun(file, error, "remove that line; its rollout is lost") from None


def metrics(files: VerlFiles, ready: Ready, target: Path) -> None:
    """Writes RUN/metrics.jsonl: the last line of each step up to the iteration's end."""
    known = sorted(measures.lines(files.metrics).items())
    kept = [line for step, line in known if step <= ready.step]
    jsonl.write(target, [{k: v for k, v in line.items() if k != "verl"} for line in kept])


def policy(state: RunState, files: VerlFiles, ready: Ready, keep: int) -> None:
    """Points RUN/policy at the checkpoint; removes older ones that a restarted verl forgot."""
    model = state.path / ready.checkpoint / HUGGING_FACE
    if any(model.glob("*.safetensors")):
        state.point(model)
    else:
        why = "RUN/policy stays as it is (is hf_model among the save_contents?)"
        jsonl.warn(f"{model}: holds no weights, {why}")
    done = [path for path in files.checkpoints.glob("global_step_*") if _step(path) <= ready.step]
    for old in sorted(done, key=_step)[: -max(1, keep)]:
        shutil.rmtree(old, ignore_errors=True)


def _step(checkpoint: Path) -> int:
    text = checkpoint.name.removeprefix("global_step_")
    return int(text) if text.isdecimal() else 0
