"""Whether the engines that serve the policy at a boundary are there. An engine's death is noticed
by nobody who asks it nothing.
"""

from __future__ import annotations

import urllib.error
import urllib.request
from http.client import HTTPException

from coevolve.training.verl.files import Ready

SECONDS = 10.0  # For an answer to GET /health, which costs an engine nothing however busy it is


def unhealthy(ready: Ready) -> str | None:
    """The first replica that does not answer or is ill, and why; None where all are well."""
    opener = urllib.request.build_opener(
        urllib.request.ProxyHandler({})
    )  # nodes of one cluster, whatever proxy is set
    for address in ready.addresses:
        try:
            opener.open(f"{address.removesuffix('/v1')}/health", timeout=SECONDS).close()
        except urllib.error.HTTPError as error:
            # vLLM's word for a dead engine is 503; one without the route says 404, and lives
            if error.code >= 500:
                return f"{address}: HTTP {error.code}"
        except (OSError, HTTPException, ValueError) as error:
            return f"{address}: {getattr(error, 'reason', None) or error or type(error).__name__}"
    return None
