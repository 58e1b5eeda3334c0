"""How long one attempt at a server may take, and how long a server asks to be left alone."""

from __future__ import annotations

import asyncio
import email.utils
import math
import sys
import time
from collections.abc import Mapping
from typing import Any


def bounded(timeout: float) -> Any:
    """An HTTP client for the openai package whose every attempt ends after `timeout` seconds, however the server spends them.

    The package's own timeout is of each wait for a byte. What is over time here is raised as the package's HTTP library raises
    it, so that the package tries again as it does for those.
    """
    import openai

    library = sys.modules[openai.DefaultAsyncHttpxClient.__mro__[1].__module__.partition(".")[0]]

    class Bounded(openai.DefaultAsyncHttpxClient):
        async def send(self, request: Any, **how: Any) -> Any:
            try:
                async with asyncio.timeout(timeout):
                    return await super().send(request, **how)
            except TimeoutError as error:
                raise library.ReadTimeout("the attempt took too long", request=request) from error

    return Bounded(timeout=timeout)


def asked_wait(headers: Mapping[str, str]) -> float:
    """Seconds of Retry-After, which is a number or a date; 0 where there is none."""
    for name, unit in (("retry-after-ms", 1000), ("retry-after", 1)):
        try:
            wait = float(headers.get(name, "")) / unit
        except ValueError:
            continue
        return 0 if math.isnan(wait) else wait
    try:
        return email.utils.parsedate_to_datetime(headers.get("retry-after", "")).timestamp() - time.time()
    except (ValueError, OverflowError):
        return 0
