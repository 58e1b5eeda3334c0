"""The retry policy of calls to a model's server: HTTP 429 (too many requests) and other passing
faults.

| the attempt ended with | the client |
|---|---|
| a connection error, a timeout, HTTP 408, 409, 429 or 5xx | tries again, up to `RETRIES` times |
| the same, with a Retry-After | waits that long, up to `MAX_RETRY_AFTER` seconds, and tries again |
| the same, with a longer Retry-After | gives up at once |
| any other HTTP error | gives up at once |

The openai package does the waiting and repeating (exponential backoff with jitter from half a
second to eight); nothing retries on top of it. A call that is given up is its item's failure or the
server's (`servers`), and a rerun of the command goes on from the journal.
"""

from __future__ import annotations

import email.utils
import math
import time
from collections.abc import Mapping

RETRIES = 4  # Attempts after the first one
MAX_RETRY_AFTER = 60  # Seconds of Retry-After that every version of the openai package waits for


def is_passing(status: int | None) -> bool:
    """Tells whether an attempt with this status (None: no answer) is worth another one."""
    return status is None or status in (408, 409, 429) or status >= 500


def retry_after(headers: Mapping[str, str]) -> float:
    """Seconds that a response asks to be left alone, by a number or a date; 0 where it doesn't."""
    for name, unit in (("retry-after-ms", 1000), ("retry-after", 1)):
        try:
            wait = float(headers.get(name, "")) / unit
        except ValueError:
            continue
        return 0 if math.isnan(wait) else wait
    try:
        until = email.utils.parsedate_to_datetime(headers.get("retry-after", ""))
        return until.timestamp() - time.time()
    except (ValueError, OverflowError):
        return 0
