"""Attempts and talk of an outside tester: what he tried to slip past the parser, in other words, each read by hand.

Three answers are right for a reply: the calls, as a person reads them; a hint, where it tries a call in a form that is not read;
prose, where nobody would take it for a call, or where it asks, refuses or quotes.
"""

from __future__ import annotations

import pytest

from coevolve.agents.actions.replies import parse, parse_message
from coevolve.environments.protocol import Tool
from coevolve.records import Call

PARAMETERS = {
    "ls": {"a": "boolean"},
    "cd": {"folder": "string"},
    "mv": {"source": "string", "destination": "string"},
    "echo": {"content": "string", "file_name": "string"},
    "mean": {"numbers": "array"},
    "fillFuelTank": {"fuelAmount": "number"},
    "post_tweet": {"content": "string", "tags": "array"},
    "edit_ticket": {"ticket_id": "integer", "updates": "object"},
    "find": {"path": "string", "pattern": "string"},
    "sort": {"file_name": "string"},
    "answer": {"text": "string"},
}
TOOLS = {
    name: Tool(
        name,
        name,
        {"type": "object", "properties": {key: {"type": kind} for key, kind in given.items()}},
    )
    for name, given in PARAMETERS.items()
}
LS = Call("ls")
CD = Call("cd", {"folder": "document"})
MV = Call("mv", {"source": "a.txt", "destination": "b"})
LSA = Call("ls", {"a": True})


def tag(text: str) -> str:
    return f"<tool_call>\n{text}\n</tool_call>"


READ = {
    # reasoning of every family is no content
    "<thinking>\nls()\n</thinking>\n[cd(folder='document')]": [CD],
    "<reasoning>first\nls()\n</reasoning>\n[cd(folder='document')]": [CD],
    "[THINK]ls() or cd?[/THINK][cd(folder='document')]": [CD],
    "◁think▷\nls()\n◁/think▷\ncd(folder='document')": [CD],
    "<|START_THINKING|>ls()<|END_THINKING|>" + tag('{"name": "cd", "arguments": {"folder": "document"}}'): [CD],
    "<seed:think>\nls()\n</seed:think>\n" + tag('{"name": "cd", "arguments": {"folder": "document"}}'): [CD],
    "I look first.\nls()\n</thought>\n[cd(folder='document')]": [CD],
    '{"name": "echo", "arguments": {"content": "<thinking>x</thinking>"}}': [Call("echo", {"content": "<thinking>x</thinking>"})],
    # wrappers and keys of other APIs
    '{"functionCall": {"name": "cd", "args": {"folder": "document"}}}': [CD],
    '{"toolUse": {"toolUseId": "x", "name": "cd", "input": {"folder": "document"}}}': [CD],
    '{"tool_uses": [{"recipient_name": "functions.cd", "parameters": {"folder": "document"}}]}': [CD],
    '{"tool_call": {"name": "cd", "arguments": {"folder": "document"}}}': [CD],
    '{"function_calls": [{"name": "ls"}, {"name": "cd", "arguments": {"folder": "document"}}]}': [LS, CD],
    '{"calls": [{"name": "ls", "arguments": {}}]}': [LS],
    '{"actions": [{"tool": "cd", "arguments": {"folder": "document"}}]}': [CD],
    '{"toolName": "cd", "toolInput": {"folder": "document"}}': [CD],
    '{"func": "cd", "kwargs": {"folder": "document"}}': [CD],
    '[{"cd": "{\\"folder\\": \\"document\\"}"}]': [CD],
    '[{"cd": {"folder": "document"}}, {"ls": {}}]': [CD, LS],
    '{"name": "post\\\\_tweet", "arguments": {"content": "x"}}': [Call("post_tweet", {"content": "x"})],
    # ReAct with other labels and values
    'Action: cd\nParameters: {"folder": "document"}': [CD],
    'Action: cd\nArguments: {"folder": "document"}': [CD],
    'Action: "cd"\nAction Input: {"folder": "document"}': [CD],
    'Action: cd\nAction Input: folder="document"': [CD],
    "Action: mv\nAction Input: source='a.txt', destination='b'": [MV],
    # marks that are cut off or stripped
    "<function=cd>\n<parameter=folder>\ndocument\n</tool_call>": [CD],
    tag("<function=cd>\n<parameter=folder>\ndocument"): [CD],
    'commentary to=functions.cd json{"folder": "document"}': [CD],
    # words around a call that do not speak against it
    "I couldn't find it here.\n[cd(folder='document'), ls()]": [CD, LS],
    "I can't see the files, so let me look.\n[ls()]": [LS],
    "I don't know the folder yet.\n[ls()]": [LS],
    "Which files are there? Let me look.\n[ls()]": [LS],
    "Let me see what the folder contains:\n[ls()]": [LS],
    "Here's the call you need:\n[ls()]": [LS],
    "To go on, you need to be in the folder.\n[cd(folder='document')]": [CD],
    "Posting it:\n[post_tweet(content='Shall I go?')]": [Call("post_tweet", {"content": "Shall I go?"})],
    "[ls()]\nI can tell you more once I see it.": [LS],
    "The user wants the file moved.\n[mv(source='a.txt', destination='b')]": [MV],
    "I would not do this lightly.\n" + tag('{"name": "ls"}') + "\nShall I proceed?": [LS],
}  # fmt: skip

HINTED = (
    # signs, labels, fillers, comments around a call
    "Step 1: cd(folder='document')", "AI: cd(folder='document')", "→ cd(folder='document')", "The call is: cd(folder='document')",
    "Next step: `cd(folder='document')`", "First, cd(folder='document'). Then ls().", "I call cd(folder='document').",
    "cd(folder='document')  # go there", "cd(folder='document')  // go", "cd(folder='document').", "cd(folder='x') && ls()",
    "cd(folder='x') and ls()", "'[cd(folder=\"document\")]'", "*calls cd(folder='document')*", "(calls ls())",
    "\\boxed{cd(folder='document')}", "{cd(folder='document')}", "<<function>>cd(folder='document')", "#cd(folder='document')",
    *(f"<{mark}>cd(folder='document')</{mark}>" for mark in ("call", "execute", "action", "tool", "api")), "[API] cd(folder='document')",
    # other brackets, elements, keys
    "Action: cd[document]", "cd[folder='document']", "cd<folder='document'>", "cd（folder='document'）", "cd: folder='document'",
    '<tool_call name="cd" folder="document"/>', '<tool name="cd"><param name="folder">document</param></tool>',
    '{name: "cd", arguments: {folder: "document"}}', '{"response": "[cd(folder=\'document\')]"}', '{"functions": ["cd(folder=\'document\')"]}',
    '{"name": "cd", "parameters": {"type": "object", "properties": {"folder": "document"}}}', "- name: cd\n  arguments:\n    folder: document",
    # command lines
    "mv a.txt b", "cd ..", "cd a", "cd document && ls -a", "ls\ncd document", "!ls -a", "%cd x", "```bash\ncd document\nmv a.txt b\n```",
    "I'll run `cd document` now.", "I am going to execute `ls` and `cd document`.", "I will now execute:\n\n    cd document",
    "I will now use the `ls` tool.", "Let me check the files with ls.", "Using tool: ls", "[Calling cd with folder='document']",
    # other languages
    "我将调用 cd(folder='document')", "Ich rufe jetzt cd(folder='document') auf.",
    # programs
    "if True:\n    cd(folder='document')", "try:\n    cd(folder='x')\nexcept Exception:\n    pass", "def main():\n    ls()\nmain()",
    "```python\nfor name in ['x']:\n    cd(folder=name)\n```", "found = ls()\nfor f in found:\n    print(f)", "import asyncio\nasyncio.run(ls())",
    # a call that the reply may not mean
    "The folder is not there. I cannot move it yet.\n[mv(source='a.txt', destination='b')]", '`<tool_call>{"name": "ls"}</tool_call>`',
    "I would rather not run this:\n[ls()]", "Reply yes to run:\n[ls()]", "This is the command from your notes:\n[ls()]",
    "if the file exists:\n    mv('a.txt', 'b')", "echo hello > a.txt", "find . -name '*.txt'",
    # reasoning without an end
    "<thinking>\n[ls()]", "[THINK]\nls()",
)  # fmt: skip

PLAIN = (
    # calls in reasoning only
    "<thought>\n[mv(source='a.txt', destination='b')]\n</thought>\nAll done.", "[THINK]\n[ls()]\n[/THINK]\nDone.", "◁think▷\nls()\n◁/think▷ Done",
    "<reasoning>\n[ls()]\n</reasoning>\nI will not list it.", "<|START_THINKING|>\nls()\n<|END_THINKING|>Done",
    # questions for leave
    "Do you want me to do this?\n[mv(source='a.txt', destination='b')]", "Shall I proceed with the following?\n\n[ls()]",
    "Before I do this, please confirm:\n\n```python\nls()\n```", "Once you confirm, I'll run:\n\n[ls()]", "Pending your approval, I would run:\n[ls()]",
    'Should I execute the following?\n```json\n{"name": "ls", "arguments": {}}\n```', '{"name": "ls", "arguments": {}}\nShall I proceed?',
    "If you agree, the call will be:\n[ls()]", "I can't move it. The right command is:\nmv('a.txt', 'b')\nPlease confirm.",
    "Are you sure that you would like this?\n[ls()]", "Option A:\n[ls()]\nOption B:\n[cd('x')]\nWhich one?",
    # refusals
    "Never run this:\n[ls()]", "I refuse to run [ls()]",
    "I won't do this:\n[mv(source='a.txt', destination='b')]", "I am not allowed to call:\n[ls()]", "The tool that I lack is:\nfind_x(a=1)",
    # quotations
    "The file content is: [cd(folder='x')]", "The file log.txt contains:\n[cd(folder='x')]", "The last line of notes.txt is:\n\ncd(folder='x')\n",
    "grep found this line in run.py:\n    cd(folder='x')", 'cat shows:\n{"name": "cd", "arguments": {"folder": "x"}}',
    "The script you posted contains:\n```python\ncd('x')\n```\nIt changes the folder.", "The previous assistant called:\n[ls()]\nwhich failed.",
    'The last line of log.txt reads `<tool_call>{"name": "ls"}</tool_call>`.', "The tail of the file reads:\n\nls -la\ncd ..\n",
    # talk
    "| call | result |\n|---|---|\n| {\"name\": \"ls\", \"arguments\": {}} | two files |", "Done! I ran `mv a.txt b` and then `ls`.", "Sorry, I have no tool for this. The closest is `sort`, which sorts lines.", "sort done.",
    "Here's a summary:\n\n- `cd(folder='temp')` went there\n- `mv(source='a.txt', destination='b')` moved the file", "mean([1, 2, 3]) = 2",
    "All set. The commands were:\n```bash\ncd document\nmv a.txt b\n```\nLet me know if you need more.", "mv completed successfully",
    "I will wait for your confirmation before calling mv.", "I'm unable to run sort until the file exists.", "ls output: a.txt b.txt",
    "I'll need the ticket id to call edit_ticket(ticket_id).", "The next step would be to run cd(folder='x'), but it is locked.",
    "cd: document: No such file or directory", "Final answer: [1, 2, 3]", "Echo: it works.", "find: the file is at ./temp/a.txt",
    "Would you like me to call mv(source='a.txt', destination='b') for you?", '{"order_id": 12446, "status": "Open"}',
    "I'd recommend closing it with edit_ticket(ticket_id=7) — shall I proceed?", "Let me list the files first.",
)  # fmt: skip


@pytest.mark.parametrize("text", READ, ids=repr)
def test_read_as_a_person_would(text):
    """All calls, in order, with the values as they stand there."""
    assert (parse(text, TOOLS).calls, parse(text, TOOLS).issues) == (READ[text], [])


@pytest.mark.parametrize("text", HINTED, ids=repr)
def test_an_attempt_gets_a_hint(text):
    """What tries a tool in a form that is not read neither runs nor ends the turn."""
    parsed = parse(text, TOOLS)
    assert parsed.calls == [] and parsed.issues and parsed.issues[0].hint


@pytest.mark.parametrize("text", PLAIN, ids=repr)
def test_talk_hands_back(text):
    """What asks, refuses, quotes or tells runs nothing and ends the turn."""
    assert parse(text, TOOLS)[::2] == ([], [])


@pytest.mark.parametrize("text", [text for text in HINTED if "think" not in text.lower()], ids=repr)
def test_without_an_offered_tool_nothing_is_an_attempt(text):
    """The same words about tools that nobody offers run nothing."""
    other = {name: tool for name, tool in TOOLS.items() if name in ("answer", "fillFuelTank")}
    assert not [call for call in parse(text, other).calls if call.tool in other]


def test_a_call_in_its_own_field_runs_whatever_the_text_says():
    """The rules for text are none for an API's tool_calls."""
    message = {
        "content": "Shall I proceed?",
        "tool_calls": [{"id": "1", "function": {"name": "ls", "arguments": "{}"}}],
    }
    assert parse_message(message, TOOLS).calls == [LS]


@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    "text",
    ["x\n" + "\n" * 190_000 + "y", "ls " + "- " * 90_000, "<a " + "x " * 90_000, "I'll run " * 20_000, "`ls " * 40_000, '["' + 'a","' * 60_000 + '"]',
     "<thinking>" * 18_000, "[THINK]\n" * 20_000, "Step 1: " * 24_000 + "ls(", "if ls:\n" * 25_000, "ls[" * 60_000, "- " * 90_000 + "ls()", "[ls()]" * 33_000, "[ls()] and " * 18_000, "[ls()]" + " " * 190_000 + "x", "```json\n{}\n```\n" * 12_000,
     "As it was:\n[ls()]\n" * 9_000, "<tool_call>{}" * 15_000, '{"name": "ls"}\n' * 13_000, "x.y()\n" * 30_000, "ｃｄ(" * 60_000, "\ufdfa" * 190_000, "I won't " * 20_000 + ":\n[ls()]"],
    ids=lambda text: repr(text[:12]),
)  # fmt: skip
def test_endless_replies_end(text):
    """No rule here takes long for any text."""
    parse(text, TOOLS)
