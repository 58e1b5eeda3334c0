"""`coevolve evaluate --official`: the benchmark's own evaluation of rollouts, as evaluation records beside the usual ones."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from coevolve import evaluation
from coevolve.bfcl import official
from coevolve.environments.client import Pool
from coevolve.errors import UsageError
from coevolve.records import Evaluation, Rollout
from coevolve_cli.streams import Stage

ENVIRONMENTS = ("bfcl", "bfcl-strict")


def score(rollouts: list[Rollout], s: Stage) -> Iterator[Evaluation]:
    """One record per policy and official category, `by` official. What has no official verdict counts as masked.

    --rejects gets what the official code would misread, and each verdict that is not the environment's own.
    """
    other = next((r.env for r in rollouts if r.env not in ENVIRONMENTS), None)
    if other:
        raise UsageError(f"--official is BFCL's evaluation, and there are rollouts of {other!r}")
    with Pool("bfcl") as pool:
        judged = official.judge(rollouts, pool.tools)
    by_category: dict[str, list[evaluation.Result]] = {}
    refused = differing = 0
    for rollout in rollouts:
        verdict = judged[rollout.id]
        result = msgspec.structs.replace(evaluation.result(rollout), success=verdict.valid)
        if not verdict.category:
            refused += 1
            s.keep_reject({"rollout": rollout.id, "reason": f"no official verdict: {verdict.error}"})
            result = msgspec.structs.replace(result, stop_reason=evaluation.MASKED)
        elif verdict.valid != rollout.success:
            differing += 1
            said = verdict.error or "valid"
            s.keep_reject({"rollout": rollout.id, "reason": f"official verdict: {said}; here {rollout.success}"})
        by_category.setdefault(verdict.category or "none", []).append(result)
    for category, results in sorted(by_category.items()):
        for record in evaluation.report(evaluation.collect(results), by=()):
            yield msgspec.structs.replace(record, by="official", group=category)
    s.note(f"official verdicts {len(rollouts) - refused}, refused {refused}, differing from ours {differing}")
