"""AppWorld's APIs for one episode, in a process that never runs policy code.

Only documented routes are reachable: not the administrative ones, not those that manage the
server's state and clock, whatever a parameter makes of a path. Tokens are signed with a secret of
this installation and start state, and random draws of AppWorld come from it too, per call, so that
nobody outside can forge or predict either, and a replay gets the same ones. A call whose arguments
are longer than any app needs is refused.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import random
import re
from collections import Counter
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from appworld import requester
from appworld.apps import build_main_app, get_all_apps
from appworld.collections.apis import ApiCollection
from appworld.common.utils import get_name_to_apis, import_apis_module
from appworld.requester import METHOD_NOT_ALLOWED_MESSAGE, NumRequestsLimitError, Requester
from fastapi.testclient import TestClient
from fastapi_login.secrets import to_secret
from starlette.responses import JSONResponse

APPS = tuple(sorted(get_all_apps()))
# keywords of the package's requester, not of any API: the first would reach into this process, the
# others are names of the requester's own parameters, which it would take twice
_REQUESTER_KEYWORDS = ("client", "track", "show")
_REQUESTER_PARAMETERS = ("self", "_app_name", "_api_name")
MAX_ARGUMENT_CHARS = 4 << 20
"""Length of a call's arguments, as JSON: more than any app is for, and less than an episode's
process could not carry."""


class ApiResponse(NamedTuple):
    """A call's value, or the exception that the caller gets."""

    value: Any = None
    error: tuple[str, str] | None = None  # Class name as a traceback shows it, and text


class Route(NamedTuple):
    method: str
    path: re.Pattern[str]


class AppWorldApis:
    """The APIs over databases that are loaded already. One request at a time."""

    def __init__(self, routes: list[Route], home: str, start: str, date: str, secret: bytes):
        """`home`: name of the databases in memory; `start`: the task's directory of changes."""
        self._secret, self._asked = secret, Counter()
        self._left = self._limit = 0
        self.called: list[str] = []
        """`app.api` of each request since `allow`, whether it succeeded or not."""
        apps = list(get_all_apps(skip_admin=True))
        for app in apps:
            if manager := import_apis_module(app).logging_manager:
                key = hmac.digest(secret, app.encode(), "sha256").hex().encode()
                manager.secret = to_secret({"algorithms": manager.algorithm, "secret": key})
        Requester.clients[APPS] = TestClient(_Gate(_main_app(), routes)).__enter__()
        collection, self._requester = ApiCollection.load(
            to_db_home_path=home,
            from_db_home_path=start,
            date_and_time=datetime.fromisoformat(date),
            load_apps=apps,
            max_num_requests=None,
        )
        self._functions = {app: dict(collection[app]) for app in apps}

    def allow(self, requests: int) -> None:
        """Sets how many requests may be made from here on."""
        self._left = self._limit = requests
        self.called = []

    def call(self, app: str, api: str, arguments: dict[str, Any]) -> ApiResponse:
        """Makes a request as `apis.app.api(**arguments)` would."""
        if refusal := self._refusal(app, api, arguments):
            return ApiResponse(error=("Exception", refusal))
        if self._left <= 0:
            error = NumRequestsLimitError(self._limit)
            return ApiResponse(error=("NumRequestsLimitError", str(error)))
        self._left -= 1
        self.called.append(f"{app}.{api}")
        drawn = {key: value for key, value in arguments.items() if key != "access_token"}
        request = json.dumps([app, api, drawn], sort_keys=True, default=str)
        if len(request) > MAX_ARGUMENT_CHARS:
            refusal = (
                f"The arguments of apis.{app}.{api} are too long: {len(request)} characters, "
                f"and {MAX_ARGUMENT_CHARS} are the most."
            )
            return ApiResponse(error=("Exception", refusal))
        self._seed_draws(request)
        sent = {key: v for key, v in arguments.items() if key not in _REQUESTER_KEYWORDS}
        try:
            return ApiResponse(self._functions[app][api](**sent))
        except MemoryError:
            raise
        except Exception as error:  # noqa: BLE001 - boundary: becomes the caller's exception
            return ApiResponse(error=(_class_name(error), str(error)))
        finally:
            self._requester.reset_requests()

    def _refusal(self, app: str, api: str, arguments: dict[str, Any]) -> str | None:
        if app not in self._functions:
            return f"No app named '{app}' found."
        if api not in self._functions[app]:
            return f"No API named '{api}' found in the {app} app."
        reserved = next((name for name in _REQUESTER_PARAMETERS if name in arguments), None)
        if reserved:
            return f"Unexpected parameter '{reserved}' passed to apis.{app}.{api}."
        return None

    def _seed_draws(self, request: str) -> None:
        name = hashlib.sha256(request.encode()).digest()
        self._asked[name] += 1
        seed = f"{request}{self._asked[name]}".encode()
        random.seed(hmac.digest(self._secret, seed, "sha256"))


class _Gate:
    """ASGI middleware that lets requests for documented routes through, and those with a slash too
    many, which are redirected to one."""

    def __init__(self, app: Any, routes: list[Route]):
        self._app, self._routes = app, routes

    async def __call__(self, scope: dict, receive: Any, send: Any) -> None:
        if scope["type"] == "http" and (refusal := self._refusal(scope["method"], scope["path"])):
            message = "Method Not Allowed" if refusal == 405 else METHOD_NOT_ALLOWED_MESSAGE
            await JSONResponse({"message": message}, refusal)(scope, receive, send)
        else:
            await self._app(scope, receive, send)

    def _refusal(self, method: str, path: str) -> int:
        path = path.rstrip("/")
        methods = {route.method for route in self._routes if route.path.fullmatch(path)}
        return 0 if method in methods else 405 if methods else 404


@cache
def _main_app() -> Any:
    return build_main_app(APPS)


def warm_up(root: Path) -> list[Route]:
    """Imports the apps and fills the package's caches; opens no database. Returns the routes that
    the root documents."""
    _main_app()
    for app in APPS:
        get_name_to_apis(app, ignore_private_apis=True)
    files = (root / "data" / "api_docs" / "standard").glob("*.json")
    documents = {file.stem: json.loads(file.read_text(encoding="utf-8")) for file in files}
    # the package would derive the documents from its code again, which takes longer than the rest
    requester._get_api_name_to_doc = lambda app, include_private_apis=False: documents.get(app, {})
    return [_route(document) for apis in documents.values() for document in apis.values()]


def _route(document: dict) -> Route:
    pattern = re.sub(r"\\{\w+\\}", "[^/]+", re.escape(document["path"]))
    return Route(document["method"].upper(), re.compile(pattern))


def _class_name(error: Exception) -> str:
    kind = type(error)
    module = "" if kind.__module__ == "builtins" else f"{kind.__module__}."
    return f"{module}{kind.__qualname__}"
