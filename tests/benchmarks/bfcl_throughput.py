"""Speed of the BFCL adapter against the official executor, on the same reference solutions in the
same run:

    python tests/benchmarks/bfcl_throughput.py [ROUNDS=9]

Prints one JSON object. `in_process`: episodes and steps a second of the official executor and
checker, and of the adapter without and with effects, in one process of the bfcl environment, a
second being one of that process's CPU time; each round runs all of them, and the median round
counts. `boundary`: the same episodes through a pool of worker processes, one call a message with
one session at a time, then with all sessions batched, by the clock on the wall. `over_official`:
how many times as fast the adapter is. Exit status 1 if the adapter in process, with effects or
without, is slower than the official code on episodes or on steps.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).parents[2]
Rate = dict[str, float]


def rates(
    runs: dict[str, Callable[[], tuple[int, int]]],
    rounds: int,
    clock: Callable[[], float] = time.perf_counter,
) -> dict[str, Rate]:
    """Median episodes and steps a second of each run, which returns how many of each it did."""
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in runs}
    for _ in range(rounds + 1):
        for name, run in runs.items():
            begin = clock()
            episodes, steps = run()
            seconds = clock() - begin
            found[name].append((episodes / seconds, steps / seconds))
    return {
        name: dict(
            zip(
                ("episodes_per_s", "steps_per_s"),
                map(_median, zip(*all_[1:], strict=True)),
                strict=True,
            )
        )
        for name, all_ in found.items()
    }


def _median(values: tuple[float, ...]) -> float:
    return round(statistics.median(values), 1)


def inside(rounds: int) -> dict[str, Rate]:
    """Run by the bfcl environment's Python."""
    sys.path += [str(ROOT), str(ROOT / "tests/environments")]
    from bfcl_parity import fresh, multi_turn_checker, official, raw_answers

    from coevolve.environments.workers.bfcl import data
    from coevolve.environments.workers.bfcl.judge import judge
    from coevolve.environments.workers.bfcl.session import BfclSession
    from coevolve.environments.workers.bfcl.worker import official_start
    from coevolve.environments.workers.bfcl.world import BfclWorld

    entries, raw = list(data.entries("base").values()), raw_answers("base")
    answers = {entry["id"]: data.answer(entry["id"]) for entry in entries}
    starts = {entry["id"]: official_start(entry, False) for entry in entries}
    calls = sum(len(turn) for turns in answers.values() for turn in turns)

    def official_executor() -> tuple[int, int]:
        for entry in entries:
            for turn in raw[entry["id"]]:
                official.execute_multi_turn_func_call(
                    turn, entry["initial_config"], entry["involved_classes"], "speed", entry["id"]
                )
        fresh("speed")
        return len(entries), calls

    def adapter() -> tuple[int, int]:
        for name, start in starts.items():
            world = BfclWorld(start)
            for number, turn in enumerate(answers[name]):
                for call in turn:
                    world.call(call["tool"], call["arguments"], number)
        return len(entries), calls

    def adapter_with_effects() -> tuple[int, int]:
        for name, start in starts.items():
            session = BfclSession(start)
            for number, turn in enumerate(answers[name]):
                for call in turn:
                    session.step(number, call)
        return len(entries), calls

    def official_checker() -> tuple[int, int]:
        for entry in entries:
            turns = [[[call] for call in turn] for turn in raw[entry["id"]]]
            assert multi_turn_checker(turns, raw[entry["id"]], entry, "", "speed")["valid"]
        fresh("speed")
        return len(entries), 2 * calls

    def adapter_judge() -> tuple[int, int]:
        for name, start in starts.items():
            assert judge(start, answers[name], answers[name]).valid
        return len(entries), 2 * calls

    runs = (official_executor, adapter, adapter_with_effects, official_checker, adapter_judge)
    return rates({run.__name__: run for run in runs}, rounds, time.process_time)


def boundary(rounds: int, workers: int) -> dict[str, Rate]:
    """Through worker processes; opening and closing included, grading not."""
    from coevolve.environments.client import Pool

    with Pool("bfcl", workers=workers) as pool:
        tasks = pool.tasks("base")
        flat = [
            [(turn, call) for turn, calls in enumerate(task.solution) for call in calls]
            for task in tasks
        ]
        calls = sum(map(len, flat))

        def one_at_a_time() -> tuple[int, int]:
            for task, steps in zip(tasks, flat, strict=True):
                sessions = pool.open([task.start])
                for turn, call in steps:
                    pool.step([(sessions[0], turn, [call])])
                pool.close(sessions)
            return len(tasks), calls

        def batched() -> tuple[int, int]:
            sessions = pool.open([task.start for task in tasks])
            for place in range(max(map(len, flat))):
                going = [
                    (session, steps[place])
                    for session, steps in zip(sessions, flat, strict=True)
                    if place < len(steps)
                ]
                pool.step([(session, turn, [call]) for session, (turn, call) in going])
            pool.close(sessions)
            return len(tasks), calls

        return rates(
            {
                f"one_at_a_time_{workers}_workers": one_at_a_time,
                f"batched_{workers}_workers": batched,
            },
            rounds,
        )


def main(rounds: int = 9) -> int:
    from coevolve.environments import install

    command = [install.python("bfcl"), __file__, "inside", str(rounds)]
    report = {
        "in_process": json.loads(subprocess.run(command, capture_output=True, check=True).stdout)
    }
    report["boundary"] = boundary(rounds, 1) | boundary(rounds, 2)
    official = report["in_process"]["official_executor"]
    report["over_official"] = {
        name: {
            what: round(rate / official[what], 2)
            for what, rate in report["in_process"][name].items()
        }
        for name in ("adapter", "adapter_with_effects")
    }
    print(json.dumps(report, indent=1))
    return int(
        min(ratio for ratios in report["over_official"].values() for ratio in ratios.values()) < 1
    )


if __name__ == "__main__":
    if sys.argv[1:2] == ["inside"]:
        print(json.dumps(inside(int(sys.argv[2]))))
    else:
        sys.exit(main(*map(int, sys.argv[1:])))
