"""The verdict on an AppWorld episode. Standard library only.

`official`: AppWorld's own evaluation of the saved state against the data's ground truth, in a
process forked for it alone from the one that serves the APIs; policy code never ran in either.
`state`: the databases' canonical difference to the start (`changes`) compared with the reference
solution's, its answer and its completion.

Both need the task to be completed in the saved state, whatever the policy's process sends.
`progress` is the share of what doing nothing does not achieve; it is 0 with collateral damage or
without completion, and below 1 unless all is right. Collateral damage is, officially, a failed test
that doing nothing passes, or a changed model that the evaluation does not list where it compares
the changed models, but for tests that fail on the answer, and never where nothing was changed; of
the state, a change of an old row that the reference leaves alone, a row too many in a model, or a
notice to somebody whom the reference's changes do not concern. Details are labels and counts, never
expected values.
"""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

MAX_PARTIAL_PROGRESS = 0.99  # Highest progress of an episode that is no success


def official(evaluation: dict, final: dict) -> dict:
    """Returns the verdict of `grading.grade` and `EpisodeState.final`."""
    passes, failures = Counter(evaluation["passes"]), Counter(evaluation["failures"])
    completed = final["status"] is not None
    success = evaluation["success"] and completed
    # a test that did not run counts as failed, as in AppWorld's own count
    substantive = evaluation["tests"] - passes["no_op_pass"] - failures["no_op_pass"]
    share = passes["no_op_fail"] / substantive if substantive else float(success)
    details = {
        "tests": evaluation["tests"],
        "passed": sum(passes.values()),
        "substantive": substantive,
        "substantive_passed": passes["no_op_fail"],
        "collateral": evaluation["damage"] and bool(final["changes"] or final["notified"]),
        "difficulty": evaluation["difficulty"],
    }
    return _verdict(success, share, completed, details)


def state(final: dict, reference: dict) -> dict:
    """Returns the verdict of `EpisodeState.final` of the episode and of the solution."""
    done, wanted = (_counted(f["changes"]) for f in (final, reference))
    completed = final["status"] is not None and final["status"] == reference["status"]
    answered = final["answer"] == reference["answer"]
    notified = set(final["notified"]) - {*reference["notified"], *reference["concerned"]}
    extra, missing = (done - wanted).total() + len(notified), (wanted - done).total()
    parts = wanted.total() + reference["answered"]
    right = wanted.total() - missing + (reference["answered"] and answered)
    details = {
        "changes": wanted.total(),
        "missing": missing,
        "collateral": bool(notified) or _is_damage(final["changes"], reference["changes"]),
        "extra": extra,
        "answer": answered,
    }
    success = not extra and not missing and completed and answered
    return _verdict(success, right / parts if parts else 0.0, completed, details)


def ended(kind: str) -> dict:
    """Returns the verdict on an episode that ended early: `kind` as in `ActionResult.fatal`."""
    return {
        "success": False,
        "score": 0.0,
        "progress": 0.0,
        "reason": f"ended by {kind}",
        "details": {"policy_fault": kind},
    }


def _counted(changes: list[dict]) -> Counter[str]:
    return Counter(json.dumps(change, sort_keys=True) for change in changes)


def _is_damage(done: list[dict], wanted: list[dict]) -> bool:
    """Whether an old row was changed that the reference leaves alone, or more rows were added to a
    model than it adds."""
    # a row that both change, to different values, is a wrong one: a half that is missing shifts
    # balances, too
    rows, wanted_rows = (
        {(change["entity"], change["key"]) for change in changes if change["op"] != "add"}
        for changes in (done, wanted)
    )
    added, wanted_added = (
        Counter(change["entity"] for change in changes if change["op"] == "add")
        for changes in (done, wanted)
    )
    return bool(rows - wanted_rows or added - wanted_added)


def _verdict(success: bool, share: float, completed: bool, details: dict[str, Any]) -> dict:
    sound = completed and not details["collateral"]
    partial = round(min(MAX_PARTIAL_PROGRESS, share), 6) if sound else 0.0
    return {
        "success": success,
        "score": float(success),
        "progress": 1.0 if success else partial,
        "reason": "" if success else _reason(completed, details),
        "details": details | {"completed": completed},
    }


def _reason(completed: bool, details: dict[str, Any]) -> str:
    if not completed:
        return "the task was not completed"
    if details["collateral"]:
        return "something else was changed too"
    return "the outcome is not what was asked for"
