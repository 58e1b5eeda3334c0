"""What isolation costs on AppWorld: the worker against AppWorld's own use in one process, on the
same episodes, in turns:

    python tests/benchmarks/appworld_cost.py [EPISODES=20]

Prints one JSON object of medians in milliseconds: `open` until the first observation (the text of
the task), `steps` for each of the cells below, `grade`, `close`, and the whole `episode`, by the
clock on the wall, for `ours` and for `theirs`; `per_step` is the ratio of the medians over all
cells, `per_episode_s` what open, grade and close cost more, in seconds. Exit status 1 above the
targets: 2 times a step, 0.3 s an episode.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

MOST_PER_STEP, MOST_PER_EPISODE = 2.0, 0.3
TASK = "payback_1"
FIRST = "print(apis.supervisor.show_active_task()['instruction'])"
CELLS = [
    "x = 1",
    "print(apis.spotify.show_song(song_id=1))",
    "for song in range(1, 11): apis.spotify.show_song(song_id=song)",
    "print(apis.api_docs.show_api_doc(app_name='spotify', api_name='create_playlist'))",
]
Timings = dict[str, list[float]]


def theirs_forever(task: str) -> None:
    """Run by the appworld environment's Python: one episode for each line on stdin, its timings as
    a line on stdout."""
    from appworld import AppWorld

    def clock() -> float:
        return time.clock_gettime(time.CLOCK_MONOTONIC)  # the others stand still in a world

    for number, solution in enumerate(map(json.loads, sys.stdin)):
        marks = [clock()]
        world = AppWorld(task_id=task, experiment_name=f"cost-{os.getpid()}-{number}")
        for act in (FIRST, *CELLS, solution):
            world.execute(act)
            marks.append(clock())
        success = world.evaluate().success
        marks.append(clock())
        world.close()
        marks.append(clock())
        print(json.dumps([success, *marks]), flush=True)


def ours(pool, task) -> list:
    marks = [time.perf_counter()]
    (session,) = pool.open([task.start])
    for act in (FIRST, *CELLS, *task.solution[0]):
        pool.step([(session, 0, [act])])
        marks.append(time.perf_counter())
    (verdict,) = pool.evaluate([(session, task)])
    marks.append(time.perf_counter())
    pool.close([session])
    marks.append(time.perf_counter())
    return [verdict.success, *marks]


def collect(marks: list[float], into: Timings) -> None:
    spans = [1000 * (later - earlier) for earlier, later in zip(marks, marks[1:], strict=False)]
    into.setdefault("open", []).append(spans[0])
    for number, span in enumerate(spans[1:-2], 1):
        into.setdefault(f"step {number}", []).append(span)
    into.setdefault("grade", []).append(spans[-2])
    into.setdefault("close", []).append(spans[-1])
    into.setdefault("episode", []).append(sum(spans))


def main(episodes: int = 20) -> int:
    from coevolve.environments import appworld_root, install
    from coevolve.environments.client import Pool

    own, foreign = {}, {}
    with tempfile.TemporaryDirectory(prefix="coevolve-cost-") as folder, Pool("appworld") as pool:
        (Path(folder) / "data").symlink_to(appworld_root.chosen() / "data")
        environment = {**os.environ, **install.caches("appworld"), "APPWORLD_ROOT": folder}
        command = [str(install.python("appworld")), __file__, "--theirs", TASK]
        other = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment, text=True
        )
        task = next(
            t
            for split in pool.description.splits
            for t in pool.tasks(split)
            if t.start.name == TASK
        )
        for number in range(episodes + 2):
            ended, *marks = ours(pool, task)
            other.stdin.write(json.dumps(task.solution[0][0]) + "\n")
            other.stdin.flush()
            succeeded, *others = json.loads(other.stdout.readline())
            assert ended and succeeded
            if number >= 2:  # both are warm
                collect(marks, own)
                collect(others, foreign)
        other.stdin.close()
        other.wait()
    return report(
        *({name: statistics.median(values) for name, values in t.items()} for t in (own, foreign))
    )


def report(own: dict[str, float], foreign: dict[str, float]) -> int:
    steps = [name for name in own if name.startswith("step")]
    ratio = sum(own[name] for name in steps) / sum(foreign[name] for name in steps)
    more = sum(own[name] - foreign[name] for name in ("open", "grade", "close")) / 1000
    rounded = [
        {name: round(value, 1) for name, value in medians.items()} for medians in (own, foreign)
    ]
    each = {name: round(own[name] / foreign[name], 2) for name in (*steps, "episode")}
    print(
        json.dumps(
            {
                "ours": rounded[0],
                "theirs": rounded[1],
                "ratios": each,
                "per_step": round(ratio, 2),
                "per_episode_s": round(more, 3),
            }
        )
    )
    return int(ratio > MOST_PER_STEP or more > MOST_PER_EPISODE)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--theirs"]:
        theirs_forever(sys.argv[2])
    else:
        sys.exit(main(*map(int, sys.argv[1:])))
