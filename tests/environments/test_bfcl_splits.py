"""BFCL's splits and tags, and the tools that come with a later turn."""

from __future__ import annotations

import functools
import hashlib
import tomllib
from collections import Counter

import pytest
from environments.bfcl_worker import act, opened, run

from coevolve.environments import registry

pytestmark = pytest.mark.bfcl

CATEGORIES = ("base", "long_context", "miss_func", "miss_param")
MAIN = ("GorillaFileSystem", "VehicleControlAPI", "TradingBot", "TravelAPI")


def numbers(tasks) -> list[int]:
    return [int(task.start.name.rpartition("_")[2]) for task in tasks]


def shipped(name: str):
    """A table of the worker's file of splits."""
    return tomllib.loads((registry.WORKERS / "bfcl/splits.toml").read_text())[name]


def test_halves_are_apart_of_equal_size_and_stratified(bfcl):
    """Training and test half of every category: the same numbers everywhere, 25 of each main class,
    none in both."""
    test = numbers(bfcl.tasks("base_test"))
    for category in CATEGORIES:
        parts = {part: bfcl.tasks(f"{category}_{part}") for part in ("train", "test", "excluded")}
        assert numbers(parts["test"]) == test
        train = numbers(parts["train"]) + numbers(parts["excluded"])
        assert len(train) == 100 and sorted(train + test) == list(range(200))
        assert Counter(task.kind for task in parts["test"]) == dict.fromkeys(MAIN, 25)
        assert all("underivable" in task.tags for task in parts["excluded"])
        assert not any("underivable" in task.tags for task in parts["train"])


def test_halves_are_the_ones_that_the_seed_draws(bfcl):
    """The shipped list follows from the seed and the official data by the recipe in the module's
    docstring."""
    tasks = bfcl.tasks("base")
    classes = {
        n: tuple(sorted(set(task.tags) & set(bfcl_classes(bfcl)))) for n, task in enumerate(tasks)
    }
    states = [session.opened.state for session in bfcl.open([task.start for task in tasks])]
    words = [task.query[0] for task in tasks]
    group: dict[str, list[int]] = {}
    for n in range(200):
        found = {id(group[key]): group[key] for key in (states[n], words[n]) if key in group}
        members = [m for other in found.values() for m in other] + [n]
        group |= {key: members for m in members for key in (states[m], words[m])}
    count, train = Counter(), set()
    groups = {min(members): sorted(members) for members in group.values()}.values()
    for members in sorted(groups, key=lambda g: (-len(g), _rank(g[0]))):
        half = min((0, 1), key=functools.partial(_load, members, count, tasks, classes))
        for n in members:
            count[half, tasks[n].kind] += 1
            count[half, classes[n]] += 1
            train |= {n} if half == 0 else set()
    assert sorted(train) == sorted(
        numbers(bfcl.tasks("base_train")) + numbers(bfcl.tasks("base_excluded"))
    )


def _rank(text) -> str:
    return hashlib.sha256(f"coevolve-bfcl-split-2-{text}".encode()).hexdigest()


def _load(members, count, tasks, classes, half) -> tuple:
    """How much a half has already of what a group would bring."""
    main, whole = (
        sum(count[half, kind] for kind in kinds)
        for kinds in ([tasks[n].kind for n in members], [classes[n] for n in members])
    )
    return main, whole, _rank(f"{members[0]}-{half}")


def bfcl_classes(pool) -> set[str]:
    return {tool.app for tool in pool.tools.values()}


def test_ids_have_the_shipped_digests(bfcl):
    """Every split's ids, one a line, hash to what the module says; there is a digest for each
    split."""
    digests = shipped("digests")
    assert set(digests) == set(bfcl.description.splits)
    for split, digest in digests.items():
        ids = "\n".join(task.start.name for task in bfcl.tasks(split))
        assert hashlib.sha256(ids.encode()).hexdigest()[:16] == digest, split


def test_tasks_with_faults_are_tagged(bfcl):
    """The references that nobody could derive, in every category, and the turns without reference
    calls."""
    for category in CATEGORIES:
        tasks = bfcl.tasks(category)
        assert numbers(task for task in tasks if "underivable" in task.tags) == [4, 176, 187]
        assert [task for task in tasks if "empty_turn" in task.tags] == [
            t for t in tasks if not all(t.solution)
        ]
    malformed = numbers(task for task in bfcl.tasks("base") if "malformed_state" in task.tags)
    assert {176, 177, 178, 181, 190} <= set(malformed) and len(malformed) < 60


def test_a_missing_function_comes_with_its_turn(bfcl):
    """It is not offered and does not run before; it does from the turn on that announces it, in
    words of its own."""
    for task in bfcl.tasks("miss_func")[:40]:
        session = opened(bfcl, task.start)
        for turn, names in session.opened.later.items():
            assert not set(names) & set(session.opened.tools)
            assert task.solution[int(turn) - 1] == [] and "functions" in task.query[int(turn)]
            early = act(bfcl, session, *[(name, {}) for name in names], turn=int(turn) - 1)
            late = act(bfcl, session, *[(name, {}) for name in names], turn=int(turn))
            assert {result.error for result in early} == {"unknown_tool"}
            assert "unknown_tool" not in {result.error for result in late}
        assert session.opened.later


@pytest.mark.parametrize("category", ["miss_func", "miss_param"])
def test_references_of_the_missing_categories_succeed(bfcl, category):
    """All 200 reference solutions score 1 under the default rules, though some functions come
    late."""
    tasks = bfcl.tasks(category)
    assert [task.start.name for task in tasks if not run(bfcl, task, task.solution).success] == []
