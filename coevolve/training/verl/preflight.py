"""What a verl run would be, without starting it: its configuration composed and checked by verl,
its work, what may not fit.

`plan` raises UsageError for what cannot work anywhere: an override that verl does not know, a batch
that the GPUs cannot share. What does not fit this machine (disk space, processors, GPUs, vLLM) is
told in `notes`. `refuse_at_once` and `refuse` are called before a trainer starts, and raise for all
of that but disk space, which is only an estimate.
"""

from __future__ import annotations

import difflib
import importlib.util
import math
import os
import shutil
import struct
import subprocess
from pathlib import Path
from typing import Any

import msgspec

from coevolve.errors import Unreachable, UsageError
from coevolve.training.verl import limits, overrides
from coevolve.training.verl.compose import resolved
from coevolve.training.verl.driver import VerlRun, make_job
from coevolve.training.verl.files import VerlFiles, VerlJob
from coevolve.training.verl.settings import VerlSettings

CHECKPOINT_BYTES = 16
"""Bytes of a parameter: float32 weights, two moments of Adam, the Hugging Face copy."""
CPUS_OF_A_GPU = 3  # Ray's slots in verl's bundle for a GPU


def plan(settings: VerlSettings, options: VerlRun, run: str, env: str) -> dict[str, Any]:
    """Settings, work, notes, verl's whole configuration. Takes ten seconds: verl is imported."""
    job = make_job(settings, options, VerlFiles(run), env)
    _check_engine(job)
    config = composed(job)
    gpus = limits.check(settings, config)
    decided = overrides.recorded(settings, options.preset, options.overrides)
    rollouts = settings.steps * settings.batch * settings.samples
    size = (_parameters(Path(settings.model)) or options.preset.parameters or 0) * CHECKPOINT_BYTES
    disk = _disk(Path(run), size, options.keep_checkpoints)
    return {
        "command": "train",
        "settings": msgspec.to_builtins(decided),
        "work": {
            "rollouts": rollouts,
            "updates": settings.steps,
            "tokens_at_most": rollouts * settings.episode_tokens,
            "gpus": gpus if job.device == "cuda" else 0,
            "checkpoint_gb": round(size / 1e9, 1) or None,
        },
        "notes": [*disk, *_lacking(job), *_machine(config, job.device)],
        "overrides": job.overrides,
        "configuration": config,
    }


def refuse_at_once(job: VerlJob) -> None:
    """Raises UsageError for an unknown engine, Unreachable for what is not there at all."""
    _check_engine(job)
    _raise(_lacking(job))


def refuse(job: VerlJob) -> None:
    """Raises UsageError for a configuration that cannot work, Unreachable for a machine that has
    too little for it.

    Takes ten seconds and more: verl composes and checks the configuration.
    """
    config = composed(job)
    limits.check(job.settings, config)
    _raise(_machine(config, job.device))


def _raise(notes: list[str]) -> None:
    if notes:
        why = "; ".join(notes)
        raise Unreachable(
            f"this machine cannot carry the run out: {why} (--dry-run shows the whole plan)"
        )


def composed(job: VerlJob) -> dict[str, Any]:
    """verl's whole configuration of a job. Raises UsageError."""
    given = [*job.overrides, *overrides.fixed_overrides(job)]
    return resolved(given, overrides.environment(job))


def _check_engine(job: VerlJob) -> None:
    name, known = overrides.engine(job.overrides), overrides.known_engines(job)
    if name not in known:
        near = difflib.get_close_matches(name, known, 1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise UsageError(f"{overrides.ROLLOUT}.name takes {', '.join(known)}, not {name!r}{hint}")


def _lacking(job: VerlJob) -> list[str]:
    """What the job needs and this machine has none of; a Ray cluster has its own."""
    if os.environ.get("RAY_ADDRESS"):
        return []
    notes = []
    engine = overrides.engine(job.overrides)
    module = overrides.ENGINES.get(engine)  # a plugin's engine is there, or its import says so
    if module and importlib.util.find_spec(module) is None:
        notes.append(f"{engine} is not installed" + " (coevolve doctor vllm)" * (engine == "vllm"))
    if job.device == "cuda" and not _gpus():
        notes.append("no GPU is seen here (coevolve doctor gpu)")
    return notes


def _parameters(model: Path) -> int | None:
    """Numbers in a model directory's weights, from the heads of its files."""
    total = 0
    for file in model.glob("*.safetensors"):
        with open(file, "rb") as stream:
            (length,) = struct.unpack("<Q", stream.read(8))
            head = msgspec.json.decode(stream.read(length), type=dict[str, Any])
        total += sum(math.prod(t["shape"]) for name, t in head.items() if name != "__metadata__")
    return total or None


def _disk(run: Path, size: float, keep: int) -> list[str]:
    where = next(p for p in (run.absolute(), *run.absolute().parents) if p.exists())
    free, needed = shutil.disk_usage(where).free / 1e9, size * (keep + 1) / 1e9
    take = f"{keep + 1} checkpoints take {needed:.0f} GB (--keep-checkpoints)"
    return [f"{where} has {free:.0f} GB free, and {take}"] if needed >= free else []


def _machine(config: dict[str, Any], device: str) -> list[str]:
    """What this machine has too little of; a Ray cluster that is joined has its own."""
    if os.environ.get("RAY_ADDRESS"):
        return []
    notes, trainer = [], config["trainer"]
    gpus, nodes = trainer["n_gpus_per_node"], trainer["nnodes"]
    needed = CPUS_OF_A_GPU * gpus + limits.value(config, limits.UNITS) + 2
    slots = limits.value(config, limits.SLOTS) or os.cpu_count()
    if slots < needed:
        notes.append(
            f"Ray has {slots} CPU slots here and this takes {needed} a node: it would wait forever "
            f"({limits.SLOTS})"
        )
    if device == "cuda":
        seen = _gpus()
        if 0 < seen < gpus:
            notes.append(f"{seen} GPUs are seen here, and the configuration asks for {gpus}")
        if nodes > 1:
            notes.append(
                f"{nodes} nodes: RAY_ADDRESS is not set, Ray would start on this one alone"
            )
    return notes


def _gpus() -> int:
    try:
        listed = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, timeout=30)
    except (OSError, subprocess.TimeoutExpired):
        return 0
    return sum(line.startswith("GPU ") for line in listed.stdout.splitlines())
