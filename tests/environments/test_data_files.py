"""The workers' data files: what a file may hold, and what a reader is told of a fault."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import pytest

from coevolve.environments import protocol
from coevolve.environments.workers.data_files import (
    LANGUAGE_FIELDS,
    BadData,
    ToolPhrases,
    check_phrases,
    read_data,
    read_phrases,
)


class Song(NamedTuple):
    title: str
    seconds: int
    rating: int | float = 3


class Content(NamedTuple):
    names: list[str]
    pairs: list[tuple[str, int]] = []
    songs: dict[str, Song] = {}
    sizes: tuple[int, ...] = ()
    anything: Any = None


def written(folder: Path, text: str) -> Path:
    path = folder / "content.toml"
    path.write_text(text, encoding="utf-8")
    return path


def test_a_file_becomes_the_wanted_type(tmp_path):
    """Tables become NamedTuples, arrays lists or tuples; defaults stand for absent keys."""
    text = """
    names = ["Ann", "Bob"]
    pairs = [["a", 1], ["b", 2]]
    sizes = [3, 4]
    songs.x = {title = "X", seconds = 9}
    songs.y = {title = "Y", seconds = 9, rating = 4.5}
    """
    songs = {"x": Song("X", 9, 3), "y": Song("Y", 9, 4.5)}
    wanted = Content(["Ann", "Bob"], [("a", 1), ("b", 2)], songs, (3, 4))
    found = read_data(written(tmp_path, text), Content)
    assert found == wanted and repr(found) == repr(wanted)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "content.toml: the key 'names' is missing"),
        ("names = 1", "content.toml: names: must be list[str], not 1"),
        ('names = ["a", 2]', "content.toml: names[1]: must be str, not 2"),
        ("names = []\nsizes = [true]", "content.toml: sizes[0]: must be int, not True"),
        ("names = []\nsizes = [1.0]", "content.toml: sizes[0]: must be int, not 1.0"),
        ('names = []\npairs = [["a"]]', "content.toml: pairs[0]: must be tuple[str, int], not"),
        ("names = []\nother = 1", "content.toml: unknown key 'other'; there are names, pairs"),
        ("names = []\nsongs.x = {title = 'X'}", "content.toml: songs: x: the key 'seconds' is"),
        (
            "names = []\nsongs.x = {title = 'X', seconds = 1, rating = 'good'}",
            "content.toml: songs: x: rating: must be int or float, not 'good'",
        ),
        ("names = [", "content.toml: "),
    ],
)
def test_a_fault_is_told_with_its_place(tmp_path, text, message):
    """A wrong type, an unknown and a missing key, and a file that is no TOML raise BadData."""
    with pytest.raises(BadData) as told:
        read_data(written(tmp_path, text), Content)
    assert str(told.value).startswith(message)


def test_an_absent_file_is_a_fault(tmp_path):
    with pytest.raises(BadData, match="content.toml: .*No such file"):
        read_data(tmp_path / "content.toml", Content)


def test_phrases_have_the_fields_of_the_protocol():
    """What `language` gives is a `protocol.Language`, field by field, with the same defaults."""
    assert set(LANGUAGE_FIELDS) == set(protocol.Language.__struct_fields__)
    assert protocol.Language(**ToolPhrases().language()) == protocol.Language()


PHRASES = """
[send]
do = ["send {who} {text}", "tell {who}: {text}"]
optional.loud = ", {loud}"
refer.id = "the message to {who}"
literal = ["text"]
words.loud = {true = "in capitals", false = "in small letters"}
words_of = {text = "greetings", who = "people"}
[show]
checked = true
read_only = true
"""


def test_words_may_stand_in_another_file(tmp_path):
    """`words_of` names texts, which are said in quotes, or values with the words for them."""
    texts = {"greetings": ["Hi", 'a "b"'], "people": {"7": "Ann"}}
    found = read_phrases(written(tmp_path, PHRASES), texts)
    assert list(found) == ["send", "show"]
    assert found["send"].words == {
        "loud": {"true": "in capitals", "false": "in small letters"},
        "text": {'"Hi"': '"Hi"', '"a \\"b\\""': '"a "b""'},
        "who": {"7": "Ann"},
    }
    assert found["show"] == ToolPhrases(checked=True, read_only=True)
    check_phrases(found, {"send": ["who", "text", "loud"], "show": []})


def test_words_of_unknown_texts_are_a_fault(tmp_path):
    with pytest.raises(BadData, match="send: words_of: text: no texts 'greetings'"):
        read_phrases(written(tmp_path, PHRASES), {"people": {}})
    with pytest.raises(BadData, match="a: words: b: 'yes' is no JSON"):
        read_phrases(written(tmp_path, 'a.words.b = {yes = "so"}'))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('[see]\ndo = ["see {place}"]', "see: do: no parameter 'place' of the tool; it has what"),
        ('[see]\noptional.what = " {when}"', "see: optional: what: no parameter 'when' of the"),
        ('[see]\nabsent.when = " now"', "see: absent: no parameter 'when' of the tool"),
        ('[see]\nrefer.x = "{place}"', "see: refer: x: no parameter 'place' of the tool"),
        ('[see]\nliteral = ["when"]', "see: literal: no parameter 'when' of the tool"),
        ('[see]\nwords.when = {1 = "x"}', "see: words: no parameter 'when' of the tool"),
        ('[see]\ndo = ["see {what"]', "'see {what': expected '}' before end of string"),
        ("[look]", "look: phrases for a tool that does not exist"),
    ],
)
def test_a_slot_that_the_tool_lacks_is_a_fault(tmp_path, text, message):
    """Every slot and every key of a phrase is a parameter of its tool."""
    phrases = read_phrases(written(tmp_path, text))
    with pytest.raises(BadData) as told:
        check_phrases(phrases, {"see": ["what"]})
    assert str(told.value).startswith(message)


def test_rows_may_have_slots_of_the_output(tmp_path):
    """A row is named by its own keys, which no schema tells."""
    phrases = read_phrases(written(tmp_path, '[see]\nrows.id = "{name.first}"'))
    check_phrases(phrases, {"see": []})
