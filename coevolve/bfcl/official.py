"""The official verdict: rollouts as result files, judged by the package's own evaluation in its own venv.

The evaluation runs in a subprocess whose BFCL_PROJECT_ROOT is a folder of this call. That no error code comes back says little (one
call that exits makes the official evaluation end without a score and without an error), so every score is looked for: a file
for each category, as many entries in it as were written, and no entry that was not. Anything else raises CoevolveError.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from coevolve.bfcl import files
from coevolve.environments import install
from coevolve.environments.protocol import Tool
from coevolve.environments.workers import launch
from coevolve.errors import CoevolveError, UsageError
from coevolve.records import Rollout

NAME = "bfcl-official"
SECONDS = 3600.0


class Judged(NamedTuple):
    """One rollout's official verdict."""

    entry: str
    """Its id in BFCL's files."""
    valid: bool
    error: str = ""
    """Type of the official error; why there is no verdict, where there is none."""
    judged: bool = True
    """Whether there is a verdict."""

    @property
    def category(self) -> str:
        """Official category, or `multi_turn_coevolve`."""
        return files.category(self.entry)


def judge(
    rollouts: Iterable[Rollout], tools: Mapping[str, Tool], directory: Path | None = None
) -> dict[str, Judged]:
    """Rollout id → official verdict. What the official code would misread has none. Files stay in `directory`, if given.

    Raises MissingDependency where the environment is not installed, CoevolveError where a score is missing.
    """
    python = install.python(NAME)
    if directory is not None:
        return _judge(rollouts, tools, python, directory)
    with tempfile.TemporaryDirectory(prefix="coevolve-official-") as temporary:
        return _judge(rollouts, tools, python, Path(temporary))


def _judge(
    rollouts: Iterable[Rollout], tools: Mapping[str, Tool], python: Path, directory: Path
) -> dict[str, Judged]:
    judged: dict[str, Judged] = {}
    names, entries, ids = files.Names(), [], []
    for rollout in rollouts:
        if rollout.task is None:
            raise UsageError(f"rollout {rollout.id} does not carry its task")
        name = names.of(rollout.task)
        try:
            entries.append(files.result(name, rollout, tools))
            ids.append(rollout.id)
        except files.Misread as error:
            judged[rollout.id] = Judged(name, False, str(error), judged=False)
    if not entries:
        return judged
    files.write_tasks(directory, names, tools)
    placed = files.write_results(directory, entries)
    _run(python, directory)
    failed = _scores(directory, placed)
    for id_, (model, entry) in zip(ids, placed, strict=True):
        error = failed.get((model, entry["id"]))
        judged[id_] = Judged(entry["id"], error is None, error or "")
    return judged


def _run(python: Path, directory: Path) -> None:
    log = directory / "official.log"
    try:
        with open(log, "wb") as stream:
            code = subprocess.run(
                launch.command(python, "bfcl.official", "evaluate", str(directory)),
                stdin=subprocess.DEVNULL,
                stdout=stream,
                stderr=stream,
                env=environment(directory),
                timeout=SECONDS,
                check=False,
            ).returncode
    except subprocess.TimeoutExpired:
        raise CoevolveError(f"the official evaluation did not end within {SECONDS:.0f} s") from None
    if code:
        said = log.read_text("utf-8", "replace").strip().splitlines()[-1:]
        raise CoevolveError(f"the official evaluation failed (exit {code}): {' '.join(said)[:300]}")


def environment(directory: Path) -> dict[str, str]:
    """The official code's environment: no key, and a folder of ours for what it creates as it is imported."""
    kept = {
        key: os.environ[key]
        for key in ("PATH", "HOME", "TMPDIR", "LD_LIBRARY_PATH")
        if key in os.environ
    }
    fixed = {
        "LANG": "C.UTF-8",
        "TZ": "UTC",
        "PYTHONUTF8": "1",
        "PYTHONNOUSERSITE": "1",
        "PYTHONHASHSEED": "0",
    }
    return {**kept, **fixed, "BFCL_PROJECT_ROOT": str(directory), "OPENAI_API_KEY": "none"}


def _scores(
    directory: Path, placed: list[tuple[str, dict[str, Any]]]
) -> dict[tuple[str, str], str]:
    """(model, id) → error type of the entries that failed, after checking that all entries were scored."""
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
        if (
            head["total_count"] != len(ids)
            or head["correct_count"] + len(errors) != len(ids)
            or not set(errors) <= ids
        ):
            raise CoevolveError(
                f"the official scores of {category} are not those of the {len(ids)} results written"
            )
        failed |= {(model, id_): error for id_, error in errors.items()}
    return failed
