"""What a URL of an SQL store says, read without a connection."""

from __future__ import annotations

from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError

from stanchion.errors import InvalidInput

_LAST_PORT = 65_535


def parsed(url: str) -> URL:
    """Return a URL in its parts; InvalidInput for one that makes no sense."""
    try:
        found = make_url(url)
    except (ArgumentError, ValueError):  # what they say may show the password
        scheme = url.partition("://")[0]
        raise InvalidInput(
            f"the URL of the store makes no sense; write {scheme}://user:password@host:port/database, "
            f"with a number for the port, and with @, : and / of the password as %40, %3A and %2F"
        ) from None
    if found.port is not None and not 0 < found.port <= _LAST_PORT:
        raise InvalidInput(f"there is no port {found.port}; a port is from 1 to {_LAST_PORT}")
    return found


def refuse_unknown(url: URL, known: frozenset[str]) -> None:
    """Refuse options in a URL that the driver would not take."""
    for name in url.query:
        if name not in known:
            raise InvalidInput(f"unknown option {name!r} in the URL; the driver knows {', '.join(sorted(known))}")
