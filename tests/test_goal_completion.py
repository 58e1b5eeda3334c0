"""AppWorld's measures, task and scenario goal completion: by hand, against the obvious computation,
and against AppWorld's own."""

from __future__ import annotations

import json
import random
import shutil
import subprocess
from pathlib import Path

import pytest
from signal_cases import rollout

from coevolve import evaluation
from coevolve.environments import appworld_root, install

SCRIPT = Path(__file__).parent / "environments" / "appworld_official.py"


def of(outcomes: dict[tuple[str, int], bool | None], rated: dict[str, int], sample: int = 0):
    """Rollouts of tasks (scenario, number) → success, None being masked."""
    return [
        rollout(
            f"{scenario}_{number}",
            bool(success),
            sample=sample,
            tags=[f"scenario:{scenario}", f"difficulty:{rated[scenario]}"],
            stop_reason="env_error" if success is None else "done",
        )
        for (scenario, number), success in outcomes.items()
    ]


def measured(rollouts) -> dict[tuple[str, str], tuple[float, int]]:
    """(by, group) → success and how many units it is over."""
    tried = evaluation.collect(map(evaluation.result, rollouts))
    records = evaluation.report(tried, by=())
    return {(r.by, r.group): (r.success, r.tasks) for r in records if r.by in ("tgc", "sgc")}


def test_a_scenario_counts_only_when_all_of_its_tasks_do():
    """Two scenarios of three tasks: five of six tasks, one of two scenarios; by difficulty too."""
    outcomes = {
        ("a", 1): True,
        ("a", 2): True,
        ("a", 3): True,
        ("b", 1): True,
        ("b", 2): False,
        ("b", 3): True,
    }
    found = measured(of(outcomes, {"a": 1, "b": 3}))
    assert found == {
        ("tgc", "all"): (pytest.approx(5 / 6), 6),
        ("sgc", "all"): (0.5, 2),
        ("tgc", "difficulty 1"): (1.0, 3),
        ("sgc", "difficulty 1"): (1.0, 1),
        ("tgc", "difficulty 3"): (pytest.approx(2 / 3), 3),
        ("sgc", "difficulty 3"): (0.0, 1),
    }


def test_several_samples_are_judged_one_by_one():
    """Each sample of a scenario stands for itself: all tasks done in different samples is no
    scenario done."""
    first = of({("a", 1): True, ("a", 2): False}, {"a": 1}, sample=0)
    second = of({("a", 1): False, ("a", 2): True}, {"a": 1}, sample=1)
    third = of({("a", 1): True, ("a", 2): True}, {"a": 1}, sample=2)
    assert measured(first + second)["sgc", "all"] == (0.0, 1)
    assert measured(first + second + third)["sgc", "all"] == (pytest.approx(1 / 3), 1)
    assert measured(first + second + third)["tgc", "all"] == (pytest.approx(2 / 3), 2)


def test_a_masked_rollout_takes_its_sample_of_the_scenario_out():
    """What the infrastructure failed is neither success nor failure."""
    found = measured(of({("a", 1): True, ("a", 2): None, ("b", 1): True}, {"a": 1, "b": 1}))
    assert found["tgc", "all"] == (1.0, 2) and found["sgc", "all"] == (1.0, 1)


def test_tasks_without_scenarios_have_no_such_measure():
    """Nothing is printed for other environments, and scenarios are no group of their own."""
    assert measured([rollout("a", True), rollout("b", False)]) == {}
    tried = evaluation.collect(map(evaluation.result, of({("a", 1): True}, {"a": 2})))
    groups = [(r.by, r.group) for r in evaluation.report(tried)]
    assert ("tag", "difficulty:2") in groups and not any("scenario" in group for _, group in groups)


def test_it_equals_the_obvious_computation_on_random_outcomes():
    """Mean over tasks, mean over scenarios of the minimum."""
    rng = random.Random("goal completion")
    for _ in range(50):
        rated = {f"s{n}": rng.randint(1, 3) for n in range(rng.randint(1, 8))}
        outcomes = {
            (name, n): rng.random() < 0.7 for name in rated for n in range(rng.randint(1, 4))
        }
        found = measured(of(outcomes, rated))
        for group, chosen in [
            ("all", rated),
            *((f"difficulty {d}", {s for s in rated if rated[s] == d}) for d in (1, 2, 3)),
        ]:
            scores = {s: [ok for (name, _), ok in outcomes.items() if name == s] for s in chosen}
            if scores:
                tasks = [ok for own in scores.values() for ok in own]
                assert found["tgc", group] == (pytest.approx(sum(tasks) / len(tasks)), len(tasks))
                assert found["sgc", group][0] == pytest.approx(
                    sum(map(min, scores.values())) / len(scores)
                )


@pytest.mark.appworld
def test_it_equals_appworlds_own_figures_on_the_same_outcomes(tmp_path):
    """Reference solutions on some demo tasks, nothing on the others, judged and summed up by
    AppWorld itself: the same TGC and SGC overall and by difficulty; and its judgement is that
    references succeed and doing nothing fails, on every task."""
    root = tmp_path / "root"
    shutil.copytree(appworld_root.folder() / appworld_root.DEMO, root)
    command = [install.python("appworld"), "-W", "ignore", SCRIPT, root]
    environment = {**install.caches("appworld"), "PATH": "/usr/bin:/bin", "HOME": str(tmp_path)}
    done = subprocess.run(command, capture_output=True, env=environment, check=False)
    assert done.returncode == 0, done.stderr.decode()[-2000:]
    official = json.loads(done.stdout.decode().splitlines()[-1])
    assert (
        len(official["tasks"]) >= 12 and len({task["scenario"] for task in official["tasks"]}) >= 4
    )
    assert all(task["nothing"] is False and task["reference"] is True for task in official["tasks"])
    for split, report in official["splits"].items():
        own = [task for task in official["tasks"] if task["split"] == split]
        found = measured(
            of(
                {(task["scenario"], task["number"]): task["success"] for task in own},
                {task["scenario"]: task["difficulty"] for task in own},
            )
        )
        assert report["difficulty"], split
        for group, figures in (("all", report["all"]), *report["difficulty"].items()):
            ours = [
                round(100 * round(found[measure, group][0], 4), 1) for measure in ("tgc", "sgc")
            ]
            assert ours == figures, (split, group)
