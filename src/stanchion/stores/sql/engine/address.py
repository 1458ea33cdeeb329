"""The URL of an SQL store, parsed without a connection."""

from __future__ import annotations

from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError

from stanchion.errors import InvalidInput

_LAST_PORT = 65_535


def parsed(url: str) -> URL:
    """Return the parts of a URL; raises InvalidInput if it is malformed."""
    try:
        found = make_url(url)
    except (ArgumentError, ValueError):  # their messages may contain the password
        scheme = url.partition("://")[0]
        raise InvalidInput(
            f"the URL of the store is not valid; write {scheme}://user:password@host:port/database, "
            f"with a number for the port, and with @, : and / of the password as %40, %3A and %2F"
        ) from None
    if found.port is not None and not 0 < found.port <= _LAST_PORT:
        raise InvalidInput(f"there is no port {found.port}; a port is from 1 to {_LAST_PORT}")
    return found


def refuse_unknown(url: URL, known: frozenset[str]) -> None:
    """Raise InvalidInput for an option that the driver does not know."""
    for name in url.query:
        if name not in known:
            raise InvalidInput(f"unknown option {name!r} in the URL; the driver knows {', '.join(sorted(known))}")
