"""shell/train_loop.sh with a model that explores and writes: at an API, at a server that the script
starts, the policy itself.

The models are scripted ones behind real sockets.
"""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import pytest
from competent_model import competent
from loop_in_miniature import Loop, gone
from scripted_server import ScriptedServer


def test_a_model_at_an_api(trained: Loop, given: tuple[Path, Path]):
    """The model explores, writes and solves; what it took is kept by stage; the same command again
    asks for nothing."""
    model, tasks = given
    with ScriptedServer(competent) as server:
        api = (
            "--tasks",
            str(tasks),
            "--explorer",
            "api",
            "--explorer-model",
            "wise",
            "--base-url",
            server.url,
            "--solver",
        )
        trained(model, *api)
        asked = len(server.requests)
        trained(model, *api)
        assert len(server.requests) == asked > 20
    assert {request["model"] for request in server.requests} == {"wise"}
    assert all(
        e["usage"]["prompt_tokens"] for e in trained.records("iterations/001/explorations.jsonl")
    )
    valid = trained.records("iterations/001/valid.jsonl")
    assert valid and all(task["difficulty"]["trials"] == 4 for task in valid)
    assert {total["stage"] for total in trained.records("model_calls.jsonl")} == {
        "explore",
        "abstract",
        "validate",
    }
    assert trained.served() == []


def test_a_server_of_our_own(trained: Loop, given: tuple[Path, Path]):
    """It is started once, on its GPUs, makes D_0 too, and is gone at the end."""
    trained.env["EXPLORER_GPUS"] = "6,7"
    trained(
        given[0], "--explorer", "server", "--explorer-model", "org/teacher", "--iterations", "1"
    )
    (started,) = trained.served()
    assert (
        started["arguments"][:4] == ["serve", "org/teacher", "--host", "127.0.0.1"]
        and started["gpus"] == "6,7"
    )
    assert all(e["usage"]["prompt_tokens"] for e in trained.records("initial/explorations.jsonl"))
    assert trained.records("tasks.jsonl")
    assert gone(started["pid"])


def test_the_policy_itself(trained: Loop, given: tuple[Path, Path]):
    """At the addresses of the trainer that waits with it."""
    model, tasks = given
    here = trained.run / "iterations" / "001"
    ready = trained.run / "verl" / "iterations" / "001" / "READY.json"
    with ScriptedServer(competent) as trainer, ScriptedServer(competent) as replica:
        ready.parent.mkdir(parents=True)
        ready.write_text(json.dumps({"addresses": [trainer.url, replica.url], "model": "its name"}))
        trained(model, "--tasks", str(tasks), "--explorer", "policy")
    assert {request["model"] for server in (trainer, replica) for request in server.requests} == {
        "its name"
    }
    assert len(trainer.requests) > 5 and len(replica.requests) > 5 and trained.served() == []
    assert (
        list((here / "journal").glob("*.jsonl"))
        and not (trained.run.parent / "home" / "journal").exists()
    )


@pytest.mark.slow
def test_the_policy_whose_trainer_has_gone(trained: Loop, given: tuple[Path, Path]):
    """At a server of RUN/policy."""
    model, tasks = given
    trained(model, "--tasks", str(tasks), "--explorer", "policy")
    (started,) = trained.served()
    assert started["arguments"][1] == str(trained.run / "policy")
    assert trained.records("iterations/001/explorations.jsonl")
    assert gone(started["pid"])


def test_a_server_that_does_not_start(loop: Loop, given: tuple[Path, Path]):
    """Its last words, and exit 69."""
    loop.fails.touch()
    process = loop.start(given[0], "--explorer", "server", "--explorer-model", "org/teacher")
    _, error = process.communicate()
    assert process.returncode == 69 and "no such model here" in error


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL], ids=["SIGTERM", "SIGKILL"])
def test_it_leaves_no_server_behind(loop: Loop, given: tuple[Path, Path], number: int):
    """A signal to the script alone, in the middle of a stage, ends its server, too; and the stage,
    unless it is kill -9."""
    process = loop.start(
        given[0], "--explorer", "server", "--explorer-model", "org/teacher", "--initial", "5000"
    )
    loop.until("initial/*.journal", process)
    process.send_signal(number)
    assert process.wait() == (143 if number == signal.SIGTERM else -signal.SIGKILL)
    (started,) = loop.served()
    assert gone(started["pid"])
    if number == signal.SIGKILL:
        os.killpg(process.pid, signal.SIGKILL)  # the stage would play its 5,000 episodes out
