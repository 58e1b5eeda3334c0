"""What is installed where, and what each command lacks: the facts behind `coevolve doctor`.

Nothing heavy is imported: versions come from the packages' metadata, GPUs from nvidia-smi, the
build of torch from its version file, environments from their markers. A `Part` is something that
can be missing; a `Use` is a command, or one way to use it, with the parts it needs.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import msgspec

from coevolve.environments import install
from coevolve.errors import installation
from coevolve.runs import home


class Package(NamedTuple):
    """`at_least` is included, `below` is not; both are dotted numbers, empty for none."""

    name: str
    at_least: str = ""
    below: str = ""


class Extra(NamedTuple):
    """A group of packages of this interpreter, and how to get it."""

    packages: tuple[Package, ...]
    install: str


VERL_INSTALL = f"{installation('local', 'verl')} (GPUs), or with local,verl-cpu (tests, laptops)"
_VERL = Package("verl", "0.9.1", "0.9.2")
_QUEUE = Package("TransferQueue", "0.1.10", "0.2")

EXTRAS = {
    "core": Extra(
        (Package("typer", "0.16", "1"), Package("msgspec", "0.19"), Package("orjson", "3.10", "4"), Package("rich", "13.7", "16")),
        "pip install -e . in coevolve's repository",
    ),
    "local": Extra(
        (Package("torch", "2.6", "3"), Package("transformers", "5.9", "5.11"), Package("jinja2", "3.1")),
        installation("local"),
    ),
    "models": Extra(
        (Package("openai", "1.86", "4"), Package("jinja2", "3.1"), Package("json-repair", "0.30")),
        installation("models"),
    ),
    "verl": Extra(
        (_VERL, Package("ray", "2.41"), _QUEUE, Package("tensordict", "0.8"), Package("torch", "2.6", "3")),
        VERL_INSTALL,
    ),
    "vllm": Extra((Package("vllm", "0.18", "0.32"),), f"{installation('local', 'verl')} (Linux, an NVIDIA GPU)"),
    "flash-attn": Extra((Package("flash-attn", "2.8.3"),), "pip install 'flash-attn==2.8.3' --no-build-isolation"),
    "lora": Extra((Package("peft"),), "pip install peft"),
}  # fmt: skip

USES = {
    "train": ("local",),
    "train --backend verl (GPUs)": ("local", "verl", "vllm", "gpu"),
    "train --lora-rank": ("local", "lora"),
    "rollout, evaluate": ("local",),
    "rollout, evaluate --base-url": ("models",),
    "rollout, evaluate --backend vllm": ("models", "vllm"),
    "evaluate --official": ("bfcl-official",),
    "extract-signals, merge, report, schema": ("core",),
    "explore, abstract, validate": ("core",),
    "explore, abstract, validate --model": ("models",),
    "bootstrap": ("local",),
}
"""Commands, and the parts they need."""


class Part(msgspec.Struct, frozen=True, kw_only=True):
    """Something that is there or not."""

    part: str
    ok: bool
    where: str
    """The interpreter or the directory that holds it."""
    found: dict[str, str] = {}
    """Versions by package, or what else there is to know."""
    missing: list[str] = []
    install: str | None = None
    """How to get it; None where it is there, or not to be had by a command."""


class Use(msgspec.Struct, frozen=True, kw_only=True):
    """A command, or one way to use it."""

    command: str
    ok: bool
    missing: list[str] = []
    install: list[str] = []


def parts() -> list[Part]:
    """All parts, in the order of the tables."""
    environments = [_environment(name) for name in install.RECIPES]
    return [
        *(_extra(name, extra) for name, extra in EXTRAS.items()),
        _gpu(),
        *environments,
        _home(),
    ]


def uses(found: list[Part]) -> list[Use]:
    """Of each command, what it lacks."""
    by_name = {part.part: part for part in found}
    answers = []
    for command, needs in USES.items():
        lacking = [by_name[name] for name in needs if not by_name[name].ok]
        lines = [part.install for part in lacking if part.install]
        answers.append(
            Use(command=command, ok=not lacking, missing=[p.part for p in lacking], install=lines)
        )
    return answers


def _extra(name: str, extra: Extra) -> Part:
    found, missing = {}, []
    for package in extra.packages:
        version = _version(package.name)
        if version is None:
            missing.append(package.name)
            continue
        found[package.name] = version
        if not _fits(version, package):
            missing.append(f"{package.name} {_range(package)} (there is {version})")
    where = sys.executable
    return Part(
        part=name,
        ok=not missing,
        where=where,
        found=found,
        missing=missing,
        install=extra.install if missing else None,
    )


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _fits(version: str, package: Package) -> bool:
    number = _numbers(version)
    return number >= _numbers(package.at_least) and (
        not package.below or number < _numbers(package.below)
    )


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.match(r"[\d.]*", version)[0].split(".") if part)


def _range(package: Package) -> str:
    return f">={package.at_least}" + (f",<{package.below}" if package.below else "")


def _gpu() -> Part:
    """What the driver says, and whether this torch was built for it."""
    found = {"torch": build} if (build := _torch_build()) else {}
    fields = "name,memory.total,driver_version"
    try:
        command = ["nvidia-smi", f"--query-gpu={fields}", "--format=csv,noheader"]
        told = subprocess.run(command, capture_output=True, text=True, timeout=30)
        lines = told.stdout.strip().splitlines() if told.returncode == 0 else []
    except (OSError, subprocess.TimeoutExpired):
        lines = []
    found |= {f"gpu {number}": line for number, line in enumerate(lines)}
    missing = [] if lines else ["an NVIDIA GPU that nvidia-smi shows"]
    if lines and build == "cpu":
        missing.append("a torch built for CUDA (this one is for CPUs)")
    driver = int(lines[0].rpartition(",")[2].strip().split(".")[0]) if lines else 0
    if lines and (build or "").startswith("13") and driver < 580:
        missing.append(f"a driver of 580 or later for CUDA {build} (there is {driver})")
    return Part(
        part="gpu",
        ok=not missing,
        where=shutil.which("nvidia-smi") or "",
        found=found,
        missing=missing,
    )


def _torch_build() -> str | None:
    """`cpu` or the CUDA version that the installed torch was built for; None without torch."""
    spec = importlib.util.find_spec("torch")
    if not spec or not spec.origin:
        return None
    text = Path(spec.origin).with_name("version.py").read_text()
    cuda = re.search(r"^cuda\b[^=]*=\s*'([\d.]+)'", text, re.MULTILINE)
    return cuda[1] if cuda else "cpu"


def _environment(name: str) -> Part:
    recipe = install.RECIPES[name]
    where, there = install.directory(recipe), install.installed(name)
    return Part(
        part=name,
        ok=there,
        where=str(where / "bin" / "python") if there else "",
        found={"version": recipe.version} if there else {},
        missing=[] if there else [f"the environment {name} {recipe.version}"],
        install=None if there else f"coevolve env install {name}",
    )


def _home() -> Part:
    """Where environments and journals are kept, and how much room is left."""
    where = home()
    existing = next(path for path in (where, *where.parents) if path.exists())
    writable = os.access(existing, os.W_OK)
    free = f"{shutil.disk_usage(existing).free / 1e9:.0f} GB"
    missing = [] if writable else [f"permission to write {existing}"]
    return Part(part="home", ok=writable, where=str(where), found={"free": free}, missing=missing)
