"""One episode's API objects, and calls on them without `eval`.

A `BfclWorld` owns its objects alone. A call names a documented function and gives arguments by
name; both are checked against the function's document, then the bound method of this world's object
is called with copies. Nothing that a model wrote is evaluated, formatted into code, or looked up as
an attribute. The observation is the text that the official executor gives for the same call, byte
for byte, but for the differences that docs/bfcl.md lists; under strict parity (`BfclStart.strict`)
those of them that can be had safely are reproduced too.

Known leaks of the API classes are closed here: `post_tweet`'s mutable defaults, the decimal and
mpmath precision, argument aliasing, the module-level tables that long_context inserts by reference,
and the machine's clock.
"""

from __future__ import annotations

import copy
import decimal
import json
import re
from collections.abc import Callable, Collection
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

import mpmath

from ..data_files import read_data
from .data import DOCUMENTS, members, source
from .refusals import CallAnswer, refusal
from .state import copied
from .strict_parity import RAISED, SharedObjects, StrictParity

PRECISION = 28  # Digits of decimal numbers, as in a fresh process


class ErrorFile(NamedTuple):
    """The tables of errors.toml, which says what each holds."""

    kinds: dict[str, str]
    refusals: dict[str, tuple[str, str | bool]]


_ERRORS: ErrorFile = read_data(Path(__file__).with_name("errors.toml"), ErrorFile)


class BfclStart(NamedTuple):
    """The classes and states that an episode begins with, and its rules."""

    classes: list[str]
    state: dict[str, dict]
    long_context: bool = False
    later: dict[str, int] = {}
    """Function → index of the user's turn from which on it can be called."""
    strict: bool = False  # Reproduce the official executor's quirks (docs/bfcl.md)
    name: str = "synthetic_0"
    """Id of the official entry; strict parity writes it where the official executor does."""


class BfclWorld:
    """The API objects of one episode."""

    def __init__(self, start: BfclStart, shared: SharedObjects | None = None, role: str = "policy"):
        """`shared` and `role` matter under strict parity alone.

        Raises ValueError for an unknown class or a configuration that cannot be loaded.
        """
        self._start = start
        names = f"{role}_{start.name}"
        self._strict = StrictParity(names, shared or SharedObjects()) if start.strict else None
        self.instances = {name: self._instance(name) for name in start.classes}
        self._methods = self._bind()

    def _bind(self) -> dict[str, Callable[..., Any]]:
        """The functions in the order of the classes, as the official prompts list them."""
        return {
            name: getattr(instance, name)
            for class_, instance in self.instances.items()
            for name in members(class_)
        }

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_methods"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._methods = self._bind()

    def _instance(self, name: str) -> Any:
        long_context = self._start.long_context
        instance = loaded(name, self._start.state.get(name, {}), long_context)
        if name == "TravelAPI" and long_context:
            rows = self._strict.shared.rows if self._strict else copy.deepcopy
            instance.credit_card_list = rows(instance.credit_card_list)
            instance.booking_record = rows(instance.booking_record)
        return instance

    def tools(self, without: Collection[str] = ()) -> list[str]:
        """The functions that can be called, but for some."""
        return [name for name in self._methods if name not in without]

    def _offered(self, turn: int) -> Collection[str]:
        later = self._start.later
        return self.tools([n for n in later if later[n] > turn]) if later else self._methods

    def call(self, tool: Any, arguments: Any, turn: int = 0) -> CallAnswer:
        """Runs one call; whatever goes wrong is an answer with an error."""
        if self._strict:
            refused = self._strict.refusal(tool, arguments, self._methods)
        else:
            refused = refusal(tool, arguments, self._offered(turn))
        if refused:
            return refused
        # MathAPI sets both precisions and leaves them so
        digits, decimal.getcontext().prec = mpmath.mp.dps, PRECISION
        try:
            result = self._methods[tool](**self._bound(tool, copied(arguments)))
            return CallAnswer(_text(result), _failure(tool, result))
        except MemoryError:
            raise
        except Exception as error:  # noqa: BLE001 - boundary: the API's own failure is an observation
            return CallAnswer(f"{RAISED}{error}", "exception")
        finally:
            decimal.getcontext().prec = PRECISION
            if mpmath.mp.dps != digits:
                mpmath.mp.dps = digits

    def _bound(self, tool: str, arguments: dict) -> dict:
        if self._strict:
            return self._strict.arguments(tool, arguments, self._methods)
        return {"tags": [], "mentions": []} | arguments if tool == "post_tweet" else arguments


def fix_today(date: str) -> None:
    """Sets the day (ISO) from which this process's `verify_traveler_information` counts ages."""
    today = datetime.fromisoformat(date)

    class Fixed(datetime):
        @classmethod
        def today(cls) -> datetime:
            return today

    source("TravelAPI").datetime = Fixed


def loaded(name: str, config: dict, long_context: bool) -> Any:
    """A fresh API object in its configured state."""
    if name not in DOCUMENTS:
        raise ValueError(f"unknown API class {name!r}")
    instance = getattr(source(name), name)()
    if name != "MathAPI":
        try:
            instance._load_scenario(copied(config), long_context=long_context)
        except Exception as error:  # boundary: a bad configuration is the request's fault
            raise ValueError(f"{name} cannot be loaded: {error}") from error
    return instance


def _text(result: Any) -> str:
    """A result as the official executor writes it."""
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
    key, refusing = _ERRORS.refusals.get(tool, (None, None))
    refused = key is not None and isinstance(result, dict) and result.get(key) == refusing
    return "refused" if refused else None


def _kind(message: str) -> str:
    patterns, lower = _ERRORS.kinds.items(), message.lower()
    return next((kind for kind, pattern in patterns if re.search(pattern, lower)), "invalid")
