"""`--model`, `--model` and `--solver` with a trainer's READY.json: answers and records carry the
name of the weights that gave them."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import pytest
from competent_model import competent
from scripted_server import Fault, ScriptedServer

import tiny_models
from coevolve.jsonl import encode
from coevolve.training.verl.files import Ready, VerlFiles, write

SHOP = f"{sys.executable} {Path(__file__).parent.parent / 'grocer.py'}"
MODEL = "/models/weak"
CALLS = 4
"""Of a policy that says one thing to each turn of the three tasks."""


def ready(run: Path, iteration: int, url: str, **fields: object) -> Path:
    """Writes what the trainer leaves at the end of an iteration of two steps, after its tasks."""
    files = VerlFiles(run)
    files.directory(iteration).mkdir(parents=True, exist_ok=True)
    files.tasks(iteration).touch()
    step = 2 * iteration
    said = {"counts": {"episodes": 8}, "metrics": {"step": step, "loss": 0.25}, **fields}
    write(
        files.ready(iteration),
        Ready(
            iteration=iteration,
            step=step,
            weights=step,
            addresses=[url],
            model=MODEL,
            checkpoint=f"verl/checkpoints/global_step_{step}",
            **said,
        ),
    )
    return files.ready(iteration)


@pytest.fixture
def tasks(tmp_path: Path) -> Path:
    path = tmp_path / "tasks.jsonl"
    path.write_bytes(b"".join(map(encode, tiny_models.shop_tasks(SHOP, 3))))
    return path


def rollout(tasks: Path, policy: Path, *more: object) -> list[object]:
    """The command; the journal is in the folder of the tasks."""
    where = ["--journal", tasks.parent / "journal"]
    return ["rollout", tasks, "--env", SHOP, "--model", policy, "--temperature", 0, *where, *more]


def names(output: bytes) -> set[str]:
    return {json.loads(line)["policy"] for line in output.splitlines()}


def test_the_next_policy_is_asked_anew(tasks, tmp_path, coevolve):
    """The same policy answers from the journal, the next one never with its answers; the server
    hears the name it knows."""
    run = tmp_path / "run"
    with ScriptedServer(lambda _: "the first") as server:
        first = ready(run, 1, server.url)
        before = coevolve(*rollout(tasks, first)).stdout
        again = coevolve(*rollout(tasks, first)).stdout
        assert again == before and len(server.requests) == CALLS
        server.answer = lambda _: "the second"
        second = ready(run, 2, server.url)
        after = coevolve(*rollout(tasks, second)).stdout
        assert len(server.requests) == 2 * CALLS and {
            request["model"] for request in server.requests
        } == {MODEL}
        stale = coevolve(*rollout(tasks, first), check=False)
        assert stale.returncode == 2 and str(second.resolve()) in stale.stderr.decode()
        assert (
            coevolve(*rollout(tasks, first, "--offline")).stdout == before
            and len(server.requests) == 2 * CALLS
        )
    assert b"the first" in before and b"the second" in after and b"the first" not in after
    assert [names(before).pop()[:20], names(after).pop()[:20]] == [
        "/models/weak@step-2@",
        "/models/weak@step-4@",
    ]


def test_two_runs_of_one_model(tasks, tmp_path, coevolve):
    """After as many steps they are two policies."""
    with ScriptedServer(lambda _: "done") as server:
        one = ready(tmp_path / "one", 1, server.url)
        other = ready(tmp_path / "other", 1, server.url, metrics={"step": 2, "loss": 0.5})
        found = [names(coevolve(*rollout(tasks, policy)).stdout) for policy in (one, other)]
        assert len(server.requests) == 2 * CALLS
    assert found[0].isdisjoint(found[1])


def test_the_trainer_that_is_back(tasks, tmp_path, coevolve):
    """Started again at the boundary it serves the same policy at another address: nothing is asked
    twice."""
    with ScriptedServer(lambda _: "done") as server, ScriptedServer(lambda _: "done") as moved:
        before = coevolve(*rollout(tasks, ready(tmp_path / "run", 1, server.url))).stdout
        assert coevolve(*rollout(tasks, ready(tmp_path / "run", 1, moved.url))).stdout == before
        assert not moved.requests


def test_the_trainer_goes_on_meanwhile(tasks, tmp_path, coevolve):
    """What is said once the next iteration has begun is other weights' word: exit 69, and only
    earlier answers are kept."""
    files = VerlFiles(tmp_path / "run")

    def answer(_: dict) -> str:
        if len(server.requests) == 3:
            files.directory(2).mkdir()
            files.tasks(2).touch()
        return f"number {len(server.requests)}"

    with ScriptedServer(answer) as server:
        file = ready(tmp_path / "run", 1, server.url)
        result = coevolve(
            *rollout(tasks, file, "--concurrency", 1, "-o", tmp_path / "o.jsonl"), check=False
        )
    assert result.returncode == 69 and b"is no longer at its server" in result.stderr
    kept = b"".join(path.read_bytes() for path in (tmp_path / "journal").glob("*.jsonl"))
    assert b"number 2" in kept and b"number 3" not in kept and not (tmp_path / "o.jsonl").exists()
    begun = coevolve(*rollout(tasks, file), check=False)
    assert begun.returncode == 2 and b"iteration 2 has begun" in begun.stderr


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (None, "no such file"),
        ('{"iteration": 1, "st', "damaged"),
        ('{"addresses": ["http://127.0.0.1:9/v1"], "model": "m"}', "missing required field"),
        ("[]", "damaged"),
        ("folder", "READY.json"),
    ],
)
def test_files_that_are_none(tasks, tmp_path, coevolve, text, says):
    """Exit 2 with one line, and nothing begun."""
    file = tmp_path / "run/verl/iterations/001/READY.json"
    (file if text == "folder" else file.parent).mkdir(parents=True)
    if text not in (None, "folder"):
        file.write_text(text)
    result = coevolve(*rollout(tasks, file, "-o", tmp_path / "o.jsonl"), check=False)
    assert (
        result.returncode == 2
        and says in result.stderr.decode()
        and b"Traceback" not in result.stderr
    )
    assert not list(tmp_path.glob("o.jsonl*"))


def test_what_does_not_go_with_it(tasks, tmp_path, coevolve):
    """Another server, a server of the command's own, a copy beside which nothing tells that the
    trainer went on."""
    file = ready(tmp_path / "run", 1, "http://127.0.0.1:9/v1")
    copy = Path(shutil.copy(file, tmp_path))
    empty = ready(tmp_path / "empty", 1, "")
    write(empty, Ready(iteration=1, step=2, weights=2, addresses=[], model=MODEL, checkpoint="c"))
    for policy, options, says in (
        (file, ["--base-url", "http://127.0.0.1:9/v1"], b"leave it out"),
        (file, ["--backend", "vllm"], b"--backend vllm"),
        (copy, [], b"where the trainer wrote it"),
        (empty, [], b"no addresses"),
    ):
        result = coevolve(*rollout(tasks, policy, *options), check=False)
        assert result.returncode == 2 and says in result.stderr, result.stderr


def test_a_trainer_that_is_gone(tasks, tmp_path, coevolve):
    """Exit 69: its server does not answer."""
    with ScriptedServer(lambda _: Fault(503, {"retry-after-ms": "5"})) as server:
        result = coevolve(*rollout(tasks, ready(tmp_path / "run", 1, server.url)), check=False)
    assert result.returncode == 69 and b"no answer from model /models/weak@step-2@" in result.stderr


def test_every_command_that_asks(tasks, tmp_path, coevolve):
    """explore, abstract, validate and evaluate take it, too."""
    journal = ["--journal", tmp_path / "journal"]
    with ScriptedServer(competent) as server:
        file = ready(tmp_path / "run", 1, server.url)
        curious = ["--env", "desk", "--mode", "curious", "--episodes", 2, "--max-actions", 4]
        explored = tmp_path / "explorations.jsonl"
        for command in (
            ["explore", *curious, "--model", file, "-o", explored],
            ["abstract", explored, "--env", "desk", "--model", file],
            ["validate", tasks, "--env", SHOP, "--model", file, "--samples", 1],
            ["evaluate", tasks, "--env", SHOP, "--model", file, "--seed", 1],
        ):
            asked = len(server.requests)
            coevolve(*command, *journal)
            assert len(server.requests) > asked, command[0]
        assert {request["model"] for request in server.requests} == {MODEL}
