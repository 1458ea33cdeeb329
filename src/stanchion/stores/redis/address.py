"""What a URL of a Redis store says."""

from __future__ import annotations

from typing import NamedTuple
from urllib.parse import parse_qsl, unquote, urlencode, urlsplit, urlunsplit

from stanchion.errors import InvalidInput

_SCHEMES = {"redis": "redis", "rediss": "rediss", "valkey": "redis", "valkeys": "rediss"}
_EXAMPLE = "redis://user:password@host:6379/0"


class Address(NamedTuple):
    """Where the server is; `prefix` begins the name of every key."""

    url: str
    shown: str
    prefix: str
    cluster: bool
    password: str | None

    def without_password(self, text: str) -> str:
        """Return the text with the password hidden."""
        return text.replace(self.password, "***") if self.password else text


def address_of(url: str) -> Address:
    """Read `redis://user:password@host:port/database?prefix=stanchion`.

    `rediss` is TLS; `redis+cluster` and `rediss+cluster` name any node of a cluster; valkey may stand for redis.
    """
    parts = urlsplit(url)
    scheme, _, kind = parts.scheme.partition("+")
    if scheme not in _SCHEMES or kind not in ("", "cluster"):
        raise InvalidInput(f"use redis://, rediss://, redis+cluster:// or rediss+cluster://, such as {_EXAMPLE}")
    options = dict(parse_qsl(parts.query))
    prefix = options.pop("prefix", "stanchion")
    if not prefix or not prefix.isprintable() or set(prefix) & set("{}"):
        raise InvalidInput("prefix must be printable and without braces, such as ?prefix=stanchion")
    if not parts.hostname:
        raise InvalidInput(f"the URL names no host; write {_EXAMPLE}")
    database = parts.path.strip("/")
    if database and not database.isdigit():
        raise InvalidInput(f"the database of a Redis URL is a number, not {database!r}; write {_EXAMPLE}")
    if kind and database not in ("", "0"):
        raise InvalidInput("a cluster has no numbered databases; leave the number out, and give ?prefix= instead")
    password = unquote(parts.password) if parts.password else None
    at = parts.netloc.rpartition("@")[2]
    user = f"{parts.username or ''}:***@" if password else ""
    path = "" if kind else f"/{database or 0}"
    plain = (_SCHEMES[scheme], parts.netloc, path, urlencode(options), "")
    shown = (parts.scheme, user + at, parts.path, "", "")
    return Address(urlunsplit(plain), urlunsplit(shown), prefix, bool(kind), password)
