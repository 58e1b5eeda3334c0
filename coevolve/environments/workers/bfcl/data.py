"""BFCL's data as it lies in the installed package: tasks, reference solutions, function documents, their version.

Nothing of it is copied into this project. The package is read in place, and every file that decides an outcome is compared
with the digests of the pinned version, so that a changed file is noticed before a month of training rests on it: the first
difference raises `Damaged` with the file's name. Reference solutions are call strings; they are read as literals with `ast`,
positional arguments bound in the documented order. Nothing is evaluated.
"""

from __future__ import annotations

import ast
import hashlib
import importlib
import importlib.metadata
import importlib.util
import json
from functools import cache
from pathlib import Path
from types import ModuleType

PINNED = "2026.3.23"
INSTALL = "coevolve env install bfcl"
PREFIX = "multi_turn_"

DOCUMENTS = {
    "GorillaFileSystem": "gorilla_file_system",
    "MathAPI": "math_api",
    "MessageAPI": "message_api",
    "TwitterAPI": "posting_api",
    "TicketAPI": "ticket_api",
    "TradingBot": "trading_bot",
    "TravelAPI": "travel_booking",
    "VehicleControlAPI": "vehicle_control",
}
"""The eight API classes and the stem of their document and source files."""

CLASSES = tuple(DOCUMENTS)
MAIN = ("GorillaFileSystem", "VehicleControlAPI", "TradingBot", "TravelAPI")
"""Each official task has exactly one of these; the others come beside them."""

CATEGORIES = ("base", "long_context", "miss_func", "miss_param")

_DIGESTS = {
    "data/BFCL_v4_multi_turn_base.json": "1a21a995d06fd6f2",
    "data/BFCL_v4_multi_turn_long_context.json": "78c3268c5cc8e97c",
    "data/BFCL_v4_multi_turn_miss_func.json": "87d28ce10e37d864",
    "data/BFCL_v4_multi_turn_miss_param.json": "f0c66dda3795f5f5",
    "data/possible_answer/BFCL_v4_multi_turn_base.json": "1fee67823b317571",
    "data/possible_answer/BFCL_v4_multi_turn_long_context.json": "e82aa0e839c39d23",
    "data/possible_answer/BFCL_v4_multi_turn_miss_func.json": "69e679b806d1c871",
    "data/possible_answer/BFCL_v4_multi_turn_miss_param.json": "59c442901779e2c3",
    "data/multi_turn_func_doc/gorilla_file_system.json": "c4c1b741c71e2a17",
    "data/multi_turn_func_doc/math_api.json": "83fa31708c89442b",
    "data/multi_turn_func_doc/message_api.json": "4d58ea933a5d2b28",
    "data/multi_turn_func_doc/posting_api.json": "87f9fc404a06e410",
    "data/multi_turn_func_doc/ticket_api.json": "31324e0380782664",
    "data/multi_turn_func_doc/trading_bot.json": "1a7933fd8f0cb8fb",
    "data/multi_turn_func_doc/travel_booking.json": "f17b950c13adddf4",
    "data/multi_turn_func_doc/vehicle_control.json": "0c8a66292844874e",
    "constants/default_prompts.py": "4cc033be99ae2b10",
    "eval_checker/multi_turn_eval/func_source_code/gorilla_file_system.py": "84173750930b09aa",
    "eval_checker/multi_turn_eval/func_source_code/math_api.py": "abde32cc25e71b2f",
    "eval_checker/multi_turn_eval/func_source_code/message_api.py": "cf72af1635654147",
    "eval_checker/multi_turn_eval/func_source_code/posting_api.py": "32b887aaa37c7167",
    "eval_checker/multi_turn_eval/func_source_code/ticket_api.py": "6a9375aa6425410c",
    "eval_checker/multi_turn_eval/func_source_code/trading_bot.py": "cc2e3949035b561e",
    "eval_checker/multi_turn_eval/func_source_code/travel_booking.py": "e698e22adccf0d6d",
    "eval_checker/multi_turn_eval/func_source_code/vehicle_control.py": "f5f7a2f289687289",
    "eval_checker/multi_turn_eval/func_source_code/long_context.py": "5c9a5710115609c7",
    "eval_checker/multi_turn_eval/multi_turn_checker.py": "b3b787515eda3bf0",
    "eval_checker/multi_turn_eval/multi_turn_utils.py": "9fdbd779ec715959",
}
"""First 16 hex digits of sha256 of every file that a task, an observation or a verdict depends on."""


class Damaged(Exception):
    """The installed package is missing, of another version, or not as released."""


@cache
def root() -> Path:
    """The package's folder, found without importing any of its handlers."""
    spec = importlib.util.find_spec("bfcl_eval")
    if spec is None or not spec.submodule_search_locations:
        raise Damaged(f"bfcl_eval is not installed in this interpreter. Try: {INSTALL}")
    return Path(next(iter(spec.submodule_search_locations)))


@cache
def version() -> str:
    """`<release>+<12 hex digits over all pinned files>`. Raises `Damaged`."""
    release = importlib.metadata.version("bfcl-eval")
    if release != PINNED:
        raise Damaged(f"bfcl-eval {release} is installed, {PINNED} is needed. Try: {INSTALL}")
    whole = hashlib.sha256()
    for name, expected in sorted(_DIGESTS.items()):
        found = digest(name)
        if found != expected:
            raise Damaged(
                f"{name} differs from release {PINNED} (sha256 {found}…, expected {expected}…). Try: {INSTALL}"
            )
        whole.update(f"{name} {found}\n".encode())
    return f"{release}+{whole.hexdigest()[:12]}"


def source(class_: str) -> ModuleType:
    """The module that implements an API class."""
    return importlib.import_module(
        f"bfcl_eval.eval_checker.multi_turn_eval.func_source_code.{DOCUMENTS[class_]}"
    )


def digest(name: str) -> str:
    """First 16 hex digits of the file's sha256, `missing` if it is not there."""
    path = root() / name
    return hashlib.sha256(path.read_bytes()).hexdigest()[:16] if path.is_file() else "missing"


@cache
def functions() -> dict[str, tuple[str, dict]]:
    """Function name → (class, its document); 128 of them, in the package's order."""
    return {
        document["name"]: (class_, document)
        for class_, stem in DOCUMENTS.items()
        for document in lines(f"data/multi_turn_func_doc/{stem}.json")
    }


@cache
def members(class_: str) -> list[str]:
    """The functions of one class, in the package's order."""
    return [name for name, (owner, _) in functions().items() if owner == class_]


@cache
def entries(category: str) -> dict[str, dict]:
    """Task id → official entry of one category, in file order."""
    return {entry["id"]: entry for entry in lines(f"data/BFCL_v4_{PREFIX}{category}.json")}


def entry(name: str) -> dict | None:
    """The official entry of that id, None if there is none."""
    category = category_of(name)
    return entries(category).get(name) if category in CATEGORIES else None


def category_of(name: str) -> str:
    return name.removeprefix(PREFIX).rpartition("_")[0]


@cache
def answers(category: str) -> dict[str, list[list[dict]]]:
    """Task id → reference actions {"tool", "arguments"} per turn."""
    return {
        answer["id"]: [[read_call(text) for text in turn] for turn in answer["ground_truth"]]
        for answer in lines(f"data/possible_answer/BFCL_v4_{PREFIX}{category}.json")
    }


def answer(name: str) -> list[list[dict]]:
    return answers(category_of(name))[name]


def read_call(text: str) -> dict:
    """The action that a call string stands for: literals only, positional arguments in the documented order.

    Raises ValueError for anything else.
    """
    node = ast.parse(text.strip(), mode="eval").body
    if (
        not isinstance(node, ast.Call)
        or not isinstance(node.func, ast.Name)
        or node.func.id not in functions()
    ):
        raise ValueError(f"not a call of a documented function: {text[:80]}")
    names = list(functions()[node.func.id][1]["parameters"]["properties"])
    arguments = {
        name: ast.literal_eval(value) for name, value in zip(names, node.args, strict=False)
    }
    arguments |= {keyword.arg: ast.literal_eval(keyword.value) for keyword in node.keywords}
    if len(arguments) != len(node.args) + len(node.keywords) or None in arguments:
        raise ValueError(f"arguments cannot be bound: {text[:80]}")
    return {"tool": node.func.id, "arguments": arguments}


def later(entry: dict) -> dict[str, list[str]]:
    """Index of a user's turn, as text → functions that are offered from it on; of the functions that are missing at first."""
    return {turn: list(names) for turn, names in entry.get("missed_function", {}).items()}


def runs_from(entry: dict) -> dict[str, int]:
    """Function → first turn in which it runs: the one that offers it, or an earlier one in which the reference itself uses
    it (an official slip in one entry)."""
    offered = {name: int(turn) for turn, names in later(entry).items() for name in names}
    for turn, calls in reversed(list(enumerate(answer(entry["id"])))):
        offered |= {call["tool"]: turn for call in calls if turn < offered.get(call["tool"], 0)}
    return offered


def turns(entry: dict) -> list[str]:
    """What the user says, turn by turn. The turn that brings missing functions has the package's own words."""
    return [
        "\n".join(message["content"] for message in turn) or _update() for turn in entry["question"]
    ]


@cache
def _update() -> str:
    return importlib.import_module(
        "bfcl_eval.constants.default_prompts"
    ).DEFAULT_USER_PROMPT_FOR_ADDITIONAL_FUNCTION_FC


def number(name: str) -> int:
    """The number that an entry shares with its variants in the other categories."""
    return int(name.rpartition("_")[2])


def lines(name: str) -> list[dict]:
    """The objects of one of the package's files, which are JSON lines."""
    with open(root() / name, encoding="utf-8") as stream:
        return [json.loads(line) for line in stream if line.strip()]
