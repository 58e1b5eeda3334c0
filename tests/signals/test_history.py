"""The history of outcomes: what a rerun, a shard and a merge do to it."""

from __future__ import annotations

import random

import msgspec
import pytest
from signal_cases import group, random_rollouts

from coevolve import jsonl
from coevolve.errors import BadInput
from coevolve.signals import history
from coevolve.signals.extract import extraction, lines_of
from coevolve.signals.history import GroupOutcome, History
from coevolve.signals.kinds import PAPER
from coevolve.signals.settings import SignalSettings

RULES = SignalSettings(mode="paper", kinds=PAPER)


def run(path, rollouts):
    """One call of the command: reads the history, writes it back, returns the signals' bytes."""
    with extraction(lines_of(rollouts), RULES, history=history.load(path)) as found:
        history.update(path, found.renewed)
        return b"".join(map(jsonl.encode, found.signals()))


def test_a_rerun_changes_nothing(tmp_path):
    """The second run on the same input gives the same signals and the same file."""
    path = tmp_path / "history.jsonl"
    run(path, group("t", 8, 8, iteration=1))
    first = run(path, group("t", 1, 8, iteration=2)), path.read_bytes()
    assert first[0]
    assert (run(path, group("t", 1, 8, iteration=2)), path.read_bytes()) == first


def test_a_rerun_replaces_the_tasks_it_holds(tmp_path):
    """A rerun forgets what was known of its tasks in its iteration, other steps included, and keeps
    all else."""
    path = tmp_path / "history.jsonl"
    run(path, group("old", 8, 8, iteration=1) + group("t", 7, 8, iteration=1))
    run(
        path,
        group("other", 8, 8, iteration=2)
        + group("t", 0, 8, iteration=2)
        + group("t", 1, 8, iteration=2, step=1),
    )
    run(
        path,
        group("elsewhere", 3, 8, iteration=2, env="farm")
        + group("t", 2, 8, iteration=2, env="farm"),
    )
    run(path, group("t", 5, 8, iteration=2))
    kept = history.load(path)
    names = [("farm", "elsewhere"), ("farm", "t"), ("toy", "old"), ("toy", "other"), ("toy", "t")]
    assert [(line.env, line.task_id) for line in kept] == names
    assert [e.successes for e in kept.outcomes(("toy", "t"))] == [7, 5]


def test_a_masked_rerun_keeps_what_was_known(tmp_path):
    """Rollouts that the infrastructure lost say nothing, and erase nothing."""
    path = tmp_path / "history.jsonl"
    run(path, group("t", 5, 8, iteration=2))
    before = path.read_bytes()
    run(path, group("t", 0, 8, iteration=2, stop_reason="env_error"))
    assert path.read_bytes() == before


def test_iteration_by_iteration_is_the_stream_at_once(tmp_path):
    """One call per iteration with a history finds what one call with everything finds."""
    for seed in range(30):
        rollouts = random_rollouts(f"split-{seed}") + group("always", 4, 8)
        path = tmp_path / f"{seed}.jsonl"
        iterations = sorted({r.iteration for r in rollouts})
        parts = [run(path, [r for r in rollouts if r.iteration == i]) for i in iterations]
        whole = run(tmp_path / f"{seed}-whole.jsonl", rollouts)
        assert _strip(b"".join(parts)) == _strip(whole)
        assert path.read_bytes() == (tmp_path / f"{seed}-whole.jsonl").read_bytes()


def _strip(signals):
    """Kind, task, statistic and history of each signal; the last success may lie in an earlier
    file."""
    keys = ("id", "kind", "task_id", "strength", "statistic", "history")
    return [[msgspec.json.decode(line)[key] for key in keys] for line in signals.splitlines()]


def test_cat_of_shards_is_one_run(tmp_path):
    """Shards of one iteration, each with a copy of the common past, concatenated in any order: the
    same bytes."""
    for seed in range(30):
        draw = random.Random(f"shards-{seed}")
        rollouts = random_rollouts(f"shards-{seed}")
        past, now = (
            [r for r in rollouts if r.iteration < 2],
            [r for r in rollouts if r.iteration >= 2],
        )
        left = [r for r in now if draw.random() < 0.5]
        right = [r for r in now if r not in left]
        whole, first, second, both = (tmp_path / f"{seed}-{name}" for name in "wabc")
        run(whole, past)
        first.write_bytes(whole.read_bytes())
        second.write_bytes(whole.read_bytes())
        run(first, left)
        run(second, right)
        run(whole, now)
        both.write_bytes(second.read_bytes() + first.read_bytes())
        run(both, [])
        assert both.read_bytes() == whole.read_bytes()


def test_constant_memory():
    """At most `KEEP` groups a task are kept, the latest, in order."""
    entries = [(("toy", "t"), GroupOutcome(step // 10, step, 1, 8, step)) for step in range(200)]
    random.Random(0).shuffle(entries)
    kept = History().joined(entries).outcomes(("toy", "t"))
    assert [e.step for e in kept] == list(range(200 - history.KEEP, 200))


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (
            b'{"schema":"coevolve.history/2","env":"e","task_id":"t","outcomes":[]}',
            "expected schema",
        ),
        (
            b'{"schema":"coevolve.history/1","env":"e","task_id":"t","outcomes":[[0,0,9,8,1]]}',
            "impossible outcome",
        ),
        (b'{"schema":"coevolve.history/1","env":"e","task_id":"t","outc', "torn line"),
    ],
)
def test_bad_history(tmp_path, line, reason):
    """A history of another version, with impossible counts, or torn, is refused by file and
    line."""
    path = tmp_path / "history.jsonl"
    path.write_bytes(b"\n" + line)
    with pytest.raises(BadInput, match=f"history.jsonl:2: .*{reason}"):
        history.load(path)
