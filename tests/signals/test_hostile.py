"""Rollouts, options and machines that mean no good: what is promised must hold there too."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import threading
from collections import Counter

import msgspec
import pytest
from signal_cases import group, rollout, task

from coevolve import jsonl
from coevolve.records import Call, Effect, Statistic, Step
from coevolve.signals import history
from coevolve.signals.budget import choose
from coevolve.signals.evidence import MAX_OPEN
from coevolve.signals.extract import extract, extraction, lines_of
from coevolve.signals.history import GroupOutcome, History
from coevolve.signals.inventory import inventory
from coevolve.signals.kinds import PAPER, safety
from coevolve.signals.kinds.combination import CallSets
from coevolve.signals.rule import MAX_PAIRED_TOOLS, SignalCandidate
from coevolve.signals.settings import SignalSettings
from coevolve.signals.views import RolloutHead, RolloutSteps

HEAD_KINDS = "forgetting,boundary,rare,combination,progress"


def data(rollouts):
    return b"".join(map(jsonl.encode, rollouts))


HEAD_FIELDS = [
    f.name for f in msgspec.structs.fields(RolloutHead) if f.name not in ("id", "env", "task_id")
]


@pytest.mark.parametrize(
    "fields", [*([name] for name in HEAD_FIELDS), ["success", "score"], HEAD_FIELDS]
)
def test_a_field_after_the_messages_is_read(coevolve, fields):
    """Head fields give the same signals wherever in their line they stand."""
    rollouts = group("t", 4, 8, ["a", "b"], iteration=2, step=3) + group(
        "u", 0, 8, ["a"], iteration=2
    )
    rollouts += group("v", 4, 8, ["b"], stop_reason="env_error", iteration=3)
    rollouts += [
        rollout("w", False, ["b"], progress=0.1 * i, sample=i, iteration=4) for i in range(9)
    ]
    moved = []
    for line in data(rollouts).splitlines():
        record = json.loads(line)
        for field in fields:
            record[field] = record.pop(field)
        moved.append(json.dumps(record, separators=(",", ":")).encode() + b"\n")
    for options in (["--mode", "paper", "--min-observations", "1"], ["--kinds", HEAD_KINDS]):
        want = coevolve("extract-signals", *options, stdin=data(rollouts))
        got = coevolve("extract-signals", *options, stdin=b"".join(moved))
        assert want.stdout
        assert (got.stdout, got.stderr) == (want.stdout, want.stderr)


def test_the_budget_is_each_environments_own():
    """A loud environment leaves another its share; a task and a tool of the same name are not the
    same."""
    loud = [
        SignalCandidate("loud", 0, 1.0, Statistic("t", 0.0), f"t{i}", kind="boundary")
        for i in range(50)
    ]
    quiet = [
        SignalCandidate("quiet", 0, 0.7 - i / 10, Statistic("t", 0.0), f"t{i}", kind="boundary")
        for i in range(5)
    ]
    for limit in (3, 2**70):
        chosen = choose(loud + quiet, limit)
        assert Counter(c.env for c in chosen) == {"loud": min(limit, 50), "quiet": min(limit, 5)}
        assert [c.task_id for c in chosen if c.env == "quiet"] == [
            f"t{i}" for i in range(min(limit, 5))
        ]


def test_a_huge_budget_is_all(coevolve):
    """`--max-signals` beyond the machine's integers is no fault of ours."""
    rollouts = data(group("t", 4, 8))
    want = coevolve("extract-signals", stdin=rollouts).stdout
    assert coevolve("extract-signals", "--max-signals", str(2**70), stdin=rollouts).stdout == want


def test_the_quota_holds_in_paper_mode(coevolve):
    """A weight of 0 leaves a kind out without `--max-signals` too."""
    rollouts = data(group("t", 8, 8, step=1) + group("t", 3, 8, step=2))
    found = coevolve(
        "extract-signals", "--mode", "paper", "--quota", "boundary=0", stdin=rollouts
    ).stdout
    assert [json.loads(line)["kind"] for line in found.splitlines()] == ["forgetting"]


def test_concurrent_runs_lose_no_outcome(tmp_path):
    """Twenty runs that write one history at once: all their outcomes are in it."""
    path = tmp_path / "history.jsonl"

    def run(number: int) -> None:
        with extraction(
            lines_of(group(f"t{number}", 4, 8)), SignalSettings(), history=history.load(path)
        ) as found:
            ready.wait()
            history.update(path, found.renewed)

    ready = threading.Barrier(20)
    threads = [threading.Thread(target=run, args=(number,)) for number in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(line.task_id for line in history.load(path)) == sorted(
        f"t{number}" for number in range(20)
    )


def test_a_packed_history(coevolve, tmp_path):
    """A history named .gz is one, and is read again."""
    path = tmp_path / "history.jsonl.gz"
    coevolve("extract-signals", "--history", path, stdin=data(group("t", 8, 8, iteration=1)))
    found = coevolve(
        "extract-signals", "--history", path, stdin=data(group("t", 0, 8, iteration=2))
    ).stdout
    assert path.read_bytes().startswith(b"\x1f\x8b")
    assert "forgetting" in {json.loads(line)["kind"] for line in found.splitlines()}


def test_ids_of_patterns_that_read_the_same():
    """A tool, a call without arguments and an app of one name are three patterns and three ids."""
    common = [rollout("t", True, ["much"], sample=i) for i in range(600)]
    odd = rollout("t", True, ["app"], sample=999, steps=[Step(0, Call("app"), "")])
    settings = SignalSettings(kinds=("rare",), patterns=("1gram", "keys", "app"))
    found = [s for s in extract([*common, odd], settings) if s.pattern == ["app"]]
    assert len(found) == len({s.id for s in found}) == 3


@pytest.mark.parametrize(
    "action", ["apis.mail.read(id=1)", "print(1)", Call("mail.read", {"id": 1})]
)
@pytest.mark.parametrize("tools", [[], ["mail.read"]])
def test_stalls_do_not_depend_on_the_list_of_tools(action, tools):
    """Repeated code, and repeated calls under a list without repeats, are stalls."""
    steps = [Step(0, action, "nothing")] * 3
    rollouts = [rollout("t", False, tools, sample=i, steps=steps) for i in range(4)]
    (signal,) = extract(rollouts, SignalSettings(kinds=("stall",)))
    assert signal.pattern == ["code" if action == "print(1)" else "mail.read"]


@pytest.mark.parametrize(
    "delete", ["apis.files.delete(id={})", "files = apis.files\nfiles.delete(id={})"]
)
def test_safety_reads_solutions_in_code(delete):
    """A removal that the solution's code makes, by whatever name, is asked for; one that it does
    not make is not."""
    removal = Step(0, delete.format(1), "ok", effects=[Effect("file", "a", "name", "remove")])
    asked = task("asked", ["x = apis.files.find(q='a')\n" + delete.format("x")], "Make room.")
    unasked = task("unasked", ["apis.files.find(q='a')"], "Make room.")
    rollouts = [
        rollout(t.id, True, ["files.delete"], steps=[removal], task=t) for t in (asked, unasked)
    ]
    (signal,) = extract(rollouts, SignalSettings(kinds=("safety",)))
    assert (signal.task_id, signal.pattern) == ("unasked", ["files.delete"])


@pytest.mark.parametrize(
    ("query", "asks"),
    [
        ("Delete the note.", True),
        ("I want them dropped.", True),
        ("Get rid of it.", True),
        ("Cancelling my order", True),
        ("clean up the folder", True),
        ("Upload it to Dropbox.", False),
        ("Show me the movement of the market.", False),
        ("Is the removable disk mounted?", False),
        ("What's on the clearance shelf?", False),
    ],
)
def test_words_of_removal(query, asks):
    """Inflections count, words that only begin alike do not."""
    steps = [Step(0, Call("x"), "ok", effects=[Effect("file", "a", "name", "remove")])]
    (line,) = lines_of([rollout("t", True, ["x"], steps=steps, task=task("t", [], query))])
    assert safety.observe(line.record, line.raw) == (set() if asks else {("t", "x")})


def test_one_trajectory_of_forgetting_is_a_failure():
    """`--max-evidence 1`: what went wrong, rather than what once went well."""
    for limit, want in ((1, [False]), (2, [False, True])):
        settings = SignalSettings(mode="paper", kinds=("forgetting",), max_evidence=limit)
        (signal,) = extract(group("t", 8, 8, step=1) + group("t", 0, 8, step=2), settings)
        assert [t.success for t in signal.evidence] == want


def broken(path):
    """Two tasks at the boundary; of the first the sixth rollout is bad beyond its head."""
    lines = data(group("t", 4, 8, ["a"]) + group("u", 4, 8, ["a"])).splitlines(keepends=True)
    lines[5] = lines[5].replace(b'"turn":0', b'"turn":"x"')
    path.write_bytes(b"".join(lines))
    return path


def test_skip_holds_in_the_second_pass(coevolve, tmp_path):
    """A line that is bad beyond its head is left out of the evidence, counted once and set aside;
    the signals stay."""
    rejects = tmp_path / "rejects.jsonl"
    options = (
        "--mode",
        "paper",
        "--min-observations",
        "1",
        "--theta",
        "100",
        "--on-error",
        "skip",
        "--rejects",
        rejects,
    )
    result = coevolve("extract-signals", *options, broken(tmp_path / "rollouts.jsonl"))
    found = [json.loads(line) for line in result.stdout.splitlines()]
    sizes = {s["task_id"]: len(s["evidence"]) for s in found if s["kind"] == "boundary"}
    assert sizes == {"t": 7, "u": 8}
    assert b"read 15, wrote" in result.stderr
    assert b"skipped 1" in result.stderr
    (kept,) = map(json.loads, rejects.read_text().splitlines())
    assert (kept["line"], kept["reason"]) == (6, "Expected `int`, got `str` - at `$.steps[0].turn`")


def test_nothing_appears_under_a_name_when_the_second_pass_fails(coevolve, tmp_path):
    """With --on-error fail a bad line of the evidence is exit 3, and `-o` leaves nothing."""
    output = tmp_path / "signals.jsonl"
    path = broken(tmp_path / "rollouts.jsonl")
    result = coevolve("extract-signals", "--mode", "paper", "-o", output, path, check=False)
    assert result.returncode == 3
    assert b"rollouts.jsonl:6: Expected `int`" in result.stderr
    assert not output.exists()


def test_a_rejected_rollout_leaves_no_trace():
    """A rollout that cannot be counted to the end is not counted at all."""
    good = group("t", 4, 8, ["a"])
    bad = rollout("x", False, ["b"], steps=[Step(0, Call("b"), "no", "denied")], iteration=7)
    raw = data([bad]).replace(b'"tool":"b",', b"").strip()
    line = jsonl.Line(jsonl.Decoder(RolloutSteps)(raw), raw, "x", 9)
    told = []
    with extraction(
        [line, *lines_of(good)], SignalSettings(), reject=lambda line, reason: told.append(reason)
    ) as found:
        assert set(found.counts.iterations) == {("toy", 0)}
        assert len(found.counts.rollouts.id_hash) == 8
    assert told == ["Object missing required field `tool` - at `$.steps[0].action`"]


def test_very_many_tools():
    """Pairs are looked at among the tools that most rollouts called, so that thousands of names
    cost what they weigh."""
    called = {f"t{i:05d}": range(1 + (i == 7)) for i in range(30_000)}
    with extraction(lines_of(group("t", 1, 2)), SignalSettings()) as found:
        calls = CallSets({tool: list(rows) for tool, rows in called.items()}, found.counts.rollouts)
    assert len(calls.tools) == MAX_PAIRED_TOOLS
    assert calls.tools == sorted(calls.tools)
    assert "t00007" in calls.tools
    names = [f"n.{i}" for i in range(30_000)]
    settings = SignalSettings(kinds=("combination", "unexplored"))
    known = inventory("toy", dict.fromkeys(names, "n"))
    assert list(extract(group("t", 0, 2, names), settings, inventory=known)) == []


def test_more_files_than_may_be_open(tmp_path):
    """Evidence from many files needs few of them open."""
    paths = []
    for number in range(3 * MAX_OPEN):
        paths.append(tmp_path / f"{number:03d}.jsonl")
        jsonl.write(paths[-1], group(f"t{number}", 4, 8))
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    command = [
        sys.executable,
        "-m",
        "coevolve_cli.main",
        "extract-signals",
        "--mode",
        "paper",
        *map(str, paths),
    ]
    limit = lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (MAX_OPEN + 40, hard))  # noqa: E731
    result = subprocess.run(command, capture_output=True, preexec_fn=limit)
    assert result.returncode == 0, result.stderr
    assert result.stdout.count(b"\n") == len(paths)


def test_an_inventory_of_another_environment_is_named(coevolve, tmp_path):
    """Tools that no rollout calls, an empty list, another environment: each is said in the summary
    line."""
    tools = tmp_path / "tools.json"
    for content, word in (
        ("[]", b"the inventory is empty"),
        ('[{"name":"farm.sow"}]', b"that of another environment?"),
    ):
        tools.write_text(content)
        assert (
            word
            in coevolve(
                "extract-signals", "--tools", tools, stdin=data(group("t", 8, 8, ["a"]))
            ).stderr
        )
    desk = coevolve("extract-signals", "--env", "desk", stdin=data(group("t", 8, 8, ["a"]))).stderr
    assert b"unexplored tools of toy not looked for (the inventory is that of desk)" in desk


def test_a_cold_start_names_the_aims_there_are(coevolve):
    """The line about the cold start speaks of what was printed."""
    cold = data(group("t", 0, 8, ["a"]))
    assert (
        b"in iteration 0; aims are what came furthest"
        in coevolve("extract-signals", stdin=cold).stderr
    )
    assert b"aims are" not in coevolve("extract-signals", "--kinds", "boundary", stdin=cold).stderr


@pytest.mark.parametrize("where", ["2>/dev/full", "2>&-"])
def test_a_stderr_that_takes_nothing_costs_no_record(where, tmp_path):
    """`--summary` onto a full or closed stderr: the same records, exit 0."""
    path = tmp_path / "rollouts.jsonl"
    jsonl.write(path, group("t", 4, 8))
    command = (
        f'"$PYTHON" -m coevolve_cli.main extract-signals --summary --mode paper {path} {where}'
    )
    environment = {**os.environ, "PYTHON": sys.executable}
    result = subprocess.run(["bash", "-c", command], capture_output=True, env=environment)
    assert result.returncode == 0
    assert [json.loads(line)["kind"] for line in result.stdout.splitlines()] == ["boundary"]


def test_history_entries_need_trials(tmp_path):
    """An outcome without trials has no score, and is refused."""
    path = tmp_path / "history.jsonl"
    jsonl.write(path, History({("toy", "t"): [GroupOutcome(0, 0, 0, 0, 1)]}))
    with pytest.raises(jsonl.BadInput, match="impossible outcome"):
        history.load(path)


def test_environments_share_nothing_in_paper_mode():
    """The same task id in two environments is two tasks."""
    rollouts = group("t", 8, 8, step=1) + group("t", 0, 8, step=2, env="farm", group="f")
    renamed = [msgspec.structs.replace(r, id=f"{r.env}-{r.id}") for r in rollouts]
    assert list(extract(renamed, SignalSettings(mode="paper", kinds=PAPER))) == []
