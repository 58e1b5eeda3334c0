"""The real child: Ray, verl's own trainer with FSDP, the desk, checkpoints, the policy over HTTP,
kill -9 and what goes on.
"""

from __future__ import annotations

import json
from collections import Counter

import pytest
import torch

from coevolve import jsonl
from coevolve.models.transformers_lm import LocalModel
from coevolve.records import Rollout
from coevolve.training import batches, grpo
from coevolve.training.update import token_logprobs

pytestmark = [
    pytest.mark.verl,
    pytest.mark.timeout(1800),
]  # a busy machine takes minutes to start Ray


def rollouts(run, iteration):
    """Records of the iteration by (step, group, sample); the last attempt's where a step was played
    again.
    """
    files = sorted(run.files.episodes(iteration).glob("*.jsonl"))
    records = [line.record for file in files for line in jsonl.read([str(file)], Rollout)]
    return {(r.step, r.group, r.sample): r for r in records}


def metrics(run):
    lines = [json.loads(line) for line in run.files.metrics.read_text().splitlines()]
    return {line["step"]: line for line in lines}


def weights(folder):
    return {name: value for name, value in LocalModel.load(str(folder)).model.state_dict().items()}


def huggingface(run, step):
    return run.files.checkpoints / f"global_step_{step}" / "actor" / "huggingface"


def logprobs(folder, played):
    """The sum of each rollout's log-probabilities under a model, over the policy's own tokens."""
    model = LocalModel.load(str(folder))
    with torch.no_grad():
        return [
            token_logprobs(model, torch.tensor([r.token_ids]), torch.tensor([r.mask]), 1.0)[0]
            .sum()
            .item()
            for r in played
        ]


def test_iterations_have_their_own_tasks(long_run):
    """Each iteration plays the tasks of its own file, in the order that follows from seed and step,
    resumed or not.
    """
    settings = long_run.job.settings
    for iteration in (1, 2, 3):
        played = rollouts(long_run, iteration)
        assert len(played) == settings.steps * settings.batch * settings.samples
        for step in range((iteration - 1) * settings.steps, iteration * settings.steps):
            plan = batches.plan(long_run.tasks[iteration], settings, step)
            wanted = Counter(task.id for task in plan)
            found = Counter(r.task_id for r in played.values() if r.step == step)
            assert found == Counter({task: n * settings.samples for task, n in wanted.items()})


def test_rollouts_are_whole_records(long_run):
    """Groups have all their samples, tokens fit their masks, and lost episodes are marked."""
    played = list(rollouts(long_run, 1).values())
    assert {r.policy.rpartition("@")[2] for r in played} == {"step-0"}
    for record in played:
        assert record.iteration == 1
        assert len(record.token_ids) == len(record.mask) == len(record.logprobs)
        assert all((p < 0) or not m for p, m in zip(record.logprobs, record.mask, strict=True) if m)
        assert all(p == 0 for p, m in zip(record.logprobs, record.mask, strict=True) if not m)
    groups = Counter(record.group for record in played)
    assert set(groups.values()) == {long_run.job.settings.samples}
    assert any(r.stop_reason == "env_error" and "ill" in r.error for r in played)
    assert any(r.success for r in played)


def test_there_is_something_to_learn(long_run):
    """Some group has differing rewards, the gradient is not zero, and the numbers of a step are
    those of its records.
    """
    lines = metrics(long_run)
    assert sorted(lines) == [1, 2, 3, 4, 5, 6]
    for step, line in lines.items():
        assert line["iteration"] == (step + 1) // 2
        played = [r for r in rollouts(long_run, line["iteration"]).values() if r.step == step - 1]
        kept = [r for r in played if r.stop_reason != "env_error"]
        assert line["success_mean"] == pytest.approx(sum(r.success for r in kept) / len(kept))
        assert line["masked_share"] == pytest.approx(1 - len(kept) / len(played))
        assert line["update_tokens"] == sum(r.usage.completion_tokens for r in kept)
        assert line["stop_reasons"] == Counter(r.stop_reason for r in played)
        rewards = {r.group: set() for r in played}
        for r in kept:
            rewards[r.group].add(r.success)
        informative = sum(len(values) > 1 for values in rewards.values())
        assert line["informative_share"] == pytest.approx(informative / len(rewards))
        assert line["grad_norm"] > 1e-2 or not informative
    assert sum(line["informative_share"] > 0 for line in lines.values()) >= 4
    assert lines[1]["kl"] == 0 < lines[3]["kl"]


def test_each_boundary_says_where_the_policy_is(long_run):
    """READY.json names step, weights, checkpoint, addresses and counts; the checkpoint is a Hugging
    Face directory.
    """
    for iteration, ready in enumerate((long_run.first, long_run.second, long_run.third), 1):
        assert (ready.iteration, ready.step, ready.weights) == (
            iteration,
            2 * iteration,
            2 * iteration,
        )
        assert ready.checkpoint == f"verl/checkpoints/global_step_{2 * iteration}"
        assert (
            long_run.files.run / ready.checkpoint / "actor" / "huggingface" / "config.json"
        ).exists()
        assert (
            ready.counts["episodes"]
            == 48
            == sum(n for name, n in ready.counts.items() if name != "episodes")
        )
        assert ready.metrics["step"] == 2 * iteration
    assert long_run.first.addresses == long_run.second.addresses != long_run.third.addresses


def test_the_updated_policy_answers_over_http(long_run):
    """At the boundary the server has the checkpoint's weights: its greedy answer and its version
    are theirs.
    """
    answer, model = long_run.greedy, LocalModel.load(str(huggingface(long_run, 2)))
    asked = [{"role": "user", "content": long_run.tasks[1][0].query[0]}]
    prompt = model.chat.prompt(asked)
    (row,) = model.sample([prompt], ["any"], lambda turns: [None], 0)
    said = row.token_ids[len(prompt) :][:24]
    text = model.chat.decode([id_ for id_ in said if id_ not in model.stops])
    assert answer["choices"][0]["message"]["content"] == text
    assert answer["system_fingerprint"] == "weights-2"
    assert answer["usage"] == {
        "prompt_tokens": len(prompt),
        "completion_tokens": len(said),
        "total_tokens": len(prompt) + len(said),
    }
    assert [entry["id"] for entry in long_run.models["data"]] == [long_run.first.model]


def test_each_step_moves_the_weights(long_run, laptop_policy):
    """Every checkpoint differs from the one before, by about the learning rate at most."""
    before = weights(laptop_policy)
    for step in range(1, 7):
        after = weights(huggingface(long_run, step))
        moved = max((after[name] - before[name]).abs().max().item() for name in before)
        assert 0 < moved < 0.01
        before = after


def test_each_step_learns_from_its_rollouts(long_run, laptop_policy):
    """An update raises the log-probabilities of its batch's better rollouts against those of the
    worse ones.

    The gain of a step is the mean over policy tokens of advantage times change of log-probability:
    to first order the objective, and so above 0 on any machine, whatever was drawn.
    """
    before, informative = laptop_policy, 0
    for step in range(1, 7):
        after = huggingface(long_run, step)
        played = rollouts(long_run, (step + 1) // 2).values()
        played = [r for r in played if r.step == step - 1 and r.stop_reason != "env_error"]
        rewards = torch.tensor([float(r.success) for r in played], dtype=torch.float64)
        kept = torch.ones(len(played), dtype=torch.bool)
        advantages = grpo.group_advantages(rewards, [r.group for r in played], kept).tolist()
        gain = sum(
            advantage * (new - old)
            for advantage, old, new in zip(
                advantages, logprobs(before, played), logprobs(after, played), strict=True
            )
        ) / sum(sum(r.mask) for r in played)
        print(f"step {step}: gain {gain:.4f}")
        informative += any(advantages)
        assert gain > 0 or not any(advantages)
        before = after
    assert informative >= 4


def test_a_killed_child_leaves_no_process(long_run):
    """Ray and its workers end with the child, also after kill -9."""
    assert long_run.left == []


def test_it_goes_on_where_it_was_killed(long_run):
    """The second process repeats the step without a checkpoint and no other, with the optimizer's
    state.
    """
    assert (long_run.killed_at.iteration, long_run.killed_at.step) == (3, 5)
    repeated = sorted(long_run.files.episodes(3).glob("0002-*.jsonl"))
    steps = {line.record.step for file in repeated for line in jsonl.read([str(file)], Rollout)}
    assert steps == {5}
    state = torch.load(
        long_run.files.checkpoints / "global_step_6" / "actor" / "optim_world_size_1_rank_0.pt",
        weights_only=False,
    )
    assert {float(entry["step"]) for entry in state["state"].values()} == {6.0}


def test_requests_that_are_none_are_refused_in_words(long_run):
    """The HTTP server answers 400, or 404 for another model, and says why; one that is too long in
    OpenAI's words.
    """
    assert [status for status, _ in long_run.refusals] == [400, 400, 400, 400, 404]
    nothing, listless, long, warm, other = (
        answer["error"]["message"] for _, answer in long_run.refusals
    )
    assert "messages" in nothing and "messages" in listless
    assert "maximum context length" in long
    assert "temperature" in warm
    assert "`any` does not exist" in other


def test_too_many_faults_of_the_environment_end_the_run(long_run):
    """Half of the tasks cannot be opened: nothing is trained on the rest, and error.json says how
    many were lost.
    """
    assert long_run.ended == 1
    assert long_run.failure.exit == 1
    assert "of 24 rollouts, more than --max-env-errors 0.25" in long_run.failure.message
    assert max(metrics(long_run)) == 6
    assert not (long_run.files.checkpoints / "global_step_7").exists()
    lost = [r for r in rollouts(long_run, 4).values() if r.stop_reason == "env_error"]
    assert any(r.error.startswith("refused: ") for r in lost)
