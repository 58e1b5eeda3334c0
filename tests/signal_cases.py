"""Made-up rollouts for the tests of signals, and the paper's three rules once more, written without
looking at the package."""

from __future__ import annotations

import random
from collections import defaultdict

from coevolve.records import Call, Rollout, Step, Task
from coevolve.records import Start as StartState

TOOLS = [f"app{i % 4}.tool{i}" for i in range(12)]


def rollout(task_id: str, success: bool, tools: list[str] | None = None, **fields) -> Rollout:
    """A rollout whose id says what it is; steps follow its tools."""
    tools = tools or []
    defaults = {"env": "toy", "iteration": 0, "step": 0, "sample": 0, "stop_reason": "done"}
    values = {**defaults, **fields}
    values.setdefault("id", f"{task_id}-{values['iteration']}-{values['step']}-{values['sample']}")
    values.setdefault("group", f"{task_id}/{values['step']}")
    steps = [Step(0, Call(tool, {"n": i}), f"seen {tool} {i}") for i, tool in enumerate(tools)]
    values.setdefault("steps", steps)
    values.setdefault("score", float(success))
    values.setdefault("messages", [{"role": "user", "content": "…"}])
    return Rollout(task_id=task_id, success=success, tools=tools, **values)


def group(
    task_id: str, successes: int, trials: int, tools: list[str] | None = None, **fields
) -> list[Rollout]:
    return [
        rollout(task_id, sample < successes, tools, sample=sample, **fields)
        for sample in range(trials)
    ]


def task(id_: str, solution: list[Call], query: str = "Do it.") -> Task:
    return Task(id=id_, env="toy", query=[query], solution=[solution], start=StartState("default"))


def random_rollouts(seed: str) -> list[Rollout]:
    """A few tasks over a few iterations and steps, groups of unequal size, some masked, in any
    order."""
    draw = random.Random(seed)
    found = []
    tools = TOOLS[: draw.randint(2, len(TOOLS))]
    for number in range(draw.randint(1, 4)):
        rate = draw.random()
        for iteration in range(draw.randint(1, 4)):
            for step in draw.sample(range(10), draw.randint(0, 3)):
                for sample in range(draw.randint(1, 8)):
                    called = [draw.choice(tools) for _ in range(draw.randint(0, 5))]
                    rate = draw.random() if draw.random() < 0.1 else rate
                    stop = "env_error" if draw.random() < 0.1 else "done"
                    where = {
                        "iteration": iteration,
                        "step": 10 * iteration + step,
                        "sample": sample,
                    }
                    found.append(
                        rollout(
                            f"t{number}", draw.random() < rate, called, stop_reason=stop, **where
                        )
                    )
    draw.shuffle(found)
    return found


def paper_reference(rollouts: list[Rollout], past=(), window=5, least=100, theta=5.0):
    """{(kind, iteration, task or pattern): value} by the paper's rules. `past`: (task, iteration,
    step, successes, trials)."""
    found, groups, holds = {}, defaultdict(list), defaultdict(lambda: defaultdict(int))
    for r in rollouts:
        if r.stop_reason == "env_error":
            continue
        groups[r.task_id, r.iteration, r.step].append(r.success)
        if r.tools:
            names = ["^"] + r.tools + ["$"]
            for pair in {(names[i], names[i + 1]) for i in range(len(names) - 1)}:
                holds[r.iteration][pair] += 1
    own = {(task_id, iteration) for task_id, iteration, _ in groups}
    scores = defaultdict(list)
    for task_id, iteration, step, successes, trials in past:
        if (task_id, iteration) not in own:
            scores[task_id].append((iteration, step, successes / trials))
    for (task_id, iteration, step), wins in groups.items():
        scores[task_id].append((iteration, step, sum(wins) / len(wins)))
        if True in wins and False in wins:
            key = ("boundary", iteration, task_id)
            found[key] = max(found.get(key, (-1, 0)), (step, sum(wins) / len(wins)))
    for task_id, points in scores.items():
        points.sort()
        for iteration in {i for i, _, _ in points if (task_id, i) in own}:
            last = max(k for k, p in enumerate(points) if p[0] == iteration)
            before = [score for _, _, score in points[max(0, last - window) : last]]
            if any(score >= 0.5 for score in before) and points[last][2] < 0.5:
                found["forgetting", iteration, task_id] = max(before) - points[last][2]
    for iteration, counts in holds.items():
        total = sum(counts.values())
        for pair, count in counts.items():
            if total >= least and count / total < theta / 100:
                found["rare", iteration, pair] = count / total
    return found
