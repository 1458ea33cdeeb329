"""Opens a store with its partitioned queues. Most have none, so `PartitionedStore` is imported only where needed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stanchion.partitions.layout import KIND
from stanchion.stores.ports import Partitions

if TYPE_CHECKING:
    from stanchion.stores.protocol import Store


def with_partitions(store: Store, *, always: bool = False) -> Store:
    """Return a store that knows its partitioned queues: the same store if it has none, unless `always`."""
    if store.extension(Partitions) is not None or not (always or store.values(KIND)):
        return store
    from stanchion.partitions.store import PartitionedStore

    found: Store = PartitionedStore(store)
    return found
