"""What a verl run would be, without starting it: its configuration composed and checked by verl, its work, what may not fit.

`plan` raises UsageError for what cannot work anywhere: an override that verl does not know, a batch that the GPUs cannot
share. What does not fit this machine (disk space, processors, GPUs, vLLM) is told in `notes`. `refuse_at_once` and `refuse`
are asked before a trainer starts, and raise for all of that but disk space, which is only an estimate.
"""

from __future__ import annotations

import difflib
import importlib.util
import os
import shutil
import struct
import subprocess
from pathlib import Path
from typing import Any

import msgspec

from coevolve.errors import Unreachable, UsageError
from coevolve.training.verl import limits, own
from coevolve.training.verl.compose import resolved
from coevolve.training.verl.driver import VerlRun, job
from coevolve.training.verl.files import Files, Job
from coevolve.training.verl.settings import VerlSettings, recorded

CHECKPOINT_BYTES = 16
"""A parameter in a checkpoint: float32 weights, two moments of Adam, the Hugging Face copy."""
CPUS_OF_A_GPU = 3
"""Ray's slots in verl's bundle for a GPU."""


def plan(settings: VerlSettings, options: VerlRun, run: str, env: str) -> dict[str, Any]:
    """VerlSettings, work, notes and verl's whole configuration. Takes ten seconds: verl is imported by a process of its own."""
    told = job(settings, options, Files(run), env)
    _check_engine(told)
    config = _composed(told)
    gpus = limits.check(settings, config)
    rollouts = settings.steps * settings.batch * settings.samples
    size = (_parameters(Path(settings.model)) or options.preset.parameters or 0) * CHECKPOINT_BYTES
    return {
        "command": "train",
        "settings": msgspec.to_builtins(recorded(settings, options.preset, options.overrides)),
        "work": {
            "rollouts": rollouts,
            "updates": settings.steps,
            "tokens_at_most": rollouts * settings.episode_tokens,
            "gpus": gpus if options.preset.device == "cuda" else 0,
            "checkpoint_gb": round(size / 1e9, 1) or None,
        },
        "notes": [
            *_disk(Path(run), size, options.keep_checkpoints),
            *_lacking(told),
            *_machine(config, options.preset.device),
        ],
        "overrides": told.overrides,
        "configuration": config,
    }


def refuse_at_once(told: Job) -> None:
    """Raises UsageError for an engine that does not exist, Unreachable for what is needed and not there at all."""
    _check_engine(told)
    _raise(_lacking(told))


def refuse(settings: VerlSettings, told: Job) -> None:
    """Raises UsageError for a configuration that cannot work, Unreachable for a machine that has too little for it.

    Takes ten seconds and more: verl composes and checks the configuration."""
    config = _composed(told)
    limits.check(settings, config)
    _raise(_machine(config, told.device))


def _raise(notes: list[str]) -> None:
    if notes:
        raise Unreachable(
            f"this machine cannot carry the run out: {'; '.join(notes)} (--dry-run shows the whole plan)"
        )


def _composed(told: Job) -> dict[str, Any]:
    return resolved([*told.overrides, *own.overrides(told)], own.environment(told))


def _check_engine(told: Job) -> None:
    name, known = own.engine(told), own.engines(told)
    if name not in known:
        near = difflib.get_close_matches(name, known, 1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        where = "" if name != own.CPU_ROLLOUT else ": it is for a preset with the device cpu"
        raise UsageError(
            f"{limits.ROLLOUT}.name takes {', '.join(known)}, not {name!r}{where}{hint}"
        )


def _lacking(told: Job) -> list[str]:
    """What the job needs and this machine has none of; a Ray cluster that is joined (RAY_ADDRESS) has its own."""
    if os.environ.get("RAY_ADDRESS"):
        return []
    notes = []
    engine = own.engine(told)
    if importlib.util.find_spec(own.ENGINES[engine]) is None:
        notes.append(f"{engine} is not installed" + " (coevolve doctor vllm)" * (engine == "vllm"))
    if told.device == "cuda" and not _gpus():
        notes.append("no GPU is seen here (coevolve doctor gpu)")
    return notes


def _parameters(model: Path) -> int | None:
    """Numbers in a model directory's weights, from the heads of its files."""
    total = 0
    for file in model.glob("*.safetensors"):
        with open(file, "rb") as stream:
            head = msgspec.json.decode(
                stream.read(struct.unpack("<Q", stream.read(8))[0]), type=dict[str, Any]
            )
        for name, tensor in head.items():
            if name != "__metadata__":
                count = 1
                for length in tensor["shape"]:
                    count *= length
                total += count
    return total or None


def _disk(run: Path, size: float, keep: int) -> list[str]:
    where = next(p for p in (run.absolute(), *run.absolute().parents) if p.exists())
    free = shutil.disk_usage(where).free
    needed = size * (keep + 1)
    if needed < free:
        return []
    return [
        f"{where} has {free / 1e9:.0f} GB free, and {keep + 1} checkpoints take {needed / 1e9:.0f} GB (--keep-checkpoints)"
    ]


def _machine(config: dict[str, Any], device: str) -> list[str]:
    """Of this machine; a Ray cluster that is joined (RAY_ADDRESS) has its own."""
    if os.environ.get("RAY_ADDRESS"):
        return []
    notes, trainer = [], config["trainer"]
    needed = CPUS_OF_A_GPU * trainer["n_gpus_per_node"] + limits.value(config, limits.UNITS) + 2
    slots = limits.value(config, limits.SLOTS) or os.cpu_count()
    if slots < needed:
        notes.append(
            f"Ray has {slots} CPU slots here and this takes {needed} a node: it would wait forever (ray_kwargs.ray_init.num_cpus)"
        )
    if device == "cuda":
        seen = _gpus()
        if 0 < seen < trainer["n_gpus_per_node"]:
            notes.append(
                f"{seen} GPUs are seen here, and the configuration asks for {trainer['n_gpus_per_node']}"
            )
        if trainer["nnodes"] > 1:
            notes.append(
                f"{trainer['nnodes']} nodes: RAY_ADDRESS is not set, so Ray would start on this one alone"
            )
    return notes


def _gpus() -> int:
    try:
        listed = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, timeout=30)
    except (OSError, subprocess.TimeoutExpired):
        return 0
    return sum(line.startswith("GPU ") for line in listed.stdout.splitlines())
