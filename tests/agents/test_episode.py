"""The episode's state machine, driven by hand."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from coevolve.agents.actions.replies import to_message, to_text
from coevolve.agents.episode import Episode, PolicyReply
from coevolve.environments.protocol import ActionResult, EpisodeLimits, Graded, Opened
from coevolve.records import Call, Start, Task

LOOK = Call("look", {"at": "x"})


def say(text, truncated=False):
    return PolicyReply({"role": "assistant", "content": text}, truncated)


def act(*calls):
    return say("".join(map(to_text, calls)))


def opened(limits=EpisodeLimits(), turns=2, observation=""):
    task = Task(id="t", env="e", query=[f"do {n}" for n in range(turns)], start=Start(name="s"))
    episode = Episode(task, limits, key="k", group="g", sample=3)
    episode.open(SimpleNamespace(opened=Opened(observation=observation)))
    return episode


def run(episode, reply, **result):
    """One reply whose actions all get the same result."""
    actions = episode.reply(reply)
    if actions:
        episode.observe([ActionResult(observation="seen", **result) for _ in actions])
    return actions


def record(episode):
    return episode.record(policy="p", iteration=1, step=2, seed=0)


def test_turns_follow_plain_text():
    """Plain text hands back; the next user turn follows, after the last one the end."""
    episode = opened(observation="A desk.")
    assert episode.unread == [{"role": "user", "content": "A desk.\n\ndo 0"}]
    assert run(episode, act(LOOK, LOOK)) == [LOOK, LOOK]
    assert [m["role"] for m in episode.unread] == ["tool", "tool"]
    run(episode, say("done"))
    assert episode.unread == [{"role": "user", "content": "do 1"}]
    run(episode, act(LOOK))
    run(episode, say("done"))
    assert episode.done and episode.gradable
    episode.grade(Graded(success=True, score=1.0, progress=1.0))
    rollout = record(episode)
    assert (rollout.stop_reason, rollout.success, rollout.score) == ("done", True, 1.0)
    assert [s.turn for s in rollout.steps] == [0, 0, 1]
    assert [s.message for s in rollout.steps] == [1, 1, 6]
    assert rollout.tools == ["look"] * 3
    assert (rollout.group, rollout.sample, rollout.iteration, rollout.step) == ("g", 3, 1, 2)


def test_unreadable_reply_is_a_step_with_a_hint():
    """A reply that tried a call and failed costs a step, shows the hint, and runs nothing."""
    episode = opened()
    assert run(episode, say('{"name": "look", "arguments": {bad')) == []
    assert not episode.done
    assert "JSON" in episode.unread[0]["content"]
    step = record(episode).steps[0]
    assert (step.error, step.action) == ("bad_json", '{"name": "look", "arguments": {bad')
    assert record(episode).tools == []


def test_unreadable_openai_message_answers_every_call():
    """Each call id of a message gets its own answer, as the API demands."""
    episode = opened()
    message = to_message([LOOK, LOOK])
    message["tool_calls"][1]["function"]["arguments"] = "{bad"
    episode.reply(PolicyReply(message))
    assert [m["tool_call_id"] for m in episode.unread] == ["call_0", "call_1"]


@pytest.mark.parametrize("calls", [1, 3])
def test_episode_cap(calls):
    """Exactly `max_steps` actions run; one more stops the episode, whose verdict counts."""
    episode = opened(EpisodeLimits(max_steps=4), turns=1)
    ran = 0
    while not episode.done:
        ran += len(run(episode, act(*[LOOK] * calls)))
    assert ran == 4 and episode.stop_reason == "max_steps"
    episode.grade(Graded(success=True, score=1.0))
    assert record(episode).success


def test_the_last_allowed_action_may_be_followed_by_the_end():
    """A policy that uses every step and then says so is done, not stopped."""
    episode = opened(EpisodeLimits(max_steps=2), turns=1)
    run(episode, act(LOOK))
    run(episode, act(LOOK))
    run(episode, say("done"))
    assert episode.stop_reason == "done"


def test_turn_cap_fails_the_episode():
    """More acting replies in a user turn than the environment allows fail whatever the state
    says; how many calls a reply makes does not matter, and turns count anew."""
    episode = opened(EpisodeLimits(max_steps=30, max_steps_per_turn=2))
    run(episode, act(LOOK, LOOK))
    run(episode, act(LOOK, LOOK, LOOK))
    run(episode, say("done"))
    run(episode, act(LOOK))
    run(episode, say("{"))
    assert not episode.done and run(episode, act(LOOK)) == []
    assert episode.stop_reason == "max_steps"
    episode.grade(Graded(success=True, score=1.0, progress=0.5))
    assert (record(episode).success, record(episode).score, record(episode).progress) == (
        False,
        0.0,
        0.5,
    )


def test_misread_replies_meet_the_cap():
    """A policy that babbles brackets for ever is stopped."""
    episode = opened(EpisodeLimits(max_steps=3))
    while not episode.done:
        run(episode, say("{"))
    assert episode.stop_reason == "max_steps" and len(record(episode).steps) == 3


def test_fatal_result_is_the_policys_fault():
    """A fatal result ends the episode with score 0; later actions of the reply leave no step."""
    episode = opened()
    actions = episode.reply(act(LOOK, LOOK, LOOK))
    assert len(actions) == 3
    episode.observe(
        [
            ActionResult(observation="ok"),
            ActionResult(observation="boom", error="timeout", fatal="timeout"),
        ]
    )
    assert (episode.stop_reason, episode.error, episode.gradable) == (
        "policy_fault",
        "timeout",
        False,
    )
    assert len(record(episode).steps) == 2 and not record(episode).success


def test_environment_fault_is_masked_not_scored():
    """A grader that fails turns a finished episode into an environment error."""
    episode = opened(turns=1)
    run(episode, say("done"))
    episode.stop("env_error", "grader died")
    assert (record(episode).stop_reason, record(episode).error, record(episode).score) == (
        "env_error",
        "grader died",
        0.0,
    )


def test_cut_off_reply():
    """A truncated reply ends the episode and runs nothing."""
    episode = opened()
    assert run(episode, say(to_text(LOOK), truncated=True)) == []
    assert episode.stop_reason == "max_tokens" and episode.gradable


def test_an_episode_that_stops_before_its_last_turn_has_failed():
    """What the user never came to say was not done, whatever the environment's state says."""
    valid = Graded(success=True, score=1.0, progress=1.0)
    cut = opened()
    run(cut, say("", truncated=True))
    capped = opened(EpisodeLimits(max_steps=1))
    run(capped, act(LOOK))
    run(capped, act(LOOK))
    for episode, reason in ((cut, "max_tokens"), (capped, "max_steps")):
        episode.grade(valid)
        rollout = record(episode)
        assert (rollout.stop_reason, rollout.success, rollout.score) == (reason, False, 0.0)
    last = opened(EpisodeLimits(max_steps=1))
    for reply in (act(LOOK), say("done"), act(LOOK)):
        run(last, reply)
    last.grade(valid)
    assert (record(last).stop_reason, record(last).success) == ("max_steps", True)
