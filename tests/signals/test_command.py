"""`coevolve extract-signals` through real processes and pipes."""

from __future__ import annotations

import gzip
import json
import os
import random
import subprocess
import sys

import msgspec
import pytest
from signal_cases import group, random_rollouts, rollout

from coevolve import jsonl
from coevolve.records import Signal

STREAM = [
    msgspec.structs.replace(r, id=f"{seed}-{r.id}", task_id=f"{seed}-{r.task_id}")
    for seed in range(8)
    for r in random_rollouts(f"command-{seed}")
]
ALL = ("extract-signals", "--min-observations", "20", "--rare-share", "1")


@pytest.fixture
def rollouts(tmp_path):
    path = tmp_path / "rollouts.jsonl"
    jsonl.write(path, STREAM)
    return path


def test_every_way_in_gives_the_same_bytes(coevolve, rollouts, tmp_path):
    """A file, a pipe, gzip, several files, another order, another hash seed: one output."""
    want = coevolve(*ALL, rollouts).stdout
    assert want.count(b"\n") > 5
    data = rollouts.read_bytes()
    (tmp_path / "rollouts.jsonl.gz").write_bytes(gzip.compress(data))
    lines = data.splitlines(keepends=True)
    random.Random(1).shuffle(lines)
    (tmp_path / "first.jsonl").write_bytes(b"".join(lines[:100]))
    (tmp_path / "second.jsonl").write_bytes(b"".join(lines[100:]))
    assert coevolve(*ALL, stdin=data).stdout == want
    assert coevolve(*ALL, tmp_path / "rollouts.jsonl.gz").stdout == want
    assert coevolve(*ALL, tmp_path / "first.jsonl", tmp_path / "second.jsonl").stdout == want
    for seed in ("0", "12345"):
        assert coevolve(*ALL, rollouts, env={**os.environ, "PYTHONHASHSEED": seed}).stdout == want


def test_records_are_signals_with_their_task_and_evidence(coevolve, rollouts):
    """Each line decodes as a signal; ids are unique; strengths lie in [0, 1]; trajectories are
    there and have no chat."""
    records = [
        msgspec.json.decode(line, type=Signal)
        for line in coevolve(*ALL, rollouts).stdout.splitlines()
    ]
    assert len({record.id for record in records}) == len(records)
    for record in records:
        assert 0 <= record.strength <= 1
        assert record.task_id
        assert 1 <= len(record.evidence) <= 8
        assert all(step.message is None for t in record.evidence for step in t.steps)


def test_head_ends_it_quietly(rollouts):
    """`| head -1` ends the command without a word; the shell sees SIGPIPE."""
    many = b"".join(jsonl.encode(r) for i in range(3000) for r in group(f"t{i}", 4, 8, ["a"] * 20))
    big = rollouts.with_name("big.jsonl")
    big.write_bytes(many)
    command = f"coevolve extract-signals --mode paper --kinds boundary {big} | head -1 | wc -l"
    command += "; echo ${PIPESTATUS[0]}"
    script = 'coevolve() { "$PYTHON" -m coevolve_cli.main "$@"; }\n' + command
    environment = {**os.environ, "PYTHON": sys.executable}
    result = subprocess.run(["bash", "-c", script], capture_output=True, text=True, env=environment)
    assert result.stdout.split() == ["1", "141"]
    assert result.stderr == ""


def test_history_option(coevolve, tmp_path):
    """The history file carries what an earlier call saw; a rerun gives the same bytes."""
    history = tmp_path / "history.jsonl"
    first, second = (
        b"".join(map(jsonl.encode, group("t", s, 8, iteration=i))) for i, s in ((1, 8), (2, 0))
    )
    assert coevolve("extract-signals", "--history", history, stdin=first).stdout == b""
    found = coevolve("extract-signals", "--history", history, stdin=second).stdout
    kept = history.read_bytes()
    assert {json.loads(line)["kind"] for line in found.splitlines()} == {"forgetting", "progress"}
    assert coevolve("extract-signals", "--history", history, stdin=second).stdout == found
    assert history.read_bytes() == kept


def test_nothing_to_say_is_said(coevolve):
    """Rollouts without a weakness: exit 0 and a word, or exit 4 with -e."""
    fine = b"".join(map(jsonl.encode, group("t", 8, 8, ["a"])))
    result = coevolve("extract-signals", stdin=fine)
    assert b"no signal" in result.stderr
    assert coevolve("extract-signals", "-e", stdin=fine, check=False).returncode == 4


def test_masked_rollouts_are_counted(coevolve):
    """What the environment lost is named in the summary line."""
    lost = jsonl.encode(rollout("t", False, stop_reason="env_error"))
    assert b"masked 1" in coevolve("extract-signals", stdin=lost).stderr


def test_inventory_from_a_file(coevolve, tmp_path):
    """`--tools` brings the unexplored tools; asking for them, or for unknown
    ones, without an inventory is a usage error."""
    tools = tmp_path / "tools.json"
    tools.write_text(
        json.dumps([{"name": "mail.send"}, {"name": "mail.read"}, {"name": "farm.sow"}])
    )
    data = b"".join(map(jsonl.encode, group("t", 8, 8, ["mail.read"])))
    found = coevolve("extract-signals", "--tools", tools, stdin=data).stdout.splitlines()
    assert [(json.loads(line)["kind"], json.loads(line)["pattern"]) for line in found] == [
        ("unexplored", ["farm.sow"]),
        ("unexplored", ["mail.send"]),
    ]
    for kind in ("unexplored", "unknown_tool"):
        result = coevolve("extract-signals", "--kinds", kind, stdin=data, check=False)
        assert result.returncode == 2
        assert f"--kinds {kind} needs".encode() in result.stderr
        assert b"--tools FILE" in result.stderr


@pytest.mark.parametrize(
    ("options", "word"),
    [
        (["--mode", "papr"], b"calibrated or paper"),
        (["--kinds", "rare,boundry"], b"not 'boundry'"),
        (["--mode", "paper", "--kinds", "stall"], b"no 'stall'"),
        (["--patterns", "4gram"], b"not '4gram'"),
        (["--band", "0.8,0.2"], b"must rise"),
        (["--quota", "rare=x"], b"takes KIND=WEIGHT"),
        (["--tools", "nowhere.json"], b"nowhere.json: No such file"),
    ],
)
def test_usage_errors(coevolve, options, word):
    """A wrong value is exit 2 and one line that names what is possible."""
    result = coevolve("extract-signals", *options, stdin=b"", check=False)
    assert result.returncode == 2
    assert word in result.stderr
    assert result.stderr.count(b"\n") == 1


def test_summary(coevolve, rollouts):
    """`--summary` counts by iteration and kind on stderr and leaves stdout alone."""
    plain, told = coevolve(*ALL, rollouts), coevolve(*ALL, "--summary", rollouts)
    assert told.stdout == plain.stdout
    lines = told.stderr.decode().splitlines()
    assert lines[0].split()[:4] == ["iteration", "rollouts", "success", "masked"]
    assert [line.split()[0] for line in lines[1:5]] == ["0", "1", "2", "3"]
    assert any(line.startswith("the most telling") for line in lines)


def test_budget_is_per_iteration(coevolve, rollouts):
    """`--max-signals 3` keeps three of each iteration, of more than one kind."""
    found = [
        json.loads(line)
        for line in coevolve(*ALL, "--max-signals", "3", rollouts).stdout.splitlines()
    ]
    counts = {i: [f["kind"] for f in found if f["iteration"] == i] for i in range(3)}
    assert all(len(kinds) == 3 and len(set(kinds)) > 1 for kinds in counts.values())
