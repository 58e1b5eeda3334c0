"""Replies read as calls, without knowing the environment's tools: JSON forms, plain text, and hostile input."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from coevolve.agents.actions.replies import MAX_CALLS, parse, parse_message, to_message, to_text
from coevolve.records import Call

LS = Call("ls", {})
CD = Call("cd", {"folder": "document"})


@pytest.mark.parametrize(
    ("text", "calls"),
    [
        ('{"name": "cd", "arguments": {"folder": "document"}}', [CD]),
        ('{"name":"ls","arguments":{}}{"name":"cd","arguments":{"folder":"document"}}', [LS, CD]),
        ('{"name":"ls"}\n{"name":"ls"}', [LS, LS]),
        ('[{"name": "ls", "arguments": {}}, {"name": "cd", "arguments": {"folder": "document"}}]', [LS, CD]),
        ('<tool_call>\n{"name": "cd", "arguments": {"folder": "document"}}\n</tool_call>', [CD]),
        ('<tool_call>{"name": "cd", "arguments": {"folder": "document"}}</tool_call>', [CD]),
        ('<tool_call>\r\n{"name": "ls", "arguments": {}}\r\n</tool_call>\r\n', [LS]),
        ('<tool_call>{"name": "ls", "arguments": {}}', [LS]),
        ('<tool_call>{"name": "ls"}<tool_call>{"name": "ls"}</tool_call>', [LS, LS]),
        ('<tool_call>[{"name": "ls"}, {"name": "ls"}]</tool_call>', [LS, LS]),
        ('<tool_call>{"name": "ls", "parameters": {}}</tool_call>', [LS]),
        ('<tool_call>{"name": "cd", "arguments": "{\\"folder\\": \\"document\\"}"}</tool_call>', [CD]),
        ('<tool_call>{"name": "ls", "arguments": null}</tool_call>', [LS]),
        ('<tool_call>{"name": "ls", "arguments": ""}</tool_call>', [LS]),
        ('Let me look.\n<tool_call>{"name": "ls", "arguments": {}}</tool_call> So.', [LS]),
        ('```json\n{"name": "ls", "arguments": {}}\n```', [LS]),
        ('I will list.\n```\n[{"name": "ls"}]\n```', [LS]),
        ('I will look: {"name": "ls", "arguments": {}}', [LS]),
        ('<think>{"name": "cd"}</think>{"name": "ls"}', [LS]),
        ('so I think\n</think>\n\n{"name": "ls"}', [LS]),
        ('{"name": "ls"}<|im_end|>\n', [LS]),
        ('{"name": "functions.ls"}', [LS]),
        ('{"name": "say", "arguments": {"text": "two\nlines"}}', [Call("say", {"text": "two\nlines"})]),
        ('{"name": "n", "arguments": {"a": -5, "b": 2.5, "c": true, "d": null}}', [Call("n", {"a": -5, "b": 2.5, "c": True, "d": None})]),
        ('{"type": "function", "function": {"name": "ls", "arguments": "{}"}}', [LS]),
        ("[ls(), cd(folder='document')]", [LS, CD]),
        ("<tool_call><function=ls></function></tool_call>", [LS]),
        ("<think>\n\n</think>\n\n[ls()]", [LS]),
    ],
)  # fmt: skip
def test_calls(text, calls):
    """Every form that a model may write gives its calls, in order."""
    parsed = parse(text)
    assert (parsed.calls, parsed.issues) == (calls, [])


@pytest.mark.parametrize(
    "text",
    [
        "done",
        "",
        "I cannot do that.",
        "The prices are [1, 2, 3].",
        "Use ls(a=true) for that.",
        "[]",
        '<think>{"name": "ls", "arguments": {}}</think>Done.',
        "<think>\n\n</think>\n\n",
        'The contact is {"name": "Bob", "phone": 1}.',
    ],
)
def test_plain_text(text):
    """What tries no call ends the turn."""
    parsed = parse(text)
    assert (parsed.calls, parsed.issues) == ([], [])


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ('{"name": "ls", "arguments": {', "bad_json"),
        ("<tool_call></tool_call>", "bad_json"),
        ('<think>{"name": "ls", "arguments": {}}', "only_reasoning"),
        ('<think>{"name": "ls", "arguments": {}}</think>', "only_reasoning"),
        ('<tool_call>{"name": "ls", "arguments": {bad}}</tool_call>', "bad_call"),
        ('{"name": "ls", "arguments": [1]}', "bad_call"),
        ('{"name": "ls", "arguments": "[1]"}', "bad_call"),
        ('{"name": "ls", "arguments": 5}', "bad_call"),
        ('{"name": "", "arguments": {}}', "bad_call"),
        ('{"arguments": {}}', "bad_call"),
        ('{"name": 7}', "bad_call"),
        ('[{"name": "ls"}, 3]', "bad_call"),
        ('{"name": "ls", "arguments": {"a": 1, "a": 2}}', "bad_json"),
        ('{"name": "ls", "arguments": {"a": NaN}}', "bad_json"),
        ('{"name": "ls", "arguments": {"a": -Infinity}}', "bad_json"),
        ('{"name": "ls", "arguments": {"a": 1e999}}', "bad_json"),
        ('{"name": "ls", "arguments": {"a": ' + "9" * 5000 + "}}", "bad_json"),
        ('{"name": "ls", "arguments": {"a": "\\ud800"}}', "bad_json"),
        ('{"name": "ls", "arguments": {"a": ' + "[" * 100_000, "bad_json"),
        ('{"name": "ls", "arguments": {"a": ' + "[" * 50 + "]" * 50 + "}}", "bad_call"),
        ('{"name": "ls"}' * (MAX_CALLS + 1), "too_many_calls"),
        ("x" * 300_000, "too_long"),
        ("[ls(a='b'), cd('c')]", "bad_call"),
        ("[ls(a=b)]", "bad_call"),
    ],
)
def test_issues(text, kind):
    """What tries a call and fails says why, and nothing of it runs."""
    parsed = parse(text)
    assert parsed.calls == []
    assert parsed.issues[0].kind == kind
    assert parsed.issues[0].hint


def test_one_bad_call_holds_back_the_good_one():
    """A reply with a good and a bad call is an issue as a whole."""
    parsed = parse(
        '<tool_call>{"name": "ls"}</tool_call><tool_call>{"name": "cd", "arguments": {bad}}</tool_call>'
    )
    assert parsed.calls == [] and len(parsed.issues) == 1


def test_openai_messages():
    """`tool_calls` count where there are any; an empty or missing list leaves the text."""
    assert parse_message(to_message([LS, CD], "Let me look.")).calls == [LS, CD]
    assert parse_message({"role": "assistant", "content": "bye", "tool_calls": []}).text == "bye"
    assert parse_message({"role": "assistant", "content": "bye", "tool_calls": None}).calls == []
    assert parse_message({"role": "assistant", "content": None}).text == ""
    half = to_message([LS, CD])
    half["tool_calls"][1]["function"]["arguments"] = "{bad"
    assert parse_message(half).calls == [] and parse_message(half).issues[0].kind == "bad_json"
    empty = to_message([LS])
    empty["tool_calls"][0]["function"]["arguments"] = ""
    assert parse_message(empty).calls == [LS]


@given(
    st.text(),
    st.dictionaries(
        st.text(), st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.text()
    ),
)
def test_own_text_is_read_back(name, arguments):
    """What `to_text` writes is read back as the same call."""
    name = "x" + name.strip()
    assert parse(to_text(Call(name, arguments))).calls == [Call(name.strip(), arguments)]


@given(
    st.text(
        alphabet="{}[]()='\",:<>/`\\ \n\ud83d" + "tool_callnamearguments0.eE-+NaInfity", max_size=80
    )
)
def test_nothing_raises(text):
    """Any text is calls, text or issues, and what it holds can be written as a record."""
    parsed = parse(text)
    msgspec.json.encode(parsed.calls)
    assert not (parsed.calls and parsed.issues)
