"""Every example of every --help is a command that parses, and what it names exists."""

from __future__ import annotations

import re
import shlex

import pytest
import typer

from coevolve.environments.client import Pool
from coevolve_cli import commands


def groups():
    """Commands with their help text's examples: the root, each verb, each verb of a verb."""
    yield typer.main.get_command(commands.app).epilog
    for name in commands.COMMANDS:
        command = commands._load(name)
        yield command.epilog
        yield from (sub.epilog for sub in getattr(command, "commands", {}).values())


def examples():
    """Each `coevolve …` of the examples, as arguments."""
    for epilog in groups():
        for line in (epilog or "").splitlines():
            for part in re.split(r"(?<![\"'])\s\|\s", line.strip()):
                if part.startswith("coevolve "):
                    yield shlex.split(part.split(" > ")[0])[1:]


EXAMPLES = list(examples())


def test_there_are_examples():
    """The collection above finds them."""
    assert len(EXAMPLES) > 40 and {words[0] for words in EXAMPLES} == set(commands.COMMANDS)


@pytest.mark.parametrize("words", EXAMPLES, ids=" ".join)
def test_it_parses(words):
    """Each option exists and takes the value."""
    command, rest = commands._load(words[0]), words[1:]
    if getattr(command, "commands", None):
        command, rest = command.commands[rest[0]], rest[1:]
    context = command.make_context(words[0], rest)
    assert not context.args


def test_the_splits_of_the_desk_exist():
    """What the examples play of the built-in environment is there."""
    named = [
        words[words.index("--split") + 1]
        for words in EXAMPLES
        if "--split" in words and "desk" in words
    ]
    with Pool("desk") as pool:
        assert len(named) >= 3 and set(named) <= set(pool.description.splits)
