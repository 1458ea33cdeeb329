"""The end of a batch."""

from __future__ import annotations

from dataclasses import replace

from stanchion.errors import LeasesLost
from stanchion.stores.protocol import Store
from stanchion.stores.records import Finish, Publication
from stanchion.streams.state import StreamState


def acknowledge(store: Store, name: str, state: StreamState) -> StreamState | None:
    """Commit what is in hand of the last batch, and acknowledge it; None when the state is another by now.

    Jobs that were taken back meanwhile come again in a later batch.
    """
    done = replace(state, acked=state.reserved, replays=0)
    while True:
        left = len(store.ids_in_hand(state.queue, state.token))
        finish = Finish(state.queue, state.token, left) if left else None
        publication = Publication(state.write(state.reserved), note=done.change(name), finish=finish)
        try:
            return replace(done, version=done.version + 1) if store.publish(publication) else None
        except LeasesLost:
            continue
