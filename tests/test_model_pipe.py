"""The pipe with a model in every stage, against a scripted OpenAI-compatible server on loopback:
real commands, real workers.

D_0 by curiosity, rollouts of a policy that solves half of its attempts, signals, guided
exploration, abstraction, validation by an agent, merge; then the same offline, from the journal
alone; then with kill -9 in the middle.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import msgspec
import pytest
from competent_model import careless, competent
from scripted_server import ScriptedServer

import tiny_models
from coevolve.jsonl import encode
from coevolve.records import Exploration, Task
from conftest import COEVOLVE

MODEL = ["--model", "wise"]
SOLVER = ["--model", "wise", "--samples", "2"]


class Pipe:
    """Runs stages from file to file and counts what comes out of each."""

    def __init__(self, coevolve, folder: Path, *server: str):
        self._run, self._folder, self._server = (
            coevolve,
            folder,
            [*server, "--journal", str(folder.parent / "journal")],
        )
        folder.mkdir()
        self.counts: dict[str, int] = {}
        self.stderr = ""

    def __call__(
        self, stage: str, source: str | None, name: str, *options: str, model: bool = True
    ) -> str:
        files = [str(self._folder / source)] if source else []
        server = self._server if model else []
        result = self._run(stage, *files, *options, *server, "-o", str(self._folder / name))
        self.stderr += result.stderr.decode()
        self.counts[name] = len((self._folder / name).read_bytes().splitlines())
        return name

    def bytes(self) -> dict[str, bytes]:
        return {path.name: path.read_bytes() for path in sorted(self._folder.glob("*.jsonl"))}


def whole(pipe: Pipe, env: str) -> None:
    """One iteration of the loop, from nothing."""
    explored = pipe(
        "explore", None, "e0.jsonl", "--env", env, "--mode", "curious", "--episodes", "12", *MODEL
    )
    pipe("abstract", explored, "c0.jsonl", *MODEL)
    pipe("validate", "c0.jsonl", "v0.jsonl", *SOLVER)
    pipe("merge", "v0.jsonl", "tasks.jsonl", model=False)
    pipe("rollout", "tasks.jsonl", "rollouts.jsonl", "--model", "wise", "--samples", "4")
    pipe("extract-signals", "rollouts.jsonl", "signals.jsonl", model=False)
    pipe(
        "explore",
        "signals.jsonl",
        "e1.jsonl",
        "--episodes",
        "16",
        "--max-actions",
        "25",
        "--iteration",
        "1",
        *MODEL,
    )
    pipe("abstract", "e1.jsonl", "c1.jsonl", *MODEL)
    pipe("validate", "c1.jsonl", "v1.jsonl", *SOLVER)
    pipe(
        "merge", "v1.jsonl", "next.jsonl", "--into", str(pipe._folder / "tasks.jsonl"), model=False
    )


def read(data: bytes, type_: type) -> list:
    return [msgspec.json.decode(line, type=type_) for line in data.splitlines()]


@pytest.mark.parametrize(
    ("env", "least"), [("desk", 20), pytest.param("bfcl", 8, marks=pytest.mark.bfcl)]
)
def test_the_loop_with_a_model(coevolve, tmp_path, capsys, env, least):
    """Valid tasks come out of both halves; a rerun from the journal alone, without a server, gives
    the same bytes."""
    with ScriptedServer(careless(50)) as server:
        pipe = Pipe(coevolve, tmp_path / "online", "--base-url", server.url)
        whole(pipe, env)
        paid = len(server.requests)
    with capsys.disabled():
        print(
            f"\n{env}: {', '.join(f'{name} {n}' for name, n in pipe.counts.items())}; {paid} calls"
        )
    found = pipe.bytes()
    tasks, more = read(found["tasks.jsonl"], Task), read(found["v1.jsonl"], Task)
    assert len(tasks) >= least and len(more) >= least / 2 and pipe.counts["next.jsonl"] > len(tasks)
    for task in [*tasks, *more]:
        assert (
            task.validity.verdict == "valid"
            and task.difficulty.trials == 2
            and task.author.model == "wise"
        )
    guided = [e for e in read(found["e1.jsonl"], Exploration) if e.mode == "guided"]
    assert guided and all(e.context.reflection.startswith("Where: ") for e in guided)
    assert {t.lineage.signals[0] for t in more if t.lineage.signals} <= {
        e.context.signal for e in guided
    }
    assert any(task.lineage.signals for task in more)
    offline = Pipe(coevolve, tmp_path / "offline", "--offline")
    whole(offline, env)
    assert offline.bytes() == found and ": 0 calls, " in offline.stderr


@pytest.mark.serve
def test_the_pipe_against_a_real_server(coevolve, served, tmp_path, capsys):
    """`transformers serve` with a tiny model, which only knows how to shop: with prompts of its
    size it explores; it writes no tasks (refused, or no reply at all: exit 75); it solves some as
    an agent."""
    model, url = served
    own = list(
        tiny_models.shop_tasks(
            shop := f"{sys.executable} {Path(__file__).with_name('grocer.py')}", 3
        )
    )
    prompts, rejects = tmp_path / "prompts", tmp_path / "rejects.jsonl"
    prompts.mkdir()
    (prompts / "explore.jinja").write_text(own[0].query[0])
    (prompts / "observe.jinja").write_text("{{ observation }}")
    (prompts / "abstract.jinja").write_text(own[1].query[0])
    short = ["--env", shop, "--temperature", "0", "--model", model, "--prompt-files", str(prompts)]
    pipe = Pipe(coevolve, tmp_path / "online", "--base-url", url)
    pipe(
        "explore",
        None,
        "e.jsonl",
        "--mode",
        "curious",
        "--episodes",
        "1",
        "--max-actions",
        "4",
        *short,
    )
    (explored,) = read(pipe.bytes()["e.jsonl"], Exploration)
    assert explored.steps and explored.usage.completion_tokens > 0
    at = [
        "--base-url",
        url,
        "--journal",
        tmp_path / "journal",
        "--rejects",
        rejects,
        "-o",
        tmp_path / "c.jsonl",
    ]
    result = coevolve("abstract", tmp_path / "online" / "e.jsonl", *short, *at, check=False)
    (rejected,) = map(json.loads, rejects.read_bytes().splitlines())
    assert (result.returncode, rejected["reason"]) in ((0, "bad_proposal"), (75, "no_reply"))
    assert (tmp_path / "c.jsonl").read_bytes() == b""
    (tmp_path / "online" / "own.jsonl").write_bytes(b"".join(map(encode, own)))
    pipe(
        "validate",
        "own.jsonl",
        "v.jsonl",
        "--env",
        shop,
        "--model",
        model,
        "--samples",
        "2",
        "--temperature",
        "0",
    )
    valid = read(pipe.bytes()["v.jsonl"], Task)
    with capsys.disabled():
        print(f"\nreal server: {pipe.counts}, the abstractor's answer: {rejected['reason']}")
    assert len(valid) == 3 and all(task.difficulty.trials == 2 for task in valid)
    assert sum(task.difficulty.successes for task in valid) > 0


def test_offline_a_question_without_an_answer_is_one_line(coevolve, tmp_path):
    """The miss names the model and the request."""
    options = [
        "--env",
        "desk",
        "--mode",
        "random",
        "--episodes",
        "1",
        *MODEL,
        "--offline",
        "--journal",
        tmp_path,
    ]
    result = coevolve("explore", *options, check=False)
    assert result.returncode == 1 and not result.stdout
    assert (
        b"--offline, and no answer to request" in result.stderr and b"model wise" in result.stderr
    )


def test_a_budget_stops_and_resumes(coevolve, tmp_path):
    """Exit 5 at the limit; the rerun pays only for the rest, and the bytes are those of a run
    without a limit."""
    options = [
        "--env",
        "desk",
        "--mode",
        "curious",
        "--episodes",
        "6",
        "--max-actions",
        "12",
        *MODEL,
    ]
    with ScriptedServer(competent) as server:
        at = ["--base-url", server.url]
        coevolve(
            "explore", *options, *at, "--journal", tmp_path / "j1", "-o", tmp_path / "whole.jsonl"
        )
        needed = len(server.requests)
        at += ["--journal", tmp_path / "j2", "-o", tmp_path / "out.jsonl"]
        result = coevolve("explore", *options, *at, "--budget-calls", "20", check=False)
        assert (
            result.returncode == 5
            and len(server.requests) - needed == 20
            and not (tmp_path / "out.jsonl").exists()
        )
        coevolve("explore", *options, *at)
        assert len(server.requests) == 2 * needed
    assert (tmp_path / "out.jsonl").read_bytes() == (tmp_path / "whole.jsonl").read_bytes()


CONCURRENCY = 4
STAGES = (
    (
        "e",
        [
            "explore",
            "--env",
            "desk",
            "--mode",
            "curious",
            "--episodes",
            "6",
            "--max-actions",
            "15",
            *MODEL,
        ],
    ),
    ("c", ["abstract", "e", *MODEL]),
    ("v", ["validate", "c", *SOLVER]),
)


def stage(folder: Path, server: ScriptedServer, name: str, words: list[str]) -> list[str]:
    """A stage's command line; its input and its output are in the folder, and so is its journal."""
    given = [str(folder / word) if word in "ec" else word for word in words]
    at = [
        "--base-url",
        server.url,
        "--concurrency",
        str(CONCURRENCY),
        "--journal",
        str(folder / "journal"),
    ]
    return [*given, *at, "-o", str(folder / name)]


@pytest.mark.parametrize("least", [6, pytest.param(20, marks=pytest.mark.slow)])
def test_killed_anywhere_the_output_is_the_same(coevolve, tmp_path, capsys, least):
    """kill -9 at random moments of explore, abstract and validate by an agent: equal bytes, and at
    most the calls in flight are paid again."""
    rng, kills, answered = random.Random(f"kill-{least}"), {}, {}
    quiet, loud = tmp_path / "quiet", tmp_path / "loud"
    with ScriptedServer(competent, latency=0.01) as server:
        for folder in (quiet, loud):
            folder.mkdir()
            for name, words in STAGES:
                before = len(server.requests)
                command = stage(folder, server, name, words)
                if folder is loud:
                    kills[name] = killed_often(
                        command, server, rng, share(least, name, kills), answered[name]
                    )
                coevolve(*command)
                answered[name] = (
                    len(server.requests) - before - (answered[name] if folder is loud else 0)
                )
    whole, again = (
        {name: (folder / name).read_bytes() for name, _ in STAGES} for folder in (quiet, loud)
    )
    with capsys.disabled():
        print(f"\n{sum(kills.values())} kills {kills}; calls paid twice {answered}")
    assert whole == again and all(whole.values())
    assert sum(kills.values()) >= least and all(kills.values())
    assert all(0 <= answered[name] <= kills[name] * CONCURRENCY for name in kills)


def share(least: int, name: str, kills: dict[str, int]) -> int:
    """How many kills a stage takes: those that are missing, shared with the stages to come."""
    to_come = len(STAGES) - [stage for stage, _ in STAGES].index(name)
    return -(-(least - sum(kills.values())) // to_come)


def killed_often(
    command: list[str], server: ScriptedServer, rng: random.Random, times: int, needed: int
) -> int:
    """Kills a command so often, at random moments while it has still calls to make or its output to
    write."""
    kills, before = 0, len(server.requests)
    for left in range(times, 0, -1):
        still = max(1, needed - (len(server.requests) - before))
        kills += killed(command, server, rng.randrange(0, max(1, still // left)))
    return kills


def killed(command: list[str], server: ScriptedServer, after: int) -> bool:
    """Starts a command and kills it once it made some more requests; False if it ended before."""
    before = len(server.requests)
    with subprocess.Popen(
        [*COEVOLVE, *command], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as process:
        while process.poll() is None and len(server.requests) - before < after:
            time.sleep(0.002)
        alive = process.poll() is None
        if alive:
            os.kill(process.pid, signal.SIGKILL)
    return alive


def test_the_model_answers_from_the_request_alone():
    """The scripted model's next call changes with the observation that it is shown."""
    known = {"gym.read.owner": ["Ann", "Bob"]}
    prompt = f"You explore\nWhat the user knows:\n<data-1>\n{json.dumps(known)}\n</data-1>"
    read_ = {"role": "assistant", "content": "", "tool_calls": []}
    answers = []
    for text in ("red", "blue"):
        shown = {
            "role": "tool",
            "content": f'<data-2>\n{{"text":"{text}"}}\n</data-2>\n3 actions left.',
        }
        answers.append(competent({"messages": [{"role": "user", "content": prompt}, read_, shown]}))
    first, second = (a["tool_calls"][0]["function"] for a in answers)
    assert json.loads(first["arguments"]) == {"text": "red"} and json.loads(
        second["arguments"]
    ) == {"text": "blue"}
