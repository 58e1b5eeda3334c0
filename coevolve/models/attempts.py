"""One attempt at a server: how long it may take, how much of an answer is read, and when there is to be no other attempt.

The openai package retries; this is the HTTP client that it does so with. What such a client takes from the environment
(proxies, certificates) is refused here where it cannot be used.
"""

from __future__ import annotations

import asyncio
import email.utils
import math
import os
import socket
import ssl
import sys
import time
from collections.abc import Mapping
from typing import Any

from coevolve.errors import MissingDependency, UsageError

LONGEST_WAIT = 60
"""Seconds of Retry-After that every version of the package waits for; what is longer ends the call at once."""
MOST_BYTES = 4 << 20
"""Of an answer, decoded: a million tokens of text, more than a model says at once. Journal and rollout hold an answer whole,
and every later request of its conversation sends it again."""
_OF_THE_BODY = ("content-encoding", "content-length", "transfer-encoding")
_PROXIES = ("http_proxy", "https_proxy", "all_proxy", "no_proxy")
_CERTIFICATES = ("ssl_cert_file", "sslkeylogfile")


def bounded(timeout: float, query: list[tuple[str, str]]) -> Any:
    """An HTTP client for the openai package, `query` in the address of every request. Raises UsageError, MissingDependency.

    An attempt ends after `timeout` seconds, however the server spends them: the package's own timeout is of each wait for a
    byte. What is over time is raised as the package's HTTP library raises it, so that the package tries again as it does for
    those. Of a longer answer than `MOST_BYTES` one byte more is read and the rest left. A server that asks to be left alone for
    more than `LONGEST_WAIT` is not tried again.
    """
    import openai

    library = http_library()

    class Bounded(openai.DefaultAsyncHttpxClient):
        async def send(self, request: Any, *, stream: bool = False, **how: Any) -> Any:
            try:
                async with asyncio.timeout(timeout):
                    response = await super().send(request, stream=True, **how)
                    body = await _beginning(response)
            except TimeoutError as error:
                raise library.ReadTimeout("the attempt took too long", request=request) from error
            headers = [
                (name, value)
                for name, value in response.headers.multi_items()
                if name not in _OF_THE_BODY
            ]
            if response.is_error and asked_wait(response.headers) > LONGEST_WAIT:
                headers = [
                    *((n, v) for n, v in headers if n != "x-should-retry"),
                    ("x-should-retry", "false"),
                ]
            return library.Response(
                response.status_code, headers=headers, content=body, request=response.request
            )

    async def skip(response: Any) -> None:
        """The library reads the text of a redirect whole, for nobody."""
        if response.has_redirect_location:
            await response.stream.aclose()
            response.stream = library.ByteStream(b"")

    try:
        return Bounded(timeout=timeout, params=query, event_hooks={"response": [skip]})
    except ImportError as error:
        what = f"socksio (needed for the SOCKS proxy that {_set(_PROXIES)} names)"
        raise MissingDependency(what, "pip install socksio") from error
    except OSError as error:
        raise UsageError(
            f"{_set(_CERTIFICATES)}: cannot be used for HTTPS: {error.strerror or error}"
        ) from error
    except (ValueError, library.InvalidURL) as error:
        raise UsageError(
            f"{_set(_PROXIES)}: holds no address of a proxy that can be used"
        ) from error


def http_library() -> Any:
    """The HTTP library that the installed openai package is made for, httpx or httpx2."""
    import openai

    return sys.modules[openai.DefaultAsyncHttpxClient.__mro__[1].__module__.partition(".")[0]]


async def _beginning(response: Any) -> bytes:
    body = bytearray()
    try:
        async for part in response.aiter_bytes():
            body += part
            if len(body) > MOST_BYTES:
                break
    finally:
        await response.aclose()
    return bytes(body[: MOST_BYTES + 1])


def _set(names: tuple[str, ...]) -> str:
    """Those variables that are set, as they are spelled. Their values may hold passwords."""
    return ", ".join(
        sorted(name for name, value in os.environ.items() if value and name.lower() in names)
    )


def asked_wait(headers: Mapping[str, str]) -> float:
    """Seconds of Retry-After, which is a number or a date; 0 where there is none."""
    for name, unit in (("retry-after-ms", 1000), ("retry-after", 1)):
        try:
            wait = float(headers.get(name, "")) / unit
        except ValueError:
            continue
        return 0 if math.isnan(wait) else wait
    try:
        return (
            email.utils.parsedate_to_datetime(headers.get("retry-after", "")).timestamp()
            - time.time()
        )
    except (ValueError, OverflowError):
        return 0


def cause(error: BaseException) -> str:
    """What is at the bottom of the package's error of a connection: "Connection refused", where the system has words for it."""
    found = bottom = error.__cause__ or error
    while bottom := _under(bottom):
        found = bottom if isinstance(bottom, OSError) else found
    if (
        isinstance(found, OSError)
        and found.errno
        and not isinstance(found, ssl.SSLError | socket.gaierror)
    ):
        return os.strerror(found.errno)
    return getattr(found, "strerror", None) or str(found) or type(found).__name__


def _under(error: BaseException) -> BaseException | None:
    if isinstance(error, BaseExceptionGroup):
        return error.exceptions[0]
    return error.__cause__ or error.__context__
