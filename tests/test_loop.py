"""The settings of the loop: file, command line, what the loop tells its commands, and what a run
goes on with."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from coevolve import loop
from coevolve.errors import UsageError

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
    settings, tables = loop.resolve(file, {"env": "desk"}, ["train.steps=5", "abstract.seed=9"])
    assert settings.env == "desk" and settings.seed == 3
    assert tables["train"] == {"env": "desk", "workers": 1, "seed": 3, "lr": 1e-4, "steps": 5}
    assert tables["explore"]["workers"] == 4 and tables["validate"]["workers"] == 1
    assert tables["abstract"]["seed"] == 9 and tables["abstract"]["per-exploration"] == 1


def test_what_is_written_is_what_was_read(tmp_path: Path):
    """RUN/loop.toml, read again, gives the same settings: quotes, lists and letters of all
    kinds."""
    given = {"without": ("rare", "boundary"), "env": 'python "my shop.py" é', "model": "a\\b"}
    first = loop.resolve(None, given, ['train.prompt-style="tools"', "train.lr=3e-4"])
    again = loop.resolve(write(tmp_path, loop.to_toml(*first)), {}, ())
    assert again == first
    assert again[1]["extract-signals"]["quota"] == "rare=0,boundary=0"


def test_a_run_goes_on_with_other_workers_and_budgets():
    """How the work is done may change, what it is may not."""
    one = loop.to_toml(*loop.resolve(None, {"workers": 1}, ["explore.budget-calls=5"]))
    two = loop.to_toml(*loop.resolve(None, {"workers": 2}, ["explore.budget-calls=9"]))
    other = loop.to_toml(*loop.resolve(None, {"workers": 2}, ["explore.episodes=9"]))
    assert loop.differences(one, two) == []
    assert loop.differences(one, other) == ["explore.episodes"]


@pytest.mark.parametrize("path", LOOPS, ids=lambda path: path.stem)
def test_every_settings_file_of_the_repository_is_one(path: Path):
    """It resolves, and says nothing that no command reads (the commands' keys: tests/shell)."""
    settings, tables = loop.resolve(str(path), {}, ())
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
        loop.resolve(write(tmp_path, text), {}, ())
    assert complaint in str(error.value)
