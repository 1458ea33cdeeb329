"""The checks of a request before its page runs: its source is allowed, and no other site sent a form."""

from __future__ import annotations

import hmac
import ipaddress
from typing import Final
from urllib.parse import urlsplit

from starlette.requests import Request

SAFE_METHODS: Final = frozenset({"GET", "HEAD"})
"""Methods that change nothing."""

_FORWARDED: Final = ("forwarded", "x-forwarded-for", "x-forwarded-host", "x-real-ip")


def is_loopback(host: str | None) -> bool:
    """Return whether a host is this machine, as a name or an address."""
    if host is None:
        return False
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def refuses_without_token(request: Request) -> str | None:
    """Return why a request without a token is refused; None if this machine made it, under one of its names.

    Another name is a sign of DNS rebinding: a page of another site whose name leads here. A proxy lets others in.
    """
    if any(name in request.headers for name in _FORWARDED):
        return "it came by a proxy, and this page has no tokens: start it with --tokens"
    if request.client is not None and not is_loopback(request.client.host):
        return "it came from another machine, and this page has no tokens: start it with --tokens"
    if not is_loopback(host_of(request)):
        return "without tokens, this page answers only to localhost and 127.0.0.1: open it by one of these names"
    return None


def host_of(request: Request) -> str | None:
    """Return the name in the Host header, without a port."""
    try:
        return urlsplit(f"//{request.headers.get('host', '')}").hostname
    except ValueError:
        return None


def from_another_site(request: Request) -> bool:
    """Return whether the browser says that another site made this request.

    `Sec-Fetch-Site` can't be set by a page. Browsers leave it out for addresses without TLS that are not this machine;
    then `Origin` must name this host.
    """
    site = request.headers.get("sec-fetch-site")
    if site is not None:
        return site != "same-origin"
    origin = request.headers.get("origin")
    if origin is None:
        return False
    return origin != f"{request.url.scheme}://{request.headers.get('host', '')}"


def csrf_fits(expected: str, given: str) -> bool:
    """Return whether a form carries the CSRF token of its session."""
    return hmac.compare_digest(expected.encode(), given.encode("utf-8", "surrogateescape"))


def local_path(path: str) -> str:
    """Return a path of this site to go back to; the first page in place of any other address."""
    local = path.startswith("/") and not path.startswith("//") and "\\" not in path and path.isprintable()
    return path if local else "/"
