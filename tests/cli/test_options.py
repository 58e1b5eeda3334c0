"""Options: one name and one meaning in every command, few on the first page, every way of setting
one."""

from __future__ import annotations

import json
import os
import re

import pytest

from coevolve.options import fields
from coevolve_cli import commands
from conftest import run

MOST = 15
"""Rows of options on the first page of a command's help."""
LOADED = {name: commands._load(name) for name in commands.COMMANDS}
SINGLE = {name: command for name, command in LOADED.items() if hasattr(command, "options")}
ROW = re.compile(r"^  (?:-\w, )?(--[a-z0-9-]+)", re.MULTILINE)


@pytest.mark.parametrize("name", SINGLE)
def test_few_options_on_the_first_page(name):
    """The first page shows 15 at most; the whole help shows all, each choice and its meaning
    included."""
    first, whole = (run(name, flag).stdout.decode() for flag in ("--help", "--help-all"))
    assert len(ROW.findall(first)) <= MOST
    assert set(ROW.findall(whole)) | {"--help-all"} >= {
        field.flag for field in SINGLE[name].options().values()
    }
    flat = " ".join(whole.split())
    for field in SINGLE[name].options().values():
        for choice, meaning in field.option.choices.items():
            assert f"{choice}: {meaning}" in flat


def test_one_name_means_one_thing():
    """An option that several commands have is of one kind in all, and has one short form."""
    seen = {}
    for command in SINGLE.values():
        for name, field in command.options().items():
            kind = field.is_switch, field.repeats, field.option.short, field.option.file
            assert seen.setdefault(name, kind) == kind, name


def test_help_is_sentences():
    """Every help text begins with a capital or a value and ends with a full stop."""
    for command in SINGLE.values():
        for group in command.groups:
            for field in fields(group).values():
                first = field.help.split("\n")[0]
                assert first.endswith((".", ",", ":")) and not first[0].islower(), field.flag


def plan(*arguments, **options):
    """The settings that a dry run prints."""
    return json.loads(run(*arguments, "--dry-run", **options).stderr)["settings"]


def test_every_way_of_setting_an_option(tmp_path):
    """flag = --set > environment > file > default; the file may hold a table of the loop."""
    config = tmp_path / "c.toml"
    config.write_text(
        "[loop]\nanything = [1]\n"
        '[explore]\nmode = "random"\nepisodes = 3\nrequest-extra = {a = 1}\n'
    )
    base = ["explore", "--config", config]
    assert plan("explore")["episodes"] == 48
    found = plan(*base)
    assert (found["episodes"], found["mode"], found["request_extra"]) == (3, "random", {"a": 1})
    environment = {**os.environ, "COEVOLVE_EXPLORE_EPISODES": "4"}
    assert plan(*base, env=environment)["episodes"] == 4
    assert plan(*base, "--set", "episodes=5", env=environment)["episodes"] == 5
    assert plan(*base, "--episodes", 6, env=environment)["episodes"] == 6
    assert plan("explore", "--set", "budget-cost=.5", "--set", "seed=7")["budget_cost"] == 0.5


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["explore", "--set", "episods=1"], "Did you mean 'episodes'"),
        (["explore", "--set", "episodes"], "KEY=VALUE"),
        (["explore", "--set", "episodes=2", "--episodes", "2"], "give one of them"),
        (["explore", "--episodes", "many"], "--episodes takes a whole number of at least 1"),
        (["explore", "--episodes", "0"], "--episodes takes a whole number of at least 1, not 0"),
        (["explore", "--mode", "guidde"], "guided, random, curious or coverage"),
        (["extract-signals", "--band", "0.2"], "--band takes LOW,HIGH"),
        (["extract-signals", "--alpha", "nan"], "--alpha takes a finite number from 0 to 1"),
        (["train"], "--run is missing"),
        (["env", "check"], "NAME|COMMAND is missing"),
        (["merge", "--max-sahre", "1"], "--max-share"),
    ],
)
def test_what_an_option_cannot_be(arguments, said):
    """Exit 2 and one line with what is possible."""
    done = run(*arguments, check=False)
    assert done.returncode == 2 and done.stderr.count(b"\n") == 1, done.stderr
    assert said in done.stderr.decode()


def test_a_wrong_value_says_where_it_stands(tmp_path):
    """In the file with its table, in the environment with the variable's name."""
    config = tmp_path / "c.toml"
    config.write_text("[explore]\nepisodes = true\n")
    done = run("explore", "--config", config, check=False)
    assert done.returncode == 2 and b"c.toml: episodes in [explore] takes a whole" in done.stderr
    environment = {**os.environ, "COEVOLVE_EXPLORE_EPISODES": "x"}
    done = run("explore", env=environment, check=False)
    assert done.returncode == 2 and b"COEVOLVE_EXPLORE_EPISODES takes a whole" in done.stderr
