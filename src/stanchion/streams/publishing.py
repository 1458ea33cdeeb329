"""Publish staged jobs, together with jobs that were not staged."""

from __future__ import annotations

from collections.abc import Sequence

from stanchion.stores.ports import PreparedJobs
from stanchion.stores.protocol import Store
from stanchion.stores.records.prepared import Prepared
from stanchion.stores.records.staging import Publication


def publish(store: Store, publication: Publication, carried: Sequence[Prepared] = ()) -> bool:
    """Publish staged jobs, and prepared jobs that the caller carries."""
    if not carried:
        return store.publish(publication)
    prepared = store.extension(PreparedJobs)
    assert prepared is not None  # noqa: S101 - the store has prepared them
    return prepared.publish_prepared(publication, carried)
