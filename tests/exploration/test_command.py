"""`coevolve explore` through real processes and pipes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import msgspec
import pytest

from coevolve.records import Exploration, Signal, Statistic

COMMAND = [sys.executable, "-m", "coevolve_cli.main", "explore"]


def records(data: bytes) -> list[Exploration]:
    return [msgspec.json.decode(line, type=Exploration) for line in data.splitlines()]


def test_unguided_modes_read_nothing_and_say_what_they_did(coevolve, lab):
    """Records on stdout, one summary line on stderr; standard input stays unread."""
    result = coevolve(
        "explore",
        "--env",
        lab(),
        "--mode",
        "curious",
        "--episodes",
        "3",
        "--max-actions",
        "6",
        stdin=b"not a record\n",
    )
    found = records(result.stdout)
    assert len(found) == 3 and all(
        len(exploration.steps) == 6 and exploration.mode == "curious" for exploration in found
    )
    (line,) = result.stderr.decode().splitlines()
    assert (
        line.startswith("explore: wrote 3, curious: 3 episodes, 18 steps, ")
        and "new states" in line
    )


def test_no_signals_means_coverage_and_a_line_says_so(coevolve, lab):
    """An empty input is no error: all goes to coverage."""
    result = coevolve("explore", "--env", lab(), "--episodes", "2", "--max-actions", "5")
    assert [exploration.mode for exploration in records(result.stdout)] == ["coverage", "coverage"]
    assert b"no signals; every episode goes to coverage" in result.stderr


def test_signals_without_room_are_told(coevolve, lab):
    """Six episodes have room for one context of twelve; the summary says so, and so many are
    guided."""
    signals = [
        Signal(
            id=f"s{n}",
            kind="progress",
            task_id=f"t{n}",
            env=lab(),
            strength=n / 12,
            statistic=Statistic("test", 0.5),
        )
        for n in range(12)
    ]
    given = b"".join(msgspec.json.encode(signal) + b"\n" for signal in signals)
    result = coevolve(
        "explore", "--env", lab(), "--episodes", "6", "--max-actions", "5", stdin=given
    )
    assert [exploration.mode for exploration in records(result.stdout)] == ["guided"] * 2 + [
        "coverage"
    ] * 4
    assert b"1 contexts, no room for 11 more signalled tasks" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "code", "line"),
    [
        (["--mode", "clever"], 2, "--mode takes guided, random, curious or coverage, not 'clever'"),
        (["--mode", "random", "x.jsonl"], 2, "--mode random has no input"),
        ([], 2, "no signal names an environment: give --env"),
        (["--env", "no-such-program"], 2, "no-such-program"),
        (["--tasks", "missing.jsonl", "--env", "desk"], 2, "missing.jsonl"),
    ],
)
def test_misuse_is_one_line(coevolve, tmp_path, arguments, code, line):
    """Each wrong use has its exit code and says what is wrong."""
    result = coevolve("explore", *arguments, check=False, cwd=tmp_path)
    assert result.returncode == code and not result.stdout
    assert line in result.stderr.decode().splitlines()[-1]


def test_the_hash_seed_changes_nothing(coevolve, lab):
    """Two hash seeds, the same bytes."""
    outputs = {
        coevolve(
            "explore",
            "--env",
            lab(),
            "--mode",
            "coverage",
            "--episodes",
            "4",
            "--max-actions",
            "20",
            env={**os.environ, "PYTHONHASHSEED": seed},
        ).stdout
        for seed in ("1", "2")
    }
    assert len(outputs) == 1


def start_and_kill(options: list, journal: Path, lines: int, hold: Path) -> None:
    """Starts the command against a lab that holds, and kills it once the journal has the lines."""
    hold.touch()
    command = [*COMMAND, *map(str, options)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while not journal.exists() or journal.read_bytes().count(b"\n") < lines:
        assert process.poll() is None
        time.sleep(0.01)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    hold.unlink()


def test_killed_and_resumed_it_runs_no_finished_episode_again(coevolve, lab, tmp_path: Path):
    """kill -9 after two blocks, then a rerun: the same bytes as an undisturbed run, and only
    unfinished episodes open again."""
    options = ["--env", lab("hold=16"), "--mode", "coverage", "--episodes", "24"]
    options += ["--max-actions", "6"]
    whole, output, log = tmp_path / "whole.jsonl", tmp_path / "out.jsonl", tmp_path / "opened"
    coevolve("explore", *options, "-o", whole)
    assert len(log.read_text().splitlines()) == 24 and not Path(f"{whole}.journal").exists()
    log.unlink()
    journal = Path(f"{output}.journal")
    start_and_kill([*options, "-o", output], journal, 1 + 16, tmp_path / "opened.hold")
    opened = len(log.read_text().splitlines())
    result = coevolve("explore", *options, "-o", output)
    assert output.read_bytes() == whole.read_bytes()
    assert (opened, len(log.read_text().splitlines())) == (16, 24)
    assert "16 episodes from the journal" in result.stderr.decode() and not journal.exists()


def test_a_journal_of_other_settings_is_refused(coevolve, lab, tmp_path: Path):
    """A run directory keeps the journal where there is no -o; other settings are named, not mixed
    in."""
    run = tmp_path / "run"
    options = ["--env", lab("hold=0"), "--mode", "random", "--episodes", "8", "--run", run]
    start_and_kill(options, run / "explore-0.journal", 1, tmp_path / "opened.hold")
    result = coevolve("explore", *options, "--seed", "9", check=False)
    assert result.returncode == 2 and b"settings" in result.stderr
