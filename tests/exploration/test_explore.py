"""Exploration against real worker processes: what each mode finds, faults, determinism."""

from __future__ import annotations

import random

import pytest
from msgspec.structs import replace

from coevolve.environments.client import Pool
from coevolve.errors import Unreachable, UsageError
from coevolve.exploration.episode import ExplorerEpisode
from coevolve.exploration.explore import explore
from coevolve.exploration.memory import Memory
from coevolve.exploration.pattern import around, pattern_of, repeat
from coevolve.exploration.settings import ExploreSettings
from coevolve.exploration.stats import ExplorationStats
from coevolve.grounding.sources import sources
from coevolve.records import (
    Call,
    Exploration,
    Signal,
    Start,
    Statistic,
    Step,
    Task,
    Trajectory,
    content_id,
)


def effects(explorations: list[Exploration]) -> set[str]:
    return {effect.entity for e in explorations for step in e.steps for effect in step.effects}


def skills(explorations: list[Exploration]) -> set[tuple[str, str]]:
    """Desk's (app, verb) pairs that had an effect: the last verb of the app that worked."""
    found, verbs = set(), {"set", "add", "send", "copy", "drop", "mark"}
    for exploration in explorations:
        last = {}
        for step in exploration.steps:
            app, _, action = step.action.tool.partition(".")
            if action in verbs and not step.error:
                last[app] = action
            found |= {
                (effect.entity, last[effect.entity])
                for effect in step.effects
                if effect.entity in last
            }
    return found


def test_coverage_finds_hidden_conventions_that_random_misses(lab):
    """The lab's door needs a call before and another after, its lamp an id: coverage gets both in
    one short run."""
    with Pool(lab()) as pool:
        covered = list(explore([], pool, ExploreSettings("coverage", episodes=8, max_actions=30)))
        blind = list(explore([], pool, ExploreSettings("random", episodes=8, max_actions=30)))
    assert effects(covered) == {"door", "lamp", "note"}
    assert "door" not in effects(blind)


def test_coverage_reaches_most_of_the_desk():
    """24 episodes of 40 steps: most of the 72 skills, where random reaches a handful and curiosity
    is between."""
    reached = {}
    with Pool("desk") as pool:
        for mode in ("random", "curious", "coverage"):
            reached[mode] = len(
                skills(list(explore([], pool, ExploreSettings(mode, episodes=24, max_actions=40))))
            )
    assert reached["coverage"] >= 55 and reached["random"] <= 15
    assert reached["random"] < reached["curious"] < reached["coverage"]


def test_coverage_takes_what_has_the_fewest_tasks():
    """With a task for every skill but those of the farm, the episodes begin with the farm's."""
    with Pool("desk") as pool:
        verbs = [
            name
            for name in pool.tools
            if name.split(".")[1] in ("set", "add", "send", "copy", "drop", "mark", "answer")
        ]
        tasks = [
            Task(
                id=name,
                env="desk",
                kind=f"{name}/given",
                query=["q"],
                solution=[[Call(name, {"name": "x"})]],
                start=Start(),
            )
            for name in verbs
            if not name.startswith("farm.")
        ]
        found = list(
            explore([], pool, ExploreSettings("coverage", episodes=6, max_actions=40), tasks=tasks)
        )
    assert {exploration.context.aim[0] for exploration in found} == {
        name for name in verbs if name.startswith("farm.")
    }
    assert {app for app, _ in skills(found)} >= {"farm"}


def test_an_observed_argument_occurs():
    """Coverage repeats what worked with a value that another call told."""
    with Pool("desk") as pool:
        found = list(explore([], pool, ExploreSettings("coverage", episodes=16, max_actions=40)))
    relayed = 0
    for exploration in found:
        for step, origin in zip(exploration.steps, sources(exploration.steps), strict=True):
            source = origin.get(("text",))
            relayed += bool(source and source.step is not None and not step.error)
    assert relayed >= 8


def signal_of(task: Task, kind: str = "boundary") -> Signal:
    id_ = content_id(kind, task.id)
    trajectory = Trajectory(f"r-{task.id}", True, 1.0, "done")
    statistic = Statistic("mixed", 0.5)
    return Signal(
        id=id_,
        kind=kind,
        task_id=task.id,
        env=task.env,
        strength=0.5,
        statistic=statistic,
        evidence=[trajectory],
        task=task,
    )


def test_guided_repeats_the_weak_pattern_on_fresh_ground():
    """Each context's episode begins with the solution's tools, has its effect, in another start
    state with other values."""
    with Pool("desk") as pool:
        tasks = random.Random(5).sample(pool.tasks("dev"), 6)
        stats = ExplorationStats()
        found = list(
            explore(
                [signal_of(task) for task in tasks],
                pool,
                ExploreSettings(episodes=16, max_actions=30),
                stats=stats,
            )
        )
    guided = [exploration for exploration in found if exploration.mode == "guided"]
    assert len(guided) == 2 * stats.contexts and len(found) == 16 and stats.contexts >= 3
    assert {e.mode for e in found} == {"guided", "coverage"}
    by_id = {task.id: task for task in tasks}
    for exploration in guided:
        task = by_id[exploration.context.task_id]
        tools = [call.tool for turn in task.solution for call in turn]
        begin = exploration.steps[: len(tools)]
        assert [step.action.tool for step in begin] == tools
        assert any(step.effects for step in begin) and not any(step.error for step in begin)
        assert exploration.start != task.start and exploration.rollouts == [f"r-{task.id}"]
    rounds = {}
    for exploration in guided:
        rounds.setdefault(exploration.context.task_id, []).append(
            (exploration.round, exploration.start)
        )
    assert all(
        [number for number, _ in pair] == [0, 1] and pair[0][1] != pair[1][1]
        for pair in rounds.values()
    )


def test_a_repetition_takes_observed_arguments_from_the_new_output(lab):
    """The lamp's id comes from the new room's find; the name is another room's, and equal in both
    calls that hold it."""
    steps = [
        Step(0, Call("lamp.find", {"name": "hall"}), '{"id": "L90"}'),
        Step(0, Call("lamp.look", {"name": "hall"}), '{"text": "hall is dusty"}'),
        Step(0, Call("lamp.light", {"id": "L90"}), '{"ok": true}'),
    ]
    with Pool(lab()) as pool:
        pattern = pattern_of(steps, ["lamp.light"], pool.tools)
        (session,) = pool.open([pool.start("elsewhere")])
        here = ExplorerEpisode(session.opened, Memory(pool.tools), random.Random(1))
        run, done = repeat(here, pattern), None
        call = next(run)
        while done is None:
            ((result,),) = pool.step([(session, 0, [call])])
            step = Step(0, call, result.observation, result.error, result.effects, result.state)
            here.record(step)
            try:
                call = run.send(step)
            except StopIteration as end:
                done = end.value
    first, second, third = (step.action.arguments for step in here.steps)
    assert done and here.steps[2].effects
    assert first["name"] == second["name"] in session.opened.values["name"]
    assert third["id"] in here.steps[0].observation and third["id"] != "L90"


def test_the_rare_bigram_is_cut_out_of_a_trajectory():
    """Steps that worked, up to the bigram and on to the next effect; nothing where the bigram does
    not occur."""
    steps = [
        Step(0, Call(tool), "{}", error)
        for tool, error in [("a", None), ("x", "denied"), ("b", None), ("c", None), ("d", None)]
    ]
    steps[3] = Step(0, Call("c"), "{}", effects=[])
    trajectory = Trajectory("r", True, 1.0, "done", steps)
    assert [step.action.tool for step in around(trajectory, ["a", "b"])] == ["a", "b"]
    assert [step.action.tool for step in around(trajectory, ["^", "a"])] == ["a"]
    assert [step.action.tool for step in around(trajectory, ["d", "$"])] == ["a", "b", "c", "d"]
    assert around(trajectory, ["b", "a"]) == []


def test_the_number_of_workers_changes_nothing(lab):
    """One worker or three: the same records."""
    runs = []
    for workers in (1, 3):
        with Pool(lab(), workers=workers) as pool:
            runs.append(
                [
                    list(explore([], pool, ExploreSettings(mode, episodes=10, max_actions=15)))
                    for mode in ("curious", "coverage", "random")
                ]
            )
    assert runs[0] == runs[1]


def test_another_seed_and_another_iteration_explore_elsewhere(lab):
    """Seed and iteration both reach the start states and the calls."""
    with Pool(lab()) as pool:
        ids = [
            {
                exploration.id
                for exploration in explore(
                    [],
                    pool,
                    ExploreSettings("curious", episodes=4, max_actions=10, seed=s, iteration=i),
                )
            }
            for s, i in ((0, 0), (1, 0), (0, 1))
        ]
    assert len(set.union(*ids)) == 12


def test_an_action_that_kills_the_worker_ends_its_episode_only(lab):
    """note.explode is fatal: the episode ends there with what it had, all others are whole."""
    with Pool(lab("deadly")) as pool:
        found = list(explore([], pool, ExploreSettings("random", episodes=6, max_actions=12)))
    assert len(found) == 6
    for exploration in found:
        exploded = [step.action.tool == "note.explode" for step in exploration.steps]
        assert not any(exploded[:-1]) and (exploded[-1] or len(exploded) == 12)
        assert exploration.steps[-1].error or not exploded[-1]
    assert any(len(exploration.steps) < 12 for exploration in found)


def test_faults_of_the_environment_are_dropped_and_counted(lab):
    """Episodes whose start state cannot be opened are missing, the others are there; all broken is
    a failure."""
    with Pool(lab("flaky")) as pool:
        stats = ExplorationStats()
        found = list(
            explore([], pool, ExploreSettings("curious", episodes=24, max_actions=5), stats=stats)
        )
    assert 0 < stats.env_faults.lost <= 4 and len(found) == 24 - stats.env_faults.lost
    with (
        Pool(lab("broken")) as pool,
        pytest.raises(
            Unreachable, match="all 8 episodes met faults of the environment, .*no such room"
        ),
    ):
        list(explore([], pool, ExploreSettings("curious", episodes=24, max_actions=5)))


def test_what_cannot_be_explored_is_said(lab):
    """An unknown mode and signals of another environment are usage errors."""
    task = Task(id="t", env="other", query=["q"], start=Start())
    with Pool(lab()) as pool:
        with pytest.raises(UsageError, match="--mode takes guided, random"):
            list(explore([], pool, ExploreSettings("clever")))
        with pytest.raises(UsageError, match="is about other"):
            list(explore([signal_of(task)], pool, ExploreSettings()))


@pytest.mark.parametrize(
    ("meant", "nearest"), [("paint_door", "door.paint"), ("find", "lamp.find")]
)
def test_an_unknown_tool_aims_at_the_nearest_real_one(lab, meant, nearest):
    """Its episodes call that tool, be it one that only looks things up; a name that is near none
    gets no context, and that is said."""
    stats = ExplorationStats()
    with Pool(lab()) as pool:
        signal = signal_of(Task(id="t", env=pool.name, query=["q"], start=Start()), "unknown_tool")
        signals = [
            replace(signal, id="near", pattern=[meant, nearest], evidence=[]),
            replace(signal, id="none", pattern=["zap"], strength=0.9),
        ]
        settings = ExploreSettings(episodes=8, max_actions=20)
        found = list(explore(signals, pool, settings, stats=stats))
    guided = [exploration for exploration in found if exploration.mode == "guided"]
    assert len(guided) == 2 and {e.context.signal for e in guided} == {"near"}
    for exploration in guided:
        assert exploration.context.aim[0] == nearest
        assert nearest in {step.action.tool for step in exploration.steps}
    assert "1 unknown tools have none near, no aim" in stats.notes()
