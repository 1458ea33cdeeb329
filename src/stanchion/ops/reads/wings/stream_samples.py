"""The samples of streams that alerts look at."""

from __future__ import annotations

from collections.abc import Sequence

from stanchion.alerts.snapshot import StreamSample
from stanchion.stores.protocol import Store
from stanchion.stores.records.workers import WorkerRow
from stanchion.stores.rules.leases.liveness import alive
from stanchion.streams.state import KIND, StreamState, worker_id


def samples(store: Store, workers: Sequence[WorkerRow], now: int) -> tuple[StreamSample, ...]:
    """Return all streams."""
    known = {worker.id: worker for worker in workers}
    found = []
    for value in store.values(KIND):
        state = StreamState.of(value)
        driver = known.get(worker_id(value.name, state.epoch))
        found.append(
            StreamSample(
                name=value.name,
                queue=state.queue,
                live=driver is not None and alive(driver, now),
                last_beat=driver.last_seen_at if driver else None,
                pending=state.pending,
                replays=state.replays,
                stopped=state.stopped,
                error=state.error,
            )
        )
    return tuple(found)
