"""The HTTP client that the openai package uses here: it bounds each attempt in time and in bytes.

The package's own timeout bounds each wait for a byte, and it reads an answer of any length. What
such a client takes from the environment (proxies, certificates) is refused here where it cannot be
used.
"""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
import sys
from typing import Any

from coevolve.errors import MissingDependency, UsageError
from coevolve.models.retries import MAX_RETRY_AFTER, retry_after

MAX_BYTES = 4 << 20
"""Bytes of a decoded answer: a million tokens of text, more than a model says at once. Journal and
rollout hold an answer whole, and every later request of its conversation sends it again."""
_BODY_HEADERS = ("content-encoding", "content-length", "transfer-encoding")
_PROXIES = ("http_proxy", "https_proxy", "all_proxy", "no_proxy")
_CERTIFICATES = ("ssl_cert_file", "sslkeylogfile")


def bounded_client(timeout: float, query: list[tuple[str, str]]) -> Any:
    """An HTTP client for the openai package that adds `query` to the address of every request.

    An attempt ends after `timeout` seconds, however the server spends them, and at most `MAX_BYTES`
    + 1 bytes of an answer are read. Raises UsageError and MissingDependency for the environment's
    settings.
    """
    import openai

    library = http_library()

    class BoundedClient(openai.DefaultAsyncHttpxClient):
        async def send(self, request: Any, *, stream: bool = False, **how: Any) -> Any:
            try:
                async with asyncio.timeout(timeout):
                    response = await super().send(request, stream=True, **how)
                    body = await _read_bounded(response)
            except TimeoutError as error:
                # The library's own error, so that the package tries again as it does for those.
                raise library.ReadTimeout("the attempt took too long", request=request) from error
            headers = [(n, v) for n, v in response.headers.multi_items() if n not in _BODY_HEADERS]
            if response.is_error and retry_after(response.headers) > MAX_RETRY_AFTER:
                headers = [(n, v) for n, v in headers if n != "x-should-retry"]
                headers.append(("x-should-retry", "false"))
            return library.Response(
                response.status_code, headers=headers, content=body, request=response.request
            )

    async def skip_redirect_body(response: Any) -> None:
        # The library would read the text of a redirect whole, for nobody.
        if response.has_redirect_location:
            await response.stream.aclose()
            response.stream = library.ByteStream(b"")

    hooks = {"response": [skip_redirect_body]}
    try:
        return BoundedClient(timeout=timeout, params=query, event_hooks=hooks)
    except ImportError as error:
        what = f"socksio (needed for the SOCKS proxy that {_set_variables(_PROXIES)} names)"
        raise MissingDependency(what, "pip install socksio") from error
    except OSError as error:
        why, names = error.strerror or error, _set_variables(_CERTIFICATES)
        raise UsageError(f"{names}: cannot be used for HTTPS: {why}") from error
    except (ValueError, library.InvalidURL) as error:
        names = _set_variables(_PROXIES)
        raise UsageError(f"{names}: holds no address of a proxy that can be used") from error


def http_library() -> Any:
    """The HTTP library that the installed openai package is made for, httpx or httpx2."""
    import openai

    return sys.modules[openai.DefaultAsyncHttpxClient.__mro__[1].__module__.partition(".")[0]]


async def _read_bounded(response: Any) -> bytes:
    body = bytearray()
    try:
        async for part in response.aiter_bytes():
            body += part
            if len(body) > MAX_BYTES:
                break
    finally:
        await response.aclose()
    return bytes(body[: MAX_BYTES + 1])


def _set_variables(names: tuple[str, ...]) -> str:
    """The variables among `names` that are set, without their values, which may hold passwords."""
    return ", ".join(sorted(n for n, value in os.environ.items() if value and n.lower() in names))


def root_cause(error: BaseException) -> str:
    """The bottom of a connection error, in the system's words: "Connection refused"."""
    found = bottom = error.__cause__ or error
    while bottom := _cause_of(bottom):
        found = bottom if isinstance(bottom, OSError) else found
    own_words = isinstance(found, ssl.SSLError | socket.gaierror)
    if isinstance(found, OSError) and found.errno and not own_words:
        return os.strerror(found.errno)
    return getattr(found, "strerror", None) or str(found) or type(found).__name__


def _cause_of(error: BaseException) -> BaseException | None:
    if isinstance(error, BaseExceptionGroup):
        return error.exceptions[0]
    return error.__cause__ or error.__context__
