"""One server of a model: the openai package's clients for it, and what its failures mean.

| a call fails, after its retries | it is the failure of |
|---|---|
| by a status about who asks, where or how often, or with a long Retry-After | the run |
| `MAX_OPENINGS` conversations have failed in a row, and no older call is open | the run |
| `MAX_CALLS` calls have failed in a row | the run |
| the server has answered none by the end of the work (`Models.each`) | the run |
| otherwise | its item (CallFailed), and the run goes on |

Of what the package reads in the environment only three variables go out: the key, OPENAI_ORG_ID and
OPENAI_PROJECT_ID. OPENAI_CUSTOM_HEADERS is refused, for it could hold another key.
"""

from __future__ import annotations

import itertools
import os
import re
from collections import Counter
from collections.abc import Callable
from typing import Any

from coevolve.errors import CoevolveError, Unreachable, UsageError, installation, require
from coevolve.models.addresses import Address, proxy
from coevolve.models.chat import CallFailed
from coevolve.models.http_client import bounded_client, http_library, root_cause
from coevolve.models.redaction import public_address
from coevolve.models.retries import MAX_RETRY_AFTER, RETRIES, is_passing, retry_after

NO_KEY = "none"  # Sent where there is no key, for the package sends nothing without one
NEVER_AN_ITEM = (401, 402, 403, 404, 405, 407, 429)
"""HTTP statuses that no other conversation would change."""
MAX_OPENINGS, MAX_CALLS = 5, 64
"""Conversations that begin differently, and calls, that fail in a row at a server that is dead."""
_NO_ANSWERS = {
    "text/event-stream": "a stream, and whole answers are what is read here",
    "text/html": "a web page, and no API",
}
"""Content types that hold no chat completion."""
_HEADERS = ("OPENAI_API_KEY", "OPENAI_ORG_ID", "OPENAI_PROJECT_ID")
_RAW = {"headers": {"X-Stainless-Raw-Response": "true"}}


class ModelServer:
    """`pools` is how many clients it gets, each with connections of its own.

    `timeout` is in seconds, of one attempt. Raises UsageError, MissingDependency.
    """

    def __init__(self, at: Address, key: str, timeout: float, pools: int):
        options = {"base_url": at.url, "api_key": key, "timeout": timeout, "max_retries": RETRIES}
        if at.authorization:
            options["default_headers"] = {"Authorization": at.authorization}
        self.name = public_address(at.url)
        client = package().AsyncOpenAI
        try:
            http_clients = [bounded_client(timeout, at.query) for _ in range(pools)]
            self.clients = [client(**options, http_client=http) for http in http_clients]
        except http_library().InvalidURL as error:
            raise UsageError(
                f"--base-url {self.name!r} is no address of a server: {error}"
            ) from None
        self._turns = itertools.cycle(self.clients)
        self.answers = 0
        self.failed: CoevolveError | None = None  # The failure of the last call that failed
        self._failing: Counter[int] = Counter()
        """Calls that failed since the last answer, by the opening of their conversation."""
        self._open: list[object] = []
        """Calls without an end so far, in the order of their beginnings."""
        self._is_oldest = True  # No call was open that began before the last one that ended
        self._dead = False
        self._timeout = timeout
        self.proxy = proxy(at.url)
        self._credentials = _credentials(at, key)

    async def post(self, body: dict[str, Any], opening: int) -> Any:
        """The raw response. Raises the package's errors, and what `lost` gives for no answer."""
        if self._dead:
            raise self.failed
        client, call = next(self._turns), object()
        self._open.append(call)
        try:
            response = await client.post(
                "/chat/completions", cast_to=object, body=body, options=_RAW
            )
        finally:
            self._is_oldest = self._open[0] is call
            self._open.remove(call)
        kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind in _NO_ANSWERS:
            what = f"{self.name}: the answer is {_NO_ANSWERS[kind]} ({kind})"
            raise self._lost(CoevolveError(what + self._hint(kind)), opening)
        self.answered()
        return response

    def answered(self) -> None:
        self.answers += 1
        self._failing.clear()

    def failure(
        self, error: Exception, model: str, safe: Callable[[str], str], opening: int
    ) -> CoevolveError:
        """The package's error, as that of one item or of the run; `opening` tells conversations
        apart, and `safe` makes what the server says fit for a line."""
        failure = self._described(error, model, safe)
        status, headers = getattr(error, "status_code", None), _headers_of(error)
        if status in NEVER_AN_ITEM or retry_after(headers) > MAX_RETRY_AFTER:
            return failure
        return self._lost(failure, opening)

    def _lost(self, failure: CoevolveError, opening: int) -> CoevolveError:
        self.failed = failure
        self._failing[opening] += 1
        # An older call may still be answered: slow answers do not make quick refusals a row.
        in_row = len(self._failing) >= MAX_OPENINGS and self._is_oldest
        self._dead |= in_row or self._failing.total() >= MAX_CALLS
        return failure if self._dead else CallFailed(failure)

    async def close(self) -> None:
        for client in self.clients:
            await client.close()

    def _described(self, error: Exception, model: str, safe: Callable[[str], str]) -> CoevolveError:
        """The package's error in one line."""
        status, why = getattr(error, "status_code", None), safe(reason(error))
        by = public_address(self.proxy) if self.proxy else ""
        wait = retry_after(_headers_of(error))
        if status in (401, 403):
            what = f"the server refuses {self._credentials} (HTTP {status})"
        elif status == 407:
            what = f"the proxy {by} refuses who asks (HTTP 407)"
        elif wait > MAX_RETRY_AFTER:
            rest = f"it asks to be left alone for {wait:.0f} seconds"
            what = f"HTTP {status} from model {model}: {rest}"
        elif is_passing(status):
            retries = int(error.request.headers.get("x-stainless-retry-count", 0))
            what = f"no answer from model {model}" + (
                f" after {retries} retries" if retries else ""
            )
            why = f"HTTP {status}: {why}" if status else safe(self._cause(error))
            why += f" (by way of the proxy {by})" if by else ""
        else:
            what = f"{self.name}: the server refuses the request (HTTP {status})"
            return CoevolveError(f"{what}: {why}{self._hint(status, why)}")
        return Unreachable(f"{self.name}: {what}: {why}")

    def _hint(self, told_by: int | str, why: str = "") -> str:
        """What helps against a wrong address, or a model that only streams."""
        if told_by in (404, 405, "text/html") and not re.search(r"/v\d", self.name):
            return f"; the address has no /v1: try {self.name.rstrip('/')}/v1"
        if re.search(r"\bstream", why):
            return "; whole answers are what is read here: name a server that gives them"
        return ""

    def _cause(self, error: Exception) -> str:
        if isinstance(error, package().APITimeoutError):
            return f"an attempt took longer than {self._timeout:g} seconds"
        return root_cause(error)


def package() -> Any:
    """openai, or MissingDependency."""
    return require("openai", "a model at a server", installation("models"))


def environment_key() -> str:
    """OPENAI_API_KEY, or `NO_KEY`. Raises UsageError for variables that cannot go out."""
    if os.environ.get("OPENAI_CUSTOM_HEADERS"):
        raise UsageError(
            "OPENAI_CUSTOM_HEADERS is not sent, and is to be unset: "
            "the key comes from OPENAI_API_KEY only"
        )
    for name in _HEADERS:
        value = os.environ.get(name, "").strip()
        if not (value.isascii() and value.isprintable()):
            raise UsageError(f"{name} holds characters that no request can carry")
    return os.environ.get("OPENAI_API_KEY", "").strip() or NO_KEY


def _credentials(at: Address, key: str) -> str:
    """The credentials that a server has refused, in words."""
    if at.authorization:
        sent = "the user and password in its address"
    elif key != NO_KEY:
        sent = "the key in OPENAI_API_KEY"
    else:
        sent = "a call without a key, for OPENAI_API_KEY is not set"
    return f"{sent}, or the query of its address" if at.query else sent


def _headers_of(error: Exception) -> Any:
    return getattr(getattr(error, "response", None), "headers", {})


def reason(error: Exception) -> str:
    """The reason in an error's body, in any form that servers have; else its own message."""
    body = getattr(error, "body", None)
    while isinstance(body, dict) or (isinstance(body, list) and body and isinstance(body[0], dict)):
        if isinstance(body, list):  # as Gemini has it
            body = body[0]
        inner = (body[name] for name in ("message", "detail", "error") if body.get(name))
        body = next(inner, None) or str(body)
    return str(body or getattr(error, "message", ""))
