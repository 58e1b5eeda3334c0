"""The warm process behind the AppWorld worker that forks one process per episode for the policy's
cells.

It knows no task, no database, no path of the data and no evaluator; of the appworld package it
loads what cells may name (dates) and what refuses cells (the guard), without the package's own
imports. Each child locks itself in (`sandbox`) before it reads its first cell, and from then on has
two sockets: to the worker, which sends {code, …} and is answered {text, error}, and to the
episode's APIs.
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

from . import sandbox
from .cell import Interpreter, NumRequestsLimitError, api_namespace
from .channel import Channel, ChannelClosed, now
from .fork_server import OUT_OF_MEMORY, Child

FOREVER_SECONDS = 1e6
API_SECONDS = 300.0  # More than any cell has; the worker's limit ends it before
# modules that cells may import, and those that these import at their first use: nothing can be read
# from disk later
_LIBRARY = (
    "_strptime array bisect calendar collections contextlib copy csv datetime difflib email.utils "
    "encodings.ascii encodings.cp1252 encodings.idna encodings.latin_1 encodings.punycode "
    "encodings.utf_16 encodings.utf_32 enum fractions functools heapq html itertools json locale "
    "math numbers operator os pathlib pprint random re statistics string textwrap time typing "
    "unicodedata unittest unittest.mock uuid yaml decimal dataclasses inspect warnings zoneinfo"
)
# makes the guard's parser import what it imports at its first use
_SAMPLE = (
    "import os\nfrom json import dumps\nclass A:\n    def b(self):\n"
    "        return [os.path.join(x, 'y') for x in dumps({})]\n"
)


def load() -> tuple[Any, list[Any]]:
    """Imports everything; returns the package's guard, and all time zones, which stay known as long
    as somebody holds them."""
    home = os.path.dirname(importlib.util.find_spec("appworld").origin)
    for name, folder in (("appworld", home), ("appworld.common", os.path.join(home, "common"))):
        sys.modules[name] = types.ModuleType(name)
        sys.modules[name].__path__ = [folder]
    for name in _LIBRARY.split():
        importlib.import_module(name)
    pendulum = importlib.import_module("pendulum")
    for module in pkgutil.walk_packages(pendulum.__path__, "pendulum."):
        if ".locales." not in module.name and ".testing" not in module.name:
            importlib.import_module(module.name)
    for language in ("en", "en_us", "en_gb"):
        importlib.import_module(f"pendulum.locales.{language}.locale")
    importlib.import_module("appworld.common.datetime")
    guard = importlib.import_module("appworld.common.safety_guard").SafetyGuard()
    guard.is_syntax_safe(_SAMPLE)
    # what these compute once is computed here
    moment = pendulum.datetime(2023, 5, 18)
    moment.format("dddd Do [of] MMMM YYYY")
    moment.diff_for_humans(moment)
    pendulum.local_timezone()
    zones = [pendulum.timezone(name) for name in sorted(pendulum.timezones())]
    _freeze_clock("2023-05-18T12:00:00").stop()
    return guard, zones


def _freeze_clock(date: str) -> Any:
    """Stops the clock at a date from here on."""
    return sys.modules["appworld.common.utils"].freeze_time(datetime.fromisoformat(date)).start()


def run_cells(guard: Any, zones: list[Any], sockets: list[socket.socket]) -> None:
    """Runs one episode's cells; `zones` are only held."""
    worker, episode = map(Channel, sockets)
    order = worker.receive(now() + FOREVER_SECONDS)
    requests = _Requests(episode, order["apis"])
    interpreter = Interpreter(guard, api_namespace(order["apis"], requests))
    requests.alarm = interpreter.alarm
    _freeze_clock(order["date"])
    random.seed(100)
    sandbox.limit_memory(order["memory_mb"])
    sandbox.lock()
    del order
    while True:
        try:
            cell = worker.receive(now() + FOREVER_SECONDS)
        except ChannelClosed:
            return
        try:
            worker.send(interpreter.run(**cell)._asdict(), now() + API_SECONDS)
        except MemoryError:
            os._exit(OUT_OF_MEMORY)


class _Requests:
    """Calls of `apis.app.api(…)` over the socket."""

    def __init__(self, episode: Channel, methods: dict[str, dict[str, str]]):
        self._episode, self._methods, self._count = episode, methods, 0
        self.alarm: Any = None

    def __call__(self, app: str, api: str, arguments: dict[str, Any]) -> Any:
        self._count += 1
        # a query string takes anything that has a text, a JSON body does not
        default = str if self._methods[app][api] == "GET" else None
        sent = json.loads(json.dumps(arguments, default=default))
        request = {"id": self._count, "app": app, "api": api, "arguments": sent}
        with self.alarm.held():
            self._episode.send(request, now() + API_SECONDS)
            answer = self._episode.receive(now() + API_SECONDS)
            while answer["id"] != self._count:
                answer = self._episode.receive(now() + API_SECONDS)
        if answer["error"] is None:
            return answer["value"]
        raise _exception(*answer["error"])


def _exception(name: str, text: str) -> Exception:
    """Returns an exception of the class that a traceback should name."""
    if name == "NumRequestsLimitError":
        return NumRequestsLimitError(text)
    kind, unlike = getattr(builtins, name, None), (UnicodeEncodeError, UnicodeDecodeError)
    if isinstance(kind, type) and issubclass(kind, Exception) and kind not in unlike:
        return kind(text)
    module, _, plain = name.rpartition(".")
    return type(plain, (Exception,), {"__module__": module or "builtins"})(text)


def prepare_child() -> Child:
    """Warms the fork server up; returns the function that its children run."""
    return partial(run_cells, *load())
