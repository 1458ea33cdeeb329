"""Jobs in Redis 6.2 and later, or Valkey: every change is one Lua script on the keys of one queue."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING

from stanchion.errors import InvalidInput, MissingExtra
from stanchion.stores.records.capabilities import Capabilities

if TYPE_CHECKING:
    from stanchion.stores.redis.store import RedisStore

CAPABILITIES = Capabilities(
    name="redis",
    joins_transactions=False,
    push_wakeup=True,
    wakeup="blocking read of a stream of signals per queue",
    atomic_batches=False,
    atomic_pushes=True,  # but not on a cluster
    durable="as the server's appendonly and appendfsync say: always keeps every write, everysec all but about the "
    "last second when the machine dies; without appendonly only the last snapshot survives",
    processes=True,
    extra="redis",
    claims_by_id=True,
    prepared_jobs=True,
)


def open_store(url: str) -> RedisStore:
    """Return the store on a server, a cluster or a master behind sentinels; `address.py` reads the URL."""
    if not _installed():
        raise MissingExtra("redis", "the Redis store")
    from stanchion.stores.redis.client.address import address_of
    from stanchion.stores.redis.client.clients import refuse_options
    from stanchion.stores.redis.client.server import Server
    from stanchion.stores.redis.store import RedisStore

    address = address_of(url)
    refuse_options(address)
    return RedisStore(Server(address))


def shown_url(url: str) -> str | None:
    """Return a URL of sentinels for display, without its passwords; None for others."""
    if "+sentinel" not in url.partition("://")[0]:
        return None
    from stanchion.stores.redis.client.address import address_of

    try:
        return address_of(url).shown
    except InvalidInput:
        return f"{url.partition('://')[0]}://..."


def _installed() -> bool:
    """Return True if the client is installed, and not shadowed by another package or folder of that name."""
    try:
        return find_spec("redis.asyncio") is not None
    except ModuleNotFoundError:
        return False
