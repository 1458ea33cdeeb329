"""Publish staged jobs, together with jobs that were not staged."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from stanchion.stores.protocol import PreparedJobs, Store
from stanchion.stores.records.prepared import Prepared
from stanchion.stores.records.staging import Publication


def publish(store: Store, publication: Publication, carried: Sequence[Prepared] = ()) -> bool:
    """Publish staged jobs, and prepared jobs that the caller carries."""
    if not carried:
        return store.publish(publication)
    return cast("PreparedJobs", store).publish_prepared(publication, carried)
