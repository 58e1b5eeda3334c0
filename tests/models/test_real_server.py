"""The toolkit against a server that it had no part in: `transformers serve` with a tiny trained
model."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import msgspec
import pytest

import tiny_models
from coevolve.jsonl import encode

SHOP = f"{sys.executable} {Path(__file__).parent.parent / 'grocer.py'}"


@pytest.mark.serve
def test_rollouts_through_a_real_server(served, tmp_path, coevolve):
    """The served model says greedily what it says in this process; the second run calls nothing."""
    model, url = served
    tasks = b"".join(map(encode, tiny_models.shop_tasks(SHOP, 4)))
    options = ["rollout", "--env", SHOP, "--model", model, "--temperature", "0"]
    at_server = [
        *options,
        "--base-url",
        url,
        "--journal",
        tmp_path / "journal",
        "--run",
        tmp_path / "run",
    ]
    first, again = (coevolve(*at_server, stdin=tasks) for _ in range(2))
    assert first.stdout == again.stdout
    there, here = (
        list(map(json.loads, out.splitlines()))
        for out in (first.stdout, coevolve(*options, stdin=tasks).stdout)
    )
    assert len(there) == 4 and all(r["stop_reason"] == "done" for r in there)
    assert [r["messages"][:2] for r in there] == [
        r["messages"][:2] for r in here
    ]  # after that, roles differ
    assert any(r["success"] for r in there)
    paid, reused = (
        json.loads(line)
        for line in (tmp_path / "run" / "model_calls.jsonl").read_bytes().splitlines()
    )
    assert paid["paid"]["calls"] == reused["reused"]["calls"] > 4 and reused["paid"]["calls"] == 0
    assert paid["paid"]["prompt_tokens"] > 0 and paid["kept"] == 4
    assert b"from the journal" in again.stderr
    assert msgspec.json.decode(first.stdout.splitlines()[0])["usage"]["completion_tokens"] > 0
