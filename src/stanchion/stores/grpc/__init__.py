"""Jobs in the store of a manager: every verb is a call of `stanchion.v1` by gRPC."""

from __future__ import annotations

import os
from importlib.util import find_spec
from typing import TYPE_CHECKING

from stanchion.errors import InvalidInput, MissingExtra
from stanchion.stores.records.capabilities import Capabilities

if TYPE_CHECKING:
    from stanchion.stores.grpc.store import GrpcStore
    from stanchion.stores.protocol import Store

CAPABILITIES = Capabilities(
    name="grpc",
    joins_transactions=False,
    push_wakeup=True,
    wakeup="a stream of signals from the manager",
    atomic_batches=False,
    durable="as the store of the manager",
    processes=True,
    extra="grpc",
    claims_by_id=True,
)
"""Capabilities known without asking a manager; see `GrpcStore.capabilities`."""


def open_store(url: str, database: Store | None = None) -> GrpcStore:
    """Return the store of the managers at a URL; `client/address.py` reads it.

    `database`: the store that the managers use, for calls in the caller's transaction.
    """
    if not _installed():
        raise MissingExtra("grpc", "a store behind a manager")
    # A child of a process that has used gRPC hangs without it. gRPC reads it when it is imported.
    os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "1")
    from stanchion.stores.grpc.client.address import address_of
    from stanchion.stores.grpc.client.channels import Channels
    from stanchion.stores.grpc.store import GrpcStore

    return GrpcStore(Channels(address_of(url)), database)


def shown_url(url: str) -> str:
    """Return a URL of managers, even an invalid one, for display: without its token."""
    from stanchion.stores.grpc.client.address import address_of

    try:
        return address_of(url).shown
    except InvalidInput:
        return f"{url.partition('://')[0]}://..."


def _installed() -> bool:
    try:
        return find_spec("grpc") is not None and find_spec("google.protobuf") is not None
    except ModuleNotFoundError:
        return False
