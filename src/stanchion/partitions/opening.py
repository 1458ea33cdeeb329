"""Whether a store has partitioned queues. Most have none, so `PartitionedStore` is imported only where it is needed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeGuard

from stanchion.partitions.layout import KIND

if TYPE_CHECKING:
    from stanchion.partitions.store import PartitionedStore
    from stanchion.stores.protocol import Store


def is_partitioned(store: Any) -> TypeGuard[PartitionedStore]:
    """Return whether a store knows its partitioned queues."""
    return getattr(store, "knows_partitions", False)


def with_partitions(store: Store, *, always: bool = False) -> Store:
    """Return a store that knows its partitioned queues: the same store if it has none, unless `always`."""
    if is_partitioned(store) or not (always or store.values(KIND)):
        return store
    from stanchion.partitions.store import PartitionedStore

    found: Store = PartitionedStore(store)
    return found
