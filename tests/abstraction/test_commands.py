"""`explore`, `abstract` and `validate` as commands, through real pipes; killed and resumed."""

import json
import signal
import subprocess
import time

import pytest
from abstraction_support import SHOP

from coevolve.jsonl import encode
from coevolve.records import Call, Exploration, Signal, Start, Statistic, Task
from conftest import COEVOLVE, run


@pytest.fixture(scope="module")
def explored(tmp_path_factory):
    """A hundred explorations of the desk."""
    path = tmp_path_factory.mktemp("explored") / "explorations.jsonl"
    command = [
        "explore",
        "--env",
        "desk",
        "--mode",
        "curious",
        "--episodes",
        "100",
        "--max-actions",
        "20",
        "-o",
        str(path),
    ]
    subprocess.run([*COEVOLVE, *command], check=True, capture_output=True)
    return path


def test_an_environment_of_ones_own_goes_through_the_pipe():
    """The shop list in a shell pipe: explored, abstracted, validated, all in words that name no
    tool."""
    stages = (
        ["explore", "--env", SHOP, "--mode", "curious", "--episodes", "12"],
        ["abstract", "--env", SHOP],
        ["validate", "--env", SHOP],
    )
    processes, previous = [], None
    for stage in stages:
        process = subprocess.Popen(
            [*COEVOLVE, *stage], stdin=previous, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        previous = process.stdout
        processes.append(process)
    tasks = [json.loads(line) for line in processes[-1].stdout]
    assert [process.wait() for process in processes] == [0, 0, 0], [
        p.stderr.read() for p in processes
    ]
    queries = {task["query"][0] for task in tasks}
    assert {"pay the price of tea", "pay the price of milk", "pay the price of bread"} <= queries
    assert any(query.endswith(" on my list") or query.startswith("I need ") for query in queries)
    assert all(task["validity"]["verdict"] == "valid" and task["env"] == SHOP for task in tasks)


def test_a_command_in_records_is_not_run(tmp_path):
    """A command line that only the records name is refused, with the flag that allows it; nothing
    is started."""
    mark = tmp_path / "mark"
    env = f"touch {mark}"
    start, query, solution = Start(name="s"), ["q"], [[Call("a", {})]]
    task = Task(id="t", env=env, start=start, query=query, solution=solution)
    trace = Exploration(id="e", env=env, mode="random", start=start)
    signal_ = Signal(
        id="s", kind="rare", task_id="t", env=env, statistic=Statistic("share", 0.1), task=task
    )
    inputs = {"validate": task, "rollout": task, "abstract": trace, "explore": signal_}
    inputs |= {f"train --run {tmp_path / 'r'} --model {tmp_path}": task}
    for command, record in inputs.items():
        result = run(*command.split(), stdin=encode(record), check=False)
        assert result.returncode == 2, command
        assert b"--env" in result.stderr and not mark.exists(), command


def test_same_bytes_again_and_with_more_workers(coevolve, explored):
    """Two runs and two workers give one output; rejects are counted by reason."""
    first = coevolve("abstract", explored)
    assert coevolve("abstract", explored, "--workers", "2").stdout == first.stdout
    assert first.stdout.count(b"\n") > 20 and b"abstract: read 100, wrote " in first.stderr
    valid = coevolve("validate", stdin=first.stdout)
    assert coevolve("validate", "--workers", "2", stdin=first.stdout).stdout == valid.stdout
    assert len(valid.stdout.splitlines()) >= 0.9 * len(first.stdout.splitlines())


@pytest.mark.parametrize("command", ["abstract", "validate"])
def test_killed_and_run_again(coevolve, explored, tmp_path, command):
    """Kill -9 as soon as the journal holds finished work: a rerun writes the same bytes and does
    not do it again."""
    source = explored
    if command == "validate":
        source = tmp_path / "candidates.jsonl"
        coevolve("abstract", explored, "-o", source)
    whole, out = coevolve(command, source).stdout, tmp_path / "out.jsonl"
    journal = tmp_path / "out.jsonl.journal"
    process = subprocess.Popen(
        [*COEVOLVE, command, str(source), "-o", str(out)], stderr=subprocess.PIPE
    )
    while process.poll() is None and not (
        journal.exists() and journal.read_bytes().count(b"\n") > 10
    ):
        time.sleep(0.01)
    assert process.poll() is None, "finished before it could be killed"
    process.send_signal(signal.SIGKILL)
    process.wait()
    finished = journal.read_bytes().count(b"\n") - 1
    assert finished >= 10 and not out.exists()
    result = coevolve(command, source, "-o", out)
    assert out.read_bytes() == whole and not journal.exists()
    assert int(result.stderr.split(b"resumed ")[1].split()[0]) >= finished


def test_rejects_and_verdicts_are_kept(coevolve, explored, tmp_path):
    """One reject per reason counted in the summary; one verdict per task, whatever it is."""
    rejects, verdicts = tmp_path / "rejects.jsonl", tmp_path / "verdicts.jsonl"
    made = coevolve("abstract", explored, "--rejects", rejects)
    summary = made.stderr.decode()
    kept = [json.loads(line)["reason"] for line in rejects.read_text().splitlines()]
    if kept:
        assert f"rejected {len(kept)} (" in summary
    for reason in set(kept):
        assert f"{reason} {kept.count(reason)}" in summary
    lines = made.stdout.splitlines(keepends=True)[:5]
    spoilt = json.loads(lines[0]) | {"id": "spoilt", "solution": [[]], "note": "kept"}
    odd = lines[1].replace(b'"env":', b'"colour":"blue","env":')
    data = json.dumps(spoilt).encode() + b"\n" + odd + b"".join(lines[2:])
    valid = coevolve("validate", "--verdicts", verdicts, "--rejects", rejects, stdin=data)
    assert [json.loads(line)["verdict"] for line in verdicts.read_text().splitlines()] == [
        "trivial"
    ] + ["valid"] * 4
    assert json.loads(rejects.read_text())["reason"] == "trivial: the solution does nothing"
    assert b'"colour":"blue"' in valid.stdout and len(valid.stdout.splitlines()) == 4


def test_bad_input_and_usage(coevolve):
    """Empty input, a record of another kind, a gate that does not exist."""
    empty = coevolve("abstract")
    assert empty.stdout == b"" and b"read 0 (empty input), wrote 0" in empty.stderr
    wrong = coevolve("validate", stdin='{"schema": "coevolve.signal/1"}\n', check=False)
    assert wrong.returncode == 3 and b"stdin:1: expected schema" in wrong.stderr
    assert coevolve("validate", "--gate", "loose", check=False).returncode == 2
