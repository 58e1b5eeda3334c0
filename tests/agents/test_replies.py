"""Replies as calls, hints or plain text: the corpus, messages of a server, hostile text."""

from __future__ import annotations

import msgspec
import pytest
import reply_corpus
from hypothesis import given
from hypothesis import strategies as st
from reply_corpus import TOOLS

from coevolve.agents.actions.replies import parse, parse_message, to_message, to_text
from coevolve.agents.actions.values import MAX_CALLS
from coevolve.records import Call

ROWS = reply_corpus.rows()
LS = Call("ls")
CD = Call("cd", {"folder": "document"})
TOUCH = Call("touch", {"file_name": "a"})
OBJECT = '{"name": "touch", "arguments": {"file_name": "a"}}'


def tag(text: str) -> str:
    return f"<tool_call>\n{text}\n</tool_call>"


def own(call: Call) -> list[dict]:
    return to_message([call])["tool_calls"]


@pytest.mark.parametrize("why", dict.fromkeys(row["why"] for row in ROWS))
def test_the_corpus(why):
    """Each reply of a class runs its calls with their values, gets its hint, or hands back."""
    wrong = []
    for row in (row for row in ROWS if row["why"] == why):
        parsed = parse(row["reply"], {} if row.get("tools") == "none" else TOOLS)
        calls = [[call.tool, call.arguments] for call in parsed.calls]
        hints = [issue.hint for issue in parsed.issues]
        right = calls == row.get("calls", []) and bool(hints) == ("hint" in row) and all(hints)
        # True equals 1 and 1.0 in Python; in a record they differ.
        same = msgspec.json.encode(calls) == msgspec.json.encode(row.get("calls", []))
        told = not hints or row["hint"] in hints[0]
        if not (right and same and told):
            wrong.append((row, calls, hints))
    assert not wrong


def test_the_corpus_is_large():
    """It holds hundreds of replies of every outcome."""
    kinds = [reply_corpus.wanted(row) for row in ROWS]
    assert all(kinds.count(kind) >= 90 for kind in ("runs", "hint", "text")) and len(ROWS) >= 1200


@pytest.mark.parametrize(
    "why", ["a form that is read", "an unread form", "a call with a fault", "an expression"]
)
def test_without_an_offered_tool_nothing_of_another_runs(why):
    """The same words about tools that nobody offers call none of those that are."""
    other = {name: TOOLS[name] for name in ("answer", "pwd")}
    for row in (row for row in ROWS if row["why"] == why and "pwd" not in row["reply"]):
        assert not [call for call in parse(row["reply"], other).calls if call.tool in other]


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        (f"[fillFuelTank(fuelAmount={'9' * 6000})]", "cannot be read"),
        (f"[mean(numbers={'[' * 500}{']' * 500})]", "nested"),
        (f"[fillFuelTank(fuelAmount={'-' * 50_000}1)]", "plain values"),
        (f"[fillFuelTank(fuelAmount={'1+' * 20_000}1)]", ""),
        ("[ls" + ".a" * 5000 + "()]", ""),
        ("[ls" + "[0]" * 5000 + "()]", ""),
        ("[ls" + "()" * 5000 + "]", ""),
        ("ls(a=" * 5000 + ")" * 5000, ""),
        (tag('{"name": "ls", "arguments": ' + '{"a": ' * 5000 + "1" + "}" * 5001), ""),
        ('{"name": "ls", "arguments": {"a": ' + "9" * 5000 + "}}", "too large"),
        ('{"name": "ls", "arguments": {"a": ' + "[" * 100_000, "nested"),
        ('{"name": "l\\ud800s", "arguments": {}}', "surrogate"),
        ('{"name": "ls"}' * (MAX_CALLS + 1), "More than"),
        ("x" * 300_000, "longer than"),
        *((between.join(["[ls()]"] * 5000), "More than") for between in ("", ", ", "\n", " and ")),
    ],
    ids=lambda text: repr(text[:20]),
)
def test_too_much_gets_a_hint(text, hint):
    """Size and depth are refused in words that a record can hold."""
    parsed = parse(text, TOOLS)
    assert parsed.calls == [] and hint in parsed.issues[0].hint
    msgspec.json.encode([issue.hint for issue in parsed.issues])


@pytest.mark.parametrize(
    ("message", "calls", "issues"),
    [
        ({"content": "Done.", "tool_calls": []}, [], 0),
        ({"content": "Done.", "tool_calls": None}, [], 0),
        ({"content": None}, [], 0),
        ({"content": 5}, [], 0),
        ({"content": "", "reasoning": "I could call ls()."}, [], 1),
        ({"content": "Done.", "reasoning": "I could call ls()."}, [], 0),
        (
            {
                "content": None,
                "function_call": {"name": "cd", "arguments": '{"folder": "document"}'},
            },
            [CD],
            0,
        ),
        ({"content": None, "tool_calls": {"function": {"name": "ls", "arguments": {}}}}, [LS], 0),
        ({"content": None, "tool_calls": "ls()"}, [], 1),
        ({"content": None, "tool_calls": [None]}, [], 1),
        ({"content": None, "tool_calls": [{"function": {"name": None, "arguments": "{}"}}]}, [], 1),
        (
            {"content": None, "tool_calls": [{"function": {"name": "cd", "arguments": ""}}]},
            [Call("cd")],
            0,
        ),
        (
            {
                "content": "",
                "tool_calls": [{"function": {"name": "cd", "arguments": '{"folder": "x"'}}],
            },
            [],
            1,
        ),
        ({"content": "", "tool_calls": [{"function": {"name": "cd", "arguments": "[1]"}}]}, [], 1),
        (
            {
                "content": "",
                "tool_calls": [*own(LS), {"function": {"name": "ls", "arguments": "{bad"}}],
            },
            [],
            1,
        ),
        (
            {
                "content": "",
                "tool_calls": [{"function": {"name": "ls", "arguments": "{'a': True}"}}],
            },
            [Call("ls", {"a": True})],
            0,
        ),
        ({"content": "Shall I proceed?", "tool_calls": own(LS)}, [LS], 0),
        (to_message([LS, CD], "Let me look."), [LS, CD], 0),
    ],
)
def test_openai_messages(message, calls, issues):
    """Empty lists are no calls, a bad call holds back the good one, the text does not matter."""
    parsed = parse_message(message, TOOLS)
    assert (parsed.calls, len(parsed.issues)) == (calls, issues)


@pytest.mark.parametrize(
    "form",
    [
        tag(OBJECT),
        OBJECT,
        f"```json\n{OBJECT}\n```",
        "[touch(file_name='a')]",
        "touch(file_name='a')",
        "```python\ntouch(file_name='a')\n```",
        'Action: touch\nAction Input: {"file_name": "a"}\n',
    ],
)
def test_calls_in_a_message_and_in_its_text(form):
    """A call in the text beside an API's own is refused unless it repeats one."""
    parsed = parse_message({"content": form, "tool_calls": own(TOUCH)}, TOOLS)
    assert parsed[::2] == ([TOUCH], [])
    other = form.replace("'a'", "'b'").replace('"a"', '"b"')
    (issue,) = parse_message({"content": other, "tool_calls": own(TOUCH)}, TOOLS).issues
    assert issue.kind == "mixed_forms"


@pytest.mark.parametrize(
    "text",
    [
        "<tool_call>\n",
        "I called [ls()] before.",
        "You could call:\n[ls()]",
        "I won't call:\n[ls()]",
        "{}",
        "<think>[ls()]</think>",
    ],
)
def test_talk_beside_calls_of_a_message(text):
    """What is no call of its own in the text of a message does not hold its calls back."""
    parsed = parse_message({"content": text, "tool_calls": own(TOUCH)}, TOOLS)
    assert parsed[::2] == ([TOUCH], [])


ENDLESS = (
    "[" * 150_000,
    "<arg_key>" * 20_000,
    "<tool_call><arg_key>" * 9_000,
    "[TOOL_CALLS]a" + " " * 190_000 + "x",
    "Action: " + " *" * 90_000,
    "```" * 60_000,
    "```\nls(a=1+1)\n```\n" * 9_000,
    "<parameter=a>" * 15_000,
    "<function=ls>" * 15_000,
    "to=" + "a" * 190_000,
    "<|tool_call_begin|>" * 10_000,
    "I will call ls( " * 12_000,
    "- ls(1\n" * 25_000,
    "Action: ls\n" * 18_000 + "!",
    "<think>" * 28_000,
    "```" + " " * 190_000 + "x",
    "print(" * 33_000,
    "a=" * 100_000,
    "x" + "'" * 190_000,
    '{"name": "ls"' * 15_000 + "}",
    "<tools>" * 28_000,
    "Action Input:\n" * 14_000,
    "ls " * 66_000,
    "<ls " * 40_000,
    "ls(" * 50_000,
    "[ls(" * 40_000,
    "[ls('" + "a" * 190_000,
    "[x(]" * 40_000,
    "ls()\n" * 30_000,
    "{" * 150_000,
    "<tool_call>{" * 12_000,
    '{"name": "a", "arguments": ' * 5_000,
    "[ls('" + "\\" * 180_000,
    " " * 190_000 + "x",
    "<|a|>" * 30_000 + "x",
    "x\n" + "\n" * 190_000 + "y",
    "ls " + "- " * 90_000,
    "<a " + "x " * 90_000,
    "I'll run " * 20_000,
    "`ls " * 40_000,
    '["' + 'a","' * 60_000 + '"]',
    "<thinking>" * 18_000,
    "[THINK]\n" * 20_000,
    "Step 1: " * 24_000 + "ls(",
    "if ls:\n" * 25_000,
    "ls[" * 60_000,
    "- " * 90_000 + "ls()?",
    "[ls()] and " * 18_000,
    "x.y()\n" * 30_000,
    "ｃｄ(" * 60_000,
    "\ufdfa" * 190_000,
    "I won't " * 20_000 + ":\n[ls()]",
    "\u0301\u0316" * 90_000,
)


@pytest.mark.timeout(60)
@pytest.mark.parametrize("text", ENDLESS, ids=lambda text: repr(text[:12]))
def test_endless_replies_end(text):
    """Size and nesting cost little, and give no call."""
    parsed = parse(text, TOOLS)
    assert parsed.calls == [] and len(parsed.issues) <= 8


@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    "text",
    [
        "ls()" + " " * 190_000 + "x",
        "[ls()]" + " " * 190_000 + "x",
        "```json\n{}\n```\n" * 12_000,
        "As it was:\n[ls()]\n" * 9_000,
        "<tool_call>{}" * 15_000,
        '{"name": "ls"}\n' * 13_000,
        "- " * 90_000 + "ls()",
    ],
    ids=lambda text: repr(text[:12]),
)
def test_long_replies_end(text):
    """What is long and holds a call takes no time either."""
    parse(text, TOOLS)


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
    for tools in ({}, TOOLS):
        parsed = parse(text, tools)
        msgspec.json.encode([parsed.calls, [issue.hint for issue in parsed.issues]])
        assert not (parsed.calls and parsed.issues)


def test_nothing_is_evaluated(tmp_path, monkeypatch):
    """Text that would write a file, import or call something when evaluated does nothing."""
    monkeypatch.chdir(tmp_path)
    for text in (
        "[ls(a=__import__('pathlib').Path('x').write_text('x')+0)]",
        "__import__('pathlib').Path('x').write_text('x')",
        "[inspect.os.system(command='touch x')]",
        "{\"name\": \"__import__('pathlib').Path('x').write_text('x') or ls\", \"arguments\": {}}",
        "[open(file='x', mode='w')]",
    ):
        parse(text, TOOLS)
    assert not list(tmp_path.iterdir())
