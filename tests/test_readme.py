"""What the README says is so: its command blocks run, its tables are the code's."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

import tiny_models
from coevolve.errors import Exit
from coevolve_cli.commands import COMMANDS

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()
BLOCKS = re.findall(r"^```(\w*)\n(.*?)^```", README, re.M | re.S)


def block(start: str) -> str:
    """The one block that begins so."""
    (found,) = [text for _, text in BLOCKS if text.startswith(start)]
    return found


def bash(script: str, folder: Path, path: str) -> subprocess.CompletedProcess:
    command = ["bash", "-euo", "pipefail", "-c", script]
    env = {**os.environ, "PATH": path, "OMP_NUM_THREADS": "1"}
    result = subprocess.run(command, cwd=folder, capture_output=True, env=env)
    assert result.returncode == 0, result.stderr.decode()[-3000:]
    return result


def table(header: str) -> list[list[str]]:
    """The cells of the rows under a table's header line."""
    lines = README[README.index(header) :].splitlines()[2:]
    rows = lines[
        : next((i for i, line in enumerate(lines) if not line.startswith("|")), len(lines))
    ]
    return [[cell.strip() for cell in row.strip("|").split("|")] for row in rows]


def test_the_exit_codes_are_the_enum():
    """One row per exit code, in order."""
    assert [int(row[0]) for row in table("| exit code |")] == [int(code) for code in Exit]


def test_the_commands_are_the_registry():
    """One row per command."""
    assert {row[0].strip("`") for row in table("| command | reads")} == set(COMMANDS)


def test_links_lead_somewhere():
    """Every relative link names a file of the repository."""
    for target in re.findall(r"\]\((?!http)([^)#]+)\)", README):
        assert (ROOT / target).exists(), target


def test_an_environment_of_ones_own(tmp_path: Path, command_path: str):
    """The environment of docs/environments.md passes its check and goes through explore, abstract
    and validate."""
    page = (ROOT / "docs" / "environments.md").read_text()
    (source,) = re.findall(r"^```python\n(.*?)^```", page, re.M | re.S)
    assert len([line for line in source.splitlines() if line.strip()]) <= 45
    (tmp_path / "shop.py").write_text(source)
    (script,) = re.findall(r"^```\n(coevolve env check 'python.*?)^```", page, re.M | re.S)
    bash(script, tmp_path, command_path)
    tasks = (tmp_path / "tasks.jsonl").read_text()
    assert tasks.count("\n") >= 5
    assert "the price of tea" in tasks


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("readme")


def test_a_first_task_set(folder: Path, command_path: str):
    """The pipe that makes a first task set from nothing."""
    bash(block("coevolve explore --env desk --mode curious"), folder, command_path)
    assert (folder / "tasks.jsonl").read_text().count("\n") >= 50


def test_the_pipe(folder: Path, command_path: str):
    """One turn of the loop as the README has it, with a policy that has learnt nothing."""
    pytest.importorskip("torch")
    if not (folder / "tasks.jsonl").exists():
        bash(block("coevolve explore --env desk --mode curious"), folder, command_path)
    words = tiny_models.tokenizer()
    tiny_models.llama(len(words), context=256).save_pretrained(folder / "policy")
    words.save_pretrained(folder / "policy")
    small = "--model policy --batch 3 --episode-tokens 160"
    script = (
        block("coevolve train tasks.jsonl")
        .replace("--model DIR", small)
        .replace("--steps 10", "--steps 2")
    )
    bash(script, folder, command_path)
    before, after = (
        (folder / name).read_text().splitlines() for name in ("tasks.jsonl", "tasks.next.jsonl")
    )
    assert after[: len(before)] == before
    assert len(after) > len(before)


@pytest.mark.slow
def test_quickstart(tmp_path: Path):
    """The whole demonstration runs and prints its tables."""
    result = subprocess.run(
        [ROOT / "shell" / "quickstart.sh", tmp_path / "run"], capture_output=True, cwd=tmp_path
    )
    assert result.returncode == 0, result.stderr.decode()[-3000:]
    assert b"after the loop; difference to the static twin" in result.stdout + result.stderr
