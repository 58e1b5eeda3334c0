"""Our agent loop inside verl's own agent-loop manager, against a token server that follows scripts:
every row that training sees.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

import tiny_models
from coevolve import jsonl
from coevolve.records import Call, Rollout, Start, Task, Verifier, task_id
from coevolve.training.verl import overrides
from coevolve.training.verl.files import VerlFiles

pytestmark = [
    pytest.mark.verl,
    pytest.mark.timeout(1800),
]  # a busy machine takes minutes to start Ray

HERE = Path(__file__).parent
ENV = f"{sys.executable} {HERE / 'trouble.py'}"
TEA = '{"name":"add","arguments":{"item":"tea"}}'
SALT = '{"name":"add","arguments":{"item":"salt"}}'
HALF = '{"name":"add","arguments":{"item":'
HANG, CRASH = '{"name":"hang","arguments":{}}', '{"name":"crash","arguments":{}}'
PROMPT, WHOLE, REPLY, SAMPLES = 64, 280, 80, 3

SCRIPTS = {
    "single": ["done"],
    "acting": [TEA, "done"],
    "turns": [TEA, "done", "done"],
    "refused": [SALT, TEA, "done"],
    "misread": [HALF, TEA, "done"],
    "hanging": [HANG],
    "crashing": [CRASH],
    "cut": ["x" * REPLY + "…"],
    "full": [TEA, TEA, TEA, TEA, "done"],
    "silent": [""],
    "late": [TEA, ""],
    "stuck": ["hang"],
    "gone": [TEA, "fail"],
    "closed": ["done"],
    "ill": ["done"],
    "long": ["done"],
}
"""Replies by the last word of the task; each session of the group says the same."""
MIXED = {"mixed": [[TEA, "done"], ["done"], [""]], "lonely": [[TEA, "done"], [""], [""]]}
"""Replies of the sessions of a group: one right, one wrong, one lost; one right, two lost."""


def task(name: str) -> Task:
    """A task that wants tea, twice in `turns`, in a state and of a length that suit its name."""
    start = Start(name={"closed": "closed", "ill": "ill grader"}.get(name, "default"))
    query = [
        f"{'please ' * 12 if name == 'long' else ''}buy {name}",
        *(["and now"] if name == "turns" else []),
    ]
    wanted = [[] if name in ("single", "cut", "ill", "long") else [Call("add", {"item": "tea"})]]
    wanted += [[] for _ in query[1:]]
    return Task(
        id=task_id(ENV, start, query, wanted, Verifier()),
        env=ENV,
        query=query,
        solution=wanted,
        start=start,
    )


@pytest.fixture(scope="module")
def tokenizer():
    return tiny_models.tokenizer()


@pytest.fixture(scope="module")
def played(tokenizer, tmp_path_factory, make_job):
    """Rows of verl's batch by script, and the records on disk by (task, session)."""
    folder = tmp_path_factory.mktemp("scripted")
    model = folder / "model"
    tokenizer.save_pretrained(model)
    tiny_models.llama(len(tokenizer), context=512).save_pretrained(model)
    scripts = {name: [replies] * SAMPLES for name, replies in SCRIPTS.items()} | MIXED
    tasks = {name: task(name) for name in scripts}
    sizes = {
        "batch": len(tasks),
        "samples": SAMPLES,
        "prompt_tokens": PROMPT,
        "episode_tokens": WHOLE,
    }
    limits = {"reply_tokens": REPLY, "call_timeout": 1.0, "episode_timeout": 15.0, "workers": 4}
    job = make_job(folder / "run", model, env=ENV, steps=1, **sizes, **limits)
    (folder / "job.json").write_bytes(msgspec.json.encode(job))
    VerlFiles(job.run).job.parent.mkdir(parents=True)
    VerlFiles(job.run).job.write_bytes(msgspec.json.encode(job))
    (folder / "scripts.json").write_text(json.dumps(scripts))
    jsonl.write(folder / "tasks.jsonl", tasks.values())
    names = ("job.json", "scripts.json", "tasks.jsonl", "rows.jsonl")
    command = [
        sys.executable,
        str(HERE / "scripted_loop.py"),
        *(str(folder / name) for name in names),
    ]
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=900,
        env={**os.environ, "OMP_NUM_THREADS": "1", **overrides.environment(job)},
    )
    assert done.returncode == 0, done.stderr[-3000:]
    rows = [json.loads(line) for line in (folder / "rows.jsonl").read_text().splitlines()]
    records = [
        line.record
        for file in VerlFiles(job.run).episodes(1).glob("0001-*.jsonl")
        for line in jsonl.read([str(file)], Rollout)
    ]
    by_id = {one.id: name for name, one in tasks.items()}
    found = {name: [row for row in rows if by_id[row["task"]] == name] for name in tasks}
    return found, {(by_id[r.task_id], r.sample): r for r in records}, len(records)


def expected(
    tokenizer, name: str, said: list[str], heard: list[str]
) -> tuple[list[int], list[int], list[int]]:
    """Prompt, response and mask of a conversation in the plain template, where `heard` stands
    between the replies.
    """
    prompt = tokenizer.encode(f"<|user|>buy {name}<|end|><|assistant|>")
    ids, mask = [], []
    for n, text in enumerate(said):
        own = tokenizer.encode(text + "<|end|>")
        between = tokenizer.encode(f"{heard[n]}<|end|><|assistant|>") if n < len(heard) else []
        ids, mask = ids + own + between, mask + [1] * len(own) + [0] * len(between)
    return prompt, ids, mask


HEARD = {
    "single": [],
    "acting": ['<|tool|>{"ok": 1}'],
    "turns": ['<|tool|>{"ok": 1}', "<|user|>and now"],
    "refused": ["<|tool|>no such item: salt", '<|tool|>{"ok": 1}'],
}


@pytest.mark.parametrize("name", HEARD)
def test_rows_are_the_conversation_in_tokens(played, tokenizer, name):
    """Prompt, response and mask are the template's own tokens; a log-probability stands at the
    token that it was sampled with.
    """
    rows, _, _ = played
    prompt, response, mask = expected(tokenizer, name, SCRIPTS[name], HEARD[name])
    assert len(rows[name]) == SAMPLES
    for row in rows[name]:
        assert row["prompts"] == prompt
        assert row["responses"] == response
        assert row["response_mask"] == mask
        wanted = [-0.01 * (1 + place) * own for place, own in enumerate(mask, len(prompt))]
        assert row["rollout_log_probs"] == pytest.approx(wanted)
        assert row["input_ids"] == prompt + response
        assert row["position_ids"] == list(range(len(prompt + response)))
        assert sum(row["rm_scores"]) == row["rm_scores"][-1] == 1.0


def test_a_reply_that_cannot_be_read_is_a_step(played, tokenizer):
    """Half a call is trained on as the policy wrote it; the hint that answers it is not."""
    rows, records, _ = played
    record = records["misread", 0]
    assert record.steps[0].error == "bad_json"
    hint = record.messages[2]["content"]
    _, response, mask = expected(
        tokenizer, "misread", SCRIPTS["misread"], [f"<|tool|>{hint}", '<|tool|>{"ok": 1}']
    )
    assert (rows["misread"][0]["responses"], rows["misread"][0]["response_mask"]) == (
        response,
        mask,
    )


@pytest.mark.parametrize("name", ["hanging", "crashing"])
def test_a_policy_that_breaks_the_environment_has_failed(played, tokenizer, name):
    """A call that hangs or kills the worker is the policy's: it is trained on, with reward 0."""
    rows, records, _ = played
    _, response, mask = expected(tokenizer, name, SCRIPTS[name], [])
    for session, row in enumerate(rows[name]):
        record = records[name, session]
        assert (record.stop_reason, record.success) == ("policy_fault", False)
        assert record.error == {"hanging": "timeout", "crashing": "died"}[name]
        assert (row["responses"], row["response_mask"], sum(row["rm_scores"])) == (
            response,
            mask,
            0,
        )


def test_limits_of_tokens(played, tokenizer):
    """A reply is cut at its own limit, an episode ends before a result that leaves no room; both
    are trained on.
    """
    rows, records, _ = played
    assert records["cut", 0].stop_reason == records["full", 0].stop_reason == "max_tokens"
    assert rows["cut"][0]["responses"] == tokenizer.encode("x" * REPLY)
    assert rows["cut"][0]["response_mask"] == [1] * REPLY
    _, response, mask = expected(
        tokenizer, "full", [TEA] * 4, [f'<|tool|>{{"ok": {n}}}' for n in (1, 2, 3)]
    )
    assert (rows["full"][0]["responses"], rows["full"][0]["response_mask"]) == (response, mask)
    assert (
        len(response)
        < WHOLE - PROMPT
        <= len(response) + len(tokenizer.encode('<|tool|>{"ok": 4}<|end|><|assistant|>'))
    )


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("silent", "without tokens"),
        ("late", "without tokens"),
        ("stuck", "not over within 15 s"),
        ("gone", "the server is gone"),
        ("closed", "cannot be opened"),
        ("ill", "the grader is ill"),
    ],
)
def test_faults_of_the_infrastructure_are_masked(played, name, reason):
    """Whatever failed, each session gives a row of one token with mask 0, and a record that says
    why.
    """
    rows, records, _ = played
    assert len(rows[name]) == SAMPLES
    for session, row in enumerate(rows[name]):
        assert len(row["responses"]) == 1
        assert (row["response_mask"], row["rollout_log_probs"], row["advantages"]) == (
            [0],
            [0.0],
            [0.0],
        )
        record = records[name, session]
        assert record.stop_reason == row["summary"]["stop_reason"] == "env_error"
        assert reason in record.error


def test_a_prompt_that_does_not_fit_is_refused_in_words(played):
    """It is never cut: no policy acts, the row is masked, and the record names both lengths."""
    rows, records, _ = played
    assert records["long", 0].stop_reason == "max_tokens"
    assert f"more than the {PROMPT}" in records["long", 0].error
    assert rows["long"][0]["response_mask"] == [0]
    assert len(rows["long"][0]["prompts"]) <= PROMPT


def test_advantages_leave_masked_rows_out(played):
    """One right, one wrong, one lost: the first two differ by the whole spread. One right and two
    lost: no advantage.
    """
    rows, _, _ = played
    right, wrong, lost = (row["advantages"] for row in rows["mixed"])
    half = 0.5**0.5  # (1 − 0.5) / std of (1, 0) with n − 1
    own = [
        value for value, mask in zip(right, rows["mixed"][0]["response_mask"], strict=True) if mask
    ]
    assert own == pytest.approx([half] * len(own), rel=1e-5)
    assert set(right) == {own[0], 0.0}
    assert wrong == pytest.approx([-half] * len(wrong), rel=1e-5)
    assert lost == [0.0]
    assert all(set(row["advantages"]) == {0.0} for row in [*rows["lonely"], *rows["acting"]])


def test_no_group_is_short(played):
    """Each prompt has all its sessions, finished, with the version of the weights they had."""
    rows, records, count = played
    for name, group in rows.items():
        assert [row["session"] for row in group] == list(range(SAMPLES)), name
        assert {row["status"] for row in group} == {"finished"}
        assert all(
            row["tag"]["min_global_steps"] == row["tag"]["max_global_steps"] == 7 for row in group
        )
    assert count == len(records) == len(rows) * SAMPLES


def test_records_are_those_of_the_local_driver(played):
    """Group, step, policy, usage, tokens and steps of a record say what happened, and agree with
    the row.
    """
    rows, records, _ = played
    record, row = records["acting", 2], rows["acting"][2]
    assert (record.iteration, record.step, record.sample, record.policy) == (1, 7, 2, "scripted")
    assert record.group == f"1-7-{record.task_id}"
    assert record.token_ids == row["prompts"] + row["responses"]
    assert record.mask == [0] * len(row["prompts"]) + row["response_mask"]
    assert record.logprobs[len(row["prompts"]) :] == pytest.approx(row["rollout_log_probs"])
    assert record.usage.completion_tokens == sum(row["response_mask"])
    assert record.usage.prompt_tokens == len(record.mask) - sum(record.mask)
    assert [step.action for step in record.steps] == [Call("add", {"item": "tea"})]
    assert [m["role"] for m in record.messages] == ["user", "assistant", "tool", "assistant"]
    assert record.success
    assert record.task.query == ["buy acting"]
