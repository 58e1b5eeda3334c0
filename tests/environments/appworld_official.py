"""AppWorld's own judgement and figures on the demo root. Run by the python of the appworld
environment:

    appworld_official.py ROOT      one JSON line on stdout at the end

Each task is played twice by AppWorld itself, its reference and nothing at all; then every third
task is left undone and the rest done, and `evaluate_dataset` sums up each split.
"""

import contextlib
import json
import os
import sys

os.environ["APPWORLD_ROOT"] = sys.argv[1]

from appworld import AppWorld, evaluate_dataset, load_task_ids
from appworld.evaluator import Metric


def play(id_: str, experiment: str, act: bool) -> tuple[bool, int]:
    with AppWorld(task_id=id_, experiment_name=experiment, ground_truth_mode="full") as world:
        if act:
            world.execute(
                world.task.ground_truth.compiled_solution_code + "\nsolution(apis, requester)"
            )
        else:
            world.execute("apis.supervisor.complete_task()")
        judged = world.evaluate()
        return bool(judged.success), judged.difficulty


def main() -> dict:
    tasks, splits = [], {}
    for split in ("demo_train", "demo_dev", "demo_test"):
        for place, id_ in enumerate(load_task_ids(split)):
            scenario, _, number = id_.partition("_")
            reference, difficulty = play(id_, "reference", True)
            nothing, _ = play(id_, "nothing", False)
            success, _ = play(id_, "mixed", place % 3 != 1)
            tasks.append(
                {
                    "split": split,
                    "scenario": scenario,
                    "number": int(number),
                    "difficulty": difficulty,
                    "reference": reference,
                    "nothing": nothing,
                    "success": success,
                }
            )
        AppWorld.close_all()
        metrics = evaluate_dataset("mixed", split, print_report=False)
        rows = Metric.build_report(metrics)
        by = {
            f"difficulty {kind.removeprefix('difficulty_')}": [tgc, sgc]
            for kind, tgc, sgc in zip(*rows.values(), strict=True)
            if kind != "aggregate"
            and any(t["split"] == split and f"difficulty_{t['difficulty']}" == kind for t in tasks)
        }
        splits[split] = {"all": list(metrics["aggregate"].values()), "difficulty": by}
    return {"tasks": tasks, "splits": splits}


if __name__ == "__main__":
    with contextlib.redirect_stdout(sys.stderr):
        answer = main()
    print(json.dumps(answer))
