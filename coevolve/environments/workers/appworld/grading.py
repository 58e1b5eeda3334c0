"""AppWorld's own evaluation of an episode's saved state, in a process forked for it alone.

The package's evaluation is run as it is. Two of its functions are wrapped to note what its report
does not say: whether a test failed on the answer, and whether a comparison of the changed models
failed because more changed than the evaluation lists.
"""

from __future__ import annotations

import os
import signal
import socket
from typing import Any, NoReturn

from appworld import evaluator
from appworld.collections.models import ModelCollectionPair
from appworld.common.path_store import path_store

from .channel import Channel, now, pair
from .fork_server import die_with_parent

EXPERIMENT = "episode"
GRADE_SECONDS = 40.0


def saved_databases(outputs: str, task: str) -> str:
    """Returns the folder below `outputs` in which the evaluation looks for a task's databases."""
    return os.path.join(outputs, EXPERIMENT, "tasks", task, "dbs")


def grade(task: str, outputs: str) -> dict:
    """Returns {success, tests, difficulty, passes, failures, damage} for the state saved below
    `outputs`: passes and failures are labels of tests, damage whether one failed because of a
    change that should not be. Raises ChannelTimeout, ChannelClosed."""
    mine, its = pair()
    parent, pid = os.getpid(), os.fork()
    if not pid:
        _grader(parent, its, task, outputs)
    its.close()
    try:
        return Channel(mine).receive(now() + GRADE_SECONDS)
    finally:
        mine.close()
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def _grader(parent: int, line: socket.socket, task: str, outputs: str) -> NoReturn:
    try:
        die_with_parent(parent)
        type(path_store).experiment_outputs = property(lambda _: outputs)
        unexpected, answers = _watch_comparisons(), _watch_answers()
        tracker = evaluator.evaluate_task(task, EXPERIMENT, suppress_errors=True, save_report=False)
        # a failed test says that something was changed where doing nothing passes it, unless it
        # failed on the answer, which is no record in an app
        damage = any(
            test["label"] == "no_op_pass" and test["requirement"] not in answers
            for test in tracker.failures
        )
        answer = {
            "success": bool(tracker.success),
            "tests": tracker.num_tests,
            "difficulty": tracker.difficulty,
            "passes": [test["label"] for test in tracker.passes],
            "failures": [test["label"] for test in tracker.failures],
            "damage": bool(unexpected) or damage,
        }
        Channel(line).send(answer, now() + GRADE_SECONDS)
    finally:
        os._exit(0)


def _watch_answers() -> list[str]:
    """Returns a list to which the evaluation adds the requirements that fail on the answer."""
    failed: list[str] = []
    compare = evaluator.TestTracker.answer

    def answer(tracker: Any, *args: Any, **options: Any) -> None:
        try:
            compare(tracker, *args, **options)
        except Exception:
            failed.append(tracker.requirement)
            raise

    evaluator.TestTracker.answer = answer
    return failed


class _ChangedModels(set):
    """The changed models, as AppWorld's evaluations compare them with those that may change."""


def _watch_comparisons() -> list[str]:
    """Returns a list to which failing comparisons of the changed models add those not expected."""
    # a test that names the models has the same label whether too few or too many changed, and data
    # without solutions tell no more
    unexpected: list[str] = []
    names, compare = ModelCollectionPair.changed_model_names, evaluator.assert_plus

    def changed(pair: ModelCollectionPair, *args: Any, **options: Any) -> set[str]:
        return _ChangedModels(names(pair, *args, **options))

    def compared(*args: Any, **options: Any) -> None:
        try:
            compare(*args, **options)
        except AssertionError:
            models, expected = (args[0], args[2]) if len(args) > 2 else (None, None)
            if isinstance(models, _ChangedModels) and isinstance(expected, set | list | tuple):
                unexpected.extend(models - set(expected))
            raise

    ModelCollectionPair.changed_model_names, evaluator.assert_plus = changed, compared
    return unexpected
