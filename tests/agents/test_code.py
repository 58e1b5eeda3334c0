"""Code as an action: read from a reply, written into one, the APIs it calls, its episodes."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import msgspec
import pytest

from coevolve import jsonl
from coevolve.agents.actions.replies import parse
from coevolve.agents.code.calls import api_calls
from coevolve.agents.code.prompts import CODE, episode_style
from coevolve.agents.code.replies import NO_CODE, CodeReply, read, to_text
from coevolve.agents.drivers import ProgramPolicy
from coevolve.agents.prompts.styles import style
from coevolve.agents.rollout import make_policy, rollouts
from coevolve.environments.client import Pool
from coevolve.environments.programs import program, program_of_calls, python_literal
from coevolve.environments.protocol import CodeSyntax, Tool
from coevolve.errors import UsageError
from coevolve.grounding.programs import unknown_constants
from coevolve.records import Call, Start, Task, Verifier, task_id
from coevolve.signals.patterns import called_tools
from coevolve.signals.views import RolloutSteps

PAD = f"{sys.executable} {Path(__file__).parents[1] / 'code_pad.py'}"


@pytest.mark.parametrize(
    ("reply", "code"),
    [
        ("```python\nif a:\n    b()\n\n    c()\n```", "if a:\n    b()\n\n    c()"),
        ("First I look.\n```py\nx = 1\n```\nThen more.", "x = 1"),
        ("```\n  x = 1\n```", "  x = 1"),
        ("```python\nprint('''```''')\n```", "print('''```''')"),
        ("````python\n```\n````", "```"),
        ("~~~python\nx()\n~~~", "x()"),
        ("   ```python\n   x()\n   ```", "   x()"),
        ("```python\nx()\n```<|im_end|>", "x()"),
        ("<think>\n```python\nwrong()\n```\n</think>\n```python\nright()\n```", "right()"),
        ("<think>```python\nwrong()\n```</think>```python\nright()\n```", "right()"),
        ("<think>\n```\nwrong()\n```</think>\n\n```python\nright()\n```", "right()"),
        ("```python\nx()\n```\n```\n\n```", "x()"),
        ("<code>\nprint(1)\n</code>", "print(1)"),
        ("Here: <code>print(1)</code> done", "print(1)"),
        ("```python print(1) ```", "print(1)"),
        ("print(apis.spotify.show_genres())", "print(apis.spotify.show_genres())"),
        ("x = 1\nfor y in z:\n    f(y)", "x = 1\nfor y in z:\n    f(y)"),
        ("import json\n", "import json"),
    ],
)
def test_one_block_is_the_action(reply, code):
    """Fences, tags, or a whole reply that is a program; indentation and inner fences kept."""
    assert read(reply) == CodeReply(code)


@pytest.mark.parametrize(
    ("reply", "kind"),
    [
        ("```python\na()\n```\nand\n```python\nb()\n```", "several_blocks"),
        ("<code>a()</code><code>b()</code>", "several_blocks"),
        ("```python\nnever(closed", "unclosed_block"),
        ("a()\n```", "unclosed_block"),
        ("<code>a()", "unclosed_block"),
        ("a()</code>", "unclosed_block"),
        ("<code><code>a()</code>", "unclosed_block"),
        ("I would use ``` for that", "unclosed_block"),
        ("```python\n\n```", "no_code"),
        ("<code> </code>", "no_code"),
        ("x" * 200_001, "too_long"),
    ],
)
def test_what_cannot_be_run_is_told(reply, kind):
    """None of it runs, and the hint says what to do."""
    found = read(reply)
    assert found.code is None and found.issue.kind == kind and found.issue.hint.endswith(".")


@pytest.mark.parametrize(
    "reply",
    [
        "",
        "done",
        "I am finished.",
        "Yes, no",
        "Call print(1) next.",
        "42",
        "'text'",
        "The total is 3",
        "a < b",
        "x, y = f",
        "\0",
    ],
)
def test_prose_is_no_code(reply):
    """Text that happens to parse, or not, is no action (an assignment is one)."""
    assert read(reply) == (CodeReply(None) if "=" not in reply else CodeReply(reply))


@pytest.mark.parametrize("code", ["x = 1", "s = '''\n```\n'''", "a()\n\n````\n", "  indented()"])
def test_a_written_reply_reads_back(code):
    """`to_text` chooses a fence that the code itself does not close."""
    assert read(to_text(code)).code == code.removesuffix("\n") or read(to_text(code)).code == code


@pytest.mark.parametrize(
    ("code", "names"),
    [
        ("apis.a.f()\nx = apis.b.g(k=apis.c.h())", ["a.f", "c.h", "b.g"]),
        (
            "x = apis.mail.read(id=apis.mail.find(q='a'))\napis.mail.send(to=x)",
            ["mail.find", "mail.read", "mail.send"],
        ),
        ("read = apis.mail.read\nread(id=apis.mail.find(q='a'))", ["mail.find", "mail.read"]),
        ("for s in apis.a.f():\n    apis.a.g(s=s)", ["a.f", "a.g"]),
        ("for i in range(3):\n    print(apis.pay.list(page=i))", ["pay.list"]),
        (
            "sp = apis.spotify\nsp.like(x=1)\nlike = sp.like\nlike(x=2)",
            ["spotify.like", "spotify.like"],
        ),
        ("apis['a']['f']()", ["a.f"]),
        ("apis = 3\napis.a.f()", []),
        ("apis.a.f.__call__()\napis.a()\nother.a.f()", []),
        ("print(apis.a.f)", []),
        ("apis.a.f", []),
        ("api.a.f()", []),
        ("apis.a.b.f()", []),
        ("not code at all (", []),
        ("\x00", []),
        ("(" * 5000, []),
        ("'apis.a.f()'", []),
    ],
)
def test_the_apis_that_a_program_calls(code, names):
    """In the order in which they run, through simple names too; all else calls nothing."""
    assert api_calls(code) == names


@pytest.mark.parametrize("size", [600, 3000])
@pytest.mark.parametrize(
    "make",
    [
        lambda n: "x = " + "+".join(["1"] * n),
        lambda n: "x = a" + ".b" * n,
        lambda n: "apis" + ".a" * n + "()",
        lambda n: "x = f" + "()" * n,
        lambda n: "if a: pass\n" + "elif a: pass\n" * n,
        lambda n: "apis.a.f(k=" + "-" * n + "1)",
    ],
)
def test_code_of_any_depth_is_read(make, size):
    """Nothing runs out of stack: a program is an action, plain text, or calls nothing."""
    code = make(size).rstrip()
    tools = {"a.f": Tool("a.f", "", parameters={"required": ["k"]})}
    assert read(f"```python\n{code}\n```").code == code and read(code).code in (code, None)
    assert set(api_calls(code)) <= {"a.f"}
    assert set(unknown_constants(code, tools, "")) <= {"a.f: k", "what is nested so deeply"}
    found = parse(code)
    assert found.calls or found.issues or found.text


def test_calls_are_found_below_a_deep_expression():
    """A thousand terms hide no call before, in or after them; bindings follow the text's order."""
    deep = "+".join(["1"] * 600)
    code = f"apis.a.f()\nx = apis.a.g() + {deep} + apis.a.i()\nsp = apis.b\nsp.h()\nsp = 1\nsp.h()"
    assert api_calls(code) == ["a.f", "a.g", "a.i", "b.h"]


LIBRARY = CodeSyntax(
    call="apis.{tool}({arguments})",
    setup={
        "p": "p = apis.me.passwords()",
        "q": "q = 'unused p'",
        "a_token": "a_token = apis.a.login(password=p)",
    },
    arguments={"a.write": {"token": "a_token"}},
    end="apis.me.finish()",
    ends=["me.finish"],
)


def test_calls_become_a_program_with_its_setup_and_its_end():
    """Only the setup that is needed, in its own order; text in arguments never becomes code."""
    text = 'a"b\\\n{p} q'
    lines = program_of_calls(
        LIBRARY, [Call("a.write", {"text": text, "on": [True, None, 1.5]}), Call("b.look")]
    ).split("\n")
    assert lines[:2] == ["p = apis.me.passwords()", "a_token = apis.a.login(password=p)"]
    assert ast.literal_eval(ast.parse(lines[2]).body[0].value.args[0].keywords[0].value) == text
    assert lines[2].endswith("on=[True, None, 1.5], token=a_token))") and lines[3:] == [
        "print(apis.b.look())",
        "apis.me.finish()",
    ]
    assert (
        program_of_calls(LIBRARY, [Call("me.finish", {"answer": 3})]) == "apis.me.finish(answer=3)"
    )
    assert program(LIBRARY, ['x = "a_token"'], ended=True) == 'x = "a_token"'


@pytest.mark.parametrize("value", ["", "ü\u2028\t\"'", -1.5, True, None, [], {"a": ["b"]}])
def test_a_literal_is_the_value(value):
    """Python reads back what was written."""
    assert ast.literal_eval(python_literal(value)) == value


def task(*code: str) -> Task:
    start, verifier = Start("default"), Verifier("state")
    return Task(
        id=task_id(PAD, start, ["Write."], [list(code)], verifier),
        env=PAD,
        query=["Write."],
        solution=[list(code)],
        start=start,
        verifier=verifier,
    )


def scripted(*lines: str) -> ProgramPolicy:
    """A policy that says its lines, the last one again and again."""
    return ProgramPolicy(
        "scripted", lambda episode, pool: lines[min(episode.replies, len(lines) - 1)]
    )


def play(policy, *tasks: Task):
    with Pool(PAD) as pool:
        return list(rollouts(tasks, policy, pool))


def test_the_solution_is_replayed_as_code_with_its_indentation():
    """One block a reply, character by character; doing nothing fails after one hint."""
    code = "if 1:\n    write('a')\n\n    write('b')"
    (won,), (lost,) = (
        play(make_policy("solution"), task(code)),
        play(make_policy("nothing"), task(code)),
    )
    assert won.success and won.steps[0].action == code and won.stop_reason == "done"
    assert (
        not lost.success
        and [step.error for step in lost.steps] == ["no_code"]
        and lost.stop_reason == "done"
    )
    assert lost.messages[2] == {"role": "user", "content": NO_CODE}


def test_hints_are_observations_and_the_episode_goes_on():
    """Several blocks and prose get hints; the code after them runs; a second prose ends it."""
    lines = [
        "```\na\n```\n```\nb\n```",
        "Let me think.",
        "```python\nwrite('x')\n```",
        "Done.",
        "Really.",
    ]
    (rollout,) = play(scripted(*lines), task("write('x')"))
    assert [step.error for step in rollout.steps] == ["several_blocks", "no_code", None, "no_code"]
    assert rollout.success and rollout.stop_reason == "done"
    shown = [message["content"] for message in rollout.messages if message["role"] == "user"]
    assert shown[3] == "Output:\nok" and all(
        "tool" != message["role"] for message in rollout.messages
    )


def test_tool_names_of_a_rollout_come_from_its_code():
    """`apis.app.function` in order; replies that were not run call nothing."""
    lines = [
        "```\napis.a.f(); apis.b.g(); write()\n```",
        "```\napis.a.x()\n```\n```\napis.a.y()\n```",
        "end",
        "end",
    ]
    (rollout,) = play(scripted(*lines), task("write()"))
    assert rollout.tools == ["a.f", "b.g"]


def test_signals_read_the_names_that_the_record_lists():
    """The patterns of code are the same whether a rollout lists its tools or not."""
    lines = [
        "```\nx = apis.b.g(k=apis.c.h())\nspotify = apis.spotify\nspotify.like(x=x)\nwrite()\n```",
        "end",
        "end",
    ]
    (rollout,) = play(scripted(*lines), task("write()"))
    whole = msgspec.json.decode(jsonl.encode(rollout), type=RolloutSteps)
    unlisted = msgspec.structs.replace(whole, tools=[])
    assert called_tools(unlisted) == called_tools(whole) == ["c.h", "b.g", "spotify.like"]


def test_the_prompt_says_how_to_act_and_hands_over_no_tools():
    """The first message holds the rules, what the environment shows, and the task."""
    (message,) = CODE.first("Pay Ann.", "Your supervisor is Bo.", [])
    assert message["role"] == "user" and message["content"].endswith(
        "Your supervisor is Bo.\n\nThe task: Pay Ann."
    )
    for said in (
        "apis.api_docs.show_api_doc",
        "show_account_passwords",
        "complete_task(answer=",
        "exactly one block",
    ):
        assert said in message["content"]
    assert read(message["content"]).code == "print(apis.api_docs.show_app_descriptions())"
    assert CODE.schemas([]) == [] and CODE.label("model") == "model"


def test_a_prompt_for_tools_is_refused():
    """An environment of code has its own prompt."""
    with Pool(PAD) as pool:
        assert episode_style(pool, make_policy("nothing").style) is CODE
        policy = make_policy("nothing")
        policy.style = style("prompting")
        with pytest.raises(UsageError, match="takes code"):
            episode_style(pool, policy.style)
