"""The protocol loop, spoken to through bare pipes."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

STRANGE = Path(__file__).parent / "strange.py"


def talk(
    *lines: str | bytes | dict, send: signal.Signals | None = None
) -> tuple[list[dict], subprocess.CompletedProcess]:
    """Sends lines to a fresh worker; returns its replies, strictly parsed, and how it ended."""
    data = b"".join(
        (
            line
            if isinstance(line, bytes)
            else (line if isinstance(line, str) else json.dumps(line)).encode()
        )
        + b"\n"
        for line in lines
    )
    worker = subprocess.Popen(
        [sys.executable, STRANGE],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    first = b""
    if send is not None:
        worker.stdin.write(b'{"id": -1, "op": "describe"}\n')
        worker.stdin.flush()
        first = worker.stdout.readline()
        worker.send_signal(send)
    out, err = worker.communicate(data)
    replies = [json.loads(line, parse_constant=pytest.fail) for line in (first + out).splitlines()]
    return replies, subprocess.CompletedProcess([], worker.returncode, out, err)


OPEN = {"id": 1, "op": "open", "session": "s", "start": {"config": {}}}


def step(id_: int, *actions: dict, session: str = "s") -> dict:
    return {
        "id": id_,
        "op": "step",
        "steps": [{"session": session, "turn": 0, "actions": list(actions)}],
    }


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        ("not json", "bad_request"),
        ("[]", "bad_request"),
        ('{"id": 1}', "unsupported"),
        ('{"id": 1, "op": ["step"]}', "unsupported"),
        ('{"id": 1, "op": "dispatch"}', "unsupported"),
        ('{"id": 1, "op": "open", "session": 5, "start": {}}', "bad_request"),
        ('{"id": 1, "op": "open", "session": "s"}', "bad_request"),
        ('{"id": 1, "op": "open", "session": "s", "start": {"config": {"n": NaN}}}', "bad_request"),
        ('{"id": 1, "op": "step", "steps": [3]}', "bad_request"),
        (
            '{"id": 1, "op": "step", "steps": [{"session": "none", "turn": 0, "actions": []}]}',
            "bad_request",
        ),
        ('{"id": 1, "op": "tasks", "split": "nope"}', "bad_request"),
        ("[" * 100_000, "internal"),
        (b'{"id": 1, "op": "\xff"}', "internal"),
    ],
)
def test_a_bad_request_gets_an_error_reply_and_the_loop_goes_on(line, kind):
    """Whatever a line holds, there is one error reply with its kind, and the next request is
    served."""
    (bad, opened), end = talk(line, OPEN)
    assert bad["error"]["kind"] == kind and "\n" not in bad["error"]["message"]
    assert "state" in opened["result"] and end.returncode == 0


def test_replies_are_in_order_and_blank_lines_are_nothing():
    """Ids come back as they were sent, one line a request, and the end of input is a quiet end."""
    replies, end = talk(
        OPEN,
        "",
        step(7, {"tool": "add", "arguments": {"key": "k"}}),
        {"id": "text", "op": "close", "session": "s"},
    )
    assert [reply["id"] for reply in replies] == [1, 7, "text"]
    assert (
        replies[1]["result"]["results"][0][0]["observation"] == "1" and replies[2]["result"] == {}
    )
    assert (end.returncode, end.stderr) == (0, b"")


def test_one_message_holds_many_sessions():
    """A batch over sessions answers per entry, and the sessions share nothing."""
    add = {"tool": "add", "arguments": {"key": "k"}}
    entries = [{"session": s, "turn": 0, "actions": [add] * n} for s, n in (("s", 2), ("t", 1))]
    replies, _ = talk(
        OPEN, {**OPEN, "id": 2, "session": "t"}, {"id": 3, "op": "step", "steps": entries}
    )
    assert [[r["observation"] for r in results] for results in replies[2]["result"]["results"]] == [
        ["1", "2"],
        ["1"],
    ]


def test_what_a_tool_prints_is_not_in_the_protocol():
    """Prints of the tool and of its children are on stderr; the traceback of a broken tool as
    well."""
    replies, end = talk(
        OPEN,
        step(2, {"tool": "shout", "arguments": {}}),
        step(3, {"tool": "fail", "arguments": {}}),
    )
    assert replies[1]["result"]["results"][0][0]["observation"] == ""
    assert replies[2]["error"] == {"kind": "internal", "message": "RuntimeError: broken tool"}
    assert b"from a child" in end.stderr and b"Traceback" in end.stderr


def test_ctrl_c_is_the_parents_affair():
    """SIGINT does not stop a worker."""
    replies, end = talk(OPEN, send=signal.SIGINT)
    assert [reply["id"] for reply in replies] == [-1, 1] and end.returncode == 0
