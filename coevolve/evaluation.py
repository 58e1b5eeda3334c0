"""Success of a policy on a task set, with intervals. The unit is the task: its rollouts share one difficulty.

- `success` is the mean over tasks of the share of successful rollouts; `env_error` rollouts are masked and counted.
- Its 95 % interval is Wilson's on the effective sample size p (1 - p) / v, where v is the variance of that mean between tasks
  (`statistics.mean_rate`): many rollouts of few tasks do not make it narrow.
- `mean="kinds"` weights every kind of task alike: the mean over kinds of their means, v from the variance within kinds.
- `pass_at` is the unbiased pass@k, mean over tasks, for k = 1, 2, 4, … up to the fewest rollouts of any task.
- Against another policy: mean difference over the tasks both have tried, with the interval of Student's t over those tasks.
- Where tasks belong to scenarios (tags `scenario:…`, and `difficulty:…` as the benchmark rates it), AppWorld's measures beside these:
  `tgc`, the mean over tasks, and `sgc`, the mean over scenarios of whether all of their tasks succeeded, sample by sample.
- `weak_kinds`: the kinds at which a base policy was weak on *other* tasks, so that choosing them does not bias what is measured.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from msgspec import Struct

from coevolve.errors import UsageError
from coevolve.records import Difficulty, Evaluation, Rollout
from coevolve.statistics import Mean, mean, mean_rate, pass_at, student_quantile, variance

MASKED = "env_error"
GROUPINGS = ("kind", "difficulty", "split", "tag")
BANDS = ((0.2, "hard (< .2)"), (0.8, "learnable (.2–.8)"), (math.inf, "easy (> .8)"))
WEAK, OTHER, UNKNOWN = "weak", "other", "unknown"
SCENARIO, RATED = "scenario:", "difficulty:"
"""Beginnings of the tags that AppWorld's measures go by."""


class _Task(Struct, frozen=True):
    difficulty: Difficulty | None = None


class Result(Struct, frozen=True, kw_only=True, tag_field="schema", tag="coevolve.rollout/1"):
    """What evaluation reads of a rollout."""

    id: str
    task_id: str
    sample: int = 0
    policy: str = ""
    kind: str = ""
    tags: list[str] = []
    split: str = ""
    success: bool | None = None
    score: float = 0.0
    stop_reason: str = ""
    task: _Task | None = None


def result(rollout: Rollout) -> Result:
    """What evaluation reads of a rollout at hand."""
    return Result(
        id=rollout.id,
        task_id=rollout.task_id,
        sample=rollout.sample,
        policy=rollout.policy,
        kind=rollout.kind,
        tags=rollout.tags,
        split=rollout.split,
        success=rollout.success,
        score=rollout.score,
        stop_reason=rollout.stop_reason,
        task=_Task(rollout.task.difficulty) if rollout.task else None,
    )


class Tried(NamedTuple):
    """One task's rollouts by one policy."""

    task_id: str
    kind: str
    groups: tuple[tuple[str, str], ...]
    """(grouping, group) pairs it belongs to, `overall` included."""
    successes: int
    trials: int
    masked: int
    scenario: str = ""
    rated: str = ""
    """The benchmark's own difficulty."""
    outcomes: tuple[tuple[int, bool], ...] = ()
    """(sample, success) of the rollouts that count, where the task belongs to a scenario."""

    @property
    def rate(self) -> float:
        return self.successes / self.trials


def collect(results: Iterable[Result]) -> dict[str, list[Tried]]:
    """Tasks by policy, both sorted."""
    counts: dict[tuple[str, str], list[int]] = defaultdict(lambda: [0, 0, 0])
    outcomes: dict[tuple[str, str], list[tuple[int, bool]]] = defaultdict(list)
    about: dict[tuple[str, str], Result] = {}
    for result in results:
        key = result.policy, result.task_id
        count = counts[key]
        if result.stop_reason == MASKED:
            count[2] += 1
        else:
            success = result.success if result.success is not None else result.score >= 0.5
            count[0] += success
            count[1] += 1
            outcomes[key].append((result.sample, success))
        about.setdefault(key, result)
    found: dict[str, list[Tried]] = defaultdict(list)
    for key in sorted(counts):
        first = about[key]
        scenario, rated = (_tagged(first, prefix) for prefix in (SCENARIO, RATED))
        found[key[0]].append(
            Tried(
                key[1],
                first.kind,
                _groups(first),
                *counts[key],
                scenario=scenario,
                rated=rated,
                outcomes=tuple(outcomes[key]) if scenario else (),
            )
        )
    return dict(found)


def _tagged(result: Result, prefix: str) -> str:
    return next((tag.removeprefix(prefix) for tag in result.tags if tag.startswith(prefix)), "")


def _groups(result: Result) -> tuple[tuple[str, str], ...]:
    pairs = [
        ("overall", "all"),
        ("kind", result.kind or UNKNOWN),
        ("split", result.split or UNKNOWN),
    ]
    difficulty = result.task.difficulty if result.task else None
    pairs.append(("difficulty", _band(difficulty)))
    return (*pairs, *(("tag", tag) for tag in result.tags if not tag.startswith(SCENARIO)))


def _band(difficulty: Difficulty | None) -> str:
    if difficulty is None or not difficulty.trials:
        return UNKNOWN
    rate = difficulty.successes / difficulty.trials
    return next(name for limit, name in BANDS if rate < limit or (rate == limit == 0.8))


def weak_kinds(base: Iterable[Result], below: float) -> dict[str, str]:
    """Kind → `weak` where the base policy's mean success over the kind's tasks is below the limit, else `other`."""
    rates: dict[str, list[float]] = defaultdict(list)
    for tasks in collect(base).values():
        for tried in tasks:
            if tried.trials:
                rates[tried.kind].append(tried.rate)
    return {kind: WEAK if mean(values) < below else OTHER for kind, values in sorted(rates.items())}


def disjoint(measured: Iterable[Tried], selecting: Iterable[Result]) -> None:
    """Raises UsageError where kinds would be chosen on tasks that are also measured."""
    shared = {tried.task_id for tried in measured} & {result.task_id for result in selecting}
    if shared:
        raise UsageError(
            f"--weak-by: {len(shared)} of its tasks are measured too (e.g. {min(shared)}); choose kinds on other tasks"
        )


def groupings(text: str) -> tuple[str, ...]:
    """`--by`: names of groupings, or `none`."""
    named = [name.strip() for name in text.split(",")] if text != "none" else []
    for name in named:
        if name not in GROUPINGS:
            raise UsageError(f"--by: no {name!r}; there are: {', '.join(GROUPINGS)}, none")
    return tuple(named)


def report(
    tried: Mapping[str, Sequence[Tried]],
    *,
    by: Sequence[str] = GROUPINGS,
    over: str = "tasks",
    other: Sequence[Result] | None = None,
    base: Sequence[Result] | None = None,
    below: float = 0.5,
) -> Iterator[Evaluation]:
    """Every policy's evaluation. `other`: rollouts of the one policy to compare with; `base`: those that choose weak kinds."""
    against = None
    if other is not None:
        policies = collect(other)
        if len(policies) != 1:
            raise UsageError(f"--against needs the rollouts of one policy, not of {len(policies)}")
        against = next(iter(policies.items()))
    strengths = None
    if base is not None:
        disjoint((task for tasks in tried.values() for task in tasks), base)
        strengths = weak_kinds(base, below)
    for policy, tasks in tried.items():
        yield from evaluate(policy, tasks, by=by, over=over, strengths=strengths, against=against)


def evaluate(
    policy: str,
    tasks: Sequence[Tried],
    *,
    by: Sequence[str] = GROUPINGS,
    over: str = "tasks",
    strengths: Mapping[str, str] | None = None,
    against: tuple[str, Sequence[Tried]] | None = None,
) -> Iterator[Evaluation]:
    """Overall first, then every group of each grouping, sorted. `over` is `tasks` or `kinds`; `strengths` from `weak_kinds`."""
    members: dict[tuple[str, str], list[Tried]] = defaultdict(list)
    for tried in tasks:
        for pair in tried.groups:
            members[pair].append(tried)
        if strengths is not None:
            members["base", strengths.get(tried.kind, UNKNOWN)].append(tried)
    for grouping in ("overall", *(["base"] if strengths is not None else []), *by):
        named = sorted(group for g, group in members if g == grouping)
        if grouping in ("overall", "base") or named != [UNKNOWN]:
            for group in named:
                yield _one(policy, grouping, group, members[grouping, group], over, against)
        if grouping == "overall":
            yield from _goal_completion(policy, [task for task in tasks if task.scenario])


def _goal_completion(policy: str, tasks: Sequence[Tried]) -> Iterator[Evaluation]:
    """AppWorld's task and scenario goal completion, of all tasks and by its own difficulty."""
    rated = sorted({task.rated for task in tasks if task.rated})
    chosen = [
        ("all", list(tasks)),
        *((f"difficulty {level}", [t for t in tasks if t.rated == level]) for level in rated),
    ]
    for group, members in chosen if tasks else ():
        yield _one(policy, "tgc", group, members, "tasks", None)
        yield _one(
            policy,
            "sgc",
            group,
            [_scenario(name, members) for name in _scenarios(members)],
            "tasks",
            None,
        )


def _scenarios(tasks: Sequence[Tried]) -> list[str]:
    return sorted({task.scenario for task in tasks})


def _scenario(name: str, tasks: Sequence[Tried]) -> Tried:
    """A scenario as if it were a task: a sample counts where all of its tasks have an outcome, and succeeds where all do."""
    parts = [task for task in tasks if task.scenario == name]
    samples: dict[int, list[bool]] = defaultdict(list)
    for sample, success in (outcome for task in parts for outcome in task.outcomes):
        samples[sample].append(success)
    whole = [results for results in samples.values() if len(results) == len(parts)]
    return Tried(
        name,
        "",
        (),
        sum(all(results) for results in whole),
        len(whole),
        sum(task.masked for task in parts),
    )


def _one(
    policy: str,
    grouping: str,
    group: str,
    tasks: list[Tried],
    over: str,
    against: tuple[str, Sequence[Tried]] | None,
) -> Evaluation:
    tried = [task for task in tasks if task.trials]
    rollouts = sum(task.trials for task in tried)
    masked = sum(task.masked for task in tasks)
    if tried:
        rate, spread = _mean(tried, [task.rate for task in tried], over)
        success = mean_rate(rate, spread, len(tried), rollouts)
    else:
        success = Mean(0.0, 0.0, 1.0)
    name, difference = _difference(tried, over, against)
    return Evaluation(
        policy=policy,
        by=grouping,
        group=group,
        tasks=len(tried),
        rollouts=rollouts,
        masked=masked,
        success=success.mean,
        low=success.low,
        high=success.high,
        pass_at=_pass_at(tried, over),
        against=name,
        difference=difference and difference.mean,
        difference_low=difference and difference.low,
        difference_high=difference and difference.high,
    )


def _mean(tasks: Sequence[Tried], values: Sequence[float], over: str) -> tuple[float, float]:
    """Mean of one value per task, and the variance of that mean.

    Over kinds, a kind with one task takes the pooled variance within kinds (or, if all have one, that between them).
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


def _pass_at(tasks: Sequence[Tried], over: str) -> dict[str, float]:
    fewest = min((task.trials for task in tasks), default=0)
    sizes = [1 << n for n in range(fewest.bit_length())]
    return {
        str(k): _mean(tasks, [pass_at(k, task.successes, task.trials) for task in tasks], over)[0]
        for k in sizes
    }


def _difference(
    tasks: Sequence[Tried], over: str, against: tuple[str, Sequence[Tried]] | None
) -> tuple[str | None, Mean | None]:
    if against is None:
        return None, None
    other = {task.task_id: task.rate for task in against[1] if task.trials}
    shared = [task for task in tasks if task.task_id in other]
    if len(shared) < 2:
        return against[0], None
    centre, spread = _mean(shared, [task.rate - other[task.task_id] for task in shared], over)
    half = student_quantile(0.975, len(shared) - 1) * math.sqrt(spread)
    return against[0], Mean(centre, centre - half, centre + half)


def table(evaluations: Iterable[Evaluation]) -> Iterator[str]:
    """Lines of text for people."""
    rows = list(evaluations)
    width = max([5, *(len(f"{e.by} {e.group}") for e in rows)])
    largest = max((e.pass_at for e in rows), key=len, default={})
    yield (
        f"{'group':<{width}} {'tasks':>6} {'rollouts':>8} {'success':>7}  95 % interval"
        + "".join(f" {f'pass@{k}':>8}" for k in list(largest)[1:])
    )
    for e in rows:
        line = f"{f'{e.by} {e.group}':<{width}} {e.tasks:>6} {e.rollouts:>8} {e.success:>7.3f}  [{e.low:.3f}, {e.high:.3f}]"
        line += "".join(
            f" {e.pass_at[k]:>8.3f}" if k in e.pass_at else f" {'-':>8}" for k in list(largest)[1:]
        )
        if e.difference is not None:
            line += f"  {100 * e.difference:+.1f} [{100 * e.difference_low:+.1f}, {100 * e.difference_high:+.1f}] points"
        yield line + (f"  ({e.masked} masked)" if e.masked else "")
