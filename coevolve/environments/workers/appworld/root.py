"""The data root of the AppWorld worker: its tasks and splits, its version, the APIs it documents. Standard library only.

The layout is AppWorld's own (docs/appworld.md). The official test splits are told apart by name, those of the self-made root end
in `_test`: no synthetic task may begin in one of their states.
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


class Root:
    """The data below a directory, read when first needed."""

    def __init__(self, directory: Path):
        self.directory = directory.resolve()
        self._data = self.directory / "data"

    @cached_property
    def version(self) -> str:
        """Of the package, and a digest of the data."""
        found = hashlib.sha256()
        for file in sorted(
            path for path in self._data.rglob("*") if path.is_file() and path.suffix != ".pyc"
        ):
            found.update(f"{file.relative_to(self._data)} {file.stat().st_size}\n".encode())
        for file in sorted((self._data / "base_dbs").glob("*.db")):
            found.update(file.read_bytes())
        return f"{metadata.version('appworld')}+{found.hexdigest()[:12]}"

    @cached_property
    def splits(self) -> dict[str, list[str]]:
        """Task ids by split, those that are there."""
        files = sorted((self._data / "datasets").glob("*.txt"))
        listed = {file.stem: file.read_text(encoding="utf-8").split() for file in files}
        there = {
            name: [id_ for id_ in ids if self._task(id_).is_dir()] for name, ids in listed.items()
        }
        return {name: ids for name, ids in there.items() if ids}

    @property
    def held_out(self) -> list[str]:
        """Splits that are for measuring: official tests, and those of the self-made root that call themselves so."""
        return [name for name in self.splits if name in OFFICIAL_TESTS or name.endswith("_test")]

    @cached_property
    def for_training(self) -> list[str]:
        """Tasks whose start states exploration may begin in."""
        held_out = {id_ for name in self.held_out for id_ in self.splits[name]}
        rest = {id_ for ids in self.splits.values() for id_ in ids} - held_out
        first = [ids for name, ids in self.splits.items() if name.endswith("train")]
        return sorted({id_ for ids in first for id_ in ids} - held_out or rest)

    def has(self, task: str) -> bool:
        return "/" not in task and (self._task(task) / "specs.json").is_file()

    def specs(self, task: str) -> dict:
        """instruction, supervisor, datetime, db_version"""
        specs = json.loads((self._task(task) / "specs.json").read_text(encoding="utf-8"))
        specs.pop("canary_string", None)
        return specs

    def begun(self, task: str) -> str:
        """Digest of the state that a task begins in: what its databases change in the common ones, and whose task it is; not
        what it asks for."""
        found = hashlib.sha256(self.specs(task)["supervisor"]["email"].encode())
        for file in sorted((self._task(task) / "dbs").iterdir()):
            if file.stem != "supervisor" and file.suffix in (".jsonl", ".db"):
                found.update(file.name.encode() + b"\0" + file.read_bytes())
        return found.hexdigest()[:16]

    def solution(self, task: str) -> str | None:
        """The reference as one cell, where the data have it."""
        for name in ("compiled_solution.py", "solution.py"):
            file = self._task(task) / "ground_truth" / name
            if file.is_file():
                return f"{file.read_text(encoding='utf-8').strip()}\n\nsolution(apis, None)\n"
        return None

    def difficulty(self, task: str) -> int | None:
        file = self._task(task) / "ground_truth" / "metadata.json"
        return (
            json.loads(file.read_text(encoding="utf-8"))["difficulty"] if file.is_file() else None
        )

    def graded(self, task: str) -> bool:
        """Whether the data say how to evaluate the task."""
        return (self._task(task) / "ground_truth" / "evaluation.py").is_file()

    @cached_property
    def documents(self) -> dict[str, dict]:
        """`app.api` → AppWorld's own documentation of it."""
        found = {}
        for file in sorted((self._data / "api_docs" / "standard").glob("*.json")):
            for name, document in sorted(json.loads(file.read_text(encoding="utf-8")).items()):
                document.pop("canary_string", None)
                found[f"{file.stem}.{name}"] = document
        return found

    def _task(self, id_: str) -> Path:
        return self._data / "tasks" / id_


def key(folder: Path) -> bytes:
    """This installation's secret, from which tokens and random draws come; made at the first use, for its owner's eyes only."""
    file = folder / _KEY
    if not file.exists():
        file.parent.mkdir(parents=True, exist_ok=True)
        temporary = file.with_name(f"{_KEY}.{os.getpid()}")
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with open(descriptor, "wb") as stream:
            stream.write(secrets.token_bytes(32))
        with contextlib.suppress(
            FileExistsError
        ):  # of several workers that start at once, the first one's stays
            os.link(temporary, file)
        temporary.unlink()
    return file.read_bytes()
