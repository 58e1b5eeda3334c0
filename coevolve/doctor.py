"""Finds what is installed where, and what each command lacks: the facts behind `coevolve doctor`.

Nothing heavy is imported: versions come from the packages' metadata, GPUs from nvidia-smi, the
build of torch from its version file, environments from their markers. Which command needs what
stands in doctor.toml.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import msgspec

from coevolve.environments import install
from coevolve.runs import home


class Extra(msgspec.Struct, frozen=True):
    """A group of packages of this interpreter, and how to get it."""

    packages: list[str]  # Requirements: `name`, `name>=1.2` or `name>=1.2,<3`
    install: str


class Needs(msgspec.Struct, frozen=True):
    """The tables of doctor.toml."""

    extras: dict[str, Extra]
    uses: dict[str, list[str]]  # Commands, or ways to use them, and the parts they need


NEEDS = msgspec.convert(
    tomllib.loads(Path(__file__).with_name("doctor.toml").read_text("utf-8")), Needs
)
VERL_INSTALL = NEEDS.extras["verl"].install


class Part(msgspec.Struct, frozen=True, kw_only=True):
    """Something that is there or not."""

    part: str
    ok: bool
    where: str  # The interpreter or the directory that holds it
    found: dict[str, str] = {}  # Versions by package, or what else there is to know
    missing: list[str] = []
    install: str | None = None
    """How to get it; None where it is there, or not to be had by a command."""


class Use(msgspec.Struct, frozen=True, kw_only=True):
    """A command, or one way to use it, and what it lacks."""

    command: str
    ok: bool
    missing: list[str] = []
    install: list[str] = []


def parts() -> list[Part]:
    """All parts, in the order of the tables."""
    extras = [_extra(name, extra) for name, extra in NEEDS.extras.items()]
    return [*extras, _gpu(), *map(_environment, install.RECIPES), _home()]


def uses(found: list[Part]) -> list[Use]:
    """Every command with the parts that it lacks."""
    by_name = {part.part: part for part in found}
    answers = []
    for command, needs in NEEDS.uses.items():
        lacking = [by_name[name] for name in needs if not by_name[name].ok]
        missing = [part.part for part in lacking]
        lines = [part.install for part in lacking if part.install]
        answers.append(Use(command=command, ok=not lacking, missing=missing, install=lines))
    return answers


def _part(
    name: str, where: str, found: dict[str, str], missing: list[str], install: str | None = None
) -> Part:
    """A part that is there if nothing is missing; `install` is how to get it."""
    line = install if missing else None
    ok = not missing
    return Part(part=name, ok=ok, where=where, found=found, missing=missing, install=line)


def _extra(name: str, extra: Extra) -> Part:
    found, missing = {}, []
    for requirement in extra.packages:
        package = re.match(r"[\w-]+", requirement)[0]
        try:
            found[package] = version = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            missing.append(package)
            continue
        if not fits(version, requirement):
            bounds = requirement.removeprefix(package)
            missing.append(f"{package} {bounds} (there is {version})")
    return _part(name, sys.executable, found, missing, extra.install)


def fits(version: str, requirement: str) -> bool:
    """Whether a version is in the range of a requirement, whose upper end is not included."""
    number = _numbers(version)
    low, high = (re.search(rf"{sign}([\d.]+)", requirement) for sign in (">=", "<"))
    return not (low and number < _numbers(low[1])) and not (high and number >= _numbers(high[1]))


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.match(r"[\d.]*", version)[0].split(".") if part)


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
    return _part("gpu", shutil.which("nvidia-smi") or "", found, missing)


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
    if install.installed(name):
        python = install.directory(recipe) / "bin" / "python"
        return _part(name, str(python), {"version": recipe.version}, [])
    missing = [f"the environment {name} {recipe.version}"]
    return _part(name, "", {}, missing, f"coevolve env install {name}")


def _home() -> Part:
    """Where environments and journals are kept, and how much room is left."""
    where = home()
    existing = next(path for path in (where, *where.parents) if path.exists())
    free = f"{shutil.disk_usage(existing).free / 1e9:.0f} GB"
    missing = [] if os.access(existing, os.W_OK) else [f"permission to write {existing}"]
    return _part("home", str(where), {"free": free}, missing)
