"""The official verdict: rollouts as result files, judged by the package's own evaluation.

The evaluation runs in a subprocess of its own venv whose BFCL_PROJECT_ROOT is a folder of this
call. That no error code comes back says little: one call that exits ends the official evaluation
without a score and without an error. So every score is looked for: a file for each category, as
many entries in it as were written, and no entry that was not. Anything else raises CoevolveError.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

import msgspec

from coevolve.bfcl import files
from coevolve.environments import install
from coevolve.environments.protocol import Tool
from coevolve.environments.workers import launch
from coevolve.errors import CoevolveError, UsageError
from coevolve.records import Rollout

NAME = "bfcl-official"
SECONDS = 3600.0  # The evaluation may take so long


class OfficialVerdict(NamedTuple):
    """One rollout's official verdict."""

    entry: str  # Its id in BFCL's files
    valid: bool
    error: str = ""  # Type of the official error; why there is no verdict, where there is none
    judged: bool = True  # Whether there is a verdict

    @property
    def category(self) -> str:
        """Official category, or `multi_turn_coevolve`."""
        return files.category(self.entry)


def judge(rollouts: Iterable[Rollout], tools: Mapping[str, Tool]) -> dict[str, OfficialVerdict]:
    """Rollout id → official verdict, with `judged` false where it must not reach the official code.

    Raises MissingDependency where the environment is not installed, CoevolveError where a score is
    missing.
    """
    python = install.python(NAME)
    judged: dict[str, OfficialVerdict] = {}
    names, entries, ids = files.BfclIds(), [], []
    for rollout in rollouts:
        if rollout.task is None:
            raise UsageError(f"rollout {rollout.id} does not carry its task")
        name = names.of(rollout.task)
        try:
            entries.append(files.result(name, rollout, tools))
            ids.append(rollout.id)
        except files.Misread as error:
            judged[rollout.id] = OfficialVerdict(name, False, str(error), judged=False)
    if not entries:
        return judged
    with tempfile.TemporaryDirectory(prefix="coevolve-official-") as folder:
        directory = Path(folder)
        files.write_tasks(directory, names, tools)
        placed = files.write_results(directory, entries)
        _run(python, directory)
        failed = _scores(directory, placed)
    for id_, (model, entry) in zip(ids, placed, strict=True):
        error = failed.get((model, entry["id"]))
        judged[id_] = OfficialVerdict(entry["id"], error is None, error or "")
    return judged


def _run(python: Path, directory: Path) -> None:
    log = directory / "official.log"
    command = launch.command(python, "bfcl.official", str(directory))
    try:
        with open(log, "wb") as stream:
            streams = {"stdin": subprocess.DEVNULL, "stdout": stream, "stderr": stream}
            done = subprocess.run(command, **streams, env=environment(directory), timeout=SECONDS)
    except subprocess.TimeoutExpired:
        raise CoevolveError(f"the official evaluation did not end within {SECONDS:.0f} s") from None
    if done.returncode:
        said = "".join(log.read_text("utf-8", "replace").strip().splitlines()[-1:])
        raise CoevolveError(
            f"the official evaluation failed (exit {done.returncode}): {said[:300]}"
        )


def environment(directory: Path) -> dict[str, str]:
    """The official code's variables: no key, and a folder for what it makes as it is imported."""
    inherited = ("PATH", "HOME", "TMPDIR", "LD_LIBRARY_PATH")
    return {
        **{key: os.environ[key] for key in inherited if key in os.environ},
        "LANG": "C.UTF-8",
        "TZ": "UTC",
        "PYTHONUTF8": "1",
        "PYTHONNOUSERSITE": "1",
        "PYTHONHASHSEED": "0",
        "BFCL_PROJECT_ROOT": str(directory),
        "OPENAI_API_KEY": "none",
    }


def _scores(directory: Path, placed: list[files.PlacedResult]) -> dict[tuple[str, str], str]:
    """(model, id) → error type of each entry that failed. Raises CoevolveError unless all are
    scored."""
    expected: dict[tuple[str, str], set[str]] = {}
    for model, entry in placed:
        expected.setdefault((model, files.category(entry["id"])), set()).add(entry["id"])
    failed: dict[tuple[str, str], str] = {}
    for (model, category), ids in expected.items():
        file = files.scores_file(directory, model, category)
        if not file.is_file():
            raise CoevolveError(f"the official evaluation wrote no score for {category}")
        head, *wrong = [msgspec.json.decode(line) for line in file.read_bytes().splitlines()]
        errors = {entry["id"]: entry["error"].get("error_type", "") for entry in wrong}
        scored = (head["total_count"], head["correct_count"] + len(errors))
        if scored != (len(ids), len(ids)) or not set(errors) <= ids:
            written = f"the {len(ids)} results written"
            raise CoevolveError(f"the official scores of {category} are not those of {written}")
        failed |= {(model, id_): error for id_, error in errors.items()}
    return failed
