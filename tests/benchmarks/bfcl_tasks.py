"""What a set of synthesised BFCL tasks covers, as one JSON object.

    coevolve explore --env bfcl --mode curious --episodes 300 --seed 1 |
        coevolve abstract | coevolve validate > tasks.jsonl
    python tests/benchmarks/bfcl_tasks.py tasks.jsonl

Solutions are executed again, so that the share of tasks in which a value crosses turns (an argument
that an earlier turn's output told and that no turn of the query says) is measured and not believed.
Two tasks are near-duplicates when they ask for the same functions in the same order and share at
least 80 % of their words. Whether a task touches an official one is decided from the package's own
files and by other means than `coevolve validate` has (`Official`).
"""

from __future__ import annotations

import json
import re
import statistics
import sys
from collections import Counter
from collections.abc import Sequence
from typing import Any

from coevolve.environments import install
from coevolve.environments.client import Fault, Pool
from coevolve.environments.replay import ReplayJob, replay
from coevolve.grounding.solutions import executed_steps
from coevolve.grounding.sources import at, sources
from coevolve.jsonl import read
from coevolve.records import Task, canonical

ALIKE = 0.8


def report(tasks: Sequence[Task], pool: Pool) -> dict[str, Any]:
    """The figures; `pool` is a running one of bfcl."""
    apps = {name: tool.app for name, tool in pool.tools.items()}
    calls = [[call for turn in task.solution for call in turn] for task in tasks]
    used = [{apps[call.tool] for call in found} for found in calls]
    functions = {call.tool for found in calls for call in found}
    official = [task for split in ("base",) for task in pool.tasks(split)]
    wanted = {frozenset(tag for tag in task.tags if tag in apps.values()) for task in official}
    pairs = {pair for pair in wanted if len(pair) == 2}
    missing = [sorted(pair) for pair in pairs if not any(pair <= found for found in used)]
    return {
        "tasks": len(tasks),
        "turns": dict(sorted(Counter(len(task.query) for task in tasks).items())),
        "median_calls": statistics.median(map(len, calls)),
        "classes": dict(sorted(Counter(app for found in used for app in found).items())),
        "functions": len(functions),
        "functions_missing": sorted(set(apps) - functions),
        "official_pairs": len(pairs),
        "official_pairs_missing": sorted(missing),
        "crossing_turns": round(sum(crossing(tasks, pool, apps)) / len(tasks), 3),
        "start_states": len({canonical(task.start) for task in tasks}),
        "near_duplicates": round(near_duplicates(tasks), 4),
        "touching_official": sum(map(Official(pool).touched_by, tasks)),
    }


def crossing(tasks: Sequence[Task], pool: Pool, apps: dict[str, str]) -> list[bool]:
    """Per task, whether a later turn's call takes a value that an earlier turn's output told and no
    turn of the query says."""
    episodes = replay(pool, [ReplayJob(task.start, task.solution) for task in tasks])
    found = []
    if faults := [episode.message for episode in episodes if isinstance(episode, Fault)]:
        raise SystemExit(f"the environment failed: {faults[0]}")
    for task, episode in zip(tasks, episodes, strict=True):
        executed, text = executed_steps(task.solution, episode.results), "\n".join(task.query)
        found.append(
            any(
                source.step is not None
                and executed[source.step].turn < step.turn
                and not re.search(
                    rf"(?<!\w){re.escape(str(at(step.action.arguments, path)))}(?!\w)", text
                )
                for step, origins in zip(executed, sources(executed, apps), strict=True)
                for path, source in origins.items()
            )
        )
    return found


def near_duplicates(tasks: Sequence[Task]) -> float:
    """Share of the tasks that have an earlier near-duplicate."""
    groups: dict[str, list[set[str]]] = {}
    repeated = 0
    for task in tasks:
        key = " ".join(call.tool for turn in task.solution for call in turn)
        words = set(re.findall(r"\w+", " ".join(task.query).lower()))
        others = groups.setdefault(key, [])
        repeated += any(len(words & other) >= ALIKE * len(words | other) for other in others)
        others.append(words)
    return repeated / len(tasks)


class Official:
    """What the official tasks of all categories begin with, say and do, as sets of words and lines
    of text."""

    def __init__(self, pool: Pool):
        (data,) = install.directory(install.RECIPES["bfcl"]).glob(
            "lib/python*/site-packages/bfcl_eval/data"
        )
        files = sorted(data.glob("BFCL_v*_multi_turn_*.json"))
        entries = [
            json.loads(line) for file in files for line in file.read_text("utf-8").splitlines()
        ]
        self._states = {_json(entry["initial_config"]) for entry in entries}
        tasks = [task for split in pool.description.held_out for task in pool.tasks(split)]
        self._turns = {_plain(turn) for task in tasks for turn in task.query}
        self._words = list({words: None for task in tasks if (words := _words(task))})
        self._lines = [
            (_text(lines), Counter(lines))
            for lines in {tuple(_lines(task)): None for task in tasks}
        ]

    def touched_by(self, task: Task) -> bool:
        """It begins there, repeats a turn of eight words or four fifths of all words, holds the
        lines of a whole solution one after the other, or of two solutions' lines, three at least,
        the one has all that the other has, in whatever order."""
        mine, words = _lines(task), _words(task)
        text, counted = _text(mine), Counter(mine)
        return (
            task.start.name is not None
            or _json((task.start.config or {}).get("state")) in self._states
            or any(len(turn.split()) >= 8 and _plain(turn) in self._turns for turn in task.query)
            or any(
                len(words) >= ALIKE * len(other)
                and len(words & other) >= ALIKE * len(words | other)
                for other in self._words
            )
            or any(other.total() > 1 and lines in text for lines, other in self._lines)
            or any(
                min(len(mine), other.total()) >= 3 and (counted <= other or counted >= other)
                for _, other in self._lines
            )
        )


def _lines(task: Task) -> list[str]:
    return [f"{call.tool} {_json(call.arguments)}" for turn in task.solution for call in turn]


def _text(lines: Sequence[str]) -> str:
    return "\n".join(["", *lines, ""])


def _words(task: Task) -> frozenset[str]:
    return frozenset(re.findall(r"\w+", " ".join(task.query).lower()))


def _plain(text: str) -> str:
    return re.sub(r"\W+", " ", text).strip().casefold()


def _json(value: Any) -> str:
    return json.dumps(value, sort_keys=True)


def main() -> None:
    tasks = [line.record for line in read(sys.argv[1:] or ["-"], Task)]
    with Pool("bfcl", workers=2) as pool:
        print(json.dumps(report(tasks, pool), indent=1))


if __name__ == "__main__":
    main()
