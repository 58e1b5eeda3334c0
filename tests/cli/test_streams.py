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
    result = run(
        *MERGE, "-o", out, stdin=tasks(3) + b'{"schema":"coevolve.task/1","id":3}\n', check=False
    )
    assert result.returncode == 3
    assert b"stdin:4:" in result.stderr
    assert out.read_text() == "old\n"
    assert os.listdir(tmp_path) == ["out.jsonl"]


def test_full_disk_is_74_and_one_line():
    """/dev/full gives exit 74 and one clear line."""
    with open("/dev/full", "wb") as full:
        result = subprocess.run(
            [*COEVOLVE, *MERGE], input=tasks(3), stdout=full, stderr=subprocess.PIPE
        )
    assert result.returncode == 74
    assert (
        result.stderr.decode().strip() == "coevolve: cannot write output: No space left on device"
    )


def test_closed_pipe_is_silent_and_dies_of_sigpipe():
    """`| head -1` ends the command quietly with SIGPIPE, as any Unix filter."""
    command = " ".join(f"'{part}'" for part in [*COEVOLVE, *MERGE])
    script = f"{command} 2>err | head -1 | wc -l; echo ${{PIPESTATUS[0]}}"
    result = subprocess.run(
        ["bash", "-c", script.replace("2>err", "")], input=tasks(20000), capture_output=True
    )
    assert result.stdout.split() == [b"1", b"141"]
    assert result.stderr == b""


def test_skip_counts_and_keeps_rejects(tmp_path: Path):
    """--on-error skip goes on, counts, and keeps the bad lines verbatim with the reason."""
    rejects = tmp_path / "rejects.jsonl"
    result = run(
        *MERGE, "--on-error", "skip", "--rejects", rejects, stdin=task(1) + b"{torn\n" + task(2)
    )
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


def waiting(folder: Path, *before: str) -> subprocess.Popen:
    """A merge that has begun and waits for more of its input; `before` stands before its command
    line."""
    begun = folder / "rejects"
    begun.unlink(missing_ok=True)
    command = [*before, *COEVOLVE, *MERGE, "--rejects", str(begun)]
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    process = subprocess.Popen(command, **pipes)
    process.stdin.write(task(1))
    process.stdin.flush()
    while not begun.exists():
        assert process.poll() is None, process.stderr.read()
        time.sleep(0.01)
    return process


def test_interrupt_is_130_and_terminate_is_143(tmp_path: Path):
    """Ctrl-C and SIGTERM end a waiting command with one line and the documented codes."""
    for number, code in ((signal.SIGINT, 130), (signal.SIGTERM, 143)):
        process = waiting(tmp_path)
        process.send_signal(number)
        _, err = process.communicate(timeout=60)
        assert process.returncode == code
        assert len(err.decode().strip().splitlines()) == 1, err


def test_config_file_environment_and_flag_in_order(tmp_path: Path):
    """flag > environment > file > default; an unknown key is an error with a suggestion."""
    config = tmp_path / "c.toml"
    config.write_text('[merge]\non-error = "skip"\n')
    bad = task(1) + b"{torn\n"
    assert run("merge", "--unvalidated", "--config", config, stdin=bad).returncode == 0
    env = {**os.environ, "COEVOLVE_MERGE_ON_ERROR": "fail"}
    assert (
        run(
            "merge", "--unvalidated", "--config", config, stdin=bad, check=False, env=env
        ).returncode
        == 3
    )
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


@pytest.mark.parametrize("option", ["--rejects", "--verdicts"])
def test_a_file_named_twice_is_refused_untouched(tmp_path: Path, option: str):
    """A side output that is an input or the output, by whatever name, is exit 2 before anything is
    opened."""
    path, link = tmp_path / "in.jsonl", tmp_path / "link"
    path.write_bytes(tasks(2))
    link.symlink_to(path)
    for arguments in (
        [path, option, path],
        [path, option, link],
        [path, option, tmp_path / "o", "-o", tmp_path / "o"],
    ):
        result = run("validate", *arguments, check=False)
        assert (result.returncode, result.stderr.count(b"\n")) == (2, 1)
        assert b"named twice" in result.stderr
    assert path.read_bytes() == tasks(2)
    assert sorted(os.listdir(tmp_path)) == ["in.jsonl", "link"]
    assert run("validate", option, "-", check=False).returncode == 2


def test_the_output_may_be_the_input(tmp_path: Path):
    """-o replaces its target at the end, so that it may be what is read."""
    path = tmp_path / "t.jsonl"
    path.write_bytes(tasks(2))
    run(*MERGE, path, "-o", path, "--rejects", "/dev/null")
    assert path.read_bytes() == tasks(2)


@pytest.mark.parametrize("verb", ["merge", "abstract", "validate"])
@pytest.mark.parametrize(
    ("name", "code"),
    [("", 2), (".", 2), ("/etc/passwd/x", 74), ("/proc/x/y", 74), ("/dev/null", 0)],
)
def test_what_cannot_be_an_output(tmp_path: Path, verb: str, name: str, code: int):
    """One line, the documented code and no journal, for commands with a journal and without."""
    result = run(verb, "-q", "-o", name, check=False, cwd=tmp_path)
    assert (result.returncode, result.stderr.count(b"\n")) == (code, bool(code))
    assert os.listdir(tmp_path) == []


def test_output_to_stdout_by_its_name_and_to_a_pipe():
    """/dev/stdout is -, and a pipe of the shell is written in place."""
    assert run(*MERGE, "-o", "/dev/stdout", stdin=tasks(2)).stdout == tasks(2)
    assert shell("$C -q -o >(wc -l); wait; sleep .2", tasks(3)).stdout.split() == [b"3"]


def shell(script: str, stdin: bytes = b"", **options) -> subprocess.CompletedProcess:
    """Runs a bash script in which $C is a merge and $COEVOLVE the command alone."""
    command = " ".join(f"'{part}'" for part in COEVOLVE)
    script = script.replace("$COEVOLVE", command).replace("$C", " ".join([command, *MERGE]))
    return subprocess.run(["bash", "-c", script], input=stdin, capture_output=True, **options)


@pytest.mark.parametrize(
    "script",
    [
        "echo torn | $C --on-error skip --rejects /dev/full",
        "$C -o /dev/full",
        "$COEVOLVE --help > /dev/full",
        "$COEVOLVE --version > /dev/full",
        "$COEVOLVE merge --help > /dev/full",
        "$C >&-",
        "$COEVOLVE --help >&-",
    ],
)
def test_what_cannot_be_written_is_74_and_one_line(script: str):
    """A full disk or a closed stdout, whatever is written there."""
    result = shell(script, tasks(2))
    assert (result.returncode, result.stdout) == (74, b"")
    assert result.stderr.count(b"\n") == 1 and b"cannot write" in result.stderr


def test_messages_never_mix_with_records(tmp_path: Path):
    """With stderr closed, stdout has the records alone, and a named output its records alone."""
    assert shell("$C 2>&-", tasks(2)).stdout == tasks(2)
    result = shell("$C -o out 2>&- >&-", tasks(2), cwd=tmp_path)
    assert (result.returncode, (tmp_path / "out").read_bytes()) == (0, tasks(2))
    result = shell("$C nowhere 2>&-")
    assert (result.returncode, result.stdout) == (2, b"")
    assert shell("$COEVOLVE --help | true; echo ${PIPESTATUS[0]} >&2").stderr.split() in (
        [b"141"],
        [b"0"],
    )


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("merge = 3", b"no table"),
        ("[mergge]", b"Did you mean 'merge'"),
        ("[merge]\nmax-share = {a = 1}", b"max-share"),
        ("[merge]\ninto = [[1]]", b"into"),
    ],
)
def test_a_config_file_that_says_nothing_sensible(tmp_path: Path, text: str, said: bytes):
    """What is no table, no command or no value is exit 2 and named."""
    config = tmp_path / "c.toml"
    config.write_text(text)
    result = run("merge", "--config", config, check=False)
    assert result.returncode == 2 and said in result.stderr


def test_an_option_that_repeats_may_be_one_string(tmp_path: Path):
    """`into = "FILE"` is the one file, not its letters."""
    (tmp_path / "old.jsonl").write_bytes(task(1))
    (tmp_path / "c.toml").write_text('[merge]\ninto = "old.jsonl"\n')
    assert run("merge", "--config", "c.toml", cwd=tmp_path).stdout == task(1)


SLOW_LIBRARY = """
import sys, time
try:
    print("importing", file=sys.stderr, flush=True)
    time.sleep(60)
except BaseException as error:
    print("cleaning", file=sys.stderr, flush=True)
    time.sleep(1)
    raise ImportError("half imported") from error
"""


@pytest.mark.parametrize(
    ("number", "code"),
    [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 143)],
    ids=["INT", "TERM", "HUP"],
)
def test_a_signal_is_what_ended_it_whatever_a_library_says(tmp_path: Path, number: int, code: int):
    """During the first import already; what a library makes of it doesn't count, and a repeat
    changes nothing."""
    (tmp_path / "typer.py").write_text(SLOW_LIBRARY)
    env = {**os.environ, "PYTHONPATH": str(tmp_path)}
    process = subprocess.Popen([*COEVOLVE, *MERGE], stderr=subprocess.PIPE, env=env)
    # The interpreter may say something of its own before the library does.
    assert b"importing\n" in iter(process.stderr.readline, b"")
    process.send_signal(number)
    assert b"cleaning\n" in iter(process.stderr.readline, b"")
    process.send_signal(number)
    _, err = process.communicate(timeout=60)
    said = [line for line in err.splitlines() if line.startswith(b"coevolve: ")]
    assert process.returncode == code and len(said) == 1 and b"interrupted" in said[0], err
    assert b"Traceback" not in err


def test_a_signal_that_the_parent_ignores_stays_ignored(tmp_path: Path):
    """nohup is respected."""
    process = waiting(tmp_path, "sh", "-c", 'trap "" HUP; exec "$@"', "sh")
    process.send_signal(signal.SIGHUP)
    assert process.communicate(timeout=60)[0] == task(1)
    assert process.returncode == 0


def test_the_end_of_a_file_is_no_ctrl_d():
    """An EOFError of a library that reads a damaged file is a failure, not an interruption."""
    code = (
        "import sys, coevolve_cli.merge as verb; from coevolve_cli.main import main\n"
        "def torn(*_): raise EOFError('Ran out of input')\n"
        "verb.merge = torn; sys.argv[1:] = ['merge']; main()\n"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], stdin=subprocess.DEVNULL, capture_output=True
    )
    assert (result.returncode, result.stderr) == (
        1,
        b"coevolve: a file ends too early: Ran out of input\n",
    )


def test_an_event_loop_does_not_keep_a_signal():
    """SIGTERM while a coroutine of another task runs ends the command, too."""
    code = (
        "import asyncio, os, signal, sys, coevolve_cli.merge as verb\n"
        "from coevolve_cli.main import main\n"
        "async def struck(): os.kill(os.getpid(), signal.SIGTERM)\n"
        "async def work():\n"
        "    task = asyncio.create_task(struck())\n"
        "    await asyncio.sleep(60)\n"
        "verb.merge = lambda *_: asyncio.run(work()); sys.argv[1:] = ['merge']; main()\n"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], stdin=subprocess.DEVNULL, capture_output=True, timeout=30
    )
    assert (result.returncode, result.stderr.count(b"\n")) == (143, 1), result.stderr
