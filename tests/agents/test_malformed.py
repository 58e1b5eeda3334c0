"""Replies as models write them: each is read as a person would read it, or answered with a hint that says what is wrong.

The corpus has the rules R1–R12 and the case tables of the BFCL research: official decoders lose, change or crash on most of it.
"""

from __future__ import annotations

import pytest

from coevolve.agents.actions import parse, parse_message
from coevolve.environments.protocol import Tool
from coevolve.records import Call


def tool(name: str, app: str, **parameters: str) -> Tool:
    properties = {key: {"type": type_} for key, type_ in parameters.items()}
    return Tool(name, name, {"type": "object", "properties": properties, "required": list(properties)[:1]}, app=app)


TOOLS = {
    t.name: t
    for t in (
        tool("ls", "GorillaFileSystem", a="boolean"),
        tool("cd", "GorillaFileSystem", folder="string"),
        tool("mv", "GorillaFileSystem", source="string", destination="string"),
        tool("echo", "GorillaFileSystem", content="string", file_name="string"),
        tool("mean", "MathAPI", numbers="array"),
        tool("fillFuelTank", "VehicleControlAPI", fuelAmount="number"),
        tool("post_tweet", "TwitterAPI", content="string", tags="array"),
        tool("edit_ticket", "TicketAPI", ticket_id="integer", updates="object"),
    )
}
LS = Call("ls")
CD = Call("cd", {"folder": "document"})


def tag(text: str) -> str:
    return f"<tool_call>\n{text}\n</tool_call>"


READ = {
    # Python call lists
    "[cd(folder='document')]": [CD],
    "cd(folder='document')": [CD],
    "[mean(numbers=[1,2.5,-3])]": [Call("mean", {"numbers": [1, 2.5, -3]})],
    "[fillFuelTank(fuelAmount=-5)]": [Call("fillFuelTank", {"fuelAmount": -5})],
    "[fillFuelTank(fuelAmount=+5)]": [Call("fillFuelTank", {"fuelAmount": 5})],
    "[post_tweet(content='it\\'s ok')]": [Call("post_tweet", {"content": "it's ok"})],
    "[edit_ticket(ticket_id=1, updates={'status': 'Closed'})]": [Call("edit_ticket", {"ticket_id": 1, "updates": {"status": "Closed"}})],
    "[edit_ticket(ticket_id=1, updates={})]": [Call("edit_ticket", {"ticket_id": 1, "updates": {}})],
    "[cd('document')]": [CD],
    "[mv('a.txt', destination='b')]": [Call("mv", {"source": "a.txt", "destination": "b"})],
    "[cd(folder='a')]\n[ls()]": [Call("cd", {"folder": "a"}), LS],
    "[cd(folder='a'), ls()]": [Call("cd", {"folder": "a"}), LS],
    "[ls()][cd('document')]": [LS, CD],
    "cd(folder='document'), ls()": [CD, LS],
    "cd(folder='document'); ls()": [CD, LS],
    "ls()\ncd(folder='document')\n": [LS, CD],
    "[ls(a=true)]": [Call("ls", {"a": True})],
    "[ls(a=True)]": [Call("ls", {"a": True})],
    "[echo(content='x', file_name=null)]": [Call("echo", {"content": "x", "file_name": None})],
    "[echo(content='a' 'b')]": [Call("echo", {"content": "ab"})],
    "[echo(content='two\nlines')]": [Call("echo", {"content": "two\nlines"})],
    "[echo(content='''two\nlines''')]": [Call("echo", {"content": "two\nlines"})],
    "[echo(content='\\d+ \\\\ \\n.')]": [Call("echo", {"content": "\\d+ \\ \n."})],
    "[echo(content=r'C:\\new')]": [Call("echo", {"content": "C:\\new"})],
    "[echo(content='call sort(data) or [find(x)]')]": [Call("echo", {"content": "call sort(data) or [find(x)]"})],
    "[echo(content='<tool_call>')]": [Call("echo", {"content": "<tool_call>"})],
    "[echo(content='{\"name\": \"x\", \"arguments\": {}}')]": [Call("echo", {"content": '{"name": "x", "arguments": {}}'})],
    "[mean(numbers=(1, 2))]": [Call("mean", {"numbers": [1, 2]})],
    "[GorillaFileSystem.cd(folder='document')]": [CD],
    "[functions.cd(folder='document')]": [CD],
    "```python\n[cd(folder='document')]\n```": [CD],
    "```\nls()\n```": [LS],
    "```ls()```": [LS],
    "```tool_code\nls()\ncd('document')\n```": [LS, CD],
    "Let me look.\n[ls()]": [LS],
    "Let me look: [ls()]": [LS],
    "[ls()]\nThen I will go on.": [LS],
    "Let me look.\nls()": [LS],
    "[\n  cd(\n    folder='document'\n  ),\n  ls()\n]": [CD, LS],
    "<think>x</think>[ls()]": [LS],
    "<think>[cd('a')]</think>\n\n[ls()]": [LS],
    "[ls()]<|im_end|>": [LS],
    "[ls()]</s>": [LS],
    "[ls(),]": [LS],
    "<TOOLCALL>[ls()]</TOOLCALL>": [LS],
    # Qwen and Hermes tags, bare JSON
    tag('{"name": "cd", "arguments": {"folder": "document"}}'): [CD],
    '<tool_call>{"name": "cd", "arguments": {"folder": "document"}}</tool_call>': [CD],
    '<tool_call>\r\n{"name": "ls", "arguments": {}}\r\n</tool_call>': [LS],
    '<tool_call>\n{"name": "ls", "arguments": {}}': [LS],
    tag('{"name": "ls"}'): [LS],
    tag('{"name": "ls", "parameters": {}}'): [LS],
    tag('{"name": "ls", "arguments": {"a": True}}'): [Call("ls", {"a": True})],
    tag("{'name': 'ls', 'arguments': {'a': True}}"): [Call("ls", {"a": True})],
    tag('{"name": "ls", "arguments": {"a": true,},}'): [Call("ls", {"a": True})],
    tag('[{"name": "ls"}, {"name": "cd", "arguments": {"folder": "document"}}]'): [LS, CD],
    tag("cd(folder='document')"): [CD],
    tag("[ls(), cd('document')]"): [LS, CD],
    tag('{"name": "ls"}') + "\n" + tag('{"name": "ls"}'): [LS, LS],
    "Let me look.\n" + tag('{"name": "ls", "arguments": {}}'): [LS],
    tag('{"name": "cd", "arguments": "{\\"folder\\": \\"document\\"}"}'): [CD],
    tag('{"name": "GorillaFileSystem.ls", "arguments": {}}'): [LS],
    tag('{"name": " ls ", "arguments": null}'): [LS],
    tag('{"name": "echo", "arguments": {"content": "two\nlines\tand a tab"}}'): [Call("echo", {"content": "two\nlines\tand a tab"})],
    tag('{"name": "echo", "arguments": {"content": "a\\/b", "file_name": None}}'): [Call("echo", {"content": "a/b", "file_name": None})],
    '```json\n[{"function": "ls", "parameters": {}}]\n```': [LS],
    '{"name": "ls", "arguments": {}} Done.': [LS],
}  # fmt: skip

PLAIN = (
    "I cannot do that.",
    "[]",
    "",
    "The means are [1, 2.5, -3].",
    "Use ls(a=true) for that.",
    "ls(a=True) shows hidden files, too.",
    "You could call [ls()] for that.",
    "I used mv(source, destination) twice (see above).",
    "Done (all files moved)",
    "[Note (optional), other]",
    "[the manual](https://example.org/ls(1))",
    "It's done; don't worry about cd('x').",
    "<think>[ls()]</think>",
    "<think>\n" + tag('{"name": "ls", "arguments": {}}') + "\n</think>\nDone.",
    "```bash\nls -l\n```",
    "The ticket is {'status': 'Closed'}.",
)

REFUSED = {
    # computed values: the hint quotes the argument
    "[fillFuelTank(fuelAmount=5+5)]": "5 + 5",
    "[fillFuelTank(fuelAmount=2**9999999)]": "2 ** 9999999",
    "[fillFuelTank(fuelAmount=amount)]": "amount",
    "[mean(numbers=[x for x in (1, 2)])]": "for x in",
    "[cd(folder=f'{name}')]": "name",
    "[cd(folder=os.path)]": "os.path",
    "[cd(folder=ls())]": "ls()",
    "[cd(folder=lambda: 1)]": "lambda",
    "[mean(*numbers)]": "*numbers",
    "[cd(**{'folder': 'x'})]": "**",
    "[ls(a=__import__('pathlib').Path('x').write_text('x')+0)]": "__import__",
    "[fillFuelTank(fuelAmount=-'5')]": "-'5'",
    # what no record can hold
    "[echo(content=b'x')]": "b'x'",
    "[mean(numbers={1, 2})]": "{1, 2}",
    "[mean(numbers=2j)]": "2j",
    "[mean(numbers=...)]": "...",
    "[fillFuelTank(fuelAmount=1e999)]": "too large",
    f"[fillFuelTank(fuelAmount={'9' * 30})]": "too large",
    f"[fillFuelTank(fuelAmount={'9' * 6000})]": "cannot be read",
    "[echo(content='\\ud800')]": "surrogate",
    "[edit_ticket(ticket_id=1, updates={1: 2})]": "must be text",
    "[edit_ticket(ticket_id=1, updates={'a': 1, 'a': 2})]": "twice",
    "[cd(folder='a', folder='b')]": "",
    "[cd('a', folder='b')]": "twice",
    "[cd('a', 'b')]": "takes 1 arguments: folder",
    "[ls('a']": "",
    "[cd(folder='a'": "",
    "[cd(folder='a]": "",
    "[gfs.cd(folder='x')]": "Did you mean cd",
    "[ls(), 5]": "Every item must be a call",
    "```python\nimport os\n[ls()]\n```\n[ls(a=1+1)]": "1 + 1",
    "[cd" + "('x')" * 3 + "]": "name of a tool",
    f"[mean(numbers={'[' * 500}{']' * 500})]": "nested",
    f"[mean(numbers={'[' * 60}{']' * 60})]": "nested",
    f"[fillFuelTank(fuelAmount={'-' * 50_000}1)]": "plain values",
    f"[fillFuelTank(fuelAmount={'1+' * 20_000}1)]": "",
    f"[{'ls(), ' * 40}]": "More than",
    # JSON
    tag('{"name": "ls", "arguments": {bad}}'): "",
    tag('{"name": "ls", "arguments": {}}') + tag('{"name": "cd", "arguments": {bad'): "not valid JSON",
    tag("<function=ls>\n<parameter=a>\ntrue\n</parameter>\n</function>"): '{"name": "<tool>"',
    tag(""): "No JSON object",
    tag("ls"): "No JSON object",
    tag('{"name": "ls", "arguments": "x"}'): "not valid JSON",
    tag('{"name": "ls", "arguments": [1]}'): "must be a JSON object",
    tag('{"name": "ls", "arguments": 5}'): "must be a JSON object",
    tag('{"name": "cd", "arguments": "{\\"folder\\": \\"x\\"} and more"}'): "there is more",
    tag('{"arguments": {}}'): "needs the name",
    tag('{"name": "ls", "arguments": {"a": 1, "a": 2}}'): "twice",
    tag('{"name": "ls", "arguments": {"a": NaN}}'): "NaN",
    tag('{"name": "ls", "arguments": {"a": 1+1}}'): "1 + 1",
    tag('{"name": "ls", "arguments": {"a": tru'): "not valid JSON",
    tag('{"name": "gfs.cd", "arguments": {"folder": "x"}}'): "Did you mean cd",
}  # fmt: skip


def test_the_corpus_is_large():
    """At least sixty malformed replies, beside well-formed ones and prose."""
    assert len(READ) >= 60 and len(PLAIN) >= 15 and len(REFUSED) >= 50


@pytest.mark.parametrize("text", READ, ids=repr)
def test_read_as_a_person_would(text):
    """All calls, in order, with the values as they stand there."""
    parsed = parse(text, TOOLS)
    assert (parsed.calls, parsed.issues) == (READ[text], [])
    assert [list(map(type, c.arguments.values())) for c in parsed.calls] == [list(map(type, c.arguments.values())) for c in READ[text]]  # fmt: skip


@pytest.mark.parametrize("text", PLAIN, ids=repr)
def test_plain_text_stays_plain(text):
    """What tries no call ends the turn."""
    parsed = parse(text, TOOLS)
    assert (parsed.calls, parsed.issues) == ([], [])


@pytest.mark.parametrize("text", REFUSED, ids=lambda text: repr(text[:60]))
def test_refused_with_a_hint(text):
    """What tries a call and fails says what is wrong, and nothing of the reply runs."""
    parsed = parse(text, TOOLS)
    assert parsed.calls == []
    assert parsed.issues and all(issue.hint for issue in parsed.issues)
    assert REFUSED[text] in parsed.issues[0].hint


@pytest.mark.parametrize(
    ("message", "calls", "issues"),
    [
        ({"content": "Done.", "tool_calls": []}, [], 0),
        ({"content": "Done.", "tool_calls": None}, [], 0),
        ({"content": None, "tool_calls": [{"id": "1", "function": {"name": "cd", "arguments": ""}}]}, [Call("cd")], 0),
        ({"content": "", "tool_calls": [{"function": {"name": "cd", "arguments": '{"folder": "x"'}}]}, [], 1),
        ({"content": "", "tool_calls": [{"function": {"name": "cd", "arguments": "[1]"}}]}, [], 1),
        ({"content": "", "tool_calls": [{"function": {"name": "ls", "arguments": "{}"}}, {"function": {"name": "ls", "arguments": "{bad"}}]}, [], 1),
        ({"content": "", "tool_calls": [{"function": {"name": "ls", "arguments": "{'a': True}"}}]}, [Call("ls", {"a": True})], 0),
    ],
)  # fmt: skip
def test_openai_messages(message, calls, issues):
    """An empty list is no call; empty arguments are none; one bad call holds back the good one."""
    parsed = parse_message(message, TOOLS)
    assert (parsed.calls, len(parsed.issues)) == (calls, issues)


@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    "text",
    ["[" * 150_000, "ls(" * 50_000, "[ls(" * 40_000, "[ls('" + "a" * 190_000, "[x(]" * 40_000, "ls()\n" * 30_000, "{" * 150_000,
     "<tool_call>{" * 12_000, '{"name": "a", "arguments": ' * 5_000, "[ls('" + "\\" * 180_000, " " * 190_000 + "x", "<|a|>" * 30_000 + "x"],
    ids=lambda text: repr(text[:12]),
)  # fmt: skip
def test_endless_replies_end(text):
    """Size and nesting cost little, and give no call."""
    parsed = parse(text, TOOLS)
    assert parsed.calls == [] and len(parsed.issues) <= 8


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
