"""Replies that try a call never end the turn without a word: whatever leads to the call, however many lists stand on a line,
in two forms at once, and in expressions that are no call of a tool."""

from __future__ import annotations

import pytest

from coevolve.agents.actions.replies import MAX_CALLS, parse, parse_message
from coevolve.environments.protocol import Tool
from coevolve.records import Call

PARAMETERS = {
    "ls": {"a": "boolean"},
    "cd": {"folder": "string"},
    "add": {"a": "number", "b": "number"},
    "touch": {"file_name": "string"},
    "post_tweet": {"content": "string"},
}
TOOLS = {
    name: Tool(
        name,
        name,
        {"type": "object", "properties": {key: {"type": kind} for key, kind in given.items()}},
    )
    for name, given in PARAMETERS.items()
}
LS, CD = Call("ls"), Call("cd", {"folder": "document"})
A, B, C = (Call("touch", {"file_name": name}) for name in "abc")
FORMS = {
    "list": "\n\n[cd(folder='document')]",
    "inline": " [cd(folder='document')]",
    "python": "\n```python\ncd(folder='document')\n```",
    "json": '\n```json\n{"name": "cd", "arguments": {"folder": "document"}}\n```',
    "object": ' {"name": "cd", "arguments": {"folder": "document"}}',
}

MEANT = (
    "Since the file was not found here, trying the other folder:",
    "The file was not in this folder, so checking the document folder:",
    "Because the previous attempt was unsuccessful, retrying with the correct name:",
    "Here is the function call you want:",
    "Here is the call you would need:",
    "As you want the document folder, changing into it:",
    "The appropriate function call would be:",
    "To change the folder as you requested, the call would be:",
    "The next action would be:",
    "The folder you want is document, so:",
    "Given that the list was empty, moving to document:",
    "First step, going to the folder that you need to use:",
    "Here is the function call, following the example format:",
    "In the required syntax:",
    "Since there were two entries, opening the first:",
    "The answer looks like this:",
    "My response would be:",
    "Since nothing was returned, going on:",
    "Having found the file, moving on:",
    "Since the folder does not exist here:",
    "Now that the file is there, the call is:",
    "As I used ls before, now:",
    "I called ls and it returned two entries, so now:",
)
UNCLEAR = (
    "This is what I executed for you:",
    "Here is the call I made a mistake in, fixed:",
    "You can call:",
    "Tools used:",
    "The following call has been made:",
    "You asked me to open it, which I have done with:",
    "Not needed any more:",
    "If that is what you want:",
    "The user could call",
    "e.g.",
    "For example, this is a call:",
    "The folder was listed by",
)
TOLD = (
    "These were the steps I took:",
    "Here is an example:",
    "Example:",
    "You could do this yourself:",
    "The commands were:",
    "I won't run this:",
    "The last line of the log is:",
    "Shall I proceed with this?",
)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("lead", MEANT)
def test_a_call_after_a_colon_at_the_end_is_made(lead, form):
    """Ordinary words of the past or the possible in the sentence before a call do not drop it."""
    assert parse(lead + FORMS[form], TOOLS)[::2] == ([CD], [])


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("lead", UNCLEAR)
def test_a_doubtful_call_gets_a_hint(lead, form):
    """What may be a report, an offer or a condition is not made, and does not end the turn either."""
    parsed = parse(lead + FORMS[form], TOOLS)
    assert parsed.calls == [] and [issue.kind for issue in parsed.issues] == ["announced"]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("lead", TOLD)
def test_a_told_call_hands_back(lead, form):
    """Recaps, examples, refusals, quotations and questions run nothing and end the turn."""
    assert parse(lead + FORMS[form], TOOLS)[::2] == ([], [])


def test_a_reply_that_goes_on():
    """With more words after it, a call after a doubtful lead-in gets a hint, and a reported one is a report."""
    assert parse(f"{MEANT[0]}\n[ls()]\nThen I see.", TOOLS).issues
    assert parse("I executed this:\n[ls()]\nIt worked.", TOOLS)[::2] == ([], [])


@pytest.mark.parametrize(
    "text",
    ["Since it was not here, trying: `cd(folder='document')`.", "As the list was empty, this comes next:\n```bash\ncd document\n```",
     "The list was empty, so:\n- cd(folder='document')", "Sure, here you go: ls(), cd(folder='document')"],
    ids=repr,
)  # fmt: skip
def test_an_attempt_after_such_words_gets_a_hint(text):
    """The same lead-ins do not silence what is tried in a form that is not read."""
    assert parse(text, TOOLS).calls == [] and parse(text, TOOLS).issues


def test_words_in_an_argument_say_nothing_of_the_next_call():
    """A text of the past in one call is no lead-in of the call after it."""
    tweet = Call("post_tweet", {"content": "It was fun"})
    assert parse("[post_tweet(content='It was fun')]\n[ls()]", TOOLS).calls == [tweet, LS]
    told = parse('```json\n{"name": "touch", "arguments": {"file_name": "a"}}\n```\n' * 2, TOOLS)
    assert told.calls == [A, A]


@pytest.mark.parametrize("between", [", ", "", " ", "\n", ";", " and ", ", and then "])
@pytest.mark.parametrize("lead", ["", "Let me begin: ", "Let me begin.\n"])
def test_all_lists_of_a_line_run(lead, between):
    """Every list runs once, in order, however they are put together."""
    lists = [f"[touch(file_name={name!r})]" for name in "abc"]
    assert parse(lead + between.join(lists), TOOLS)[::2] == ([A, B, C], [])


def test_lists_and_calls_of_a_line_run():
    """A plain call after a list on its line is not lost, nor one between two lists."""
    assert parse("First.\n[ls()] cd('document')", TOOLS).calls == [LS, CD]
    assert parse("First.\n[ls()], cd('document'), [ls()]", TOOLS).calls == [LS, CD, LS]


@pytest.mark.parametrize("between", ["", ", ", "\n", " and "])
def test_a_list_again_and_again(between):
    """Thousands of lists are too many calls."""
    (issue,) = parse(between.join(["[ls()]"] * 5000), TOOLS).issues
    assert issue.kind == "too_many_calls" and MAX_CALLS < 5000


MARK = '<tool_call>{"name": "touch", "arguments": {"file_name": "a"}}</tool_call>'
OBJECT = '{"name": "touch", "arguments": {"file_name": "a"}}'
WRITTEN = {
    "mark": MARK, "open mark": MARK.removesuffix("</tool_call>"), "json": OBJECT, "fenced json": f"```json\n{OBJECT}\n```",
    "list": "[touch(file_name='a')]", "python": "```python\ntouch(file_name='a')\n```", "line": "touch(file_name='a')",
    "action": f"Action: touch\nAction Input: {OBJECT[31:-1]}\n",
}  # fmt: skip
KIND = dict(
    zip(
        WRITTEN,
        ("mark", "mark", "json", "json", "python", "python", "python", "action"),
        strict=True,
    )
)
PAIRS = [
    (x, y)
    for x in WRITTEN
    for y in WRITTEN
    if KIND[x] != KIND[y] and x != "action" and (x, y) != ("open mark", "json")
]


@pytest.mark.parametrize(("first", "second"), PAIRS)
def test_calls_in_two_forms(first, second):
    """Different calls in two forms are refused, the same call in two forms is made once."""
    other = WRITTEN[second].replace("'a'", "'b'").replace('"a"', '"b"')
    parsed = parse(f"{WRITTEN[first]}\n\n{other}", TOOLS)
    assert parsed.calls == [] and [issue.kind for issue in parsed.issues] == ["mixed_forms"]
    assert parse(f"{WRITTEN[first]}\n\n{WRITTEN[second]}", TOOLS)[::2] == ([A], [])


@pytest.mark.parametrize("form", WRITTEN)
def test_calls_in_a_message_and_in_its_text(form):
    """A call in the text beside an API's own is refused unless it repeats one."""
    own = [
        {
            "id": "1",
            "type": "function",
            "function": {"name": "touch", "arguments": '{"file_name": "a"}'},
        }
    ]
    assert parse_message({"content": WRITTEN[form], "tool_calls": own}, TOOLS)[::2] == ([A], [])
    other = WRITTEN[form].replace("'a'", "'b'").replace('"a"', '"b"')
    assert (
        parse_message({"content": other, "tool_calls": own}, TOOLS).issues[0].kind == "mixed_forms"
    )


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
    own = [
        {
            "id": "1",
            "type": "function",
            "function": {"name": "touch", "arguments": '{"file_name": "a"}'},
        }
    ]
    assert parse_message({"content": text, "tool_calls": own}, TOOLS)[::2] == ([A], [])


HOSTILE = (
    '[add.__globals__["os"].system("id")]', '__import__("os").system("id")', "[fs['ls']()]", "getattr(fs,'ls')()",
    "getattr(fs, 'ls')()", "os.system('ls')", "exec('ls()')", "(lambda: ls())()", 'Sure:\n[add.__globals__["os"].system("id")]',
    'functions.cd:0 {"folder": "document"}', "ls\n()", "cd\n(folder='document')", "ｃｄ(folder='document')",
    "ｃｄ（folder='document'）", "[ｃｄ(folder='document')]", "ｃｄ document",
)  # fmt: skip


@pytest.mark.parametrize("text", HOSTILE, ids=repr)
def test_expressions_and_other_letters_get_a_hint(text):
    """What calls something computed, or names a tool in another writing, is not run and does not end the turn."""
    parsed = parse(text, TOOLS)
    assert (
        parsed.calls == []
        and parsed.issues[0].kind in ("bad_call", "announced")
        and parsed.issues[0].hint
    )


@pytest.mark.parametrize(
    "text",
    [
        "f(x)",
        "sqrt(16)",
        "Thanks (again)",
        "The value is df['a'].mean().",
        "```python\ndf['a'].mean()\n```\nis the mean.",
    ],
)
def test_expressions_of_others_are_prose(text):
    """Mathematics and code about other things end the turn."""
    assert parse(text, TOOLS)[::2] == ([], [])
