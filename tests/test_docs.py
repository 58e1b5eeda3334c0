"""The pages of docs/ keep their promises: their records decode, their programs run, their links
lead somewhere."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from coevolve import records
from conftest import run as coevolve

ROOT = Path(__file__).parent.parent
PAGES = sorted([*(ROOT / "docs").glob("*.md"), ROOT / "CHANGELOG.md"])
RECORDS = records.Rollout | records.Signal | records.Exploration | records.Task | records.Verdict


def blocks(page: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", (ROOT / page).read_text(), re.M | re.S)


def test_the_concepts_show_one_record_of_each_kind():
    """Each decodes as what its `schema` says, and each descends from the one before it."""
    rollout, signal, exploration, task, verdict = (
        msgspec.json.decode(text, type=RECORDS) for text in blocks("docs/concepts.md", "json")
    )
    assert signal.evidence[0].rollout == rollout.id and signal.task_id == rollout.task_id
    assert exploration.context.signal == signal.id
    assert task.lineage.explorations == [exploration.id] and verdict.task_id == task.id


def test_the_least_rollout_is_one(tmp_path: Path):
    """docs/rollouts.md: the smallest record is read."""
    (text,) = blocks("docs/rollouts.md", "json")
    (tmp_path / "mine.jsonl").write_text(text)
    done = coevolve("extract-signals", tmp_path / "mine.jsonl", "--summary")
    assert b"read 1" in done.stderr


@pytest.fixture(scope="module")
def program() -> str:
    (text,) = blocks("docs/python.md", "python")
    return text


def test_the_stages_in_python(program: str, tmp_path: Path):
    """The program of docs/python.md adds valid tasks to a set, from rollouts of it."""
    (tmp_path / "next_tasks.py").write_text(program)
    (tmp_path / "found.jsonl").write_bytes(
        coevolve("explore", "--env", "desk", "--mode", "curious", "--episodes", "4").stdout
    )
    candidates = coevolve("abstract", tmp_path / "found.jsonl").stdout
    (tmp_path / "tasks.jsonl").write_bytes(coevolve("validate", stdin=candidates).stdout)
    coevolve(
        "rollout", tmp_path / "tasks.jsonl", "--model", "random", "-k", "2",
        "-o", tmp_path / "rollouts.jsonl",
    )  # fmt: skip
    done = subprocess.run(
        [sys.executable, "next_tasks.py"], cwd=tmp_path, capture_output=True, check=True
    )
    before = (tmp_path / "tasks.jsonl").read_bytes().splitlines()
    after = (tmp_path / "tasks.next.jsonl").read_bytes().splitlines()
    assert len(after) == int(done.stdout) > len(before)
    decode = msgspec.json.Decoder(records.Task).decode
    assert [decode(line).id for line in after[: len(before)]] == [decode(x).id for x in before]
    assert all(decode(line).validity.verdict == "valid" for line in after)


def test_it_is_typed(program: str, tmp_path: Path):
    """The same program passes mypy --strict on the user's side; one with a wrong argument does
    not."""
    pytest.importorskip("mypy")
    (tmp_path / "good.py").write_text(program)
    (tmp_path / "bad.py").write_text(program.replace("per_exploration=1", 'per_exploration="one"'))
    # What the toolkit imports is not the user's to check, and takes minutes.
    foreign = ("openai", "torch", "transformers", "typer", "rich", "jinja2", "httpx")
    skipped = "".join(f"[mypy-{name}.*]\nfollow_imports = skip\n" for name in foreign)
    (tmp_path / "mypy.ini").write_text(f"[mypy]\nmypy_path = {ROOT}\n{skipped}")
    command = [sys.executable, "-m", "mypy", "--strict", "--follow-imports=silent"]
    command += ["--config-file", "mypy.ini", "good.py", "bad.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    errors = [line for line in done.stdout.splitlines() if ": error:" in line]
    assert len(errors) == 1 and errors[0].startswith("bad.py") and "per_exploration" in errors[0]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path):
    """Every relative link names a file of the repository."""
    for target in re.findall(r"\]\((?!http)([^)#]+)", page.read_text()):
        assert (page.parent / target).exists(), target
