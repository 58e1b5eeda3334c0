"""The laptop policy: built by the command through real processes, and its parts against what they
must be.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from conftest import COEVOLVE, run

pytest.importorskip("torch")
pytest.importorskip("transformers")

LAMPS = Path(__file__).with_name("lamps.py")
SETTINGS = ["--steps", "60", "--batch", "6", "--lr", "0.003", "--quiet"]


def lamps(*arguments: str) -> list[str]:
    return ["--env", " ".join([sys.executable, str(LAMPS), *arguments])]


def weights(directory: Path) -> bytes:
    return (directory / "model.safetensors").read_bytes()


@pytest.fixture(scope="module")
def built(tmp_path_factory) -> Path:
    """A policy of the lamps, made by the command."""
    out = tmp_path_factory.mktemp("bootstrap") / "deep" / "policy"
    result = run("bootstrap", "-o", out, *lamps(), *SETTINGS)
    assert result.stdout == b""
    return out


def test_it_learns_what_it_is_shown(built: Path):
    """Sixty steps on 24 demonstrations are enough to copy the name of the lamp into the call,
    measured by the real verifier.
    """
    card = json.loads((built / "bootstrap.json").read_text())
    assert card["success"]["split"] == "dev" and card["success"]["tasks"] == 6
    mean, by_kind = card["success"]["mean"], card["success"]["kinds"]
    assert round(mean, 3) == by_kind["lamp.light/given"]
    assert mean >= 0.5  # 5 or 6 of 6, as the machine's arithmetic has it; untaught it names no lamp
    assert card["demonstrations"] == 24 and card["settings"]["steps"] == 60


def test_it_is_a_plain_hugging_face_directory(built: Path):
    """Transformers loads it without any code of ours, and it writes the demonstrated call."""
    from transformers import AutoModelForCausalLM, AutoTokenizer

    tokenizer, model = (
        AutoTokenizer.from_pretrained(built),
        AutoModelForCausalLM.from_pretrained(built),
    )
    assert type(model).__name__ == "LlamaForCausalLM" and 300_000 < model.num_parameters() < 600_000
    prompt = tokenizer.apply_chat_template(
        [{"role": "user", "content": "light the porch"}],
        add_generation_prompt=True,
        return_tensors="pt",
        return_dict=True,
    )
    ids = model.generate(**prompt, max_new_tokens=40, do_sample=False)[
        0, prompt["input_ids"].shape[1] :
    ]
    assert tokenizer.decode(ids) == '{"name":"lamp.light","arguments":{"name":"porch"}}<|end|>'


def test_same_seed_same_bytes_and_another_seed_others(built: Path, tmp_path: Path):
    """A second build equals the first in every file, whatever the number of workers; another seed
    gives other weights.
    """
    run("bootstrap", "-o", tmp_path / "again", *lamps(), *SETTINGS, "--workers", "2")
    for file in sorted(built.iterdir()):
        assert file.read_bytes() == (tmp_path / "again" / file.name).read_bytes(), file.name
    run("bootstrap", "-o", tmp_path / "other", *lamps(), *SETTINGS, "--seed", "1")
    assert weights(tmp_path / "other") != weights(built)


def test_a_finished_policy_is_left_alone_and_another_one_is_never_overwritten(
    built: Path, tmp_path: Path
):
    """The same settings again touch nothing; other settings, or a directory of something else, are
    usage errors.
    """
    before = (built / "model.safetensors").stat().st_mtime_ns
    run("bootstrap", "-o", built, *lamps(), *SETTINGS)
    assert (built / "model.safetensors").stat().st_mtime_ns == before
    refused = run("bootstrap", "-o", built, *lamps(), *SETTINGS, "--seed", "5", check=False)
    assert refused.returncode == 2 and b"other settings" in refused.stderr
    (tmp_path / "notes.txt").write_text("mine")
    refused = run("bootstrap", "-o", tmp_path, *lamps(), *SETTINGS, check=False)
    assert refused.returncode == 2 and [p.name for p in tmp_path.iterdir()] == ["notes.txt"]


def test_killed_at_work_leaves_nothing_under_the_name_and_a_rerun_works(
    built: Path, tmp_path: Path
):
    """kill -9 while the files are written and measured: no directory of that name; the rerun is as
    good and tidies up.
    """
    out = tmp_path / "policy"
    process = subprocess.Popen([*COEVOLVE, "bootstrap", "-o", str(out), *lamps(), *SETTINGS])
    while not list(tmp_path.iterdir()):
        assert process.poll() is None
        time.sleep(0.005)
    process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL and not out.exists()
    run("bootstrap", "-o", out, *lamps(), *SETTINGS)
    assert weights(out) == weights(built)
    assert [p.name for p in tmp_path.iterdir()] == ["policy"]


@pytest.mark.parametrize(
    ("mode", "code", "words"), [("bare", 2, b"demonstrations"), ("broken", 1, b"dark")]
)
def test_an_environment_that_cannot_teach_is_named(
    tmp_path: Path, mode: str, code: int, words: bytes
):
    """No demonstrations is a usage error; a solution that fails in its own environment ends the run
    with its observation.
    """
    result = run("bootstrap", "-o", tmp_path / "policy", *lamps(mode), *SETTINGS, check=False)
    assert result.returncode == code and words in result.stderr and result.stderr.count(b"\n") == 1
    assert not list(tmp_path.iterdir())


def test_dry_run_does_nothing(tmp_path: Path):
    """The settings are printed, no directory appears."""
    result = run("bootstrap", "-o", tmp_path / "policy", "--dry-run")
    assert b'"steps": 1' in result.stderr and result.stdout == b"" and not list(tmp_path.iterdir())


@pytest.fixture(scope="module")
def desk():
    """The desk's first demonstrations as conversations, with the tokenizer made from them."""
    from coevolve.environments.client import Pool
    from coevolve.models.tiny import make_tokenizer
    from coevolve.training.bootstrap import conversation, corpus, replayed

    with Pool("desk") as pool:
        tasks = pool.tasks("demos")[:1500]
        conversations = [conversation(task, results) for task, results in replayed(pool, tasks)]
        texts = corpus(pool, tasks, conversations)
        known = {
            value
            for values in pool.open([tasks[0].start])[0].opened.values.values()
            for value in values
        }
    return make_tokenizer(texts), conversations, texts, known


def test_the_template_frames_turns_and_marks_what_the_assistant_says(desk):
    """Token ids and mask equal a framing by hand, turn by turn, and every role's framing stands
    alone.
    """
    from coevolve.training.bootstrap import tokenise

    tokenizer, conversations, _, _ = desk
    for messages, (ids, mask) in zip(
        conversations[:50], tokenise(tokenizer, conversations[:50]), strict=True
    ):
        by_hand, marks = [], []
        for message in messages:
            head = tokenizer(f"<|{message['role']}|>")["input_ids"]
            body = tokenizer(message["content"] + "<|end|>")["input_ids"]
            assert len(head) == 1
            by_hand += head + body
            marks += [0] + [int(message["role"] == "assistant")] * len(body)
        assert (ids, mask) == (by_hand, marks)


def test_entities_are_one_token_in_prose_and_in_json(desk):
    """Copying is one skill: a name has the same single token in a request, in a call and in an
    observation.
    """
    tokenizer, _, _, known = desk
    assert len(known) > 20
    for word in known:
        (token,) = tokenizer(word)["input_ids"]
        for text in (
            f"drop {word} in farm",
            f'{{"name":"farm.drop","arguments":{{"name":"{word}"}}}}',
            f'{{"text":"{word}"}}',
        ):
            assert token in tokenizer(text)["input_ids"]


def test_what_the_desk_says_is_cheap(desk):
    """No text that the policy reads or writes falls apart into letters: at most two tokens for
    three characters.
    """
    tokenizer, conversations, texts, _ = desk
    for text in set(texts):
        assert len(tokenizer(text)["input_ids"]) <= max(1, len(text) * 2 / 3), text
    assert any("change lost" in text for text in texts) and any(
        "bad argument" in text for text in texts
    )
    assert max(len(tokenizer.apply_chat_template(c)["input_ids"]) for c in conversations) < 160


def test_the_learning_rate_rises_holds_and_falls():
    """Warm-up over 40 steps, constant to four fifths, then down to a twentieth."""
    from coevolve.training.bootstrap import schedule

    rates = [schedule(step, 1000) for step in range(1000)]
    assert rates[0] == 1 / 40 and rates[39:800] == [1.0] * 761
    assert rates[900] == pytest.approx(0.525) and 0.05 < rates[999] < 0.056
    assert all(a >= b for a, b in zip(rates[799:], rates[800:], strict=False))


@pytest.mark.slow
def test_the_laptop_policy_starts_strong_where_it_was_shown_much_and_weak_where_little(
    tmp_path: Path,
):
    """The default build on the desk: common kinds above .9, kinds shown once at most in a band
    below, measured on dev.
    """
    from coevolve.environments.client import Pool

    run("bootstrap", "-o", tmp_path / "policy", "--quiet")
    kinds = json.loads((tmp_path / "policy" / "bootstrap.json").read_text())["success"]["kinds"]
    with Pool("desk") as pool:
        rare = {task.kind for task in pool.tasks("dev") if "rare_in_demos" in task.tags}
    success = {kind in rare: [] for kind in kinds}
    for kind, mean in kinds.items():
        success[kind in rare].append(mean)
    assert sum(success[False]) / len(success[False]) > 0.9
    assert 0.15 < sum(success[True]) / len(success[True]) < 0.7


def test_a_place_that_cannot_be_written_is_told_before_training(tmp_path: Path):
    """A file stands where the parent directory should be: exit 74, and nothing was trained."""
    (tmp_path / "file").write_text("")
    result = run(
        "bootstrap", "-o", tmp_path / "file" / "policy", "--steps", 10**9, check=False, timeout=60
    )
    assert result.returncode in (2, 74) and result.stderr.count(b"\n") == 1
