"""`coevolve evaluate --official`: the benchmark's own evaluation of rollouts, as evaluation records
beside the usual ones."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

import msgspec

from coevolve import evaluation
from coevolve.bfcl import files, official, reading
from coevolve.environments import install
from coevolve.environments.client import Pool
from coevolve.errors import UsageError
from coevolve.jsonl import warn
from coevolve.records import MASKED, Evaluation, Rollout, Task
from coevolve_cli.streams import Stage

ENVIRONMENTS = ("bfcl", "bfcl-strict")


class Scored(NamedTuple):
    records: list[Evaluation]
    """One per policy and official category, `by` official."""
    missing: str
    """Which entries no rollout can be judged of, in words; empty if there are none."""


def check() -> None:
    """Raises MissingDependency before anything is played for nothing."""
    for name in ("bfcl", official.NAME):
        install.python(name)


def fit(rollouts: Iterable[Rollout], refuse: Callable[[Rollout, str], None]) -> list[Rollout]:
    """The rollouts that can have an official verdict at all; `refuse` is told the others.

    Raises UsageError for another environment's, and for those of another version than the installed one or of none, whatever
    --any-version says: the official code is of one version.
    """
    kept: list[Rollout] = []
    with Pool("bfcl") as pool:
        known = reading.official(pool)
        for rollout in rollouts:
            if rollout.env not in ENVIRONMENTS:
                raise UsageError(
                    f"--official is BFCL's evaluation, and there are rollouts of {rollout.env!r}"
                )
            if rollout.task and rollout.task.env_version != pool.description.version:
                version = (
                    f"version {rollout.task.env_version}"
                    if rollout.task.env_version
                    else "tasks without a version"
                )
                raise UsageError(
                    f"--official judges by version {pool.description.version}, and there are rollouts of {version}"
                )
            if reason := _unfit(rollout, known):
                refuse(rollout, reason)
            else:
                kept.append(rollout)
    if not kept:
        warn("--official: there is no rollout to judge, and so no official score")
    return kept


def _unfit(rollout: Rollout, known: Mapping[str | None, Task]) -> str:
    """Why there is nothing that the official code could judge; empty if there is."""
    task = rollout.task
    if task is None:
        return "the rollout does not carry its task"
    if rollout.steps and not rollout.messages and rollout.stop_reason != MASKED:
        return "the rollout has no messages"
    try:
        name = files.BfclIds().of(task)
    except UsageError as error:
        return str(error)
    if name.startswith(files.OWN):
        return ""
    if name not in known:
        return f"no official entry is called {name}"
    return (
        ""
        if task.query == known[name].query
        else f"the official entry {name} asks for something else than the task"
    )


def score(rollouts: list[Rollout], s: Stage) -> Scored:
    """The official verdicts, which cover every entry that a policy has played.

    A rollout that the official code would misread is a failure; one that the infrastructure lost is
    masked, and an entry of which a policy has lost all rollouts keeps its category from having a
    score. --rejects gets both, and each verdict that is not the environment's own.
    """
    with Pool("bfcl") as pool:
        judged = official.judge(rollouts, pool.tools)
        sizes = {
            f"multi_turn_{split}": pool.description.splits[split]
            for split in pool.description.held_out
        }
    results: dict[tuple[str, str], list[evaluation.RolloutResult]] = {}
    entries: dict[tuple[str, str], dict[str, bool]] = {}
    told: Counter[str] = Counter(judged=0, refused=0, lost=0, differing=0)
    for rollout in rollouts:
        verdict = judged[rollout.id]
        result = msgspec.structs.replace(evaluation.result(rollout), success=verdict.valid)
        lost = rollout.stop_reason == MASKED
        what = "lost" if lost else "judged" if verdict.judged else "refused"
        told[what] += 1
        if what != "judged":
            s.keep_reject(
                {"rollout": rollout.id, "reason": f"no official verdict: {verdict.error}"}
            )
        elif verdict.valid != rollout.success:
            told["differing"] += 1
            said = verdict.error or "valid"
            s.keep_reject(
                {
                    "rollout": rollout.id,
                    "reason": f"official verdict: {said}; here {rollout.success}",
                }
            )
        key = rollout.policy, verdict.category
        results.setdefault(key, []).append(result)
        seen = entries.setdefault(key, {})
        seen[verdict.entry] = seen.get(verdict.entry, False) or not lost
    s.note(
        f"official verdicts {told['judged']}, refused {told['refused']} (counted as failures), lost {told['lost']}, "
        f"differing from ours {told['differing']}"
    )
    records, missing = [], []
    for (policy, category), found in sorted(results.items()):
        seen = entries[policy, category]
        if lost := [name for name, there in seen.items() if not there]:
            missing.append(_missing(policy, category, lost))
            continue
        whole = sizes.get(category, 0)
        group = f"{category} ({len(seen)} of {whole} entries)" if len(seen) < whole else category
        for record in evaluation.report(evaluation.collect(found), by=()):
            records.append(msgspec.structs.replace(record, by="official", group=group))
    return Scored(records, "; ".join(missing))


def _missing(policy: str, category: str, lost: list[str]) -> str:
    more = f" and {len(lost) - 5} more" if len(lost) > 5 else ""
    return (
        f"no official score of {policy} on {category}: all its rollouts of {', '.join(lost[:5])}{more} were lost to the "
        "infrastructure"
    )
