"""What a set of synthesised AppWorld tasks covers, as one JSON object.

    coevolve explore --env appworld --mode curious --episodes 16 --seed 1 |
        coevolve abstract | coevolve validate > tasks.jsonl
    python tests/benchmarks/appworld_tasks.py tasks.jsonl

APIs are those that the programs call, logins not counted. An effect set is the set of tables and
operations that a program changes (`venmo.Transaction add, venmo.User set …`), from executing it
again; the task's own completion is in all of them and left out. Two effects count as independent
where the two goals of a task belong to different apps.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Sequence
from typing import Any

from coevolve.agents.code.calls import api_calls
from coevolve.environments.client import Fault, Pool
from coevolve.environments.replay import ReplayedEpisode, ReplayJob, replay
from coevolve.jsonl import read
from coevolve.records import Task

TECHNICAL = ("login", "show_account_passwords", "show_profile", "complete_task")
ENDED = "supervisor.Task"


def report(tasks: Sequence[Task], pool: Pool) -> dict[str, Any]:
    """The figures; `pool` is a running one of appworld."""
    episodes = replay(pool, [ReplayJob(task.start, task.solution, task) for task in tasks])
    if faults := [episode.message for episode in episodes if isinstance(episode, Fault)]:
        raise SystemExit(f"the environment failed: {faults[0]}")
    used = [called(task) for task in tasks]
    apps = [{name.partition(".")[0] for name in names} for names in used]
    changed = [frozenset(effects(episode)) for episode in episodes]
    return {
        "tasks": len(tasks),
        "accepted_again": sum(episode.graded.success for episode in episodes),
        "apps": dict(sorted(Counter(app for found in apps for app in found).items())),
        "apis": len({name for names in used for name in names}),
        "effect_sets": len(set(changed)),
        "two_goals": sum("+" in task.kind for task in tasks),
        "two_independent_effects": sum(independent(task) for task in tasks),
        "questions": sum("answer=" in task.solution[0][0] for task in tasks),
        "start_states": len({json.dumps(task.start.config) for task in tasks}),
        "median_apis": sorted(map(len, used))[len(used) // 2] if used else 0,
        "queries": len({task.query[0] for task in tasks}),
    }


def called(task: Task) -> list[str]:
    """APIs of the task's programs, without those that every program calls."""
    names = [
        name
        for turn in task.solution
        for action in turn
        if isinstance(action, str)
        for name in api_calls(action)
    ]
    return [name for name in names if name.partition(".")[2] not in TECHNICAL]


def effects(episode: ReplayedEpisode) -> set[str]:
    return {
        f"{e.entity} {e.op}" for result in episode.flat for e in result.effects if e.entity != ENDED
    }


def independent(task: Task) -> bool:
    """Two goals of different apps: neither can change what the other looks at."""
    goals = [part.rpartition("/")[0].partition(".")[0] for part in task.kind.split("+")]
    return len(set(goals)) == 2


def main() -> None:
    tasks = [line.record for line in read(sys.argv[1:] or ["-"], Task)]
    with Pool("appworld", setup_timeout=300) as pool:
        print(json.dumps(report(tasks, pool), indent=1))


if __name__ == "__main__":
    main()
