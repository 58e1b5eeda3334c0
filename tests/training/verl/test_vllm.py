"""vLLM itself as the rollout engine, on the CPU (markers `vllm` and `slow`; `shell/test_vllm.sh`
installs and runs it).

The real command, trainer and vLLM: two iterations, the policy over vLLM's own HTTP server, kill -9,
and `--backend vllm`. Not covered by it: CUDA kernels and graphs, NCCL, sleep mode, tensor
parallelism.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections import Counter
from typing import Any, NamedTuple

import msgspec
import pytest

from coevolve import jsonl
from coevolve.models.transformers_lm import LocalModel
from coevolve.records import Rollout, Task
from coevolve.training.verl import child_process
from coevolve.training.verl.files import Child, Heartbeat, Ready, VerlFiles, read
from conftest import COEVOLVE
from conftest import run as command
from verl_child import left, post, question, tasks_of, wait_for, weak_policy
from verl_cpu import PRESET as CPU

pytestmark = [pytest.mark.verl, pytest.mark.vllm, pytest.mark.slow, pytest.mark.timeout(3600)]

ENGINE = ["--", "actor_rollout_ref.rollout.name=vllm"]
SIZE = "--steps 2 --batch 6 --samples 4 --temperature 1 --lr 6e-4".split()
SIZE += "--save-every 1 --keep-checkpoints 9".split()
LENGTHS = "--prompt-tokens 160 --episode-tokens 256 --reply-tokens 48 --call-timeout 300".split()
SERVING = (
    "--dtype float32 --enforce-eager --max-model-len 256 --enable-auto-tool-choice "
    "--tool-call-parser hermes"
)


class Story(NamedTuple):
    """What a run with vLLM left, and what was asked of it."""

    files: VerlFiles
    tasks: dict[int, list[Task]]
    first: list[Rollout]
    ready: Ready
    greedy: dict[str, Any]
    """The answer over HTTP at the first boundary, at temperature 0."""
    asked: list[Rollout]
    """Rollouts of the command through that server."""
    left: list[str]
    """Processes that outlived a kill -9 of the trainer."""
    second: list[Rollout]


@pytest.fixture(scope="module")
def story(tmp_path_factory) -> Story:
    """An iteration; the policy over HTTP; kill -9 of command and trainer in the second one; the
    same command again.
    """
    folder = tmp_path_factory.mktemp("vllm")
    # 32 dimensions a head: vLLM's attention on a CPU takes no fewer.
    model, files = weak_policy(folder / "weak", heads=4), VerlFiles(folder / "run")
    tasks = {number: tasks_of("desk", number) for number in (1, 2)}
    for number, some in tasks.items():
        jsonl.write(folder / f"{number}.jsonl", some)
    environment = {**os.environ, "COEVOLVE_HOME": str(folder / "home"), "OMP_NUM_THREADS": "1"}

    def call(*arguments: object) -> list[Rollout]:
        out = command(*map(str, arguments), env=environment).stdout
        return [msgspec.json.decode(line, type=Rollout) for line in out.splitlines()]

    def training(number: int) -> list[object]:
        fixed = [
            "--env",
            "desk",
            "--backend",
            "verl",
            "--preset",
            CPU,
            "--run",
            files.run,
            "--model",
            model,
        ]
        return [
            "train",
            folder / f"{number}.jsonl",
            *fixed,
            *SIZE,
            *LENGTHS,
            "--iteration",
            number,
            *ENGINE,
        ]

    try:
        first = call(*training(1))
        ready = read(files.ready(1), Ready)
        status, greedy = post(
            f"{ready.addresses[0]}/chat/completions", question(tasks[1][0], ready.model)
        )
        assert status == 200, greedy
        asked = call("rollout", folder / "1.jsonl", "--env", "desk", "--model", files.ready(1))
        log = open(folder / "cut.log", "wb")
        with (
            subprocess.Popen(
                [*COEVOLVE, *map(str, training(2))], stdout=log, stderr=log, env=environment
            ) as cut,
            log,
        ):
            wait_for(lambda: _last_step(files), cut, files)
            cut.kill()
        os.kill(read(files.child, Child).pid, signal.SIGKILL)
        outlived = left(str(files.run))
        second = call(*training(2))
        call("train", "--run", files.run, "--stop")
    finally:
        child_process.terminate(files, 0)
    return Story(files, tasks, first, ready, greedy, asked, outlived, second)


def _last_step(files: VerlFiles) -> bool:
    """Whether the last step of iteration 2 plays: its first step has a checkpoint by then."""
    beat = read(files.heartbeat, Heartbeat)
    return beat is not None and (beat.step, beat.phase) == (3, "rollout")


def _metrics(story: Story) -> list[dict[str, Any]]:
    return [
        json.loads(line) for line in (story.files.run / "metrics.jsonl").read_text().splitlines()
    ]


def _of_verl(story: Story) -> list[dict[str, Any]]:
    return [json.loads(line) for line in story.files.metrics.read_text().splitlines()]


def test_there_is_something_to_learn(story):
    """All rollouts are vLLM's and whole, groups differ, the gradient is not zero, and the policy
    leaves the reference.
    """
    lines = _metrics(story)
    assert [(line["step"], line["iteration"]) for line in lines] == [(1, 1), (2, 1), (3, 2), (4, 2)]
    print("success", *(f"{line['success_mean']:.2f}" for line in lines))
    for line in lines:
        assert line["informative_share"] > 0 and line["grad_norm"] > 1e-2
        assert line["masked_share"] == 0 and line["other_weights"] == 0
    assert lines[0]["kl"] == 0 < lines[3]["kl"]
    for number, played in ((1, story.first), (2, story.second)):
        assert len(played) == 48 and set(Counter(r.group for r in played).values()) == {4}
        assert {r.task_id for r in played} <= {task.id for task in story.tasks[number]}


def test_vllm_samples_from_the_trainers_weights(story):
    """At every step, after every transfer of weights, vLLM's log-probabilities are those of the
    trainer: their gap is a small part of what the weights have moved.
    """
    for line in _of_verl(story):
        gap, moved = line["verl"]["rollout_corr/kl"], line["kl"]
        print(
            f"step {line['step']}: gap {gap:.1e} nats a token, distance from the reference "
            f"{moved:.1e}"
        )
        assert abs(gap) < 1e-5 and line["verl"]["training/rollout_probs_diff_max"] < 1e-3
        assert line["step"] == 1 or moved > 100 * abs(gap)


def test_the_updated_policy_answers_over_http(story):
    """vLLM's own server has the checkpoint's weights at the boundary: its greedy answer is theirs.
    Episodes play through it, tools and all.
    """
    model = LocalModel.load(str(story.files.run / story.ready.checkpoint / "actor" / "huggingface"))
    prompt = model.chat.prompt([{"role": "user", "content": story.tasks[1][0].query[0]}])
    (row,) = model.sample([prompt], ["any"], lambda turns: [None], 0)
    said = row.token_ids[len(prompt) :][:24]
    text = model.chat.decode([id_ for id_ in said if id_ not in model.stops])
    assert story.greedy["choices"][0]["message"]["content"] == text
    assert story.greedy["usage"]["prompt_tokens"] == len(prompt)
    assert len(story.asked) == 8 and "env_error" not in {r.stop_reason for r in story.asked}
    next_name = story.second[0].policy
    assert any(r.success for r in story.asked) and all(
        r.policy.rpartition("@")[0] == next_name for r in story.asked
    )


def test_it_goes_on_where_it_was_killed(story):
    """vLLM's processes end with the trainer, and only the step without a checkpoint is played
    again.
    """
    assert story.left == []
    again = story.files.episodes(2).glob("0002-*.jsonl")
    assert {line.record.step for file in again for line in jsonl.read([str(file)], Rollout)} == {3}


def test_evaluation_through_vllm(story, tmp_path):
    """`--backend vllm` plays the trained policy as this process does: at temperature 0 the same
    calls in all tasks.
    """
    played = {}
    environment = {
        **os.environ,
        "COEVOLVE_HOME": str(tmp_path),
        "OMP_NUM_THREADS": "1",
        "VLLM_CPU_KVCACHE_SPACE": "1",
    }
    for backend, more in (("local", []), ("vllm", ["--vllm-args", SERVING])):
        fixed = [
            "--env",
            "desk",
            "--split",
            "dev",
            "--limit",
            "24",
            "--temperature",
            "0",
            "--backend",
            backend,
        ]
        out = command(
            "rollout", *fixed, "--model", story.files.run / "policy", *more, env=environment
        ).stdout
        played[backend] = [msgspec.json.decode(line, type=Rollout) for line in out.splitlines()]
    same = [
        [step.action for step in a.steps] == [step.action for step in b.steps]
        and a.success == b.success
        for a, b in zip(played["local"], played["vllm"], strict=True)
    ]
    print(
        f"{sum(same)} of {len(same)} episodes alike, {sum(r.success for r in played['vllm'])} "
        "successes"
    )
    assert len(same) == 24 and all(same)
