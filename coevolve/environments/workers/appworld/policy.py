"""The warm process behind the AppWorld worker that forks one process per episode for the policy's cells.

It knows no task, no database, no path of the data and no evaluator; of the appworld package it loads what cells may name (dates)
and what refuses cells (the guard), without the package's own imports. Each child locks itself in (`confine`) before it
reads its first cell, and from then on has two sockets: to the worker, which sends {code, …} and is answered {text, error}, and
to the episode's APIs.
"""

from __future__ import annotations

import builtins
import importlib
import importlib.util
import json
import os
import pkgutil
import random
import socket
import sys
import types
from datetime import datetime
from functools import partial
from typing import Any

from . import confine
from .cell import Interpreter, NumRequestsLimitError, api_names
from .channel import Channel, Closed, now
from .zygote import OUT_OF_MEMORY, Role

FOREVER = 1e6
API_SECONDS = 300.0
"""More than any cell has; the worker's limit ends it before."""
_LIBRARY = (
    "_strptime array bisect calendar collections contextlib copy csv datetime difflib email.utils encodings.ascii encodings.cp1252 "
    "encodings.idna encodings.latin_1 encodings.punycode encodings.utf_16 encodings.utf_32 enum fractions functools heapq html "
    "itertools json locale math numbers operator os pathlib pprint random re statistics string textwrap time typing unicodedata "
    "unittest unittest.mock uuid yaml decimal dataclasses inspect warnings zoneinfo"
)
"""What cells may import, and what that imports at its first use: nothing can be read from disk later."""

_SAMPLE = "import os\nfrom json import dumps\nclass A:\n    def b(self):\n        return [os.path.join(x, 'y') for x in dumps({})]\n"
"""Code that makes the guard's parser import what it imports at its first use."""


def load() -> tuple[Any, list[Any]]:
    """Imports everything; returns the package's guard, and all time zones, which stay known as long as somebody holds them."""
    home = os.path.dirname(importlib.util.find_spec("appworld").origin)
    for name, folder in (("appworld", home), ("appworld.common", os.path.join(home, "common"))):
        sys.modules[name] = types.ModuleType(name)
        sys.modules[name].__path__ = [folder]
    for name in _LIBRARY.split():
        importlib.import_module(name)
    for module in pkgutil.walk_packages(importlib.import_module("pendulum").__path__, "pendulum."):
        if ".locales." not in module.name and ".testing" not in module.name:
            importlib.import_module(module.name)
    for language in ("en", "en_us", "en_gb"):
        importlib.import_module(f"pendulum.locales.{language}.locale")
    importlib.import_module("appworld.common.datetime")
    guard = importlib.import_module("appworld.common.safety_guard").SafetyGuard()
    guard.is_syntax_safe(_SAMPLE)
    pendulum = importlib.import_module("pendulum")
    moment = pendulum.datetime(2023, 5, 18)
    (
        moment.format("dddd Do [of] MMMM YYYY"),
        moment.diff_for_humans(moment),
        pendulum.local_timezone(),
    )
    zones = [pendulum.timezone(name) for name in sorted(pendulum.timezones())]
    _frozen("2023-05-18T12:00:00").stop()  # the first time takes longest
    return guard, zones


def _frozen(date: str) -> Any:
    """Time stands still at a date from here on."""
    return sys.modules["appworld.common.utils"].freeze_time(datetime.fromisoformat(date)).start()


def child(guard: Any, zones: list[Any], sockets: list[socket.socket]) -> None:
    """One episode's cells; `zones` are only held."""
    worker, world = map(Channel, sockets)
    order = worker.receive(now() + FOREVER)
    requests = _Requests(world, order["apis"])
    interpreter = Interpreter(guard, api_names(order["apis"], requests))
    requests.alarm = interpreter.alarm
    _frozen(order["date"])
    random.seed(100)
    confine.limit_memory(order["memory_mb"])
    confine.lock()
    del order
    while True:
        try:
            cell = worker.receive(now() + FOREVER)
        except Closed:
            return
        try:
            output = interpreter.run(
                cell["code"], cell["seconds"], cell["keep"], cell["with_output"]
            )
            worker.send({"text": output.text, "error": output.error}, now() + API_SECONDS)
        except MemoryError:
            os._exit(OUT_OF_MEMORY)


class _Requests:
    """Calls of `apis.app.api(…)` over the socket."""

    def __init__(self, world: Channel, methods: dict[str, dict[str, str]]):
        self._world, self._methods, self._count = world, methods, 0
        self.alarm: Any = None

    def __call__(self, app: str, api: str, arguments: dict[str, Any]) -> Any:
        self._count += 1
        # a query string takes anything that has a text, a JSON body does not
        sent = json.loads(
            json.dumps(arguments, default=str if self._methods[app][api] == "GET" else None)
        )
        request = {"id": self._count, "app": app, "api": api, "arguments": sent}
        with self.alarm.held():
            self._world.send(request, now() + API_SECONDS)
            answer = self._world.receive(now() + API_SECONDS)
            while answer["id"] != self._count:
                answer = self._world.receive(now() + API_SECONDS)
        if answer["error"] is None:
            return answer["value"]
        raise _exception(*answer["error"])


def _exception(name: str, text: str) -> Exception:
    """An exception of the class that a traceback should name."""
    if name == "NumRequestsLimitError":
        return NumRequestsLimitError(text)
    kind = getattr(builtins, name, None)
    if (
        isinstance(kind, type)
        and issubclass(kind, Exception)
        and kind not in (UnicodeEncodeError, UnicodeDecodeError)
    ):
        return kind(text)
    module, _, plain = name.rpartition(".")
    return type(plain, (Exception,), {"__module__": module or "builtins"})(text)


def roles() -> dict[str, Role]:
    """What the zygote forks, which is warm then."""
    return {"policy": partial(child, *load())}
