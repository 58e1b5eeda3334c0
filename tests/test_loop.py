"""The settings of the loop: file, command line, what the loop tells its commands, and what a run
goes on with."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from coevolve import loop
from coevolve.errors import BadInput, UsageError
from conftest import run as coevolve

LOOPS = sorted((Path(__file__).parent.parent / "shell" / "loops").glob("*.toml"))


def write(folder: Path, text: str) -> str:
    (folder / "loop.toml").write_text(text)
    return str(folder / "loop.toml")


def test_the_command_line_wins_over_the_file(tmp_path: Path):
    """Flags over [loop], --set over tables, a command's own keys over what the loop tells it."""
    file = write(
        tmp_path,
        '[loop]\nenv = "bfcl"\nseed = 3\n[train]\nlr = 1e-4\nsteps = 2\n[explore]\nworkers = 4\n',
    )
    settings, tables = loop.resolve(
        "run", file, {"env": "desk"}, ["train.steps=5", "abstract.seed=9"]
    )
    assert settings.env == "desk" and settings.seed == 3
    shared = {"env": "desk", "workers": 1, "run": "run", "seed": 3}
    assert tables["train"] == {**shared, "lr": 1e-4, "steps": 5}
    assert tables["explore"]["workers"] == 4 and tables["validate"]["workers"] == 1
    assert tables["abstract"]["seed"] == 9 and tables["abstract"]["per-exploration"] == 1


def test_what_is_written_is_what_was_read(tmp_path: Path):
    """RUN/loop.toml, read again, gives the same settings: quotes, lists and letters of all
    kinds."""
    given = {"without": ("rare", "boundary"), "env": 'python "my shop.py" é', "model": "a\\b"}
    first = loop.resolve("run", None, given, ['train.prompt-style="tools"', "train.lr=3e-4"])
    again = loop.resolve("run", write(tmp_path, loop.to_toml(*first)), {}, ())
    assert again == first
    assert again[1]["extract-signals"]["quota"] == "rare=0,boundary=0"


def test_a_run_goes_on_with_other_workers_and_budgets():
    """How the work is done, and how far, may change; what it is may not."""
    one = loop.to_toml(*loop.resolve("run", None, {"workers": 1}, ["explore.budget-calls=5"]))
    more = {"workers": 2, "iterations": 20}
    two = loop.to_toml(*loop.resolve("run", None, more, ["explore.budget-calls=9"]))
    other = loop.to_toml(*loop.resolve("run", None, {"workers": 2}, ["explore.episodes=9"]))
    assert loop.differences(one, two) == []
    assert loop.differences(one, other) == ["explore.episodes"]


def test_files_of_tasks_hold_tasks(tmp_path: Path):
    """A file of other records, one that is empty and one that is missing are refused by name."""
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "config.json").touch()
    (tmp_path / "rollouts.jsonl").write_text('{"schema": "coevolve.rollout/1", "id": "a"}\n')
    (tmp_path / "empty.jsonl").touch()

    def check(key: str, name: str) -> None:
        given = {"model": str(tmp_path / "model"), key: str(tmp_path / name)}
        loop.check_files(*loop.resolve("run", None, given, ()))

    for key in ("tasks", "exclude"):
        with pytest.raises(BadInput, match=r"rollouts.jsonl:1"):
            check(key, "rollouts.jsonl")
        with pytest.raises(UsageError, match=r"empty.jsonl holds no tasks"):
            check(key, "empty.jsonl")
        with pytest.raises(UsageError, match="no such file: .*nowhere.jsonl"):
            check(key, "nowhere.jsonl")


@pytest.mark.parametrize("place", ["a file/run", "a file"])
def test_a_run_that_cannot_be_written(tmp_path: Path, place: str):
    """Exit 74 and one line, where RUN cannot be a folder."""
    (tmp_path / "a file").touch()
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "config.json").touch()
    done = coevolve("loop", "check", tmp_path / place, "--model", tmp_path / "model", check=False)
    assert done.returncode == 74 and b"cannot write" in done.stderr and not done.stdout


@pytest.mark.parametrize("path", LOOPS, ids=lambda path: path.stem)
def test_every_settings_file_of_the_repository_is_one(path: Path):
    """It resolves, and says nothing that no command reads (the commands' keys: tests/shell)."""
    settings, tables = loop.resolve("run", str(path), {}, ())
    assert set(tomllib.loads(path.read_text())) <= {"loop", *loop.STAGES}
    assert (
        settings.iterations >= 10
        and tables["train"]["steps" if "laptop" in path.name else "preset"]
    )


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("[loop", "loop.toml"),
        ("loop = 3", "no table"),
        ("[lop]\nseed = 1", "no table 'lop'. Did you mean 'loop'?"),
        ("[loop]\nsed = 1", "unknown key 'sed' in [loop]. Did you mean 'seed'?"),
        ('[loop]\nseed = "x"', "seed in [loop] takes a whole number"),
        ("[loop]\nseed = -1", "--seed takes a whole number of at least 0"),
        ('[loop]\narm = "left"', "arm in [loop] takes guided, coverage"),
        ("[loop]\niterations = 0", "iterations in [loop] takes a whole number of at least 1"),
    ],
)
def test_a_file_that_is_none(tmp_path: Path, text: str, complaint: str):
    """One line that says what is wrong, and what was meant."""
    with pytest.raises(UsageError) as error:
        loop.resolve("run", write(tmp_path, text), {}, ())
    assert complaint in str(error.value)
