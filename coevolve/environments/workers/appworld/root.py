"""The data root of the AppWorld worker: its tasks and splits, its version, the APIs it documents.

The layout is AppWorld's own (docs/appworld.md). Standard library only.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import secrets
from functools import cached_property
from importlib import metadata
from pathlib import Path

OFFICIAL_TESTS = ("test_normal", "test_challenge")
_KEY = "token.key"


class DataRoot:
    """The data below a directory, read when first needed."""

    def __init__(self, directory: Path):
        self.directory = directory.resolve()
        self._data = self.directory / "data"

    @cached_property
    def version(self) -> str:
        """The package's version, and a digest of the data."""
        found = hashlib.sha256()
        files = (path for path in self._data.rglob("*") if path.is_file())
        for file in sorted(file for file in files if file.suffix != ".pyc"):
            found.update(f"{file.relative_to(self._data)} {file.stat().st_size}\n".encode())
        for file in sorted((self._data / "base_dbs").glob("*.db")):
            found.update(file.read_bytes())
        return f"{metadata.version('appworld')}+{found.hexdigest()[:12]}"

    @cached_property
    def splits(self) -> dict[str, list[str]]:
        """Split → ids of its tasks, those that are there."""
        there = {}
        for file in sorted((self._data / "datasets").glob("*.txt")):
            ids = file.read_text(encoding="utf-8").split()
            there[file.stem] = [id_ for id_ in ids if self._task(id_).is_dir()]
        return {name: ids for name, ids in there.items() if ids}

    @property
    def held_out(self) -> list[str]:
        """Splits in whose states no synthetic task may begin: the official tests, and those of the
        demo root, whose names end in `_test`."""
        return [name for name in self.splits if name in OFFICIAL_TESTS or name.endswith("_test")]

    @cached_property
    def for_training(self) -> list[str]:
        """Tasks whose start states exploration may begin in."""
        held_out = {id_ for name in self.held_out for id_ in self.splits[name]}
        rest = {id_ for ids in self.splits.values() for id_ in ids} - held_out
        train = [ids for name, ids in self.splits.items() if name.endswith("train")]
        return sorted({id_ for ids in train for id_ in ids} - held_out or rest)

    def has(self, task: str) -> bool:
        return "/" not in task and (self._task(task) / "specs.json").is_file()

    def specs(self, task: str) -> dict:
        """Returns {instruction, supervisor, datetime, db_version} of a task."""
        return _unmarked(json.loads((self._task(task) / "specs.json").read_text(encoding="utf-8")))

    def start_digest(self, task: str) -> str:
        """Returns a digest of the state that a task begins in: what its databases change in the
        common ones, and whose task it is; not what it asks for."""
        found = hashlib.sha256(self.specs(task)["supervisor"]["email"].encode())
        for file in sorted((self._task(task) / "dbs").iterdir()):
            if file.stem != "supervisor" and file.suffix in (".jsonl", ".db"):
                found.update(file.name.encode() + b"\0" + file.read_bytes())
        return found.hexdigest()[:16]

    def solution(self, task: str) -> str | None:
        """Returns the reference as one cell, where the data have it."""
        for name in ("compiled_solution.py", "solution.py"):
            if text := self._truth(task, name):
                return f"{text.strip()}\n\nsolution(apis, None)\n"
        return None

    def difficulty(self, task: str) -> int | None:
        text = self._truth(task, "metadata.json")
        return json.loads(text)["difficulty"] if text else None

    def graded(self, task: str) -> bool:
        """Whether the data say how to evaluate the task."""
        return self._truth(task, "evaluation.py") is not None

    @cached_property
    def documents(self) -> dict[str, dict]:
        """`app.api` → AppWorld's own documentation of it."""
        found = {}
        for file in sorted((self._data / "api_docs" / "standard").glob("*.json")):
            for name, document in sorted(json.loads(file.read_text(encoding="utf-8")).items()):
                found[f"{file.stem}.{name}"] = _unmarked(document)
        return found

    def _task(self, id_: str) -> Path:
        return self._data / "tasks" / id_

    def _truth(self, task: str, name: str) -> str | None:
        file = self._task(task) / "ground_truth" / name
        return file.read_text(encoding="utf-8") if file.is_file() else None


def _unmarked(document: dict) -> dict:
    """Returns a document of AppWorld without its canary."""
    document.pop("canary_string", None)
    return document


def key(folder: Path) -> bytes:
    """Returns this installation's secret, which tokens and random draws come from; made at the
    first use, readable by its owner only."""
    file = folder / _KEY
    if not file.exists():
        file.parent.mkdir(parents=True, exist_ok=True)
        temporary = file.with_name(f"{_KEY}.{os.getpid()}")
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with open(descriptor, "wb") as stream:
            stream.write(secrets.token_bytes(32))
        # of several workers that start at once, the first one's stays
        with contextlib.suppress(FileExistsError):
            os.link(temporary, file)
        temporary.unlink()
    return file.read_bytes()
