"""One episode's API objects, and calls on them without `eval`.

A `World` owns its objects alone. A call names a documented function and gives arguments by name; both are checked against
the function's document, then the bound method of this world's object is called with copies. Nothing that a model wrote is
evaluated, formatted into code, or looked up as an attribute. The observation is the text that the official executor gives
for the same call, byte for byte; what is refused before the call, and therefore differs, is told in `refusal`'s messages.

Known leaks of the API classes are closed here: `post_tweet`'s mutable defaults, the decimal and mpmath precision, argument
aliasing, and the module-level tables that long_context inserts by reference.
"""

from __future__ import annotations

import copy
import decimal
import difflib
import importlib
import json
import math
import re
from typing import Any, NamedTuple

import mpmath
from _bfcl_data import DOCUMENTS, functions

MAX_TEXT = 20_000
MAX_ITEMS = 1_000
MAX_NESTING = 6
MAX_PRECISION = 1_000
MAX_PLACES = 300
MAX_POWER_BITS = 14_000
"""Below Python's limit for printing an integer (4,300 digits)."""

RAISED = "Error during execution: "

_TYPES = {
    "string": ((str,), "text"),
    "integer": ((int, float), "a whole number"),
    "float": ((int, float), "a number"),
    "boolean": ((bool,), "true or false"),
    "array": ((list,), "a list"),
    "dict": ((dict,), "an object"),
}

_REFUSALS: dict[str, tuple[str, tuple]] = {
    "authenticate_twitter": ("authentication_status", (False,)),
    "message_login": ("login_status", (False,)),
    "ticket_login": ("success", (False,)),
    "logout": ("success", (False,)),
    "trading_login": ("status", ("Already logged in",)),
    "trading_logout": ("status", ("No user is currently logged in",)),
    "retweet": ("retweet_status", ("Already retweeted",)),
    "follow_user": ("follow_status", (False,)),
    "unfollow_user": ("unfollow_status", (False,)),
    "get_symbol_by_name": ("symbol", ("Stock not found",)),
    "get_nearest_airport_by_city": ("nearest_airport", ("Unknown",)),
    "get_zipcode_based_on_city": ("zipcode", ("00000",)),
}
"""Answers that say no without the word error."""

_KINDS = (
    ("denied", r"authenticat|log in|logged in|token"),
    ("not_found", r"not found|no such|not registered|no available|404"),
    ("conflict", r"already|exists|not empty"),
    ("limit", r"insufficient|exceeded|capacity|limit|market is closed"),
    ("precondition", r"must be locked|brake|start the engine"),
)


class Answer(NamedTuple):
    text: str
    error: str | None = None


class World:
    """The API objects of one episode."""

    def __init__(self, classes: list[str], state: dict[str, dict], long_context: bool = False):
        """Raises ValueError for a class that is not one of the eight or a configuration that cannot be loaded."""
        self.instances = {name: _instance(name, state.get(name, {}), long_context) for name in classes}
        self._methods = {
            name: getattr(self.instances[class_], name)
            for name, (class_, _) in functions().items()
            if class_ in self.instances
        }

    def tools(self) -> list[str]:
        return list(self._methods)

    def call(self, tool: Any, arguments: Any) -> Answer:
        """Runs one call; whatever goes wrong is an answer with an error."""
        refused = refusal(tool, arguments, self._methods)
        if refused:
            return refused
        arguments = copy.deepcopy(arguments)
        if tool == "post_tweet":
            arguments = {"tags": [], "mentions": []} | arguments
        digits = mpmath.mp.dps
        try:
            with decimal.localcontext(decimal.Context(prec=28)):
                result = self._methods[tool](**arguments)
                return Answer(_text(result), _failure(tool, result))
        except MemoryError:
            raise
        except Exception as error:  # noqa: BLE001 - boundary: the API's own failure is an observation
            return Answer(f"{RAISED}{error}", "exception")
        finally:
            mpmath.mp.dps = digits


def _instance(name: str, config: dict, long_context: bool) -> Any:
    if name not in DOCUMENTS:
        raise ValueError(f"unknown API class {name!r}")
    module = importlib.import_module(f"bfcl_eval.eval_checker.multi_turn_eval.func_source_code.{DOCUMENTS[name]}")
    instance = getattr(module, name)()
    if name != "MathAPI":
        try:
            instance._load_scenario(copy.deepcopy(config), long_context=long_context)
        except Exception as error:  # boundary: a bad configuration is the request's fault
            raise ValueError(f"{name} cannot be loaded: {error}") from error
    if name == "TravelAPI" and long_context:  # its extensions are module-level tables, inserted by reference
        instance.credit_card_list = copy.deepcopy(instance.credit_card_list)
        instance.booking_record = copy.deepcopy(instance.booking_record)
    return instance


def _text(result: Any) -> str:
    if isinstance(result, str):
        return result
    if type(result) is dict:
        try:
            return json.dumps(result)
        except (TypeError, ValueError):
            return str(result)
    return str(result)


def _failure(tool: str, result: Any) -> str | None:
    """Kind of error that the API's own answer reports, None if it worked."""
    first = result[0] if isinstance(result, list) and result else result
    if isinstance(first, dict) and first.get("error"):
        return _kind(str(first["error"]))
    if isinstance(first, str) and first.startswith("Error:"):
        return _kind(first)
    key, refusals = _REFUSALS.get(tool, ("", ()))
    return "refused" if isinstance(result, dict) and result.get(key) in refusals else None


def _kind(message: str) -> str:
    lower = message.lower()
    return next((kind for kind, pattern in _KINDS if re.search(pattern, lower)), "invalid")


def refusal(tool: Any, arguments: Any, offered: Any) -> Answer | None:
    """Why a call is not run at all, with a hint that helps to write it right; None if it may run."""
    if not isinstance(tool, str) or tool not in offered:
        near = difflib.get_close_matches(str(tool)[:60], list(offered), n=3)
        hint = f" Did you mean {' or '.join(near)}?" if near else ""
        return _refused("unknown_tool", f"There is no tool {str(tool)[:60]!r}.{hint}")
    if not isinstance(arguments, dict):
        return _refused("bad_argument", "Arguments must be an object with the parameters' names.")
    document = functions()[tool][1]["parameters"]
    problem = _names(arguments, document) or _types(arguments, document)
    if problem:
        return _refused("bad_argument", f"{problem} {_usage(tool, document)}")
    problem = _size(arguments) or _cost(tool, arguments)
    return _refused("too_large", problem) if problem else None


def _refused(kind: str, message: str) -> Answer:
    return Answer(json.dumps({"error": message}), kind)


def _usage(tool: str, document: dict) -> str:
    required = document.get("required", [])
    parts = [
        f"{name}: {_TYPES[schema['type']][1]}" + ("" if name in required else " (optional)")
        for name, schema in document["properties"].items()
    ]
    return f"{tool} takes {', '.join(parts) or 'no arguments'}."


def _names(arguments: dict, document: dict) -> str | None:
    for name in arguments:
        if name not in document["properties"]:
            return f"There is no parameter {str(name)[:60]!r}."
    missing = [name for name in document.get("required", []) if name not in arguments]
    return f"Missing: {', '.join(missing)}." if missing else None


def _types(arguments: dict, document: dict) -> str | None:
    for name, value in arguments.items():
        optional = value is None and name not in document.get("required", [])
        text_id = name.endswith("_id") and isinstance(value, str)  # some official tickets have ids like 'ticket_001'
        if not optional and not text_id and not _fits(value, document["properties"][name]):
            return f"{name} must be {_TYPES[document['properties'][name]['type']][1]}."
    return None


def _fits(value: Any, schema: dict) -> bool:
    types, _ = _TYPES[schema["type"]]
    if not isinstance(value, types) or (isinstance(value, bool) and bool not in types):
        return False
    if schema["type"] == "array":
        return all(_fits(item, schema["items"]) for item in value)
    return True


def _size(value: Any, depth: int = 0) -> str | None:
    """A bound on everything that reaches an API object."""
    if isinstance(value, str):
        return f"A text may have at most {MAX_TEXT} characters." if len(value) > MAX_TEXT else None
    if isinstance(value, int | float):
        fine = math.isfinite(value) if isinstance(value, float) else abs(value) < 2**63
        return None if fine else "A number is too large."
    if isinstance(value, dict | list):
        if depth >= MAX_NESTING or len(value) > MAX_ITEMS:
            return f"At most {MAX_ITEMS} items and {MAX_NESTING} levels."
        inner = [*value, *value.values()] if isinstance(value, dict) else value
        return next((problem for item in inner if (problem := _size(item, depth + 1))), None)
    return None


def _cost(tool: str, arguments: dict) -> str | None:
    """A bound on the time of the few functions whose cost grows with a number's value."""
    numbers = {name: value for name, value in arguments.items() if isinstance(value, int | float)}
    if abs(numbers.get("precision", 0)) > MAX_PRECISION:
        return f"precision may be at most {MAX_PRECISION}."
    if abs(numbers.get("decimal_places", 0)) > MAX_PLACES:
        return f"decimal_places may be at most {MAX_PLACES}."
    if tool == "power" and all(isinstance(value, int) for value in numbers.values()):
        if abs(numbers.get("exponent", 0)) * abs(numbers.get("base", 0)).bit_length() > MAX_POWER_BITS:
            return "The result has too many digits."
    return None
