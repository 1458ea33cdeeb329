"""The redis-py client of an address: for one server, a cluster, or a master behind sentinels."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from redis import BlockingConnectionPool, ConnectionPool, Redis
from redis.backoff import NoBackoff
from redis.cluster import RedisCluster
from redis.connection import parse_url
from redis.retry import Retry
from redis.sentinel import Sentinel

from stanchion.errors import InvalidInput
from stanchion.stores.records import calls
from stanchion.stores.redis.client.address import Address, Watch

_OPTIONS: dict[str, Any] = {"socket_timeout": 5.0, "socket_connect_timeout": 5.0, "client_name": "stanchion"}
_ASKED = 1.0
"""Seconds to wait for a sentinel before the next one is asked."""


def client_of(address: Address, announced: Callable[[], tuple[str, int] | None]) -> Any:
    """Return a client, which connects on first use: a Redis or a RedisCluster.

    `announced`: returns the master of a service with sentinels that is newer than what some of them may say.
    """
    if address.watch is not None:
        return _watched(address, address.watch, announced)
    kind, retries = (RedisCluster, 3) if address.cluster else (Redis, 0)
    given = {"retry": Retry(NoBackoff(), retries), **_OPTIONS}
    if not address.cluster and "max_connections" in _options_in(address.url):
        # The default pool raises when all are in use; this one waits for one.
        return Redis.from_pool(BlockingConnectionPool.from_url(address.url, timeout=calls.CALL_SECONDS, **given))
    return kind.from_url(address.url, **given)


def refuse_options(address: Address) -> None:
    """Refuse URL options that the driver would not accept."""
    if address.cluster:
        return  # its client accepts more than a connection does
    try:
        pool = ConnectionPool.from_url(address.url, **_OPTIONS)
        pool.connection_class(**pool.connection_kwargs)
    except (TypeError, ValueError) as error:
        said = address.without_password(str(error)).removeprefix("AbstractConnection.__init__() got an ")
        raise InvalidInput(
            f"the options in the URL of the store are not valid: {said}; see redis-py for them"
        ) from None


def _watched(address: Address, watch: Watch, announced: Callable[[], tuple[str, int] | None]) -> Any:
    """Return a client whose connections ask the sentinels for the present master."""
    sentinels: Any = _Sentinels(address, watch, announced)  # redis-py types none of its methods
    given = _of_servers(address)
    return sentinels.master_for(watch.service, retry=Retry(NoBackoff(), 0), **given, **_OPTIONS)


def sentinels_of(address: Address, watch: Watch) -> list[Any]:
    """Return a client for each sentinel."""
    options = _of_sentinels(address, watch)
    return [Redis(host, port, **options) for host, port in watch.sentinels]


class _Sentinels(Sentinel):
    """The sentinels of a service, some of which may not yet know announcements of others."""

    def __init__(self, address: Address, watch: Watch, announced: Callable[[], tuple[str, int] | None]) -> None:
        self.announced = announced
        asked = _of_sentinels(address, watch)
        super().__init__(watch.sentinels, sentinel_kwargs=asked)  # type: ignore[no-untyped-call]  # it has no types

    def discover_master(self, service_name: str) -> tuple[str, int]:
        """Return the address of the master."""
        return self.announced() or super().discover_master(service_name)  # type: ignore[no-untyped-call]  # nor has it


def _options_in(url: str) -> dict[str, object]:
    """Return the options in a URL."""
    return dict(parse_url(url))  # type: ignore[no-untyped-call]  # redis-py gives it no types


def _of_servers(address: Address) -> dict[str, Any]:
    """Return the options for the servers of a service."""
    given = _options_in(address.url)
    for name in ("host", "port"):
        given.pop(name, None)
    given["ssl"] = given.pop("connection_class", None) is not None
    return given


def _of_sentinels(address: Address, watch: Watch) -> dict[str, Any]:
    """Return the options for the sentinels."""
    of_tls = {name: value for name, value in _of_servers(address).items() if name.startswith("ssl")}
    login = {name: value for name, value in zip(("username", "password"), watch[2:], strict=True) if value}
    asked = {"socket_timeout": _ASKED, "socket_connect_timeout": _ASKED, "retry": Retry(NoBackoff(), 0)}
    return {**asked, **login, **of_tls}
