"""Benchmarks in virtual environments of their own, because their pins exclude one another and ours.

`install(name)` builds ``$COEVOLVE_HOME/envs/NAME-VERSION``: the packages of its recipe in
benchmarks.toml, then what the recipe does with them. A marker file is written last, so that an
interrupted installation is noticed and built anew; a lock lets two installations wait for one
another. Raises `Unreachable` with the step that failed. `verify(name)` compares every installed
file with the digest that its wheel states.
"""

from __future__ import annotations

import base64
import contextlib
import csv
import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec

from coevolve.errors import MissingDependency, Unreachable, UsageError
from coevolve.jsonl import warn, writing
from coevolve.runs import home


class InstallRecipe(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The contents of a benchmark's environment: exact pins, installed without dependencies."""

    name: str
    version: str
    requirements: tuple[str, ...]
    finish: str = ""  # Program that the new interpreter runs after the packages are in
    caches: tuple[str, ...] = ()
    """Variables that name folders of the benchmark's own, which lie in the environment."""
    purpose: str = ""  # Its use, where it plays no episodes


def _recipes() -> dict[str, InstallRecipe]:
    tables = tomllib.loads(Path(__file__).with_name("benchmarks.toml").read_text("utf-8"))
    return {name: msgspec.convert({"name": name, **tables[name]}, InstallRecipe) for name in tables}


RECIPES = _recipes()
_MARKER = "coevolve-installed.json"


def directory(recipe: InstallRecipe) -> Path:
    return home() / "envs" / f"{recipe.name}-{recipe.version}"


def installed(name: str) -> bool:
    """Tells whether the environment is there, whole, and as its recipe says."""
    where = directory(RECIPES[name])
    try:
        marker = msgspec.json.decode((where / _MARKER).read_bytes())
    except (OSError, msgspec.DecodeError):
        return False
    return marker == _marker(RECIPES[name]) and _python(where).exists()


def python(name: str) -> Path:
    """The interpreter of an installed environment."""
    if not installed(name):
        raise MissingDependency(f"the environment {name}", f"coevolve env install {name}")
    return _python(directory(RECIPES[name]))


def caches(name: str) -> dict[str, str]:
    """The benchmark's variables for folders of its own, as its interpreter has to see them."""
    recipe = RECIPES[name]
    return {variable: str(directory(recipe) / "cache") for variable in recipe.caches}


def install(name: str, report: Callable[[str], None] = warn) -> Path:
    """Builds the environment where it is missing or broken; returns its directory."""
    if name not in RECIPES:
        raise UsageError(f"nothing to install for {name!r}; there is: {', '.join(RECIPES)}")
    recipe, where = RECIPES[name], directory(RECIPES[name])
    with locked(where, report):
        if installed(name):
            report(f"{name} {recipe.version} is installed in {where}")
            return where
        if where.exists():
            report(f"{where} is incomplete; building it anew")
            shutil.rmtree(where)
        report(f"installing {name} {recipe.version} into {where}")
        _build(recipe, where, report)
        if recipe.finish and _call([str(_python(where)), "-c", recipe.finish], caches(name)):
            failed = "its own installation failed; see above, then run the command again"
            raise Unreachable(f"{name}: {failed}")
        if problems := verify(name):
            raise Unreachable(f"{name}: the installation is damaged: {problems[0]}")
        temporary = where / f"{_MARKER}.tmp"
        temporary.write_bytes(msgspec.json.encode(_marker(recipe)))
        os.replace(temporary, where / _MARKER)
        report(f"installed {name} {recipe.version}")
    return where


def verify(name: str) -> list[str]:
    """Describes each installed file that differs from its wheel's."""
    found, records = [], {}
    pattern = "lib/python3*/site-packages/*.dist-info/RECORD"
    for record in sorted(directory(RECIPES[name]).glob(pattern)):
        project, _, version = record.parent.name.removesuffix(".dist-info").rpartition("-")
        records[_normal(project), version] = record
    for requirement in RECIPES[name].requirements:
        project, _, version = requirement.partition("==")
        record = records.get((_normal(project), version))
        found += _damaged(record) if record else [f"{requirement} is not there"]
    return found


def _normal(project: str) -> str:
    """The normal form of a project's name, which installers write in several ways."""
    return re.sub(r"[-_.]+", "_", project).lower()


def _damaged(record: Path) -> list[str]:
    """Files whose digest is not the one in a wheel's RECORD (lines of path, sha256=…, size)."""
    packages, found = record.parent.parent, []
    with open(record, newline="", encoding="utf-8") as stream:
        for path, digest, _ in csv.reader(stream):
            if not digest:
                continue
            try:
                content = hashlib.sha256((packages / path).read_bytes()).digest()
            except OSError as error:
                found.append(f"{path}: {error.strerror}")
                continue
            actual = base64.urlsafe_b64encode(content).rstrip(b"=").decode()
            if digest != f"sha256={actual}":
                found.append(f"{path} is not the file of the wheel")
    return found


def _marker(recipe: InstallRecipe) -> dict[str, object]:
    finish = {"finish": recipe.finish} if recipe.finish else {}
    return {"version": recipe.version, "requirements": list(recipe.requirements), **finish}


def _python(where: Path) -> Path:
    return where / "bin" / "python"


@contextlib.contextmanager
def locked(where: Path, report: Callable[[str], None]) -> Iterator[None]:
    """One process at a time works on `where`; the lock file lies beside it."""
    with writing(where.parent):
        where.parent.mkdir(parents=True, exist_ok=True)
        lock = open(where.parent / f".{where.name}.lock", "ab")
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            report(f"another process is installing into {where}; waiting for it")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _build(recipe: InstallRecipe, where: Path, report: Callable[[str], None]) -> None:
    """Builds with uv where it is there, else or where that fails with pip."""
    python, packages = str(_python(where)), ["--no-deps", *recipe.requirements]
    if uv := shutil.which("uv"):
        create = [uv, "venv", "--quiet", "--python", sys.executable, str(where)]
        fill = [uv, "pip", "install", "--quiet", "--python", python, *packages]
        if _call(create) == 0 and _call(fill) == 0:
            return
        # Not the last word: uv does not read pip's settings.
        report("uv could not do it; trying with pip")
        shutil.rmtree(where, ignore_errors=True)
    if _call([sys.executable, "-m", "venv", str(where)]):
        raise Unreachable(
            "python -m venv failed (on Debian and Ubuntu it is the package python3-venv); "
            "uv would do as well"
        )
    pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    if _call([*pip, *packages]):
        names = " ".join(recipe.requirements)
        raise Unreachable(f"pip could not install {names}; see above, then run the command again")


def _call(command: list[str], variables: dict[str, str] | None = None) -> int:
    """Runs a command with its output on stderr; returns its exit code."""
    env = {**os.environ, **(variables or {})}
    done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=2, check=False, env=env)
    return done.returncode
