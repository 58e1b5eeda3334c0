"""How fast `extract-signals` reads: CPU seconds and memory beside jq and orjson doing a projection
of the same file.

    python tests/benchmarks/throughput.py [ROLLOUTS] [FILE]

50,000 rollouts are 1 GB, made in FILE if it is not there (about 2 min).

`whole` runs every kind of signal (the steps are read), `head` the kinds that need no steps, so that
only the bytes before ``,"messages":`` are parsed. jq and orjson only project {task_id, success,
tools}, which is less than any of them. MB/s are per CPU second (user + system), each the best of
three; memory is the peak resident size.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

from coevolve import jsonl
from coevolve.records import Call, Effect, Rollout, Start, Step, Task, Usage

APPS = ["music", "mail", "pay", "shop", "phone", "files", "todo", "split", "notes"]
VERBS = [
    "login",
    "profile",
    "search",
    "list",
    "create",
    "update",
    "delete",
    "send",
    "share",
    "finish",
]
TOOLS = [f"{app}.{verb}" for app in APPS for verb in VERBS]
GROUP = 8
HEAD_KINDS = "forgetting,boundary,rare,combination,progress"
ORJSON = """
import orjson, sys
with open(sys.argv[1], "rb", buffering=1 << 20) as f:
    n = 0
    for line in f:
        d = orjson.loads(line)
        n += len((d["task_id"], d["success"], d["tools"]))
print(n)
"""


class Words:
    """Text of a fixed seed: words, observations, thoughts."""

    def __init__(self) -> None:
        self.draw = random.Random("throughput")
        letters = ("bcdfghlmnprstvw", "aeiou")
        self.words = [
            "".join(self.draw.choice(letters[i % 2]) for i in range(self.draw.randint(2, 9)))
            for _ in range(4000)
        ]
        self.observations = [self._observation() for _ in range(2000)]
        self.thoughts = [self.sentence(self.draw.randint(20, 60)) for _ in range(2000)]

    def sentence(self, words: int) -> str:
        return " ".join(self.draw.choices(self.words, k=words))

    def _observation(self) -> str:
        odd = ["", "café — déjà vu", 'line\nbreak\t"quoted"', "日本語テキスト", self.sentence(8)]
        rows = [
            {
                "id": self.draw.randint(1, 10**6),
                "title": self.sentence(4),
                "owner": self.sentence(2),
                "note": self.draw.choice(odd),
            }
            for _ in range(self.draw.randint(3, 9))
        ]
        return jsonl.encode(rows).decode().strip()


def rollout(words: Words, number: int, sample: int) -> Rollout:
    """About 21 kB: a chat of 5 to 11 turns and the same again as steps."""
    draw = words.draw
    rate = (number % 10) / 9
    task = Task(
        id=f"t{number:06d}",
        env="bench",
        query=[words.thoughts[number % 2000]],
        solution=[[]],
        start=Start("s"),
    )
    messages = [
        {"role": "system", "content": words.thoughts[0] * 8},
        {"role": "user", "content": task.query[0]},
    ]
    steps = []
    for turn in range(draw.randint(5, 11)):
        tool = TOOLS[(number * 3 + turn * 7 + draw.randint(0, 3)) % len(TOOLS)]
        call = Call(
            tool, {"query": draw.choice(words.words), "page": turn, "text": words.sentence(6)}
        )
        observation, thought = draw.choice(words.observations), draw.choice(words.thoughts)
        messages.append(
            {"role": "assistant", "content": thought, "tool_calls": [{"function": {"name": tool}}]}
        )
        messages.append({"role": "tool", "content": observation})
        effects = (
            [Effect("row", draw.choice(words.words), "title", "set", turn)]
            if draw.random() < 0.4
            else []
        )
        error = "bad_argument" if draw.random() < 0.04 else None
        steps.append(
            Step(0, call, observation, error, effects, f"{draw.getrandbits(64):016x}", 2 * turn + 2)
        )
    success = draw.random() < rate
    return Rollout(
        id=f"{draw.getrandbits(64):016x}",
        task_id=task.id,
        env="bench",
        group=f"g{number}",
        sample=sample,
        step=number % 10,
        success=success,
        score=float(success),
        stop_reason="done",
        tools=[step.action.tool for step in steps],
        usage=Usage(9000, 900),
        messages=messages,
        steps=steps,
        task=task,
    )


def make(path: Path, rollouts: int) -> None:
    words = Words()
    jsonl.write(path, (rollout(words, n // GROUP, n % GROUP) for n in range(rollouts)))


class Run(NamedTuple):
    name: str
    seconds: float
    megabytes: float


def measure(name: str, command: list[str]) -> Run:
    """CPU seconds (best of three) and peak memory of a command whose output is thrown away."""
    runs = []
    for _ in range(3):
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        _, status, usage = os.wait4(process.pid, 0)
        if status:
            raise SystemExit(f"{name} failed: {' '.join(command)}")
        runs.append((usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024))
    return Run(name, min(seconds for seconds, _ in runs), max(memory for _, memory in runs))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "rollouts", nargs="?", type=int, default=50_000, help="how many (%(default)s)"
    )
    parser.add_argument(
        "file",
        nargs="?",
        type=Path,
        help="read if it is there, else made; without it a temporary one",
    )
    options = parser.parse_args()
    rollouts = options.rollouts
    with tempfile.TemporaryDirectory() as folder:
        path = options.file or Path(folder) / "rollouts.jsonl"
        if not path.exists():
            make(path, rollouts)
        size = path.stat().st_size / 1e6
        extract = [
            sys.executable,
            "-m",
            "coevolve_cli.main",
            "extract-signals",
            "--quiet",
            str(path),
        ]
        runs = [
            measure("extract-signals, whole", extract),
            measure("extract-signals, head", [*extract, "--kinds", HEAD_KINDS]),
            measure("orjson, projection", [sys.executable, "-c", ORJSON, str(path)]),
        ]
        if shutil.which("jq"):
            runs.append(
                measure("jq -c, projection", ["jq", "-c", "{task_id, success, tools}", str(path)])
            )
    first = runs[0]
    print(f"{size:.0f} MB, {rollouts} rollouts")
    print(f"{'':<24} {'CPU s':>7} {'MB/s':>7} {'memory MB':>10} {'time, whole = 1':>16}")
    for run in runs:
        speed, ratio = size / run.seconds, run.seconds / first.seconds
        cells = f"{run.seconds:>7.2f} {speed:>7.0f} {run.megabytes:>10.0f} {ratio:>16.2f}"
        print(f"{run.name:<24} {cells}")


if __name__ == "__main__":
    main()
