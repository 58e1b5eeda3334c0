"""Merging: the result against what the rules say, on made-up tasks and through the command."""

import json
import random
from collections import Counter

import pytest

from coevolve.jsonl import Line, encode
from coevolve.merging.duplicates import HeldOutTasks
from coevolve.merging.merge import MergeSettings, merge
from coevolve.records import Call, Origin, Start, Task, Validity, Verifier, task_id

VALID = Validity("valid", "strict")


def task(number, kind="a", iteration=1, validity=VALID, origin="synthesis", query=None, effects=""):
    start, query = Start(config={"seed": number}), [query or f"do {number}"]
    solution = [[Call("go", {"to": number})]]
    return Task(
        id=task_id("x", start, query, solution, Verifier()),
        env="x",
        kind=kind,
        origin=Origin(origin, iteration),
        validity=validity,
        query=query,
        solution=solution,
        effects=effects,
        start=start,
    )


def lines(*tasks):
    return [Line(t, encode(t).strip(), "test", n) for n, t in enumerate(tasks, 1)]


def merged(old, new, *held_out, **limits):
    result = merge(lines(*old), lines(*new), HeldOutTasks(held_out), MergeSettings(**limits))
    return (
        [line.record for line in result.kept],
        Counter(reason for _, reason in result.refused),
        result.added,
    )


def test_old_ones_first_then_new_ones_in_order():
    """Without limits the merge is the plain union."""
    old, new = [task(n) for n in (5, 3)], [task(n) for n in (9, 1, 7)]
    assert merged(old, new, max_share=1) == ([*old, *new], Counter(), 3)


def test_duplicates_are_merged_once():
    """By id, and by start state and query even where the solution differs; in the old set, too."""
    same = task(1)
    other = Task(
        id="0" * 16,
        env="x",
        query=same.query,
        start=same.start,
        solution=[[Call("run")]],
        validity=VALID,
    )
    kept, refused, added = merged([same, same], [same, other, task(2), task(2)], max_share=1)
    assert kept == [same, task(2)] and refused == {"duplicate": 4} and added == 1


def test_only_valid_tasks_come_in():
    """Another verdict never, none only on request; the old set is taken as it is."""
    new = [task(1, validity=None), task(2, validity=Validity("trivial", "strict")), task(3)]
    old = [task(4, validity=None)]
    assert merged(old, new, max_share=1)[:2] == (
        [*old, task(3)],
        {"not validated": 1, "verdict trivial": 1},
    )
    assert merged(old, new, max_share=1, unvalidated=True)[2] == 2


def test_nothing_that_touches_the_held_out_set():
    """Neither a held-out start state, nor a held-out query to the same effect; the words alone may
    recur."""
    held = [task(1), task(2, query="say it", effects="e")]
    same_effect = task(3, query="say it", effects="e")
    other_effect = task(4, query="say it", effects="f")
    same_start = task(1, query="other words")
    kept, refused, _ = merged([], [same_effect, other_effect, same_start], *held)
    assert kept == [other_effect] and refused == {"held-out query": 1, "held-out start state": 1}


@pytest.mark.parametrize("share", [0.0, 0.1, 0.25, 0.5, 0.9, 1.0])
def test_the_share_of_new_tasks_is_capped(share):
    """At most that share of the result, and one task more would exceed it; without an old set there
    is no cap."""
    old, new = [task(n) for n in range(40)], [task(n) for n in range(100, 200)]
    kept, _, added = merged(old, new, max_share=share)
    assert added == len(kept) - 40 and added <= share * len(kept) + 1e-9
    assert added == len(new) or added + 1 > share * (len(kept) + 1)
    assert merged([], new, max_share=share)[2] == 100


def test_the_rarest_kinds_come_first():
    """Where not all can come in, kinds are levelled; an independent greedy count agrees on 50
    random cases."""
    for seed in range(50):
        rng = random.Random(f"kinds-{seed}")
        old = [task(n, rng.choice("abc")) for n in range(20)]
        new = [task(100 + n, rng.choice("abcde")) for n in range(60)]
        kept, _, added = merged(old, new)
        have, left = Counter(t.kind for t in old), list(new)
        for _ in range(20):
            low = min(have[t.kind] for t in left)
            first = next(t for t in left if have[t.kind] == low)
            have[first.kind] += 1
            left.remove(first)
        assert added == 20 and kept == [*old, *(t for t in new if t not in left)]


def test_eviction_takes_the_oldest_synthetic_tasks_and_no_anchor():
    """Iteration 0 and the environment's own tasks stay, even beyond the maximum."""
    anchors = [task(1, iteration=0), task(2, origin="environment", iteration=0)]
    old = [task(5, iteration=2), *anchors, task(3, iteration=1), task(4, iteration=1)]
    new = [task(6, iteration=3)]
    kept, refused, added = merged(old, new, max_tasks=4)
    assert (
        kept == [task(5, iteration=2), *anchors, task(6, iteration=3)]
        and refused == {"evicted": 2}
        and added == 1
    )
    assert merged(old, new, max_tasks=1)[0] == anchors


def test_the_command_keeps_unknown_fields_and_may_write_over_its_input(coevolve, tmp_path):
    """New tasks on stdin, --into and -o the same file; bytes of every line as they were; refusals
    with their reason."""
    into, rejects = tmp_path / "tasks.jsonl", tmp_path / "rejects.jsonl"
    odd = encode(task(1)).replace(b'"env":', b'"colour":"blue","env":')
    into.write_bytes(odd)
    new = encode(task(2)).replace(b'"env":', b'"size":[1, 2],"env":')
    bad = encode(task(3, validity=None))
    result = coevolve("merge", "--into", into, "-o", into, "--rejects", rejects, stdin=new + bad)
    assert into.read_bytes() == odd + new and result.stdout == b""
    assert json.loads(rejects.read_text())["reason"] == "not validated"
    assert b"merge: read 2, wrote 2, added 1, not validated 1" in result.stderr


def test_the_command_reports_bad_input(coevolve, tmp_path):
    """A missing task set is a usage error, a torn one bad input; an empty input leaves the set as
    it is."""
    assert coevolve("merge", "--into", tmp_path / "none.jsonl", check=False).returncode == 2
    torn = tmp_path / "torn.jsonl"
    torn.write_bytes(encode(task(1))[:-20])
    result = coevolve("merge", "--into", torn, check=False)
    assert result.returncode == 3 and b"torn.jsonl:1: torn line" in result.stderr
    whole = tmp_path / "whole.jsonl"
    whole.write_bytes(encode(task(1)))
    assert coevolve("merge", "--into", whole).stdout == encode(task(1))
    twice = coevolve("merge", "-", "--into", "-", check=False)
    assert twice.returncode == 2 and b"standard input" in twice.stderr
