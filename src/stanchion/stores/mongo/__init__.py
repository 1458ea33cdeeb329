"""Jobs in MongoDB: every job is one document, and every step one atomic update of that document."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING

from stanchion.errors import InvalidInput, MissingExtra
from stanchion.stores.records.capabilities import Capabilities

if TYPE_CHECKING:
    from stanchion.stores.mongo.store import MongoStore

CAPABILITIES = Capabilities(
    name="mongodb",
    joins_transactions=True,
    push_wakeup=True,
    wakeup="tailable cursor on a capped collection; tx= joins a session on a replica set or through mongos",
    atomic_batches=False,
    durable="acknowledged by a majority and in their journals, unless the URL says otherwise (w=, journal=)",
    processes=True,
    extra="mongo",
    claims_by_id=True,
    prepared_jobs=True,
)


def open_store(url: str) -> MongoStore:
    """Return the store in a database: `mongodb://user:password@host1,host2/database?options`, or `mongodb+srv://`."""
    if find_spec("pymongo") is None:
        raise MissingExtra("mongo", "the MongoDB store")
    from stanchion.stores.mongo.client.address import address_of
    from stanchion.stores.mongo.client.server import Server
    from stanchion.stores.mongo.store import MongoStore

    return MongoStore(Server(address_of(url)))


def shown_url(url: str) -> str:
    """Return a MongoDB URL, even an invalid one, for display: without its password."""
    from stanchion.stores.mongo.client.address import address_of

    try:
        return address_of(url).shown
    except InvalidInput:
        return f"{url.partition('://')[0]}://..."
