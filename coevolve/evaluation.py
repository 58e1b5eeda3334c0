"""Success of a policy on a task set, with intervals. The unit is the task: its rollouts share one
difficulty.

- `success` is the mean over tasks of the share of successful rollouts; `env_error` rollouts are
  masked and counted.
- Its 95 % interval is Wilson's on the effective sample size p (1 - p) / v, where v is the variance
  of that mean between tasks (`statistics.mean_rate`): many rollouts of few tasks do not make it
  narrow.
- Over `kinds`, every kind of task weighs alike: the mean over kinds of their means, v from the
  variance within kinds.
- `pass_at` is the unbiased pass@k, mean over tasks, for k = 1, 2, 4, … up to the fewest rollouts of
  any task.
- Against another policy: mean difference over the tasks both have tried, with the interval of
  Student's t over those tasks.
- Where tasks belong to scenarios (tags `scenario:…`, and `difficulty:…` as the benchmark rates it),
  AppWorld's measures beside these: `tgc`, the mean over tasks, and `sgc`, the mean over scenarios
  of whether all of their tasks succeeded, sample by sample.
- `weak_kinds`: the kinds at which a base policy was weak on *other* tasks, so that choosing them
  does not bias what is measured.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import msgspec
from msgspec import Struct

from coevolve.errors import UsageError
from coevolve.records import MASKED, SUCCESS, Difficulty, Evaluation, Rollout
from coevolve.statistics import Mean, mean, mean_rate, pass_at, student_quantile, variance

GROUPINGS = ("kind", "difficulty", "split", "tag")
BANDS = ((0.2, "hard (< .2)"), (0.8, "learnable (.2–.8)"), (math.inf, "easy (> .8)"))
WEAK, OTHER, UNKNOWN = "weak", "other", "unknown"
SCENARIO, RATED = "scenario:", "difficulty:"
"""Beginnings of the tags that AppWorld's measures go by."""


class _TaskDifficulty(Struct, frozen=True):
    difficulty: Difficulty | None = None


class RolloutResult(
    Struct, frozen=True, kw_only=True, tag_field="schema", tag="coevolve.rollout/1"
):
    """The part of a rollout that evaluation reads."""

    id: str
    task_id: str
    env: str = ""
    sample: int = 0
    policy: str = ""
    kind: str = ""
    tags: list[str] = []
    split: str = ""
    success: bool | None = None
    score: float = 0.0
    stop_reason: str = ""
    task: _TaskDifficulty | None = None


def result(rollout: Rollout) -> RolloutResult:
    """The part of a rollout at hand that evaluation reads."""
    return msgspec.convert(rollout, RolloutResult, from_attributes=True)


TaskKey = tuple[str, str]  # A task's environment and its id there


class TaskResult(NamedTuple):
    """One task's rollouts by one policy."""

    key: TaskKey
    kind: str
    groups: tuple[tuple[str, str], ...]  # (grouping, group) pairs it belongs to, `overall` included
    successes: int
    trials: int
    masked: int
    scenario: str = ""
    rated: str = ""  # The benchmark's own difficulty
    outcomes: tuple[tuple[int, bool], ...] = ()  # (sample, success) of the rollouts that count

    @property
    def rate(self) -> float:
        return self.successes / self.trials


class OtherPolicy(NamedTuple):
    """The policy to compare with."""

    name: str
    rates: dict[TaskKey, float]  # Its share of successful rollouts by task


def collect(results: Iterable[RolloutResult]) -> dict[str, list[TaskResult]]:
    """Tasks by policy, both sorted."""
    firsts: dict[tuple[str, TaskKey], RolloutResult] = {}
    outcomes: dict[tuple[str, TaskKey], list[tuple[int, bool]]] = defaultdict(list)
    masked: Counter[tuple[str, TaskKey]] = Counter()
    for found in results:
        key = found.policy, _key(found)
        firsts.setdefault(key, found)
        if found.stop_reason == MASKED:
            masked[key] += 1
        else:
            outcomes[key].append((found.sample, _success(found)))
    tasks: dict[str, list[TaskResult]] = defaultdict(list)
    for key, first in sorted(firsts.items(), key=lambda item: item[0]):
        kept = tuple(outcomes[key])
        counts = sum(success for _, success in kept), len(kept), masked[key]
        tags = _tagged(first, SCENARIO), _tagged(first, RATED)
        tasks[key[0]].append(TaskResult(key[1], first.kind, _groups(first), *counts, *tags, kept))
    return dict(tasks)


def _key(result: RolloutResult) -> TaskKey:
    return result.env, result.task_id


def _success(result: RolloutResult) -> bool:
    return result.score >= SUCCESS if result.success is None else result.success


def _tagged(result: RolloutResult, prefix: str) -> str:
    return next((tag.removeprefix(prefix) for tag in result.tags if tag.startswith(prefix)), "")


def _groups(result: RolloutResult) -> tuple[tuple[str, str], ...]:
    return (
        ("overall", "all"),
        ("kind", result.kind or UNKNOWN),
        ("split", result.split or UNKNOWN),
        ("difficulty", _band(result.task.difficulty if result.task else None)),
        *(("tag", tag) for tag in result.tags if not tag.startswith(SCENARIO)),
    )


def _band(difficulty: Difficulty | None) -> str:
    if difficulty is None or not difficulty.trials:
        return UNKNOWN
    rate = difficulty.successes / difficulty.trials
    return next(name for limit, name in BANDS if rate < limit or (rate == limit == 0.8))


def weak_kinds(base: Iterable[RolloutResult], below: float) -> dict[str, str]:
    """Kind → `weak` where the base policy's mean success over its tasks is below, else `other`."""
    rates: dict[str, list[float]] = defaultdict(list)
    for tasks in collect(base).values():
        for task in tasks:
            if task.trials:
                rates[task.kind].append(task.rate)
    return {kind: WEAK if mean(values) < below else OTHER for kind, values in sorted(rates.items())}


def groupings(text: str) -> tuple[str, ...]:
    """`--by`: names of groupings, or `none`."""
    named = [name.strip() for name in text.split(",")] if text != "none" else []
    for name in named:
        if name not in GROUPINGS:
            raise UsageError(f"--by: no {name!r}; there are: {', '.join(GROUPINGS)}, none")
    return tuple(named)


def report(
    tasks: Mapping[str, Sequence[TaskResult]],
    *,
    by: Sequence[str] = GROUPINGS,
    over: str = "tasks",
    other: Sequence[RolloutResult] | None = None,
    base: Sequence[RolloutResult] | None = None,
    below: float = 0.5,
) -> Iterator[Evaluation]:
    """Every policy's evaluation, from `collect`'s tasks; `over` is `tasks` or `kinds`. `other`:
    rollouts of the one policy to compare with; `base`: those that choose the weak kinds, at which
    success is `below` a limit."""
    against = None if other is None else _other_policy(other)
    strengths = None
    if base is not None:
        measured = {task.key for found in tasks.values() for task in found}
        # Kinds chosen on the tasks that are measured would bias the measure.
        if shared := measured & set(map(_key, base)):
            raise UsageError(
                f"--weak-by: {len(shared)} of its tasks are measured too (e.g. {min(shared)[1]}); "
                "choose kinds on other tasks"
            )
        strengths = weak_kinds(base, below)
    for policy, found in tasks.items():
        yield from evaluate(policy, found, by, over, strengths, against)


def _other_policy(results: Sequence[RolloutResult]) -> OtherPolicy:
    policies = collect(results)
    if len(policies) != 1:
        raise UsageError(f"--against needs the rollouts of one policy, not of {len(policies)}")
    ((name, tasks),) = policies.items()
    return OtherPolicy(name, {task.key: task.rate for task in tasks if task.trials})


def evaluate(
    policy: str,
    tasks: Sequence[TaskResult],
    by: Sequence[str] = GROUPINGS,
    over: str = "tasks",
    strengths: Mapping[str, str] | None = None,
    against: OtherPolicy | None = None,
) -> Iterator[Evaluation]:
    """Overall first, then every group of each grouping, sorted; `strengths` from `weak_kinds`."""
    members: dict[tuple[str, str], list[TaskResult]] = defaultdict(list)
    for task in tasks:
        for pair in task.groups:
            members[pair].append(task)
        if strengths is not None:
            members["base", strengths.get(task.kind, UNKNOWN)].append(task)
    for grouping in ("overall", *(["base"] if strengths is not None else []), *by):
        named = sorted(group for g, group in members if g == grouping)
        if grouping in ("overall", "base") or named != [UNKNOWN]:
            for group in named:
                yield _one(policy, grouping, group, members[grouping, group], over, against)
        if grouping == "overall":
            yield from _goal_completion(policy, [task for task in tasks if task.scenario])


def _goal_completion(policy: str, tasks: Sequence[TaskResult]) -> Iterator[Evaluation]:
    """AppWorld's task and scenario goal completion, of all tasks and by its own difficulty."""
    by_level = {f"difficulty {level}": level for level in sorted({t.rated for t in tasks} - {""})}
    for group in ("all", *by_level) if tasks else ():
        members = [t for t in tasks if group == "all" or t.rated == by_level[group]]
        names = sorted({task.scenario for task in members})
        yield _one(policy, "tgc", group, members)
        yield _one(policy, "sgc", group, [_scenario(name, members) for name in names])


def _scenario(name: str, tasks: Sequence[TaskResult]) -> TaskResult:
    """A scenario as if it were a task: a sample counts where all of its tasks have an outcome, and
    succeeds where all do."""
    parts = [task for task in tasks if task.scenario == name]
    samples: dict[int, list[bool]] = defaultdict(list)
    for sample, success in (outcome for task in parts for outcome in task.outcomes):
        samples[sample].append(success)
    whole = [results for results in samples.values() if len(results) == len(parts)]
    masked = sum(task.masked for task in parts)
    return TaskResult(("", name), "", (), sum(map(all, whole)), len(whole), masked)


def _one(
    policy: str,
    grouping: str,
    group: str,
    tasks: list[TaskResult],
    over: str = "tasks",
    against: OtherPolicy | None = None,
) -> Evaluation:
    tried = [task for task in tasks if task.trials]
    rollouts = sum(task.trials for task in tried)
    success = Mean(0.0, 0.0, 1.0)
    if tried:
        rate, spread = _mean(tried, [task.rate for task in tried], over)
        success = mean_rate(rate, spread, len(tried), rollouts)
    difference = _difference(tried, over, against) if against else None
    return Evaluation(
        policy=policy,
        by=grouping,
        group=group,
        tasks=len(tried),
        rollouts=rollouts,
        masked=sum(task.masked for task in tasks),
        success=success.mean,
        low=success.low,
        high=success.high,
        pass_at=_pass_at(tried, over),
        against=against and against.name,
        difference=difference and difference.mean,
        difference_low=difference and difference.low,
        difference_high=difference and difference.high,
    )


def _mean(tasks: Sequence[TaskResult], values: Sequence[float], over: str) -> tuple[float, float]:
    """Mean of one value per task, and the variance of that mean.

    Over kinds, a kind with one task takes the pooled variance within kinds (or, if all have one,
    that between them).
    """
    if over == "tasks":
        return mean(values), variance(values) / len(values)
    strata: dict[str, list[float]] = defaultdict(list)
    for task, value in zip(tasks, values, strict=True):
        strata[task.kind].append(value)
    centres = [mean(stratum) for stratum in strata.values()]
    freedom = len(values) - len(strata)
    if not freedom:
        return mean(centres), variance(centres) / len(centres)
    pooled = math.fsum(variance(s) * (len(s) - 1) for s in strata.values()) / freedom
    spreads = [(variance(s) if len(s) > 1 else pooled) / len(s) for s in strata.values()]
    return mean(centres), math.fsum(spreads) / len(strata) ** 2


def _pass_at(tasks: Sequence[TaskResult], over: str) -> dict[str, float]:
    fewest = min((task.trials for task in tasks), default=0)
    found = {}
    for k in (1 << n for n in range(fewest.bit_length())):
        rates = [pass_at(k, task.successes, task.trials) for task in tasks]
        found[str(k)] = _mean(tasks, rates, over)[0]
    return found


def _difference(tasks: Sequence[TaskResult], over: str, other: OtherPolicy) -> Mean | None:
    """Paired over the tasks that both policies tried; None for fewer than two."""
    shared = [task for task in tasks if task.key in other.rates]
    if len(shared) < 2:
        return None
    differences = [task.rate - other.rates[task.key] for task in shared]
    centre, spread = _mean(shared, differences, over)
    half = student_quantile(0.975, len(shared) - 1) * math.sqrt(spread)
    return Mean(centre, centre - half, centre + half)


def table(evaluations: Iterable[Evaluation]) -> Iterator[str]:
    """Lines of text for people."""
    rows = list(evaluations)
    width = max([5, *(len(f"{e.by} {e.group}") for e in rows)])
    sizes = list(max((e.pass_at for e in rows), key=len, default={}))[1:]
    titles = f"{'group':<{width}} {'tasks':>6} {'rollouts':>8} {'success':>7}  95 % interval"
    yield titles + "".join(f" {f'pass@{k}':>8}" for k in sizes)
    for e in rows:
        counts = f"{f'{e.by} {e.group}':<{width}} {e.tasks:>6} {e.rollouts:>8} {e.success:>7.3f}"
        rates = [f"{e.pass_at[k]:.3f}" if k in e.pass_at else "-" for k in sizes]
        line = f"{counts}  [{e.low:.3f}, {e.high:.3f}]" + "".join(f" {r:>8}" for r in rates)
        if difference := in_points(e):
            line += f"  {difference}"
        yield line + (f"  ({e.masked} masked)" if e.masked else "")


def in_points(e: Evaluation) -> str:
    """The difference to the other policy in points, with its interval; "" without one."""
    if e.difference is None or e.difference_low is None or e.difference_high is None:
        return ""
    points = [
        f"{100 * value:+.1f}" for value in (e.difference, e.difference_low, e.difference_high)
    ]
    return "{} [{}, {}] points".format(*points)
