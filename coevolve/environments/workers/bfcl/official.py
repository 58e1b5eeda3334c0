"""BFCL's own code at work: its evaluation of result files, and the prompts of its handlers.

Runs in the bfcl-official venv (`launch`).

    bfcl.official evaluate ROOT    ROOT/result → ROOT/score; ROOT/data has questions and answers
    bfcl.official prompts          conversations as JSON lines → what the handlers send

The package imports the SDK of every vendor to build its table of models, and two parsers of other
languages: 6 GB for nothing that is used here. These modules, and no others, are replaced before the
import: the table by one with our model names on the official handlers, the Java and JavaScript
parsers by empty ones. All that reads, executes, judges and writes is the package's. The parent sets
BFCL_PROJECT_ROOT (the package makes folders there as it is imported) and OPENAI_API_KEY (a client
object is made; nothing is ever sent).
"""

from __future__ import annotations

import copy
import importlib
import json
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

from . import data

OFFICIAL = [f"{data.PREFIX}{category}" for category in data.CATEGORIES]
OWN = f"{data.PREFIX}coevolve"
PREFIX = "BFCL_v4"


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


def handler(name: str) -> type:
    """An official handler's class."""
    modules = {
        "QwenFCHandler": "local_inference.qwen_fc",
        "OpenAICompletionsHandler": "api_inference.openai_completion",
    }
    return getattr(importlib.import_module(f"bfcl_eval.model_handler.{modules[name]}"), name)


def evaluate(root: Path) -> None:
    """Runs the evaluation behind `bfcl evaluate --partial-eval` on the folders of ROOT/result.

    Raises `data.Damaged` for a package that is not the pinned release.
    """
    data.version()
    models = replace_modules()
    from bfcl_eval.eval_checker import eval_runner

    names = sorted(path.name for path in (root / "result").iterdir() if path.is_dir())
    about = {"url": "", "org": "", "license": "", "input_price": None, "output_price": None}
    for name in names:
        models[name] = SimpleNamespace(
            model_name=name,
            display_name=name,
            model_handler=handler("OpenAICompletionsHandler"),
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


def prompts() -> None:
    """Answers requests {"entry": official id, "replies": {style: [reply, …]}} with what is sent.

    The handlers' own inference loop runs; only the query to the server is replaced, by one that
    records what would be sent and answers with the next of the replies.
    """
    replace_modules()
    from bfcl_eval.utils import load_dataset_entry

    answers, sys.stdout = sys.stdout, sys.stderr
    entries: dict[str, dict] = {}
    for line in sys.stdin:
        request = json.loads(line)
        if request["entry"] not in entries:
            category = request["entry"].rpartition("_")[0]
            entries |= {entry["id"]: entry for entry in load_dataset_entry(category)}
        entry, replies = entries[request["entry"]], request["replies"]
        answer = {
            style: record(player, copy.deepcopy(entry), replies[style])
            for style, player in STYLES.items()
        }
        print(json.dumps(answer), file=answers, flush=True)


def record(make: Any, entry: dict, replies: list[Any]) -> list[Any]:
    """What one handler sends for an entry, query by query."""
    sent: list[Any] = []
    player = make(sent, iter(replies))
    player.model_name_underline_replaced = f"prompts_{make.__name__}"
    player.inference(entry, include_input_log=False, exclude_state_log=True)
    return sent


def qwen_fc(sent: list[Any], replies: Any) -> Any:
    """Text completions; a reply is text."""
    player = handler("QwenFCHandler")("Qwen/Qwen3-8B-FC", 0, "Qwen/Qwen3-8B-FC", True)

    def query(inference_data: dict) -> tuple[Any, float]:
        sent.append(player._format_prompt(inference_data["message"], inference_data["function"]))
        return _response(text=next(replies)), 0.0

    player._query_prompting = query
    return player


def openai_tools(sent: list[Any], replies: Any) -> Any:
    """Chat completions with tools; a reply is an assistant message."""
    return _chat(sent, replies, fc=True)


def openai_prompting(sent: list[Any], replies: Any) -> Any:
    """Chat completions without tools; a reply is text."""
    return _chat(sent, replies, fc=False)


def _chat(sent: list[Any], replies: Any, *, fc: bool) -> Any:
    from openai.types.chat import ChatCompletionMessage

    player = handler("OpenAICompletionsHandler")("stub", 0, "stub", fc)

    def generate(**request: Any) -> tuple[Any, float]:
        asked = request["messages"]
        messages = [m if isinstance(m, dict) else m.model_dump(exclude_unset=True) for m in asked]
        sent.append(copy.deepcopy({"messages": messages, "tools": request.get("tools", [])}))
        reply = next(replies)
        message = reply if fc else {"role": "assistant", "content": reply}
        return _response(message=ChatCompletionMessage.model_validate(message)), 0.0

    player.generate_with_backoff = generate
    return player


def _response(**choice: Any) -> SimpleNamespace:
    """A server's response with one choice, and no count of tokens."""
    usage = SimpleNamespace(prompt_tokens=0, completion_tokens=0)
    return SimpleNamespace(choices=[SimpleNamespace(**choice)], usage=usage)


STYLES = {"qwen-fc": qwen_fc, "openai": openai_tools, "prompting": openai_prompting}


def main(what: str, *root: str) -> None:
    if what == "evaluate":
        evaluate(Path(*root))
    else:
        prompts()
