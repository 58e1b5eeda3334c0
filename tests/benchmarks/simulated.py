"""Simulated policies whose weaknesses are known, because they were planted.

A world of 8 apps with 6 tools each and 120 tasks; a policy that solves easy tasks nearly always and
hopeless ones nearly never, and makes a few errors with any tool. On top of that each kind of
weakness can be planted; `Planted.truth` says where.
"""

from __future__ import annotations

import random
from typing import NamedTuple

from msgspec.structs import replace

from coevolve.records import Call, Effect, Rollout, Start, Step, Task
from coevolve.signals.history import GroupOutcome, TaskKey
from coevolve.signals.inventory import Inventory

APPS, PER_APP, TASKS, GROUP, WINDOW = 8, 6, 120, 8, 5
TOOLS = [f"app{a}.tool{t}" for a in range(APPS) for t in range(PER_APP)]
KINDS = tuple(
    "forgetting boundary rare unexplored error unknown_tool combination stall safety".split()
)
SLIPS = 0.01  # Share of any policy's rollouts that call a stray name once
INVENTORY = Inventory("toy", {tool: tool.split(".")[0] for tool in TOOLS})


class Planted(NamedTuple):
    rollouts: list[Rollout]
    history: list[tuple[TaskKey, GroupOutcome]]
    truth: dict[str, set]
    """Kind → tasks, patterns or (task, pattern) in which the weakness is."""


class Plan(NamedTuple):
    """One task: what the policy does on it."""

    task: Task
    tools: list[str]
    before: float
    now: float
    stalls: float = 0.0
    destroys: float = 0.0


def plant(kinds: tuple[str, ...], seed: int) -> Planted:
    """A policy with these weaknesses: rollouts of iteration 1 and the outcomes of five groups a
    task before it."""
    draw = random.Random(f"planted-{seed}")
    unexplored, rare, common = _inventory(draw, kinds)
    errors = (
        {(tool, "bad_argument") for tool in draw.sample(common, 4)} if "error" in kinds else set()
    )
    pairs = _pairs(draw, common) if "combination" in kinds else []
    plans = [_plan(draw, number, common, pairs, kinds) for number in range(TASKS)]
    rollouts = [
        _rollout(draw, plan, sample, errors, rare, common)
        for plan in plans
        for sample in range(GROUP)
    ]
    slips = random.Random(f"slips-{seed}")  # Of its own: the other draws stay as they are
    invented = {}
    if "unknown_tool" in kinds:
        invented = {f"{tool}_now": tool for tool in slips.sample(common, 4)}
    rollouts = [_slip(slips, rollout, invented) for rollout in rollouts]
    history = [
        (("toy", plan.task.id), _entry(draw, plan, step))
        for plan in plans
        for step in range(WINDOW)
    ]
    truth = {
        "forgetting": {plan.task.id for plan in plans if plan.before - plan.now > 0.3},
        "boundary": {plan.task.id for plan in plans if 0.3 <= plan.now <= 0.7},
        "rare": {(tool,) for tool in rare},
        "unexplored": {(tool,) for tool in unexplored},
        "error": errors,
        "unknown_tool": set(invented.items()),
        "combination": {tuple(sorted(pair)) for pair in pairs},
        "stall": {plan.task.id for plan in plans if plan.stalls},
        "safety": {plan.task.id for plan in plans if plan.destroys},
    }
    return Planted(rollouts, history, {kind: truth[kind] for kind in kinds})


def _inventory(
    draw: random.Random, kinds: tuple[str, ...]
) -> tuple[list[str], list[str], list[str]]:
    """Tools that are never called, seldom called, and the others."""
    tools = draw.sample(TOOLS, len(TOOLS))
    never = tools[:6] if "unexplored" in kinds else []
    seldom = tools[6:12] if "rare" in kinds else []
    return never, seldom, [tool for tool in tools if tool not in never and tool not in seldom]


def _pairs(draw: random.Random, common: list[str]) -> list[tuple[str, str]]:
    tools = draw.sample(common, 6)
    return [(tools[0], tools[1]), (tools[2], tools[3]), (tools[4], tools[5])]


def _plan(
    draw: random.Random, number: int, common: list[str], pairs: list, kinds: tuple[str, ...]
) -> Plan:
    """Tasks 0–7 are forgotten, 8–19 at the boundary, 20–25 stall, 26–31 destroy, 32–55 combine; the
    rest is easy or hopeless."""
    tools = draw.sample(common, draw.randint(3, 6))
    before = now = 0.96 if draw.random() < 0.8 else 0.03
    stalls = destroys = 0.0
    if number < 8 and "forgetting" in kinds:
        before, now = 0.95, 0.1
    elif 8 <= number < 20 and "boundary" in kinds:
        before = now = draw.uniform(0.3, 0.7)
    elif 20 <= number < 26 and "stall" in kinds:
        stalls = 0.5
    elif 26 <= number < 32 and "safety" in kinds:
        destroys = 0.4
    elif 32 <= number < 56 and pairs:
        first, second = draw.choice(pairs)
        tools, before, now = [*draw.sample(tools, 2), first, second], 0.08, 0.08
    if pairs and number >= 56 and draw.random() < 0.4:
        tools = [*tools, draw.choice(draw.choice(pairs))]
        before = now = 0.96
    tools = _without_planted_pairs(tools, pairs) if not 32 <= number < 56 else tools
    id_ = f"t{number:03d}"
    task = Task(
        id=id_,
        env="toy",
        query=["Do it."],
        solution=[[Call(tool) for tool in tools]],
        start=Start("default"),
    )
    return Plan(task, tools, before, now, stalls, destroys)


def _without_planted_pairs(tools: list[str], pairs: list[tuple[str, str]]) -> list[str]:
    for first, second in pairs:
        if first in tools and second in tools:
            tools = [tool for tool in tools if tool != second]
    return tools


def _entry(draw: random.Random, plan: Plan, step: int) -> GroupOutcome:
    wins = sum(draw.random() < plan.before for _ in range(GROUP))
    return GroupOutcome(0, step, wins, GROUP, draw.getrandbits(60))


def _rollout(
    draw: random.Random, plan: Plan, sample: int, errors: set, rare: list[str], common: list[str]
) -> Rollout:
    tools = list(plan.tools)
    if rare and draw.random() < 0.015:
        tools.insert(draw.randrange(len(tools)), draw.choice(rare))
    steps = [_step(draw, tool, place, errors) for place, tool in enumerate(tools)]
    if draw.random() < plan.stalls:
        steps += [Step(0, Call(tools[0], {"again": True}), "nothing new")] * 4
        tools += [tools[0]] * 4
    if draw.random() < plan.destroys:
        tools[-1] = next(tool for tool in common if tool not in plan.tools)
        steps[-1] = Step(0, Call(tools[-1]), "ok", effects=[Effect("file", "k", "name", "remove")])
    success = draw.random() < plan.now
    return Rollout(
        id=f"{plan.task.id}-{sample}",
        task_id=plan.task.id,
        env="toy",
        group=plan.task.id,
        sample=sample,
        iteration=1,
        step=WINDOW,
        success=success,
        score=float(success),
        stop_reason="done",
        tools=tools,
        steps=steps,
        task=plan.task,
    )


def _slip(draw: random.Random, rollout: Rollout, invented: dict[str, str]) -> Rollout:
    """The rollout with calls of names that do not exist at its beginning: a planted one in a third
    of the rollouts that call the real tool, a stray one seldom."""
    names = [name for name, tool in invented.items() if tool in rollout.tools]
    called = [name for name in names if draw.random() < 1 / 3]
    if draw.random() < SLIPS:
        called.append(f"{draw.choice(TOOLS)}_{draw.choice('abc')}")
    steps = [Step(0, Call(name), "no such tool", "unknown_tool") for name in called]
    return replace(rollout, tools=called + rollout.tools, steps=steps + rollout.steps)


def _step(draw: random.Random, tool: str, place: int, errors: set) -> Step:
    rate = 0.45 if (tool, "bad_argument") in errors else 0.01
    error = (
        "bad_argument"
        if draw.random() < rate
        else "unknown_entity"
        if draw.random() < 0.01
        else None
    )
    return Step(0, Call(tool, {"n": place}), "failed" if error else f"row {draw.random()}", error)
