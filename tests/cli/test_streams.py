"""The contract of inputs and outputs, through real pipes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from coevolve.jsonl import encode
from coevolve.records import Start, Task, Verifier, task_id
from conftest import COEVOLVE, run


def task(n: int) -> bytes:
    """A task record line, valid as far as its shape goes."""
    start, query = Start(name=f"s{n}"), [f"do {n}"]
    id_ = task_id("desk", start, query, [], Verifier())
    return encode(Task(id=id_, env="desk", start=start, query=query))


def tasks(count: int) -> bytes:
    return b"".join(map(task, range(count)))


MERGE = ["merge", "--unvalidated", "--max-share", "1"]


def test_output_file_appears_whole_or_not_at_all(tmp_path: Path):
    """A bad line leaves the named output and its old content alone, and no temporary file."""
    out = tmp_path / "out.jsonl"
    out.write_text("old\n")
    result = run(*MERGE, "-o", out, stdin=tasks(3) + b'{"schema":"coevolve.task/1","id":3}\n', check=False)
    assert result.returncode == 3
    assert b"stdin:4:" in result.stderr
    assert out.read_text() == "old\n"
    assert os.listdir(tmp_path) == ["out.jsonl"]


def test_full_disk_is_74_and_one_line():
    """/dev/full gives exit 74 and one clear line."""
    with open("/dev/full", "wb") as full:
        result = subprocess.run([*COEVOLVE, *MERGE], input=tasks(3), stdout=full, stderr=subprocess.PIPE)
    assert result.returncode == 74
    assert result.stderr.decode().strip() == "coevolve: cannot write output: No space left on device"


def test_closed_pipe_is_silent_and_dies_of_sigpipe():
    """`| head -1` ends the command quietly with SIGPIPE, as any Unix filter."""
    command = " ".join(f"'{part}'" for part in [*COEVOLVE, *MERGE])
    script = f"{command} 2>err | head -1 | wc -l; echo ${{PIPESTATUS[0]}}"
    result = subprocess.run(["bash", "-c", script.replace("2>err", "")], input=tasks(20000), capture_output=True)
    assert result.stdout.split() == [b"1", b"141"]
    assert result.stderr == b""


def test_skip_counts_and_keeps_rejects(tmp_path: Path):
    """--on-error skip goes on, counts, and keeps the bad lines verbatim with the reason."""
    rejects = tmp_path / "rejects.jsonl"
    result = run(*MERGE, "--on-error", "skip", "--rejects", rejects, stdin=task(1) + b"{torn\n" + task(2))
    assert len(result.stdout.splitlines()) == 2
    assert b"read 2, wrote 2, skipped 1" in result.stderr
    kept = json.loads(rejects.read_text())
    assert (kept["line"], kept["raw"]) == (2, "{torn")


@pytest.mark.parametrize(("limit", "code"), [("1", 3), ("2", 0), ("10%", 3), ("60%", 0)])
def test_max_errors(limit: str, code: int):
    """More bad lines than allowed, by number or share, is exit 3."""
    lines = task(1) + b"{torn\n" + task(2) + b"[]\n"
    result = run(*MERGE, "--on-error", "skip", "--max-errors", limit, stdin=lines, check=False)
    assert result.returncode == code


def test_missing_file_and_directory_are_usage_errors(tmp_path: Path):
    """A file that is not there, or is a directory, is exit 2 and names it."""
    for path in (tmp_path / "none.jsonl", tmp_path):
        result = run(*MERGE, path, check=False)
        assert result.returncode == 2
        assert str(path).encode() in result.stderr


def test_empty_input_is_no_error_but_is_said():
    """Nothing in, nothing out, exit 0, and the summary says so; -e makes it exit 4."""
    result = run(*MERGE)
    assert (result.stdout, result.returncode) == (b"", 0)
    assert b"empty input" in result.stderr
    assert run(*MERGE, "-e", check=False).returncode == 4


def test_interrupt_is_130_and_terminate_is_143():
    """Ctrl-C and SIGTERM end a waiting command with one line and the documented codes."""
    for number, code in ((signal.SIGINT, 130), (signal.SIGTERM, 143)):
        process = subprocess.Popen(
            [*COEVOLVE, *MERGE], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        process.stdin.write(task(1))
        process.stdin.flush()
        time.sleep(1)
        process.send_signal(number)
        _, err = process.communicate(timeout=20)
        assert process.returncode == code
        assert len(err.decode().strip().splitlines()) == 1, err


def test_config_file_environment_and_flag_in_order(tmp_path: Path):
    """flag > environment > file > default; an unknown key is an error with a suggestion."""
    config = tmp_path / "c.toml"
    config.write_text('[merge]\non-error = "skip"\n')
    bad = task(1) + b"{torn\n"
    assert run("merge", "--unvalidated", "--config", config, stdin=bad).returncode == 0
    env = {**os.environ, "COEVOLVE_MERGE_ON_ERROR": "fail"}
    assert run("merge", "--unvalidated", "--config", config, stdin=bad, check=False, env=env).returncode == 3
    flags = ["merge", "--unvalidated", "--config", config, "--on-error", "skip"]
    assert run(*flags, stdin=bad, env=env).returncode == 0
    config.write_text("[merge]\non-eror = 1\n")
    result = run("merge", "--config", config, check=False)
    assert result.returncode == 2
    assert b"on-error" in result.stderr


def test_unknown_command_and_option_are_usage_errors():
    """A typo is exit 2 with a suggestion."""
    result = run("extract-signal", check=False)
    assert result.returncode == 2
    assert b"Did you mean 'extract-signals'" in result.stderr
    assert run("merge", "--nope", check=False).returncode == 2


def test_libraries_cannot_print_into_the_pipe():
    """Whatever a library prints while a stage runs lands on stderr."""
    code = (
        "import sys; from coevolve_cli.streams import open_output\n"
        "with open_output('-') as out:\n"
        "    print('noise'); import os; os.system('echo noise')\n"
        "    out.write(b'record\\n')\n"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True)
    assert result.stdout == b"record\n"
    assert result.stderr.count(b"noise") == 2
