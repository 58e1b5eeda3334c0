"""BFCL's own evaluation of result files, a program of the bfcl-official venv.

    bfcl.official ROOT    ROOT/result → ROOT/score; ROOT/data has our own questions and answers

The package imports the SDK of every vendor to build its table of models, and two parsers of other
languages: 6 GB for nothing that is used here. These modules, and no others, are replaced before the
import: the table by one with our model names on the official handlers, the Java and JavaScript
parsers by empty ones. All that reads, executes, judges and writes is the package's. The parent sets
BFCL_PROJECT_ROOT (the package makes folders there as it is imported) and OPENAI_API_KEY (a client
object is made; nothing is ever sent).
"""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

from . import data

OFFICIAL = [f"{data.PREFIX}{category}" for category in data.CATEGORIES]
OWN = f"{data.PREFIX}coevolve"
PREFIX = "BFCL_v4"  # begins the names of BFCL's files


def replace_modules() -> dict[str, SimpleNamespace]:
    """Puts the stand-ins in place; returns the (empty) table of models."""
    models: dict[str, SimpleNamespace] = {}
    stand_ins = {
        "bfcl_eval.constants.model_config": {"MODEL_CONFIG_MAPPING": models},
        "bfcl_eval.model_handler.parser.java_parser": {"parse_java_function_call": None},
        "bfcl_eval.model_handler.parser.js_parser": {"parse_javascript_function_call": None},
    }
    for name, content in stand_ins.items():
        module = ModuleType(name)
        vars(module).update(content)
        sys.modules[name] = module
    return models


def evaluate(root: Path) -> None:
    """Runs the evaluation behind `bfcl evaluate --partial-eval` on the folders of ROOT/result.

    Raises `data.DamagedPackage` for a package that is not the pinned release.
    """
    data.version()
    models = replace_modules()
    from bfcl_eval.eval_checker import eval_runner
    from bfcl_eval.model_handler.api_inference.openai_completion import OpenAICompletionsHandler

    names = sorted(path.name for path in (root / "result").iterdir() if path.is_dir())
    about = {"url": "", "org": "", "license": "", "input_price": None, "output_price": None}
    for name in names:
        models[name] = SimpleNamespace(
            model_name=name,
            display_name=name,
            model_handler=OpenAICompletionsHandler,
            is_fc_model=True,
            underscore_to_dot=True,
            **about,
        )
    for name in names:
        for category in OFFICIAL:
            evaluate_official(eval_runner, root, name, category)
        evaluate_own(eval_runner, root, name)


def evaluate_official(eval_runner: Any, root: Path, name: str, category: str) -> None:
    """One category, as the package's `runner` does it for each."""
    # not `runner` itself: it would make the tables of a leaderboard too, which takes minutes
    file = root / "result" / name / "multi_turn" / f"{PREFIX}_{category}_result.json"
    if file.is_file():
        results = eval_runner.load_file(file, sort_by_id=True)
        judge = eval_runner.get_handler(name)
        eval_runner.evaluate_task(
            category, root / "result", root / "score", results, name, judge, {}, allow_missing=True
        )


def evaluate_own(eval_runner: Any, root: Path, name: str) -> None:
    """The same for tasks of our own, which the package's loaders do not know."""
    from bfcl_eval.utils import load_file, populate_test_cases_with_predefined_functions

    file = root / "result" / name / "multi_turn" / f"{PREFIX}_{OWN}_result.json"
    if not file.is_file():
        return
    results = load_file(file, sort_by_id=True)
    own = f"{PREFIX}_{OWN}.json"
    files = (root / "data" / own, root / "data" / "possible_answer" / own)
    questions, answers = ({entry["id"]: entry for entry in load_file(path)} for path in files)
    asked = [questions[entry["id"]] for entry in results]
    prompts = populate_test_cases_with_predefined_functions(asked)
    possible = [answers[entry["id"]] for entry in results]
    judge = eval_runner.get_handler(name)
    eval_runner.multi_turn_runner(judge, results, prompts, possible, name, OWN, root / "score")


def main(root: str) -> None:
    evaluate(Path(root))
