"""`coevolve evaluate --official`: the benchmark's own evaluation of rollouts, as evaluation records
beside the usual ones."""

from __future__ import annotations

from collections import Counter, defaultdict
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


class OfficialScores(NamedTuple):
    records: list[Evaluation]  # One per policy and official category, `by` official
    missing: str  # Says which entries no rollout can be judged of; empty if there are none


def check() -> None:
    """Raises MissingDependency before anything is played for nothing."""
    for name in ("bfcl", official.NAME):
        install.python(name)


def fit(rollouts: Iterable[Rollout], refuse: Callable[[Rollout, str], None]) -> list[Rollout]:
    """The rollouts that can have an official verdict at all; `refuse` is told the others.

    Raises UsageError for another environment's, and for those of another version than the installed
    one or of none, whatever --any-version says: the official code is of one version.
    """
    kept: list[Rollout] = []
    with Pool("bfcl") as pool:
        known, installed = reading.official(pool), pool.description.version
        for rollout in rollouts:
            if rollout.env not in ENVIRONMENTS:
                raise UsageError(
                    f"--official is BFCL's evaluation, and there are rollouts of {rollout.env!r}"
                )
            if rollout.task and (made := rollout.task.env_version) != installed:
                of = f"version {made}" if made else "tasks without a version"
                raise UsageError(
                    f"--official judges by version {installed}, and there are rollouts of {of}"
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
    same = task.query == known[name].query
    return "" if same else f"the official entry {name} asks for something else than the task"


def score(rollouts: list[Rollout], s: Stage) -> OfficialScores:
    """The official verdicts, which cover every entry that a policy has played.

    A rollout that must not reach the official code and one that the infrastructure lost are masked.
    An entry without a verdict is not counted, and where all its verdicts were lost it keeps its
    category from having a score. --rejects gets both, and each verdict that is not the
    environment's own.
    """
    with Pool("bfcl") as pool:
        judged = official.judge(rollouts, pool.tools)
        about = pool.description
        sizes = {f"multi_turn_{split}": about.splits[split] for split in about.held_out}
    results: dict[tuple[str, str], list[evaluation.RolloutResult]] = defaultdict(list)
    entries: dict[tuple[str, str], dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    counts: Counter[str] = Counter()
    for rollout in rollouts:
        verdict, result = judged[rollout.id], evaluation.result(rollout)
        unjudged = "lost" if rollout.stop_reason == MASKED else "refused"
        what = "judged" if verdict.judged else unjudged
        counts[what] += 1
        if what != "judged":
            reason = f"no official verdict: {verdict.error}"
            s.keep_reject({"rollout": rollout.id, "reason": reason})
        elif verdict.valid != rollout.success:
            counts["differing"] += 1
            reason = f"official verdict: {verdict.error or 'valid'}; here {rollout.success}"
            s.keep_reject({"rollout": rollout.id, "reason": reason})
        key = rollout.policy, verdict.category
        stop_reason = rollout.stop_reason if verdict.judged else MASKED
        # bfcl and bfcl-strict play the same official entries
        changes = {"env": "", "success": verdict.valid, "stop_reason": stop_reason}
        results[key].append(msgspec.structs.replace(result, **changes))
        entries[key][verdict.entry].add(what)
    s.note(
        f"official verdicts {counts['judged']}, refused {counts['refused']} (not counted), "
        f"lost {counts['lost']}, differing from ours {counts['differing']}"
    )
    records, missing = [], []
    for (policy, category), found in sorted(results.items()):
        played = entries[policy, category]
        if lost := [
            name for name, what in played.items() if what in ({"lost"}, {"lost", "refused"})
        ]:
            more = f" and {len(lost) - 5} more" if len(lost) > 5 else ""
            missing.append(
                f"no official score of {policy} on {category}: all its rollouts of "
                f"{', '.join(lost[:5])}{more} were lost to the infrastructure"
            )
            continue
        whole, counted = sizes.get(category, 0), sum("judged" in what for what in played.values())
        some = f" ({counted} of {whole} entries)" if counted < whole else ""
        for record in evaluation.report(evaluation.collect(found), by=()):
            records.append(msgspec.structs.replace(record, by="official", group=category + some))
    return OfficialScores(records, "; ".join(missing))
