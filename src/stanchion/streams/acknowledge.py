"""Acknowledging a batch."""

from __future__ import annotations

from dataclasses import replace

from stanchion.core.spark_errors import LeasesLost
from stanchion.stores.protocol import Store
from stanchion.stores.records.staging import Finish, Publication
from stanchion.streams.state import StreamState, reserved_ids


def acknowledge(store: Store, name: str, state: StreamState, settled: int = 0) -> StreamState | None:
    """Commit the reserved jobs of the last batch and acknowledge it; return None if the state has changed meanwhile.

    Jobs that were taken back are delivered in a later batch. `settled`: the number of jobs settled before.
    """
    while True:
        left = len(reserved_ids(store, state.queue, state.token))
        read = state.begun.size if state.begun else 0
        done = state.acknowledged(max(left, read, settled))
        finish = Finish(state.queue, state.token, left) if left else None
        publication = Publication(state.write(state.reserved), value=done.change(name), finish=finish)
        try:
            return replace(done, version=done.version + 1) if store.publish(publication) else None
        except LeasesLost:
            continue
