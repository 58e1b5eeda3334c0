"""Replays of many jobs at once, on real workers."""

from types import SimpleNamespace

import pytest
from abstraction_support import SHOP, variant

from coevolve.environments.client import Fault, Pool
from coevolve.environments.protocol import Description, EpisodeLimits, Opened
from coevolve.environments.replay import (
    ReplayJob,
    checked_responses,
    effects_digest,
    gather_replays,
    replay,
    run_replays,
)
from coevolve.records import Call, Start, Task

START = Start("default")
MILK = Call("add", {"item": "milk"})


@pytest.fixture(scope="module")
def shop():
    with Pool(SHOP, workers=2) as pool:
        yield pool


def counting(rounds, log):
    """A computation that asks for `rounds` batches, each one job longer, and returns how many
    effects it saw."""
    effects = 0
    for size in range(rounds):
        episodes = yield [ReplayJob(START, [[MILK] * size])] * (size + 1)
        assert len(episodes) == size + 1
        effects += sum(len(result.effects) for episode in episodes for result in episode.flat)
        log.append(rounds)
    return effects


def test_computations_run_in_step(shop):
    """Each gets its own episodes, in order, and the results stand in the order of the
    computations."""
    log = []
    rounds = [3, 0, 1, 2]
    assert run_replays(shop, gather_replays([counting(n, log) for n in rounds])) == [2 + 6, 0, 0, 2]
    assert log == [3, 1, 2, 3, 2, 3]


def test_more_jobs_than_sessions_at_once(shop):
    """Six hundred episodes, each what its own actions made it."""
    jobs = [ReplayJob(START, [[MILK] * (n % 3), [MILK]]) for n in range(600)]
    episodes = replay(shop, jobs)
    assert [[len(turn) for turn in episode.results] for episode in episodes] == [
        [n % 3, 1] for n in range(600)
    ]


def test_a_fault_stands_for_its_episode_only():
    """A grader that dies on one task leaves the grades of the others."""
    tasks = [
        Task(id=item, env=SHOP, query=["x"], solution=[[Call("add", {"item": item})]], start=START)
        for item in ("tea", "milk", "bread")
    ]
    with Pool(variant("dying")) as pool:
        first, second, third = replay(
            pool, [ReplayJob(START, task.solution, task) for task in tasks]
        )
    assert isinstance(second, Fault) and first.graded.success and third.graded.success


def test_nothing_follows_a_fatal_result():
    """An action that runs out of time is the last of its episode, later turns included."""
    with Pool(variant("slow"), call_timeout=1) as pool:
        job = ReplayJob(START, [[MILK, Call("pay", {"amount": 1}), MILK], [MILK]])
        (episode,) = replay(pool, [job])
    assert [len(turn) for turn in episode.results] == [2, 0] and episode.failure == "timeout"


def test_the_outcome_is_effects_and_compared_responses():
    """Other effects or another compared response make another digest; an unchecked response does
    not matter."""
    with Pool(variant("talkative")) as pool:
        price = [Call("price", {"item": item}) for item in ("tea", "milk")]
        jobs = [
            ReplayJob(START, [[call]]) for call in (*price, MILK, Call("add", {"item": "tea"}))
        ] + [ReplayJob(START, [[MILK]])]
        episodes = replay(pool, jobs)
        digests = [
            effects_digest(pool.tools, job, episode)
            for job, episode in zip(jobs, episodes, strict=True)
        ]
        assert checked_responses(pool.tools, [price[0]], episodes[0].flat) == ['{"price": 31}']
        assert checked_responses(pool.tools, [MILK], episodes[2].flat) == []
    assert len(set(digests)) == 4 and digests[2] == digests[4]


def test_no_more_sessions_than_the_environment_bears():
    """`Limits.sessions` bounds what is open at a time; the episodes come back in order all the
    same."""
    counted = Counted(sessions=3)
    jobs = [ReplayJob(Start(f"s{n}"), []) for n in range(8)]
    episodes = replay(counted, jobs)
    assert [episode.opened.state for episode in episodes] == [f"s{n}" for n in range(8)]
    assert counted.batches == [3, 3, 2] and counted.open_now == 0


class Counted:
    """A pool that opens anything and counts."""

    def __init__(self, sessions: int):
        self.description = Description(
            name="x", version="1", tools=[], limits=EpisodeLimits(sessions=sessions)
        )
        self.batches, self.open_now = [], 0

    def open(self, starts, queries):
        self.batches.append(len(starts))
        self.open_now += len(starts)
        return [SimpleNamespace(opened=Opened(state=start.name)) for start in starts]

    def evaluate(self, requests):
        return []

    def close(self, sessions):
        self.open_now -= len(sessions)
