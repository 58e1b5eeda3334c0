"""Episodes under verl without verl: deadlines, sessions that must not stay open, records that
cannot be written.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import msgspec
import pytest

import tiny_models
from coevolve.agents.prompts.styles import style
from coevolve.environments.client import Pool
from coevolve.errors import WriteFailed
from coevolve.records import Call, Start, Task, Verifier, task_id
from coevolve.training.verl.episodes import EpisodePlace, Player, Sampled
from coevolve.training.verl.files import VerlFiles
from coevolve.training.verl.prompt_length import prompt_lengths, tokenizer_here

ENV = f"{sys.executable} {Path(__file__).with_name('trouble.py')}"
PLACE = EpisodePlace(1, 0, "scripted", 0, 0)
COUNT = '{"name":"count","arguments":{}}'


def task(start: str = "default") -> Task:
    query, wanted = ["buy tea"], [[Call("add", {"item": "tea"})]]
    of = Start(name=start)
    return Task(
        id=task_id(ENV, of, query, wanted, Verifier()),
        env=ENV,
        query=query,
        solution=wanted,
        start=of,
    )


@pytest.fixture(scope="module")
def tokenizer():
    return tiny_models.tokenizer()


@pytest.fixture
def player(tokenizer, tmp_path, make_job):
    made = []

    def make(**changes):
        job = make_job(tmp_path / "run", "any", ENV, **changes)
        made.append(Player(job, tokenizer, {tokenizer.eos_token_id}))
        return made[-1]

    yield make
    for one in made:
        one.close()


def saying(tokenizer, *replies):
    """A policy that says the replies in turn; None: it never answers."""
    left = iter(replies)

    async def generate(ids, most, key):
        reply = next(left)
        if reply is None:
            await asyncio.sleep(1000)
        said = tokenizer.encode(f"{reply}<|end|>")[:most]
        return Sampled(said, [-0.5] * len(said))

    return generate


def test_an_abandoned_session_is_closed(player, tokenizer):
    """An episode whose policy never answers ends at its deadline, and its session is gone when the
    next one looks.
    """
    one = player(episode_timeout=1.0)

    async def play():
        late = await one.play(task(), PLACE, saying(tokenizer, None))
        counting = saying(tokenizer, COUNT, "done")
        return late, await one.play(task(), PLACE, counting)

    late, counted = asyncio.run(play())
    assert (late.rollout.stop_reason, late.mask) == ("env_error", [0])
    assert "within 1 s" in late.rollout.error
    assert counted.rollout.steps[0].observation == "1"


def test_a_session_that_opens_too_late_is_closed(player, tokenizer):
    """The call that opens it outlives the episode; what it opened is closed all the same."""
    one = player(episode_timeout=1.0)

    async def play():
        await one.play(task(), PLACE, saying(tokenizer, "done"))  # the environment has started
        late = await one.play(task("slow"), PLACE, saying(tokenizer, "done"))
        await asyncio.sleep(1.0)
        return late, await one.play(task(), PLACE, saying(tokenizer, COUNT, "done"))

    late, counted = asyncio.run(play())
    assert late.rollout.stop_reason == "env_error"
    assert counted.rollout.steps[0].observation == "1"


def test_all_episodes_of_a_step_have_one_deadline(player, tokenizer):
    """An episode that begins when its step's time is over is lost before it asks the policy; the
    next step begins anew.
    """
    one, asked = player(episode_timeout=60.0, step_timeout=2.0), []

    def policy(reply):
        say = saying(tokenizer, reply)
        return lambda *request: asked.append(reply) or say(*request)

    async def play():
        first = await one.play(task(), PLACE, policy(None))
        second = await one.play(task(), PLACE, policy("late"))
        return first, second, await one.play(task(), PLACE._replace(step=1), policy("done"))

    first, second, third = asyncio.run(play())
    assert first.rollout.stop_reason == second.rollout.stop_reason == "env_error"
    assert third.rollout.stop_reason == "done"
    assert asked == [None, "done"]


def test_a_dead_engine_is_named_in_one_line(player, tokenizer):
    """An engine's error comes with a traceback of another process; the record has its last line,
    and trains nothing.
    """

    async def generate(ids, most, key):
        raise RuntimeError(
            "ray::Server.generate() (pid=7)\n  File engine.py, line 5\nEngineDeadError: out of "
            "memory"
        )

    played = asyncio.run(player().play(task(), PLACE, generate))
    assert (played.rollout.stop_reason, played.mask) == ("env_error", [0])
    assert played.rollout.error == "RuntimeError: EngineDeadError: out of memory"


def test_a_record_that_cannot_be_written_is_said(player, tokenizer):
    """A lost record would be lost evidence: the one error that play lets out."""
    one = player()
    VerlFiles(one._job.run).directory(1).mkdir(parents=True)
    VerlFiles(one._job.run).episodes(1).write_text("a file in the way")
    with pytest.raises(WriteFailed, match="episodes"):
        asyncio.run(one.play(task(), PLACE, saying(tokenizer, "done")))


def test_an_environment_that_cannot_start_masks_and_is_tried_again(
    player, tokenizer, tmp_path, make_job
):
    """Without an environment each episode is a masked record; when it is there, one plays."""
    script = tmp_path / "later.py"
    job = make_job(tmp_path / "run", "any", f"{sys.executable} {script}")
    one = Player(job, tokenizer, {tokenizer.eos_token_id})

    async def play():
        lost = await one.play(task(), PLACE, saying(tokenizer, "done"))
        script.write_text(Path(__file__).with_name("trouble.py").read_text())
        return lost, await one.play(task(), PLACE, saying(tokenizer, "done"))

    lost, found = asyncio.run(play())
    one.close()
    assert (lost.rollout.stop_reason, lost.mask) == ("env_error", [0])
    assert "cannot start" in lost.rollout.error
    assert found.rollout.stop_reason == "done"


def test_an_environment_is_not_given_more_sessions_than_it_bears(player, tokenizer):
    """With room for two sessions, six episodes at once never see more than two."""
    one = player()

    async def play():
        pool = await one._environment.pool()
        pool.description = msgspec.structs.replace(
            pool.description, limits=msgspec.structs.replace(pool.description.limits, sessions=2)
        )
        policies = [saying(tokenizer, COUNT, COUNT, "done") for _ in range(6)]
        return await asyncio.gather(
            *(one.play(task(), PLACE._replace(session=n), p) for n, p in enumerate(policies))
        )

    seen = {
        int(step.observation) for played in asyncio.run(play()) for step in played.rollout.steps
    }
    assert max(seen) == 2


@pytest.mark.parametrize(
    "template", [tiny_models.PLAIN, tiny_models.CHATML], ids=["plain", "chatml"]
)
def test_tokens_are_the_templates_own(tmp_path, make_job, template):
    """Where a template only appends, an episode's tokens are those of its rendering as a whole,
    newlines and tools included.
    """
    tokenizer = tiny_models.tokenizer(template)
    size = {"prompt_tokens": 2000, "episode_tokens": 4000, "reply_tokens": 200}
    one = Player(make_job(tmp_path / "run", "any", ENV, **size), tokenizer, set())
    replies = [COUNT, '{"name":"add","arguments":{"item":"tea"}}', "done"]

    async def generate(ids, most, key):
        said = [*tokenizer.encode(replies.pop(0)), tokenizer.eos_token_id]
        return Sampled(said, [-0.5] * len(said))

    played = asyncio.run(one.play(task(), PLACE, generate))
    one.close()
    with Pool(ENV) as pool:
        schemas = style("tools").schemas(list(pool.tools.values()))
    text = tokenizer.apply_chat_template(played.rollout.messages, tools=schemas, tokenize=False)
    assert tokenizer.decode(played.prompt_ids + played.response_ids) == text.rstrip("\n")
    assert played.prompt_ids + played.response_ids == tokenizer.encode(text.rstrip("\n"))
    assert played.rollout.success


def test_prompt_lengths_are_those_that_are_played(player, tokenizer, tmp_path):
    """What the driver measures before is what the agent loop renders; a start that cannot be opened
    has no length.
    """
    tokenizer.save_pretrained(tmp_path / "model")
    played = asyncio.run(player().play(task(), PLACE, saying(tokenizer, "done")))
    with Pool(ENV) as pool:
        lengths = prompt_lengths(
            [task(), task("closed")],
            pool,
            tokenizer_here(str(tmp_path / "model")),
            style("tools").name,
        )
    assert lengths == [len(played.prompt_ids), None]
