"""Reading twice: what happens between the passes, and what only the second one sees."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from signal_cases import group

from coevolve import jsonl
from coevolve.errors import BadInput, CoevolveError
from coevolve.signals.extract import extraction
from coevolve.signals.kinds import KINDS
from coevolve.signals.settings import SignalSettings
from coevolve.signals.views import RolloutHead

HEAD = SignalSettings(mode="paper", kinds=("boundary",))
DOCS = Path(__file__).parents[2] / "docs" / "signals.md"


def test_a_file_that_changes_between_the_passes(tmp_path):
    """Another rollout at the same place is an error, not evidence."""
    path = tmp_path / "rollouts.jsonl"
    jsonl.write(path, group("t", 4, 8))
    with extraction(jsonl.read([str(path)], RolloutHead, head=True), HEAD) as found:
        path.write_bytes(path.read_bytes().replace(b'"t-0-0-', b'"u-0-0-'))
        with pytest.raises(CoevolveError, match="changed while it was being read"):
            list(found.signals())


def test_evidence_that_is_bad_beyond_its_head(tmp_path):
    """A line whose head was fine and whose steps are not is named by file and line when it is
    needed."""
    path = tmp_path / "rollouts.jsonl"
    jsonl.write(path, group("t", 4, 8, ["a"]))
    lines = path.read_bytes().splitlines(keepends=True)
    lines[5] = lines[5].replace(b'"turn":0', b'"turn":"x"')
    path.write_bytes(b"".join(lines))
    with extraction(jsonl.read([str(path)], RolloutHead, head=True), HEAD) as found:
        with pytest.raises(
            BadInput,
            match=re.escape("rollouts.jsonl:6: Expected `int`, got `str` - at `$.steps[0].turn`"),
        ):
            list(found.signals())


def test_every_kind_has_its_section():
    """docs/signals.md explains each kind, in the order of the program."""
    assert tuple(re.findall(r"^## ([a-z_]+)$", DOCS.read_text(), re.M)) == KINDS


def test_every_option_the_docs_name_exists(coevolve):
    """The flags in docs/signals.md are flags of the command."""
    text = coevolve("extract-signals", "--help-all").stdout.decode()
    for option in re.findall(r"`(--[a-z-]+)", DOCS.read_text()):
        assert option in text
