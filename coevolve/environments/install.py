"""Benchmarks in virtual environments of their own, because their pins exclude one another and ours.

`install(name)` builds ``$COEVOLVE_HOME/envs/NAME-VERSION``: the packages, then what the recipe does with them. A marker file is written last, so that an interrupted installation is
noticed and built anew; a lock lets two installations wait for one another. Raises `Unreachable` with the step that failed.
`verify(name)` compares every installed file with the digest that its wheel states.
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
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import msgspec

from coevolve.errors import MissingDependency, Unreachable, UsageError, WriteFailed
from coevolve.jsonl import warn
from coevolve.runs import home


class InstallRecipe(NamedTuple):
    """What a benchmark's environment holds: exact pins, installed without their dependencies."""

    name: str
    version: str
    requirements: tuple[str, ...]
    finish: str = ""
    """Program that the new interpreter runs after the packages are in."""
    caches: tuple[str, ...] = ()
    """Variables that name folders of the benchmark's own; they lie in the environment, not in the user's home."""
    purpose: str = ""
    """What it is for, where it plays no episodes."""


_BFCL = ("bfcl-eval==2026.3.23", "mpmath==1.3.0")
_OFFICIAL = (
    "anyio==4.16.0 annotated-types==0.8.0 certifi==2025.11.12 charset-normalizer==3.5.3 filelock==4.3.1 h11==0.16.0 "
    "httpcore2==2.16.2 httpx2==2.16.2 idna==3.20 jiter==0.19.0 numpy==2.4.6 openai==3.57.0 overrides==7.7.0 "
    "pandas==3.1.1 pydantic==2.14.4 pydantic-core==2.50.5 python-dateutil==4.0.0 python-dotenv==1.2.4 "
    "requests==2.34.2 sniffio==1.3.1 tenacity==9.2.1 tqdm==4.70.1 truststore==0.10.5 typing-extensions==4.16.0 "
    "typing-inspection==0.4.5 tzdata==2026.6 urllib3==2.8.0"
)
_APPWORLD = (
    "Faker==24.14.1 PyJWT==2.15.1 PyYAML==6.0.4 Pygments==2.21.0 SQLAlchemy==1.4.54 SQLAlchemy-Utils==0.41.2 "
    "anyio==4.16.0 appworld==0.1.3.post1 asttokens==3.0.2 attrs==26.1.0 certifi==2026.10.19.post1 cffi==2.1.1 "
    "charset-normalizer==3.5.3 click==8.5.1 cryptography==39.0.2 decorator==5.3.1 dnspython==2.9.2 "
    "email-validator==2.4.0 execnet==2.1.2 executing==2.3.0 fastapi==0.110.3 fastapi-login==1.10.3 freezegun==1.5.1 "
    "greenlet==3.5.6 h11==0.16.0 httpcore==1.0.9 httpx==0.27.2 idna==3.20 inflection==0.5.1 iniconfig==2.3.1 "
    "ipython==9.10.1 ipython-pygments-lexers==1.1.1 jedi==0.20.1 jsonref==1.1.0 libcst==1.9.0 markdown-it-py==4.3.0 "
    "matplotlib-inline==0.2.2 mdurl==0.1.2 munch==4.0.0 orjson==3.13.0 outcome==1.3.0.post0 packaging==26.4 "
    "parso==0.8.7 pendulum==3.3.0 pexpect==4.9.0 pluggy==1.7.0 polyfactory==2.22.5 prompt-toolkit==3.0.53 "
    "psutil==5.9.8 ptyprocess==0.7.0 pure-eval==0.2.4 pycparser==3.12 pydantic==1.10.27 pytest==8.4.2 "
    "pytest-xdist==3.8.0 python-dateutil==4.0.0 python-dotenv==1.2.4 python-multipart==0.0.9 registrable==0.0.4 "
    "requests==2.34.2 rich==13.9.4 shellingham==1.5.4 sniffio==1.3.1 sortedcontainers==2.4.0 sqlalchemy2-stubs==0.0.2a38 "
    "sqlmodel==0.0.10 stack-data==0.6.3 starlette==0.37.2 tqdm==4.70.1 traitlets==5.16.1 trio==0.35.0 typer==0.16.1 "
    "typing-extensions==4.16.0 tzdata==2026.6 urllib3==2.8.0 uvicorn==0.27.1 uvloop==0.21.0 wcwidth==0.9.4 xxhash==3.8.2"
)
_UNPACK = "from appworld.install import install_package; install_package()"
_SCORES = "BFCL's own scores, no episodes: coevolve evaluate --official"

RECIPES = {
    "bfcl": InstallRecipe("bfcl", "2026.3.23", _BFCL),
    "bfcl-official": InstallRecipe(
        "bfcl-official", "2026.3.23", (*_BFCL, *_OFFICIAL.split()), purpose=_SCORES
    ),
    "appworld": InstallRecipe(
        "appworld", "0.1.3.post1", tuple(_APPWORLD.split()), _UNPACK, ("APPWORLD_CACHE",)
    ),
}
"""bfcl: executor and checker need no more than mpmath; the full dependencies are 6 GB and exclude vLLM and verl.
bfcl-official: what the package's handlers and its evaluation import, without the SDKs of vendors (0.3 GB).
appworld: the package's own closure (0.3 GB; pydantic 1, so never beside the toolkit); its apps come encrypted in the package and
are unpacked into the environment alone."""

_MARKER = "coevolve-installed.json"


def directory(recipe: InstallRecipe) -> Path:
    return home() / "envs" / f"{recipe.name}-{recipe.version}"


def installed(name: str) -> bool:
    """Whether the environment is there, whole, and as its recipe says."""
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


def install(name: str, say: Callable[[str], None] = warn) -> Path:
    """Builds the environment where it is missing or broken; returns its directory."""
    if name not in RECIPES:
        raise UsageError(f"nothing to install for {name!r}; there is: {', '.join(RECIPES)}")
    recipe, where = RECIPES[name], directory(RECIPES[name])
    with locked(where, say):
        if installed(name):
            say(f"{name} {recipe.version} is installed in {where}")
            return where
        if where.exists():
            say(f"{where} is incomplete; building it anew")
            shutil.rmtree(where)
        say(f"installing {name} {recipe.version} into {where}")
        _build(recipe, where, say)
        if recipe.finish and _call([str(_python(where)), "-c", recipe.finish], caches(name)):
            raise Unreachable(
                f"{name}: its own installation failed; see above, then run the command again"
            )
        if problems := _problems(recipe, where):
            raise Unreachable(f"{name}: the installation is damaged: {problems[0]}")
        temporary = where / f"{_MARKER}.tmp"
        temporary.write_bytes(msgspec.json.encode(_marker(recipe)))
        os.replace(temporary, where / _MARKER)
        say(f"installed {name} {recipe.version}")
    return where


def verify(name: str) -> list[str]:
    """What differs between the installed files and their wheels, in words; empty when nothing does."""
    return _problems(RECIPES[name], directory(RECIPES[name]))


def _marker(recipe: InstallRecipe) -> dict[str, object]:
    finish = {"finish": recipe.finish} if recipe.finish else {}
    return {"version": recipe.version, "requirements": list(recipe.requirements), **finish}


def _python(where: Path) -> Path:
    return where / "bin" / "python"


@contextlib.contextmanager
def locked(where: Path, say: Callable[[str], None]) -> Iterator[None]:
    """One process at a time works on `where`; the lock file lies beside it."""
    try:
        where.parent.mkdir(parents=True, exist_ok=True)
        lock = open(where.parent / f".{where.name}.lock", "ab")
    except OSError as error:
        raise WriteFailed(f"{where.parent}: cannot write: {error.strerror}") from error
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say(f"another process is installing into {where}; waiting for it")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _build(recipe: InstallRecipe, where: Path, say: Callable[[str], None]) -> None:
    """With uv where it is there; its failure is not the last word, as it does not read pip's settings."""
    uv = shutil.which("uv")
    if uv:
        create = [uv, "venv", "--quiet", "--python", sys.executable, str(where)]
        fill = [
            uv,
            "pip",
            "install",
            "--quiet",
            "--python",
            str(_python(where)),
            "--no-deps",
            *recipe.requirements,
        ]
        if _call(create) == 0 and _call(fill) == 0:
            return
        say("uv could not do it; trying with pip")
        shutil.rmtree(where, ignore_errors=True)
    if _call([sys.executable, "-m", "venv", str(where)]):
        raise Unreachable(
            "python -m venv failed (on Debian and Ubuntu it is the package python3-venv); uv would do as well"
        )
    pip = [
        str(_python(where)),
        "-m",
        "pip",
        "install",
        "--quiet",
        "--disable-pip-version-check",
        "--no-deps",
    ]
    if _call([*pip, *recipe.requirements]):
        raise Unreachable(
            f"pip could not install {' '.join(recipe.requirements)}; see above, then run the command again"
        )


def _call(command: list[str], variables: dict[str, str] | None = None) -> int:
    """Runs a command with its output on stderr; returns its exit code."""
    environment = {**os.environ, **(variables or {})}
    return subprocess.run(
        command, stdin=subprocess.DEVNULL, stdout=2, check=False, env=environment
    ).returncode


def _problems(recipe: InstallRecipe, where: Path) -> list[str]:
    folders = sorted(where.glob("lib/python3*/site-packages/*.dist-info/RECORD"))
    names = (record.parent.name.removesuffix(".dist-info").rpartition("-") for record in folders)
    records = {
        _folder(f"{name}=={version}"): record
        for (name, _, version), record in zip(names, folders, strict=True)
    }
    found = []
    for requirement in recipe.requirements:
        record = records.get(_folder(requirement))
        found += [f"{requirement} is not there"] if record is None else _damaged(record)
    return found


def _folder(requirement: str) -> str:
    """The normal form of `project-version`; installers write the project in several ways."""
    project, _, version = requirement.partition("==")
    return f"{re.sub(r'[-_.]+', '_', project).lower()}-{version}"


def _damaged(record: Path) -> list[str]:
    """Files whose digest is not the one in a wheel's RECORD (lines of path, sha256=…, size)."""
    packages, found = record.parent.parent, []
    with open(record, newline="", encoding="utf-8") as stream:
        for path, digest, _ in csv.reader(stream):
            if not digest:
                continue
            try:
                content = (packages / path).read_bytes()
            except OSError as error:
                found.append(f"{path}: {error.strerror}")
                continue
            actual = (
                base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
            )
            if digest != f"sha256={actual}":
                found.append(f"{path} is not the file of the wheel")
    return found
