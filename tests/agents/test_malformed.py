"""Replies as models write them: each is read as a person would read it, or answered with a hint that says what is wrong.

The corpus has the rules R1–R12 and the case tables of the BFCL research (official decoders lose, change or crash on most of
it), the marks of other model families, halves of calls, and as a control honest prose about tools, code and data.
"""

from __future__ import annotations

import pytest

from coevolve.agents.actions.replies import parse, parse_message
from coevolve.environments.protocol import Tool
from coevolve.records import Call


def tool(name: str, app: str, **parameters: str) -> Tool:
    properties = {key: {"type": type_} for key, type_ in parameters.items()}
    return Tool(
        name,
        name,
        {"type": "object", "properties": properties, "required": list(properties)[:1]},
        app=app,
    )


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
        tool("find", "GorillaFileSystem", path="string", pattern="string"),
        tool("sort", "GorillaFileSystem", file_name="string"),
        tool("pwd", "GorillaFileSystem"),
        tool("answer", "Desk", text="string"),
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
    # the marks of other model families
    "<function=ls><parameter=a>true</parameter></function>": [Call("ls", {"a": True})],
    "<function=ls>\n<parameter=a>\ntrue\n</parameter>\n</function>": [Call("ls", {"a": True})],
    tag("<function=ls>\n<parameter=a>\ntrue\n</parameter>\n</function>"): [Call("ls", {"a": True})],
    "Let me look.\n<function=ls>\n</function>": [LS],
    "<function=cd><parameter=folder>document</function>": [CD],
    "<function=echo><parameter=content>\n  two\nlines\n</parameter><parameter=file_name>5</parameter></function>": [Call("echo", {"content": "  two\nlines", "file_name": "5"})],
    "<function=mean><parameter=numbers>[1, 2.5]</parameter></function>": [Call("mean", {"numbers": [1, 2.5]})],
    '<function=cd>{"folder": "document"}</function>': [CD],
    '<function=cd>{"folder": "document"}': [CD],
    '<function name="cd"><parameter name="folder">document</parameter></function>': [CD],
    tag('{"name": "ls"}') + tag("<function=cd><parameter=folder>document</parameter></function>"): [LS, CD],
    tag("ls"): [LS],
    "<tool_call>cd\n<arg_key>folder</arg_key>\n<arg_value>document</arg_value>\n</tool_call>": [CD],
    "<tool_call>ls\n<arg_key>a</arg_key><arg_value>True</arg_value></tool_call>": [Call("ls", {"a": True})],
    "<|python_tag|>cd(folder='document')": [CD],
    "<|python_tag|>ls.call(a=True)<|eom_id|>": [Call("ls", {"a": True})],
    '<|python_tag|>{"name": "cd", "parameters": {"folder": "document"}}<|eot_id|>': [CD],
    '<|python_tag|>{"name": "ls", "parameters": {}}; {"name": "cd", "parameters": {"folder": "document"}}': [LS, CD],
    '<invoke name="cd"><parameter name="folder">document</parameter></invoke>': [CD],
    '<minimax:tool_call>\n<invoke name="cd">\n<parameter name="folder">document</parameter>\n</invoke>\n<invoke name="ls">\n</invoke>\n</minimax:tool_call>': [CD, LS],
    'Sure.\n<function_calls>\n<invoke name="mean">\n<parameter name="numbers">[1, 2]</parameter>\n</invoke>\n</function_calls>': [Call("mean", {"numbers": [1, 2]})],
    '<｜DSML｜function_calls><｜DSML｜invoke name="cd"><｜DSML｜parameter name="folder" string="true">document</｜DSML｜parameter></｜DSML｜invoke></｜DSML｜function_calls>': [CD],
    '<|tool_calls_section_begin|><|tool_call_begin|>functions.cd:0<|tool_call_argument_begin|>{"folder": "document"}<|tool_call_end|><|tool_call_begin|>functions.ls:1<|tool_call_argument_begin|>{}<|tool_call_end|><|tool_calls_section_end|>': [CD, LS],
    '<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>cd\n```json\n{"folder": "document"}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜><｜end▁of▁sentence｜>': [CD],
    '<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>cd<｜tool▁sep｜>{"folder": "document"}<｜tool▁call▁end｜><｜tool▁calls▁end｜>': [CD],
    '[TOOL_CALLS][{"name": "cd", "arguments": {"folder": "document"}}]': [CD],
    '[TOOL_CALLS] [{"name": "cd", "arguments": {"folder": "document"}, "id": "VvvODy9mT"}]</s>': [CD],
    '[TOOL_CALLS]cd[ARGS]{"folder": "document"}': [CD],
    '[TOOL_CALLS]ls[CALL_ID]a1[ARGS]{}[TOOL_CALLS]cd[CALL_ID]a2[ARGS]{"folder": "document"}': [LS, CD],
    '<|channel|>analysis<|message|>I call ls()<|end|><|start|>assistant<|channel|>commentary to=functions.cd <|constrain|>json<|message|>{"folder": "document"}<|call|>': [CD],
    '<tools>{"name": "ls", "arguments": {}}</tools>': [LS],
    '<|tool_call|>[{"name": "ls", "arguments": {}}]<|/tool_call|>': [LS],
    '<|START_ACTION|>[{"tool_call_id": "0", "tool_name": "ls", "parameters": {}}]<|END_ACTION|>': [LS],
    '<functioncall> {"name": "cd", "arguments": \'{"folder": "document"}\'}': [CD],
    "<tool_code>\nprint(ls(a=True))\n</tool_code>": [Call("ls", {"a": True})],
    # ReAct
    'Action: cd\nAction Input: {"folder": "document"}': [CD],
    'Thought: there.\nAction: cd\nAction Input: {"folder": "document"}\nObservation: ok\nThought: done.\nAction: ls\nAction Input: {}': [CD],
    "Action: cd\nAction Input: document": [CD],
    'Action: cd\nAction Input: "document"\n': [CD],
    "Action: pwd\nAction Input: None": [Call("pwd")],
    '**Action:** `cd`\n**Action Input:** ```json\n{"folder": "document"}\n```': [CD],
    "Thought: there.\nAction: cd(folder='document')": [CD],
    "Action: ls": [LS],
    # calls in code
    "ls (a=True)": [Call("ls", {"a": True})],
    "Let me look.\ncd ('document')": [CD],
    "print(cd('document'))": [CD],
    "listing = cd('document')": [CD],
    "listing = ls()\nprint(listing)": [LS],
    "await ls()": [LS],
    ">>> ls()": [LS],
    "`cd('document')`": [CD],
    "ls();": [LS],
    'const there = await cd({"folder": "document"});': [CD],
    "```python\nlisting = ls()\nprint(listing)\n```": [LS],
    "```tool_code\nprint(cd('document'))\n```": [CD],
    "I will look:\n```python\n# the files\nls(a=True)\n```": [Call("ls", {"a": True})],
    'functions.cd({"folder": "document"})': [CD],
    "mv({'source': 'a.txt', 'destination': 'b'})": [Call("mv", {"source": "a.txt", "destination": "b"})],
    "ls({})": [LS],
    'echo({"text": "x"})': [Call("echo", {"text": "x"})],
    "edit_ticket(1, {'status': 'Closed'})": [Call("edit_ticket", {"ticket_id": 1, "updates": {"status": "Closed"}})],
    "default_api.cd(folder='document')": [CD],
    # JSON that is nearly right
    '{"name": "cd", "arguments": {"folder": "document"}': [CD],
    tag('{"name": "cd", "arguments": {"folder": "document"}'): [CD],
    'I will go: {"name": "cd", "arguments": {"folder": "document"}': [CD],
    'I will look: {"name": "ls"}': [LS],
    'Sure: {"arguments": {"folder": "document"}, "name": "cd"}': [CD],
    '{"name": "cd", "folder": "document"}': [CD],
    '{"tool": "cd", "args": {"folder": "document"}}': [CD],
    '{"action": "cd", "action_input": {"folder": "document"}}': [CD],
    '{"cd": {"folder": "document"}}': [CD],
    '{"tool_calls": [{"name": "ls", "arguments": {}}]}': [LS],
    '{"name": "cd", "arguments": {"folder": "document"}},': [CD],
    '```json\n{"name": "cd", "arguments": {"folder": "document"}}\n```\nand then\n```json\n{"name": "ls"}\n```': [CD, LS],
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
    "<think>\n" + tag('{"name": "ls", "arguments": {}}') + "\n</think>\nDone.",
    "The ticket is {'status': 'Closed'}.",
    # talk of code, data and calls
    "{folder} stands for the folder's name.",
    "".join(f"step({i}) is done.\n" for i in range(60)),
    "find (or search for\nthe file yourself.",
    "Done. I moved the file to the folder 'archive'.",
    "The mean of the numbers is 3.5.",
    "The mean (3.5) is above the median (3).",
    "mean (3.5) and median (3)",
    "mean is 5",
    "mean: 5",
    "Mean: 3.5\nMedian: 3",
    "I used ls() to list the files and then cd('document') to enter the folder.",
    "I ran ls(a=True) and found two hidden files.",
    "I have called mv(source='a.txt', destination='b') for you.",
    "To see hidden files, use ls(a=True).",
    "You can call ls(a=True) if you want the hidden files.",
    "You could do this yourself:\n```python\nls(a=True)\n```",
    "Here is an example:\n```python\ncd('document')\nls()\n```",
    "Here is a small Python program:\n```python\nimport os\nprint(os.listdir('.'))\n```",
    "Here is the function you asked for:\n```python\ndef mean(numbers):\n    return sum(numbers) / len(numbers)\n\nprint(mean([1, 2, 3]))\n```",
    "In Python you'd write:\n```python\nfrom statistics import mean\nprint(mean([1, 2, 3]))\n```",
    'The configuration is:\n```json\n{"debug": true, "level": 3}\n```',
    '```json\n{"status": "Closed", "priority": 2}\n```',
    '{"status": "Closed", "priority": 2}',
    '{"total": 3}',
    'The ticket reads {"id": 7, "name": "Printer", "status": "open"}.',
    'The contact is {"name": "Bob", "phone": "555"}.',
    'The statistics: {"name": "mean", "value": 5}',
    "A tool's schema looks like {\"name\": \"ls\", \"parameters\": {\"type\": \"object\", \"properties\": {}}}.",
    "Which folder do you mean: document or documents?",
    "Should I call mv(source='a.txt', destination='b')?",
    "Shall I run ls(a=True) as well?",
    "I will not call cd('x'), because the folder does not exist.",
    "I won't run mv(source='a', destination='b') without your consent.",
    "I'll call ls(a=True) once you tell me the folder.",
    "If you like, I'll run ls(a=True) next.",
    "Let me know if I should run ls(a=True).",
    "The function mean(numbers) returns the average; sort(file_name) sorts a file.",
    "There is no tool for that; ls(), cd() and mv() only handle files.",
    "- ls(a=True): lists hidden files\n- cd(folder): changes the folder",
    "I did the following:\n1. cd('document')\n2. ls()\n3. mv('a.txt', 'b')",
    "I executed these calls:\n[cd(folder='document'), ls()]\nAll of them worked.",
    "These were the steps I took:\n```\ncd('document')\nls()\n```",
    "The equation is f(x) = x**2 (see [1]).",
    "P(A) = 0.5",
    "The result list is [1, 2, 3] (sorted).",
    "[Note: the folder was empty]",
    "Use the `<tool_call>` tag to call a tool.",
    "I put the call in `<tool_call>` and `</tool_call>`.",
    "The file holds the line: Action: none",
    "Action: none required.\nEverything is up to date.",
    "Action taken: moved a.txt to b.",
    "Actions:\n- moved a.txt\n- listed the folder",
    "Thought: all is done.\nFinal Answer: the file was moved.",
    "The HTML is <b>bold</b> and <i>italic</i>.",
    "The text contains 'ls' three times.",
    "echo (the nymph) loved Narcissus",
    "Find the file in your folder; it's called report.txt.",
    "sort order: ascending",
    "name: Bob\nphone: 555",
    "Name: mean\nValue: 3",
    "To: ann@x.org\nSubject: files\n\nHi Ann, the files are moved.",
    "x = 5",
    "result = 42 (computed from mean and median)",
    "The pattern a(b|c)* matches abc.",
    "In the shell, `mv a b` renames a file.",
    "```bash\npip install numpy\n```",
    "You need to run:\n```bash\npip install numpy\n```",
    "Calling ls(a=True) shows hidden files too.",
    "Running sort('a.txt') sorted the lines.",
    "I'm going to need the ticket number before I can close it.",
    "I need to know which folder (document or archive) you mean.",
    "I will use the value 5 (the mean) as the threshold from now on.",
    "ls lists the files of a folder.",
    "I would need mv(source, destination) with a destination.",
    "Sure! Anything else? (I can also sort files.)",
    "<think>I could call ls() but it's done.</think>\nAll done.",
    "The answer is 5.",
    "answer: 5",
    "The command 'cd document' failed, since there is no such folder.",
    "Error: cd(folder='x') said: No such directory.",
    "cd(folder='x') failed: there is no such folder.",
    "The call cd(folder='x') returned an error, so I stopped.",
    "It was posted:\n> content: hello\n> tags: ['#a']",
    "| tool | result |\n|---|---|\n| ls() | 2 files |\n| cd('x') | error |",
    "Could you give me the number (an integer) and the updates (an object)?",
    "The file's content is:\n```\nhello (world)\nbye\n```",
    "The file's content is:\n```\n{\"a\": 1}\n```",
    "The script contains:\n```python\nfor i in range(3):\n    print(i)\n```",
    "I've moved the file, sorted it (by name), and counted the lines.",
    "As I said, I used [ls()] earlier.",
    "find returned nothing",
    "pwd printed /home",
    "grep: no match",
    "Thanks (again)!",
    "ok",
)  # fmt: skip

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
    "```python\nimport os\n[ls()]\n```\n[ls(a=1+1)]": "no other code",
    "[ls()]\nand\n[ls(a=1+1)]": "1 + 1",
    "```python\nfor name in ['a']:\n    mv(source=name, destination='b')\n```": "no other code",
    "listing = ls()\ncd(folder=listing)": "listing",
    "```python\nfrom functions import ls\nls()\n```": "no other code",
    "cd (folder=document)": "document",
    "cd(folder: 'document')": "invalid syntax",
    "cd({folder: 'document'})": "must be text",
    "[cd" + "('x')" * 3 + "]": "name of a tool",
    f"[mean(numbers={'[' * 500}{']' * 500})]": "nested",
    f"[mean(numbers={'[' * 60}{']' * 60})]": "nested",
    f"[fillFuelTank(fuelAmount={'-' * 50_000}1)]": "plain values",
    f"[fillFuelTank(fuelAmount={'1+' * 20_000}1)]": "",
    f"[{'ls(), ' * 40}]": "More than",
    # JSON
    tag('{"name": "ls", "arguments": {bad}}'): "",
    tag('{"name": "ls", "arguments": {}}') + tag('{"name": "cd", "arguments": {bad'): "not valid JSON",
    tag(""): "No JSON object",
    tag("list the files"): "No JSON object",
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
    '{"folder": "document"}': "needs the name",
    "{": "not valid JSON",
    '{"folder": "doc': "not valid JSON",
    '{"name": "cd", "directory": "document"}': "belong under",
    '{"name": "ls", "arguments": {"a": {"b": 1': "not valid JSON",
    # marks
    "<function=cd>{bad}</function>": "",
    "<function=cd>the folder</function>": "not valid JSON",
    "<function=ls><parameter=a>1</parameter><parameter=a>2</parameter></function>": "twice",
    '<invoke name="gfs.cd"><parameter name="folder">x</parameter></invoke>': "Did you mean cd",
    '<invoke name=""><parameter name="folder">x</parameter></invoke>': "needs the name",
    "<|python_tag|>cd(folder=os.path)": "os.path",
    "<|python_tag|>import os": "No JSON object",
    "[TOOL_CALLS]": "No JSON object",
    "[TOOL_CALLS]cd[ARGS]{bad}": "",
    "<|tool_calls_section_begin|><|tool_call_begin|>functions.cd:0<|tool_call_argument_begin|>{bad<|tool_call_end|>": "not valid JSON",
    "<|tool_calls_section_begin|>": "needs the name",
    "<start_function_call>call:cd{folder:<escape>document<escape>}<end_function_call>": "No JSON object",
    "Action: mv\nAction Input: a.txt, b": "not valid JSON",
    # reasoning and nothing else
    "<think>[ls()]</think>": "reasoning and nothing after it",
    '<think>I look.\n{"name": "ls", "arguments": {}}': "reasoning and nothing after it",
    "<think>I look.\n" + tag('{"name": "ls"}'): "reasoning and nothing after it",
    # announced, and not called
    "I will call ls(a=true) now.": "speaks of ls",
    "Let me look: ls()": "speaks of ls",
    "I'll use `cd('document')`.": "speaks of cd",
    "I will list the files with ls(a=True).": "speaks of ls",
    "Now I need to call the function mv('a.txt', 'b').": "speaks of mv",
    "I would like to call [cd(folder='document')] now.": "speaks of cd",
    "Calling ls()...": "speaks of ls",
    "1. cd('document')\n2. ls()": "speaks of cd",
    "I will do this:\n- cd('document')\n- ls()": "speaks of cd",
    # half a call
    "ls": "speaks of ls",
    "[pwd]": "speaks of pwd",
    "/ls": "speaks of ls",
    "cd document": "speaks of cd",
    "```bash\nls -l\n```": "speaks of ls",
    'cd {"folder": "document"}': "speaks of cd",
    'cd\n{"folder": "document"}': "speaks of cd",
    '>>>cd\n{"folder": "document"}': "speaks of cd",
    'Function: cd\nParameters: {"folder": "document"}': "speaks of cd",
    "name: cd\narguments:\n  folder: document": "speaks of cd",
    '"name": "cd", "arguments": {"folder": "document"}': "speaks of cd",
    "-> cd(folder='document')": "speaks of cd",
    '<cd folder="document"/>': "speaks of cd",
    "call_tool('cd', {'folder': 'document'})": "speaks of cd",
    '✿FUNCTION✿: cd\n✿ARGS✿: {"folder": "document"}': "speaks of cd",
}  # fmt: skip


def test_the_corpus_is_large():
    """At least a hundred malformed replies, beside well-formed ones, and forty of honest prose."""
    assert len(READ) >= 120 and len(PLAIN) >= 90 and len(REFUSED) >= 90


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
        ({"content": "", "reasoning": "I could call ls()."}, [], 1),
        ({"content": "Done.", "reasoning": "I could call ls()."}, [], 0),
        ({"content": None, "function_call": {"name": "cd", "arguments": '{"folder": "document"}'}}, [CD], 0),
        ({"content": None, "tool_calls": {"function": {"name": "ls", "arguments": {}}}}, [LS], 0),
        ({"content": None, "tool_calls": "ls()"}, [], 1),
        ({"content": None, "tool_calls": [None]}, [], 1),
        ({"content": None, "tool_calls": [{"function": {"name": None, "arguments": "{}"}}]}, [], 1),
        ({"content": 5}, [], 0),
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
    ["[" * 150_000, "<arg_key>" * 20_000, "<tool_call><arg_key>" * 9_000, "[TOOL_CALLS]a" + " " * 190_000 + "x", "Action: " + " *" * 90_000,
     "ls()" + " " * 190_000 + "x", "```" * 60_000, "```\nls(a=1+1)\n```\n" * 9_000, "<parameter=a>" * 15_000, "<function=ls>" * 15_000, "to=" + "a" * 190_000,
     "<|tool_call_begin|>" * 10_000, "I will call ls( " * 12_000, "- ls(1\n" * 25_000, "Action: ls\n" * 18_000 + "!", "<think>" * 28_000, "```" + " " * 190_000 + "x",
     "print(" * 33_000, "a=" * 100_000, "x" + "'" * 190_000, '{"name": "ls"' * 15_000 + "}", "<tools>" * 28_000, "Action Input:\n" * 14_000, "ls " * 66_000, "<ls " * 40_000,
     "ls(" * 50_000, "[ls(" * 40_000, "[ls('" + "a" * 190_000, "[x(]" * 40_000, "ls()\n" * 30_000, "{" * 150_000,
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
