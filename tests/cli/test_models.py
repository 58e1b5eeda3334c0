"""Commands with a model at a server: exit codes, totals, budgets, the key, and what a killed run
costs."""

from __future__ import annotations

import json
import os
import random
import re
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from scripted_server import BROKEN, CUT, HALF, NO_CHOICE, TOO_MANY, Fault, ScriptedServer

import tiny_models
from coevolve.jsonl import encode
from conftest import COEVOLVE

SHOP = f"{sys.executable} {Path(__file__).parent.parent / 'grocer.py'}"
TASKS = 6
SAMPLES = 2
KEY = "sk-planted-0123456789"


def shop(request):
    """A model that does what the last user message says."""
    last = request["messages"][-1]
    item = next((i for i in tiny_models.ITEMS if i in last["content"]), None)
    if last["role"] != "user" or not item:
        return "all done"
    call = {"name": "add", "arguments": json.dumps({"item": item})}
    return {"content": None, "tool_calls": [{"id": "c1", "type": "function", "function": call}]}


@pytest.fixture
def tasks(tmp_path) -> Path:
    path = tmp_path / "tasks.jsonl"
    path.write_bytes(b"".join(map(encode, tiny_models.shop_tasks(SHOP, TASKS))))
    return path


def rollout(tasks: Path, server: ScriptedServer, folder: Path, *more: object) -> list[str]:
    """The command line; journal, run directory and output are in the folder."""
    where = ["--journal", folder / "journal", "--run", folder / "run", "-o", folder / "out.jsonl"]
    options = [
        "--env",
        SHOP,
        "--model",
        "m",
        "--base-url",
        server.url,
        "-k",
        SAMPLES,
        "--concurrency",
        3,
    ]
    return [*map(str, ["rollout", tasks, *options, *where, *more])]


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory, request):
    """Output and number of calls of a run that nothing disturbs."""
    folder = tmp_path_factory.mktemp("quiet")
    path = folder / "tasks.jsonl"
    path.write_bytes(b"".join(map(encode, tiny_models.shop_tasks(SHOP, TASKS))))
    with ScriptedServer(shop) as server:
        subprocess.run([*COEVOLVE, *rollout(path, server, folder)], check=True, capture_output=True)
    return (folder / "out.jsonl").read_bytes(), server.answered


FAULTS = {
    "429": TOO_MANY,
    "500": BROKEN,
    "cut": CUT,
    "hang": Fault(hang=6),
    "half": HALF,
    "no choice": NO_CHOICE,
}
CODES = {"half": 75, "no choice": 75}
"""Exit codes of a run that meets the fault, where not 0."""


@pytest.mark.parametrize("name", FAULTS)
def test_a_misbehaving_server(tasks, tmp_path, coevolve, uninterrupted, name):
    """Each fault ends in the right output or in exit 75; a rerun pays only for what was missing and
    completes the output."""
    (expected, calls), code = uninterrupted, CODES.get(name, 0)
    with ScriptedServer(shop, {4: FAULTS[name], 7: FAULTS[name]}) as server:
        # Only the fault itself may take longer than an attempt, however busy the machine is.
        seconds = 3 if name == "hang" else 60
        command = rollout(tasks, server, tmp_path, "--timeout", seconds)
        first = coevolve(*command, check=False)
        assert first.returncode == code, first.stderr
        if code:
            assert b"2 answers of the server were empty or broken" in first.stderr
            assert len((tmp_path / "out.jsonl").read_bytes().splitlines()) == TASKS * SAMPLES
            assert coevolve(*command).returncode == 0
        assert (tmp_path / "out.jsonl").read_bytes() == expected
        assert server.answered == calls and len(server.requests) == calls + 2


@pytest.mark.parametrize(
    ("fault", "code"),
    [(Fault(401), 69), (Fault(500, {"retry-after-ms": "5"}), 69), (Fault(422), 1)],
)
def test_a_server_that_stays_broken(tmp_path, coevolve, fault, code):
    """Exit 69 or 1, no output; once it works, what was paid is not paid again."""
    tasks = tmp_path / "tasks.jsonl"
    tasks.write_bytes(b"".join(map(encode, tiny_models.shop_tasks(SHOP, 3 * TASKS))))
    with ScriptedServer(shop, {n: fault for n in range(9, 500)}) as server:
        first = coevolve(*rollout(tasks, server, tmp_path), check=False)
        assert first.returncode == code and not (tmp_path / "out.jsonl").exists()
        said = [line for line in first.stderr.splitlines() if b"without a version" not in line]
        assert len(said) == 2 and b"scripted" in said[1] and b"Traceback" not in first.stderr
        server.faults = {}
        coevolve(*rollout(tasks, server, tmp_path))
        calls, server.answered = server.answered, 0
        coevolve(*rollout(tasks, server, tmp_path / "quiet"))
        expected = (tmp_path / "quiet" / "out.jsonl").read_bytes()
        assert (tmp_path / "out.jsonl").read_bytes() == expected and server.answered == calls


@pytest.mark.parametrize("on_error", ["fail", "skip"])
@pytest.mark.parametrize("status", [400, 500])
def test_a_poisoned_task_is_masked_and_named(
    tasks, tmp_path, coevolve, uninterrupted, status, on_error
):
    """A conversation that always fails: env_error with the server's words, the rest as ever, exit
    75; a rerun completes the output when the server has been mended."""
    (expected, calls), fault = uninterrupted, Fault(status, {"retry-after-ms": "5"})
    place, poison = 3, [True]
    query = json.loads(tasks.read_text().splitlines()[place])["query"]

    def answer(request):
        asked = {message["content"] for message in request["messages"]}
        return fault if poison and asked.issuperset(query) else shop(request)

    with ScriptedServer(answer) as server:
        command = rollout(tasks, server, tmp_path, "--on-error", on_error)
        first = coevolve(*command, check=False)
        said = first.stderr.decode()
        assert first.returncode == 75, said
        assert f"{SAMPLES} calls failed and others did not, the last: model m, sample" in said
        assert query[-1] in said and "scripted" in said and "environment errors" not in said
        lost, whole = (tmp_path / "out.jsonl").read_bytes().splitlines(), expected.splitlines()
        first, after = place * SAMPLES, (place + 1) * SAMPLES
        assert lost[:first] + lost[after:] == whole[:first] + whole[after:]
        assert len(lost) == len(whole)
        for record in map(json.loads, lost[first:after]):
            assert record["stop_reason"] == "env_error" and record["score"] == 0
            assert f"HTTP {status}" in record["error"] and "scripted" in record["error"]
        poison.clear()
        coevolve(*command)
        assert (tmp_path / "out.jsonl").read_bytes() == expected and server.answered == calls


@pytest.mark.parametrize(("command", "fault"), [("rollout", "no choice"), ("evaluate", "half")])
def test_a_server_that_never_says_anything(tasks, tmp_path, coevolve, fault, command):
    """The server could be reached: all is lost work (exit 75), which a rerun makes good, and no
    unreachable environment."""
    with ScriptedServer(shop, {n: FAULTS[fault] for n in range(99)}) as server:
        line = [command if word == "rollout" else word for word in rollout(tasks, server, tmp_path)]
        first = coevolve(*line, check=False)
        assert (
            first.returncode == 75 and b"answers of the server were empty or broken" in first.stderr
        ), first.stderr
        server.faults = {}
        again = coevolve(*line)
        assert again.returncode == 0 and server.answered > 0


def test_budget_totals_and_offline(tasks, tmp_path, coevolve, uninterrupted):
    """--budget-calls ends with exit 5; runs add up to the uninterrupted one; the journal alone is
    enough then.
    """
    expected, calls = uninterrupted
    prices = tmp_path / "prices.toml"
    prices.write_text("[m]\nprompt = 2\ncompletion = 10\n")
    codes = []
    with ScriptedServer(shop) as server:
        while not codes or codes[-1] == 5:
            result = coevolve(
                *rollout(tasks, server, tmp_path, "--budget-calls", 10, "--prices", prices),
                check=False,
            )
            codes.append(result.returncode)
            assert result.returncode == 0 or b"--budget-calls 10 reached" in result.stderr
        assert codes == [5] * ((calls - 1) // 10) + [0] and server.answered == calls
    assert (tmp_path / "out.jsonl").read_bytes() == expected
    lines = [
        json.loads(line)
        for line in (tmp_path / "run" / "model_calls.jsonl").read_bytes().splitlines()
    ]
    assert sum(line["paid"]["calls"] for line in lines) == calls
    assert sum(line["paid"]["cost"] for line in lines) > 0 and lines[-1]["kept"] == TASKS * SAMPLES
    (tmp_path / "out.jsonl").unlink()
    offline = [*rollout(tasks, server, tmp_path), "--offline"]  # the server is gone
    assert coevolve(*offline).returncode == 0 and (tmp_path / "out.jsonl").read_bytes() == expected
    missed = coevolve(*offline, "--seed", 1, check=False)
    assert missed.returncode == 1 and b"--offline, and no answer to request" in missed.stderr


def test_evaluate_plays_a_served_model(tasks, tmp_path, coevolve):
    """`evaluate --model` measures it through the same journal; options come from the environment
    and a file, too."""
    settings = tmp_path / "settings.toml"
    with ScriptedServer(shop) as server:
        settings.write_text(f'[evaluate]\nbase-url = "{server.url}"\nbudget-calls = 3\n')
        command = [
            "evaluate",
            tasks,
            "--env",
            SHOP,
            "--model",
            "m",
            "--config",
            settings,
            "--by",
            "none",
        ]
        environment = {**os.environ, "COEVOLVE_EVALUATE_JOURNAL": str(tmp_path / "journal")}
        assert coevolve(*command, check=False, env=environment).returncode == 5
        environment["COEVOLVE_EVALUATE_BUDGET_CALLS"] = "1000"
        result = coevolve(*command, "--run", tmp_path / "run", env=environment)
    (record,) = map(json.loads, result.stdout.splitlines())
    assert record["success"] == 1.0
    totals = json.loads((tmp_path / "run" / "model_calls.jsonl").read_bytes())
    assert totals["stage"] == "evaluate" and totals["reused"]["calls"] == 3
    for extra, says in (
        ("[1]", b"takes a JSON object"),
        ('{"stream": true}', b"stream cannot be set"),
    ):
        wrong = coevolve(
            "evaluate", tasks, "--model", "m", "--request-extra", extra, "--offline", check=False
        )
        assert wrong.returncode == 2 and b"--request-extra" in wrong.stderr and says in wrong.stderr


def test_the_key_is_nowhere(tasks, tmp_path, monkeypatch, coevolve):
    """Not in records, logs, journal, run directory or traceback, even if the server says it in
    replies and errors."""
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setenv("COEVOLVE_DEBUG", "1")
    monkeypatch.setenv("OPENAI_LOG", "debug")

    def tell(request):
        return f"your key is {KEY}, all done"

    seen = b""
    faults = {0: BROKEN, 1: CUT, 3: HALF}
    with ScriptedServer(tell, faults) as server:
        for lasting in (
            None,
            Fault(401),
            Fault(422),
            Fault(400),
            Fault(500, {"retry-after-ms": "1"}),
        ):
            server.faults = faults if lasting is None else {n: lasting for n in range(999)}
            result = coevolve(
                *rollout(tasks, server, tmp_path, "--seed", len(server.requests)), check=False
            )
            seen += result.stdout + result.stderr
        assert {r["key"] for r in server.requests} == {f"Bearer {KEY}"}
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    seen += b"".join(path.read_bytes() for path in files)
    assert b"Traceback" in seen and b"your key is ***" in seen and len(files) > 5
    assert KEY.encode() not in seen


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--model", "m", "--temperature", "inf"], "--temperature takes a finite number"),
        (["--model", "m", "--temperature", "nan"], "--temperature"),
        (["--model", "m", "--timeout", "nan"], "--timeout"),
        (["--model", ""], "--model needs a name"),
        ([], "--base-url needs --model"),
        (["--model", "m", "--base-url", f"ftp://u:{KEY}@h"], "is no address of a server"),
        (["--model", "m", "--prompt-files", "{prompts}"], "prompt explore: division by zero"),
    ],
)
def test_options_that_mean_nothing(tmp_path, coevolve, options, says):
    """Exit 2 with one line, nothing begun: neither an output nor its journal, and no password
    printed."""
    (tmp_path / "prompts").mkdir()
    (tmp_path / "prompts" / "explore.jinja").write_text("a {{ 1/0 }}")
    given = [option.format(prompts=tmp_path / "prompts") for option in options]
    command = [
        "explore",
        "--env",
        "desk",
        "--mode",
        "curious",
        "--base-url",
        "http://127.0.0.1:9/v1",
        *given,
    ]
    result = coevolve(
        *command, "--journal", tmp_path / "j", "-o", tmp_path / "o.jsonl", check=False
    )
    assert (
        result.returncode == 2
        and says in result.stderr.decode()
        and KEY not in result.stderr.decode()
    )
    assert {path.name for path in tmp_path.iterdir()} <= {"prompts", "j"}


def test_a_dry_run_prints_no_password(coevolve):
    """The settings have the address without it."""
    command = ["explore", "--env", "desk", "--mode", "curious", "--model", "m", "--dry-run"]
    said = coevolve(*command, "--base-url", f"http://u:{KEY}@h/v1").stderr.decode()
    assert '"http://***@h/v1"' in said and KEY not in said


def kills(tasks: Path, folder: Path, count: int, expected: bytes, calls: int) -> None:
    """Kills the command while a request chosen at random is with the server, again and again; then
    lets it finish."""
    draw = random.Random(count)
    target: dict[str, int] = {}

    def answer(request):
        if target and len(server.requests) >= target["at"]:
            os.kill(target.pop("pid"), signal.SIGKILL)
            target.clear()
        return shop(request)

    with ScriptedServer(answer) as server:
        command = [*COEVOLVE, *rollout(tasks, server, folder)]
        killed = 0
        for _ in range(count):
            left = calls - server.answered
            process = subprocess.Popen(
                command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
            )
            target.update(
                at=len(server.requests) + draw.randint(1, max(1, left // 2)), pid=process.pid
            )
            killed += process.wait() == -signal.SIGKILL
            target.clear()
        subprocess.run(command, check=True, capture_output=True)
        assert (folder / "out.jsonl").read_bytes() == expected
        assert killed and len(server.requests) <= calls + 3 * killed


def test_killed_and_rerun(tasks, tmp_path, uninterrupted):
    """kill -9 in the middle: the same output in the end, no more paid than what was in flight."""
    kills(tasks, tmp_path, 4, *uninterrupted)


@pytest.mark.slow
def test_killed_twenty_times(tasks, tmp_path, uninterrupted):
    """The same at 20 random moments."""
    kills(tasks, tmp_path, 20, *uninterrupted)


@pytest.mark.parametrize(("sign", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_interrupted(tasks, tmp_path, uninterrupted, sign, code):
    """Ctrl-C or SIGTERM while calls hang: it ends at once with its code and one line; a rerun pays
    for the rest only."""
    expected, calls = uninterrupted
    reached = threading.Event()

    def answer(request):
        if len(server.requests) > 8 and not reached.is_set():
            reached.set()
        return Fault(hang=30) if reached.is_set() and not server.latency else shop(request)

    with ScriptedServer(answer) as server:
        command = [*COEVOLVE, *rollout(tasks, server, tmp_path)]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        assert reached.wait(60)
        process.send_signal(sign)
        _, said = process.communicate(timeout=25)  # less than the hang
        assert process.returncode == code and b"Traceback" not in said
        assert b"interrupted" in said.splitlines()[-1] and not (tmp_path / "out.jsonl").exists()
        server.latency = 1e-3
        subprocess.run(command, check=True, capture_output=True)
        assert (tmp_path / "out.jsonl").read_bytes() == expected and len(
            server.requests
        ) <= calls + 3


def test_the_docs_name_options_that_exist(coevolve):
    """Every flag in docs/models.md is one of a command's or the benchmark's, beside those of vLLM's
    own in their section."""
    text = (Path(__file__).parents[2] / "docs" / "models.md").read_text()
    before, _, section = text.partition("## A vLLM server for one command")
    said = set(re.findall(r"--[a-z][a-z-]+", before + section.partition("\n## ")[2]))
    known = b"".join(
        coevolve(verb, "--help-all").stdout for verb in ("rollout", "explore", "validate")
    ).decode()
    assert said - set(re.findall(r"--[a-z][a-z-]+", known)) == {"--bare"}
