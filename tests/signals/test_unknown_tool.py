"""Names of tools that do not exist: a kind of their own, and of no other, where the inventory is
known."""

from __future__ import annotations

import pytest
from msgspec.structs import replace
from signal_cases import group, rollout

from coevolve.records import Call, Rollout, Step
from coevolve.signals.extract import extract, extraction, lines_of
from coevolve.signals.inventory import inventory
from coevolve.signals.settings import SignalSettings
from coevolve.signals.summary import lines
from coevolve.statistics import wilson

KNOWN = inventory("toy", dict.fromkeys(["mail.read", "mail.send", "farm.sow", "farm.reap"], ""))
PATTERN_KINDS = ("rare", "error", "unknown_tool", "combination", "stall")
FAMILIES = ("1gram", "2gram", "3gram", "keys", "app")


def found(rollouts, *kinds, known=KNOWN, **settings):
    settings = SignalSettings(kinds=kinds or ("unknown_tool",), **settings)
    return list(extract(rollouts, settings, inventory=known))


def calling(task: str, sample: int, *tools: str) -> Rollout:
    """A rollout in which calls of tools that do not exist fail."""
    errors = [None if tool in KNOWN.tools else "unknown_tool" for tool in tools]
    steps = [Step(0, Call(tool), "…", error) for tool, error in zip(tools, errors, strict=True)]
    return rollout(task, False, list(tools), sample=sample, steps=steps)


def test_a_name_that_recurs():
    """The lower Wilson bound of its share in the rollouts of its tasks; the nearest tool stands in
    the pattern; one call is no recurrence, and other tasks do not hide it."""
    rollouts = [calling("a", i, "mail.reed" if i < 5 else "mail.read") for i in range(8)]
    rollouts += [calling("b", i, "mail.reed" if i < 1 else "mail.read") for i in range(8)]
    rollouts += [calling("c", i, "weather" if i < 3 else "farm.sow") for i in range(8)]
    rollouts += [calling("d", i, "farm.sew" if i < 1 else "farm.sow") for i in range(8)]
    many = [calling(f"x{i}", 0, "farm.sow") for i in range(500)]
    for seen in (rollouts, rollouts + many):
        signals = {tuple(s.pattern): s for s in found(seen)}
        assert set(signals) == {("mail.reed", "mail.read"), ("weather",)}
        reed, weather = signals["mail.reed", "mail.read"], signals["weather",]
        assert reed.strength == pytest.approx(wilson(6, 16).low, abs=1e-6)
        assert weather.strength == pytest.approx(wilson(3, 8).low, abs=1e-6)
        assert len(reed.evidence) == 6 and weather.task_id == "c"
        assert all("mail.reed" == t.steps[0].action.tool for t in reed.evidence)


def test_a_stray_name_is_none():
    """Twice in 24 rollouts of three tasks is not above the floor."""
    strays = [
        calling(t, i, "zap" if t < "c" and not i else "farm.sow") for t in "abc" for i in range(8)
    ]
    assert found(strays) == []
    assert len(found(strays, rate_floor=0.03)) == 1


def test_each_iteration_by_itself():
    """The rollouts of the task in another iteration do not count."""
    early = group("a", 0, 8, ["mail.read"], iteration=1)
    late = [
        replace(calling("a", i, "mail.reed"), id=f"l{i}", iteration=2, step=1) for i in range(2)
    ]
    (signal,) = found(early + late)
    assert (signal.iteration, signal.strength) == (2, pytest.approx(wilson(2, 2).low, abs=1e-6))


def test_names_in_code_that_failed():
    """A program stops before a call that does not exist, so that its rollout's tools lack it."""
    code = "apis.mail.read()\napis.mail.reed()"
    steps = [Step(0, code, "no attribute", "exception"), Step(0, "apis.mail.sent()", "ok")]
    rollouts = [rollout("a", False, ["mail.read"], sample=i, steps=steps) for i in range(4)]
    (signal,) = found(rollouts)
    assert signal.pattern == ["mail.reed", "mail.read"]
    assert signal.strength == pytest.approx(wilson(4, 4).low, abs=1e-6)
    assert found(rollouts, "error") == []
    (error,) = found(rollouts, "error", known=None)
    assert error.pattern == ["mail.reed", "exception"]


def weak_policy() -> list[Rollout]:
    """An invented name that is rare, fails, stalls, and fails together with a real tool."""
    again = [Step(0, Call("zap"), "no", "unknown_tool")] * 3
    rollouts = [r for i in range(40) for r in group(f"w{i}", 8, 8, ["farm.sow", "farm.reap"])]
    rollouts += [r for i in range(20) for r in group(f"s{i}", 8, 8, ["zip"])]
    rollouts += [r for i in range(10) for r in group(f"b{i}", 0, 8, ["zip", "farm.sow"])]
    rollouts += [rollout("z", False, ["zap"] * 3, sample=i, steps=again) for i in range(3)]
    return rollouts


def test_invented_names_are_of_no_other_kind():
    """With the inventory of their environment they are `unknown_tool` alone; without it nothing
    changes, nor with that of another environment or an empty one."""
    rollouts, odd = weak_policy(), {"zap", "zip"}
    known = found(rollouts, *PATTERN_KINDS, patterns=FAMILIES)
    assert {s.kind for s in known if odd & set(s.pattern)} == {"unknown_tool"}
    bare = found(rollouts, *PATTERN_KINDS, patterns=FAMILIES, known=None)
    named = {s.kind for s in bare if odd & set(s.pattern)}
    assert named == {"rare", "error", "combination", "stall"}
    for other in (KNOWN._replace(env="other"), inventory("toy", {})):
        assert found(rollouts, *PATTERN_KINDS, patterns=FAMILIES, known=other) == bare


def test_what_is_no_tool_stays():
    """Text that is no call, and a budget that ran out, are not names of tools."""
    steps = [Step(0, "I would call…", "cannot read this", "parse")] * 3
    text = [rollout("t", False, sample=i, steps=steps, stop_reason="max_steps") for i in range(8)]
    signals = found(text, "error", "stall", "unknown_tool")
    assert [s.pattern for s in signals] == [["code", "parse"], ["code"], ["max_steps"]]


def test_patterns_of_real_tools_are_judged_among_themselves():
    """The same signals as if the calls of invented names had not been made."""
    real = [calling(f"r{i}", 0, "mail.read") for i in range(60)]
    real += [calling(f"s{i}", 0, "farm.sow") for i in range(60)] + [calling("q", 0, "mail.send")]
    odd = [calling(f"o{i}", 0, "zap") for i in range(400)]
    settings = {"patterns": FAMILIES, "rare_share": 0.9}
    assert found(real, "rare", **settings) == found(real + odd, "rare", **settings) != []


def test_paper_mode_is_to_the_letter():
    """The paper's rules know no inventory."""
    settings = SignalSettings(mode="paper", patterns=("2gram",))
    bare = list(extract(weak_policy(), settings))
    assert list(extract(weak_policy(), settings, inventory=KNOWN)) == bare
    assert any("zap" in signal.pattern for signal in bare)


def test_nearest_tool():
    """The tool behind a prefix, else the most alike; none for another word, however long."""
    tools = dict.fromkeys(["ls", "post_tweet", "get_stock_info", "search_file"], "")
    near = inventory(None, tools).nearest
    assert near("GorillaFileSystem.ls") == "ls"
    assert near("postTweet") == near("post_tweets") == "post_tweet"
    assert near("get_stock_information") == "get_stock_info"
    assert near("book_flight") is None and near("x" * 1_000_000) is None


def test_the_summary_says_it_in_a_sentence():
    """The name, how often, and the tool that was meant; columns stay in line."""
    rollouts = [calling("a", i, "mail.reed") for i in range(8)]
    rollouts += [calling("b", i, "weather") for i in range(8)]
    with extraction(lines_of(rollouts), SignalSettings(), inventory=KNOWN) as result:
        shown = list(lines(result))
    said = "called in at least 68 % of the rollouts of its tasks, no such tool exists"
    assert any(line.endswith(f"mail.reed: {said}; the nearest is mail.read") for line in shown)
    assert any(line.endswith(f"weather: {said}; and none is near") for line in shown)
    assert len(shown[0]) == len(shown[1])
