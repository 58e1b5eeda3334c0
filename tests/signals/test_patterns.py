"""Action patterns of calls and of code."""

from __future__ import annotations

import msgspec
import pytest
from signal_cases import rollout

from coevolve import jsonl
from coevolve.records import Step
from coevolve.signals.extract import extract
from coevolve.signals.kinds import PAPER
from coevolve.signals.patterns import called_tools, grams
from coevolve.signals.settings import SignalSettings
from coevolve.signals.views import RolloutSteps


@pytest.mark.parametrize(
    ("n", "want"),
    [
        (1, {("a",), ("b",)}),
        (2, {("^", "a"), ("a", "b"), ("b", "a"), ("a", "$")}),
        (3, {("^", "a", "b"), ("a", "b", "a"), ("b", "a", "$")}),
    ],
)
def test_grams(n, want):
    """With sentinels, each once; no calls, no pattern."""
    assert grams(["a", "b", "a"], n) == want
    assert grams([], n) == set()


def test_code_actions_count_where_the_record_lists_no_tools():
    """An AppWorld-like rollout without `tools` has the patterns of its code, in head mode too."""
    steps = [Step(0, "apis.mail.read()", ""), Step(0, "apis.mail.send()", "")]
    record = rollout("t", True, steps=steps)
    whole = msgspec.json.decode(jsonl.encode(record), type=RolloutSteps)
    assert called_tools(whole) == ["mail.read", "mail.send"]
    rules = SignalSettings(
        mode="paper", kinds=PAPER, patterns=("2gram",), min_observations=1, theta=60
    )
    found = {tuple(s.pattern) for s in extract([record], rules)}
    assert found == {("^", "mail.read"), ("mail.read", "mail.send"), ("mail.send", "$")}
