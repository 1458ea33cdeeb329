"""Parses the URL of a Redis store."""

from __future__ import annotations

from typing import NamedTuple
from urllib.parse import SplitResult, parse_qsl, unquote, urlencode, urlsplit, urlunsplit

from stanchion.core.urls import split_with_hosts
from stanchion.errors import InvalidInput

_SCHEMES = {"redis": "redis", "rediss": "rediss", "valkey": "redis", "valkeys": "rediss"}
_EXAMPLE = "redis://user:password@host:6379/0"
_WITH_SENTINELS = "redis+sentinel://user:password@host1,host2/service?db=0"
_SENTINEL_PORT = 26379
_DECODING = frozenset({"decode_responses", "encoding", "encoding_errors"})


class Watch(NamedTuple):
    """The sentinels that know the master of a service, and the options to log in to them."""

    service: str
    sentinels: tuple[tuple[str, int], ...]
    username: str | None = None
    password: str | None = None


class Address(NamedTuple):
    """The address of the server; `prefix` starts the name of every key.

    With a `watch`, the host in `url` is a sentinel, and the sentinels provide the address of the server.
    """

    url: str
    shown: str
    prefix: str
    cluster: bool
    password: str | None
    watch: Watch | None = None

    def without_password(self, text: str) -> str:
        """Return the text with the passwords hidden."""
        for password in (self.password, self.watch and self.watch.password):
            text = text.replace(password, "***") if password else text
        return text


def address_of(url: str) -> Address:
    """Read `redis://user:password@host:port/database?prefix=stanchion`.

    `rediss` is TLS; `redis+cluster` and `rediss+cluster` name any node of a cluster, `redis+sentinel` and
    `rediss+sentinel` the sentinels and then the service; valkey may stand for redis.
    """
    parts = _split(url)
    scheme, _, kind = parts.scheme.partition("+")
    if scheme not in _SCHEMES or kind not in ("", "cluster", "sentinel"):
        raise InvalidInput(
            f"use redis://, redis+cluster:// or redis+sentinel://, or with rediss for TLS, such as {_EXAMPLE}"
        )
    options = dict(parse_qsl(parts.query))
    prefix = options.pop("prefix", "stanchion")
    if not prefix or not prefix.isprintable() or set(prefix) & set("{}"):
        raise InvalidInput("prefix must be printable and without braces, such as ?prefix=stanchion")
    for name in _DECODING & options.keys():
        raise InvalidInput(f"the option {name} changes the driver's replies, so the store can't use it; remove it")
    login, _, hosts = parts.netloc.rpartition("@")
    watch = _watch(parts, hosts, options) if kind == "sentinel" else None
    database = parts.path.strip("/") if watch is None else options.pop("db", "0")
    if watch is None and not parts.hostname:
        raise InvalidInput(f"the URL names no host; write {_EXAMPLE}")
    if database and not database.isdigit():
        raise InvalidInput(f"the database of a Redis URL is a number, not {database!r}; write {_EXAMPLE}")
    if kind == "cluster" and database not in ("", "0"):
        raise InvalidInput("a cluster has no numbered databases; leave the number out, and give ?prefix= instead")
    password = unquote(login.partition(":")[2]) or None
    user = f"{login.partition(':')[0]}:***@" if password else ""
    path = "" if kind == "cluster" else f"/{database or 0}"
    server = parts.netloc if watch is None else f"{login}@{hosts.partition(',')[0]}"
    plain = (_SCHEMES[scheme], server, path, urlencode(options), "")
    shown = (parts.scheme, user + hosts, parts.path, "", "")
    return Address(urlunsplit(plain), urlunsplit(shown), prefix, kind == "cluster", password, watch)


def _split(url: str) -> SplitResult:
    """Return the parts of a URL; InvalidInput for an invalid one."""
    try:
        if "sentinel" in url.partition("://")[0].lower():
            parts = split_with_hosts(url)
            for host in parts.netloc.rpartition("@")[2].split(","):
                urlsplit(f"//{host}")
        else:
            parts = urlsplit(url)
            _ = parts.port  # evaluated lazily; invalid ports are refused here
    except ValueError:  # its text may show a part of the password
        raise InvalidInput(
            f"the URL of the store is not valid; write {_EXAMPLE}, with a number for the port, and with @, : and / "
            f"of the password as %40, %3A and %2F"
        ) from None
    return parts


def _watch(parts: SplitResult, hosts: str, options: dict[str, str]) -> Watch:
    """Return the sentinels in the URL, and remove their options."""
    service = unquote(parts.path.strip("/"))
    sentinels = tuple(_sentinel(host) for host in hosts.split(",") if host)
    if not sentinels or not service or "/" in service:
        raise InvalidInput(f"name the sentinels and the service that they watch: {_WITH_SENTINELS}")
    return Watch(service, sentinels, options.pop("sentinel_username", None), options.pop("sentinel_password", None))


def _sentinel(host: str) -> tuple[str, int]:
    named = urlsplit(f"//{host}")
    try:
        port = named.port
    except ValueError:
        port = 0
    if not named.hostname or port == 0:
        raise InvalidInput(f"{host!r} is no host of a sentinel; write {_WITH_SENTINELS}, or host:{_SENTINEL_PORT}")
    return named.hostname, port or _SENTINEL_PORT
