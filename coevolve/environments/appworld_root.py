"""The data that AppWorld runs on: roots, each a folder with `data/` in it, all under
``$COEVOLVE_HOME/appworld``.

- `root` holds the official data; `coevolve env install appworld` makes it with ``--data
  DIR|BUNDLE`` or ``--download``.
- `demo` holds people, records and tasks of our own (`workers/appworld/demo/`); `coevolve env
  install appworld` makes it.

`chosen` returns the one that a worker runs on: ``$COEVOLVE_APPWORLD_ROOT``, else the official one
if it is there, else the demo. Nothing that is there is ever deleted or replaced, but for a demo
root of another builder. AppWorld's licence forbids public redistribution of any of it unencrypted:
keep these folders out of repositories.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from coevolve.environments import install
from coevolve.environments.workers import launch
from coevolve.errors import MissingDependency, Unreachable, UsageError, WriteFailed
from coevolve.jsonl import warn
from coevolve.runs import home

NAME = "appworld"
VARIABLE = "COEVOLVE_APPWORLD_ROOT"
OBSERVATION = "COEVOLVE_APPWORLD_OBSERVATION"
MIN_OBSERVATION_CHARS, MAX_OBSERVATION_CHARS = 500, 1_000_000
"""Bounds of the longest observation: below, no error would be readable; none is longer than the
upper."""
OFFICIAL, DEMO = "root", "demo"
APPS = (
    "admin amazon api_docs file_system gmail phone simple_note splitwise spotify supervisor "
    "todoist venmo"
).split()
_BUILDER = Path(__file__).with_name("workers") / "appworld" / "demo"
_MARKER = "coevolve-root.json"
_MISREAD = "AppWorld takes a path with 'memory' in it for a database in memory"

Say = Callable[[str], None]


def folder() -> Path:
    return home() / NAME


def chosen() -> Path:
    """Returns the root that a worker runs on. Raises MissingDependency where there is none,
    UsageError where the variable is wrong."""
    root = place()
    if os.environ.get(VARIABLE):
        if problems := missing(root):
            raise UsageError(f"{VARIABLE}: {problems[0]}")
    elif not (root / _MARKER).exists():
        raise MissingDependency("data for appworld", "coevolve env install appworld")
    return root


def place() -> Path:
    """Returns where the data of a worker belong, whether they are there or not."""
    if named := os.environ.get(VARIABLE):
        return Path(named)
    official = folder() / OFFICIAL
    return official if (official / _MARKER).exists() else folder() / DEMO


def check_options() -> None:
    """Raises UsageError where the worker's options, which are variables, make no sense."""
    lowest, highest = MIN_OBSERVATION_CHARS, MAX_OBSERVATION_CHARS
    text = os.environ.get(OBSERVATION, str(highest))
    number = int(text) if text.isascii() and text.isdigit() and len(text) < 10 else 0
    if not lowest <= number <= highest:
        wanted = f"it is a number of characters, {lowest} to {highest}"
        raise UsageError(f"{OBSERVATION} is {text!r}; {wanted}")


def missing(root: Path) -> list[str]:
    """Returns a sentence with its place for each thing that AppWorld lacks to run on a root."""
    data = root / "data"
    if _is_misread(root):
        return [f"{root}: {_MISREAD}; choose another folder"]
    if not data.is_dir():
        return [f"{data} is not there; it holds base_dbs, api_docs, datasets and tasks"]
    wanted = [data / "base_dbs" / f"{app}.db" for app in APPS]
    wanted += [data / "api_docs" / "standard" / f"{app}.json" for app in APPS if app != "admin"]
    lists = sorted(data.glob("datasets/*.txt"))
    ids = [id_ for tasks in lists for id_ in tasks.read_text(encoding="utf-8").split()]
    named = [data / "tasks" / id_ / "specs.json" for id_ in ids]
    absent = [[f"{p} is not there" for p in paths if not p.is_file()] for paths in (wanted, named)]
    no_list = [] if lists else [f"{data / 'datasets'}: no list of tasks (train.txt, …)"]
    return absent[0] + no_list + absent[1]


def build_demo(say: Say = warn) -> Path:
    """Builds the demo root where it is missing or of another builder, in half a minute."""
    where = folder() / DEMO
    _check_place(where)
    with install.locked(where, say):
        marker = {"builder": _builder_digest(), "package": install.RECIPES[NAME].version}
        if _marker(where) == marker and not missing(where):
            say(f"the demo root of appworld is in {where}")
            return where
        if where.exists() and _marker(where) is None:
            raise UsageError(f"{where} is there and was not made by coevolve; move it away first")
        say(f"building the demo root of appworld in {where}")
        with _prepared(where) as beside:
            _run("appworld.demo.builder", str(beside))
            shutil.rmtree(where, ignore_errors=True)
            _finish(beside, where, marker)
    return where


def add_data(source: Path, sha256: str | None = None, say: Say = warn) -> Path:
    """Takes over official data: a bundle, a folder with `data/` in it, or a `data` folder itself.

    Raises UsageError where the source is none of these, is damaged or has another digest than
    `sha256`, and where the official root is already filled from something else.
    """
    where = folder() / OFFICIAL
    _check_place(where)
    digest = _source_digest(source)
    if sha256 is not None and digest != sha256.lower():
        raise UsageError(f"{source}: its sha256 is {digest}, not {sha256}")
    with install.locked(where, say):
        marker = {"source": source.name, "sha256": digest}
        if (_marker(where) or {}).get("sha256") == digest:
            say(f"this data is in {where}")
            return where
        if where.exists():
            raise UsageError(f"{where} holds other data; it is not replaced: move it away first")
        say(f"taking over {source} (sha256 {digest}) into {where}")
        with _prepared(where) as beside:
            if source.is_dir():
                shutil.copytree(_data_of(source), beside / "data", symlinks=False)
            else:
                _run("appworld.bundle", "unpack", str(source), str(beside))
            if problems := missing(beside):
                problem = problems[0].replace(str(beside), "…")
                raise UsageError(f"{source}: no whole data of appworld: {problem}")
            _finish(beside, where, marker)
    return where


def download(sha256: str | None = None, say: Say = warn) -> Path:
    """Fetches the official bundle from the address that the package names, and takes it over. A
    bundle that is there is kept."""
    folder().mkdir(parents=True, exist_ok=True)
    bundle = folder() / "data.bundle"
    if not bundle.exists():
        say(f"downloading the official data of appworld to {bundle} (about 200 MB)")
        _run("appworld.bundle", "download", str(bundle))
    return add_data(bundle, sha256, say)


def _is_misread(path: Path) -> bool:
    return "memory" in str(path.resolve())


def _check_place(where: Path) -> None:
    if _is_misread(where):
        raise UsageError(f"{where}: {_MISREAD}; set COEVOLVE_HOME to another folder")


def _source_digest(source: Path) -> str:
    """Returns the sha256 of a bundle, or of the relative names and contents of a data folder's
    files."""
    total, files = hashlib.sha256(), [source]
    if not source.is_file():
        data = _data_of(source)
        files = sorted(path for path in data.rglob("*") if path.is_file())
    for path in files:
        if source.is_dir():
            total.update(f"{path.relative_to(data)}\0{path.stat().st_size}\0".encode())
        with open(path, "rb") as stream:
            while block := stream.read(1 << 20):
                total.update(block)
    return total.hexdigest()


def _data_of(source: Path) -> Path:
    for data in (source / "data", source):
        if (data / "base_dbs").is_dir():
            return data
    layout = "data/base_dbs, data/tasks, …"
    raise UsageError(f"{source}: neither a bundle nor a folder with data of appworld ({layout})")


def _builder_digest() -> str:
    sources = sorted(path for path in _BUILDER.iterdir() if path.suffix in (".py", ".toml"))
    return hashlib.sha256(b"".join(path.read_bytes() for path in sources)).hexdigest()[:16]


def _marker(where: Path) -> dict[str, str] | None:
    try:
        return msgspec.json.decode((where / _MARKER).read_bytes(), type=dict[str, str])
    except (OSError, msgspec.MsgspecError):
        return None


@contextmanager
def _prepared(where: Path) -> Iterator[Path]:
    """Yields a fresh folder beside `where`, for work that may be interrupted; removes it in the
    end."""
    beside = where.with_name(f"{where.name}.part")
    shutil.rmtree(beside, ignore_errors=True)
    try:
        beside.mkdir(parents=True)
        yield beside
    except OSError as error:
        raise WriteFailed(f"{beside}: cannot write: {error.strerror}") from error
    finally:
        shutil.rmtree(beside, ignore_errors=True)


def _finish(beside: Path, where: Path, marker: dict[str, str]) -> None:
    (beside / _MARKER).write_bytes(msgspec.json.encode(marker))
    os.replace(beside, where)


def _run(module: str, *arguments: str) -> None:
    """Runs a program among the workers in the benchmark's interpreter. Raises Unreachable with its
    last line."""
    fixed = {"PYTHONHASHSEED": "0", "PYTHONDONTWRITEBYTECODE": "1"}
    environment = {**os.environ, **install.caches(NAME), **fixed}
    command = launch.command(install.python(NAME), module, *arguments)
    done = subprocess.run(
        command, stdin=subprocess.DEVNULL, capture_output=True, check=False, env=environment
    )
    if done.returncode:
        lines = (done.stderr or done.stdout).decode(errors="replace").strip().splitlines()
        last = lines[-1] if lines else f"{module} ended with {done.returncode}"
        raise Unreachable(f"appworld: {last}")
