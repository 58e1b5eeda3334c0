"""Addresses of servers and proxies: which parts say where, and which say who asks.

A user and password go out as a header and a query with every request; neither stands in a message.
"""

from __future__ import annotations

import base64
from typing import NamedTuple
from urllib.parse import parse_qsl, unquote, urlsplit
from urllib.request import getproxies, proxy_bypass

from coevolve.errors import UsageError
from coevolve.models.redaction import public_address

PUBLIC = ("api-version",)
"""Parameters of a query whose values are no secrets: dates, that stand in other texts too."""


class Address(NamedTuple):
    """A server's address in its parts."""

    url: str  # The address without user, password and query
    authorization: str | None  # The header of the user and password, where there is one
    query: list[tuple[str, str]]
    secrets: list[str]
    """Secret texts in it: the password, the header's token, the values of the query."""


def addresses(urls: str | None) -> list[Address]:
    """Splits the addresses of servers at commas. Raises UsageError for what cannot be one."""
    if not urls:
        raise UsageError("the model is at a server: name it with --base-url, or OPENAI_BASE_URL")
    return [_checked(url.strip()) for url in urls.split(",")]


def _checked(url: str) -> Address:
    try:
        parts = urlsplit(url)
        good = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:
        good = False
    if not good or parts.fragment:
        shown = public_address(url)
        example = "as in http://localhost:8000/v1"
        raise UsageError(f"--base-url {shown!r} is no address of a server, {example}")
    return address(url)


def address(url: str) -> Address:
    """Splits an address into its parts; bytes that are no UTF-8 become half surrogates."""
    parts = urlsplit(url)
    given, at, host = parts.netloc.rpartition("@")
    plain = parts._replace(netloc=host, query="").geturl()
    query = parse_qsl(parts.query, keep_blank_values=True)
    values = [value for name, value in query if name.lower() not in PUBLIC]
    secrets = values + [value.replace(" ", "+") for value in values if " " in value]
    if not at:
        return Address(plain, None, query, secrets)
    user, _, password = (unquote(part, errors="surrogateescape") for part in given.partition(":"))
    token = base64.b64encode(f"{user}:{password}".encode("utf-8", "surrogateescape")).decode()
    return Address(plain, f"Basic {token}", query, [*secrets, password, token.rstrip("=")])


def proxy(url: str) -> str | None:
    """The proxy that the environment names for this address, as it stands there."""
    parts = urlsplit(url)
    if proxy_bypass(parts.netloc):
        return None
    found = getproxies()
    named = found.get(parts.scheme) or found.get("all")
    return f"http://{named}" if named and "://" not in named else named
