"""Every example of every --help is a command that parses, and what it names exists."""

from __future__ import annotations

import re
import shlex
import tomllib

import pytest

from coevolve.environments.client import Pool
from coevolve_cli import base_command, commands
from conftest import parse


def examples():
    """Each `coevolve …` of the examples, as arguments."""
    for text in tomllib.loads(base_command.EXAMPLES.read_text()).values():
        for line in text.splitlines():
            for part in re.split(r"(?<![\"'])\s\|\s", line):
                if part.startswith("coevolve "):
                    yield shlex.split(part.split(" > ")[0])[1:]


EXAMPLES = list(examples())


def test_there_are_examples():
    """The collection above finds them."""
    assert len(EXAMPLES) > 40 and {words[0] for words in EXAMPLES} == set(commands.COMMANDS)


@pytest.mark.parametrize("words", EXAMPLES, ids=" ".join)
def test_it_parses(words):
    """Each option exists and takes the value."""
    parse(words)


def test_every_command_has_its_examples():
    """The file has the root, each verb, each verb of a verb, and nothing else."""
    names = {""}
    for name in commands.COMMANDS:
        subs = getattr(commands._load(name), "commands", {})
        names |= {name, *(f"{name} {sub}" for sub in subs)}
    assert set(tomllib.loads(base_command.EXAMPLES.read_text())) == names


def test_the_splits_of_the_desk_exist():
    """What the examples play of the built-in environment is there."""
    named = [
        words[words.index("--split") + 1]
        for words in EXAMPLES
        if "--split" in words and "desk" in words
    ]
    with Pool("desk") as pool:
        assert len(named) >= 3 and set(named) <= set(pool.description.splits)
