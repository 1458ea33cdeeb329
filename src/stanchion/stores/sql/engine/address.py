"""The URL of an SQL store, parsed without a connection."""

from __future__ import annotations

from urllib.parse import parse_qsl

from sqlalchemy import URL, make_url
from sqlalchemy.exc import ArgumentError

from stanchion.errors import InvalidInput

_LAST_PORT = 65_535
_LEAST_POOL, _MOST_POOL = 2, 1_000


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
    # SQLAlchemy drops options without a value, such as those of an unset variable: the default would take their place.
    for name, value in parse_qsl(url.rpartition("@")[2].partition("?")[2], keep_blank_values=True):
        if not value:
            raise InvalidInput(f"the option {name!r} in the URL has no value: give it one, or leave the option out")
    return found


def with_pool_size(url: URL) -> tuple[URL, int | None]:
    """Return a URL without its option pool_size, and the value; None if it has none."""
    given = url.query.get("pool_size")
    if given is None:
        return url, None
    if not isinstance(given, str) or not given.isdecimal() or not _LEAST_POOL <= int(given) <= _MOST_POOL:
        raise InvalidInput(
            f"pool_size must be a number from {_LEAST_POOL} to {_MOST_POOL}, not {given!r}: a transaction on one "
            f"connection may need another one beside it"
        )
    return url.difference_update_query(["pool_size"]), int(given)


def refuse_unknown(url: URL, known: frozenset[str]) -> None:
    """Raise InvalidInput for an option that the driver does not know."""
    for name in url.query:
        if name not in known:
            raise InvalidInput(f"unknown option {name!r} in the URL; the driver knows {', '.join(sorted(known))}")
