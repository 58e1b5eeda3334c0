"""BFCL's data as they lie in the installed package: tasks, reference solutions, function documents.

Nothing of them is copied into this project. The package is read in place, and every file that
decides an outcome is compared with the digests in package.toml, so that a changed file is noticed
before a month of training rests on it: the first difference raises `DamagedPackage` with the file's
name. Reference solutions are call strings; `ast` reads them as literals and binds positional
arguments in the documented order. Nothing is evaluated.
"""

from __future__ import annotations

import ast
import hashlib
import importlib
import importlib.util
import json
import sys
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

from ..data_files import read_data

INSTALL = "coevolve env install bfcl"
PREFIX = "multi_turn_"  # begins the id of every official entry


class PackageFile(NamedTuple):
    """The tables of package.toml, which says what each holds."""

    release: str
    categories: list[str]
    main: list[str]
    documents: dict[str, str]
    digests: dict[str, str]


_PINNED: PackageFile = read_data(Path(__file__).with_name("package.toml"), PackageFile)
DOCUMENTS, CATEGORIES, MAIN = _PINNED.documents, _PINNED.categories, _PINNED.main
CLASSES = tuple(DOCUMENTS)


class DamagedPackage(Exception):
    """The installed package is missing, of another version, or not as released."""


@cache
def root() -> Path:
    """The package's folder, found without importing any of its handlers."""
    spec = importlib.util.find_spec("bfcl_eval")
    if spec is None or not spec.submodule_search_locations:
        raise DamagedPackage(f"bfcl_eval is not installed in this interpreter. Try: {INSTALL}")
    return Path(next(iter(spec.submodule_search_locations)))


@cache
def version() -> str:
    """`<release>+<12 hex digits over all pinned files>`. Raises `DamagedPackage`."""
    # importlib.metadata would say the same, and take a tenth of the worker's start
    names = (path.stem for place in sys.path for path in Path(place).glob("bfcl_eval-*.dist-info"))
    release = next(names, "bfcl_eval-?").rpartition("-")[2]
    if release != _PINNED.release:
        needed = f"bfcl-eval {release} is installed, {_PINNED.release} is needed"
        raise DamagedPackage(f"{needed}. Try: {INSTALL}")
    whole = hashlib.sha256()
    for name, expected in sorted(_PINNED.digests.items()):
        found = digest(name)
        if found != expected:
            differs = f"{name} differs from release {release}"
            sums = f"sha256 {found}…, expected {expected}…"
            raise DamagedPackage(f"{differs} ({sums}). Try: {INSTALL}")
        whole.update(f"{name} {found}\n".encode())
    return f"{release}+{whole.hexdigest()[:12]}"


def source(class_: str) -> ModuleType:
    """The module that implements an API class."""
    package = "bfcl_eval.eval_checker.multi_turn_eval.func_source_code"
    return importlib.import_module(f"{package}.{DOCUMENTS[class_]}")


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
    """The action that a call string stands for. Raises ValueError for anything but literals."""
    node = ast.parse(text.strip(), mode="eval").body
    name = node.func.id if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) else ""
    if name not in functions():
        raise ValueError(f"not a call of a documented function: {text[:80]}")
    names = functions()[name][1]["parameters"]["properties"]
    values = [*zip(names, node.args, strict=False), *((k.arg, k.value) for k in node.keywords)]
    arguments = {name: ast.literal_eval(value) for name, value in values}
    if len(arguments) != len(node.args) + len(node.keywords) or None in arguments:
        raise ValueError(f"arguments cannot be bound: {text[:80]}")
    return {"tool": name, "arguments": arguments}


def later(entry: dict) -> dict[str, list[str]]:
    """Index of a user's turn, as text → functions that are offered from it on and not before."""
    return {turn: list(names) for turn, names in entry.get("missed_function", {}).items()}


def runs_from(entry: dict) -> dict[str, int]:
    """Function that is missing at first → index of the first turn in which it runs."""
    offered = {name: int(turn) for turn, names in later(entry).items() for name in names}
    # an official slip: in one entry the reference uses a function before the turn that offers it
    for turn, calls in reversed(list(enumerate(answer(entry["id"])))):
        offered |= {call["tool"]: turn for call in calls if turn < offered.get(call["tool"], 0)}
    return offered


def turns(entry: dict) -> list[str]:
    """The user's texts by turn; the package has words of its own for new functions that arrive."""
    texts = ("\n".join(message["content"] for message in turn) for turn in entry["question"])
    return [text or _update() for text in texts]


@cache
def _update() -> str:
    prompts = importlib.import_module("bfcl_eval.constants.default_prompts")
    return prompts.DEFAULT_USER_PROMPT_FOR_ADDITIONAL_FUNCTION_FC


def number(name: str) -> int:
    """The number that an entry shares with its variants in the other categories."""
    return int(name.rpartition("_")[2])


def lines(name: str) -> list[dict]:
    """The objects of one of the package's files, which are JSON lines."""
    with open(root() / name, encoding="utf-8") as stream:
        return [json.loads(line) for line in stream if line.strip()]
