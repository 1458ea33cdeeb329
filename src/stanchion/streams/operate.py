"""Listing, releasing and deleting streams."""

from __future__ import annotations

from typing import NamedTuple
from uuid import uuid4

from stanchion.stores.protocol import Store
from stanchion.stores.rules.leases.liveness import alive
from stanchion.streams.state import (
    KIND,
    StreamState,
    compare_and_set,
    give_back,
    known,
    load,
    reserved_ids,
    worker_id,
)


class StreamInfo(NamedTuple):
    """A stream: its batches, and its driver.

    `reserved_jobs`: the number of its reserved jobs, including those without a batch number yet. `last_beat`: by the
    store's clock; None for a driver of long ago. `error`: the last failure of its query on the current batch;
    `stopped`: the query fails on one job after the other. `jobs`, `seconds`: the size of the last batch that was
    finished, and how long it took; 0 before the first.
    """

    name: str
    id: str
    queue: str
    reserved: int
    acked: int
    epoch: int
    replays: int
    reserved_jobs: int
    last_beat: int | None
    live: bool
    error: str | None = None
    stopped: bool = False
    jobs: int = 0
    seconds: float = 0.0


def streams(store: Store) -> list[StreamInfo]:
    """Return all streams, by name."""
    workers, now = {worker.id: worker for worker in store.workers()}, store.now()
    found = []
    for value in store.values(KIND):
        state = StreamState.of(value)
        driver = workers.get(worker_id(value.name, state.epoch))
        tokens = [state.next_token, *([state.token] if state.pending else ())]
        found.append(
            StreamInfo(
                name=value.name,
                id=state.id,
                queue=state.queue,
                reserved=state.reserved,
                acked=state.acked,
                epoch=state.epoch,
                replays=state.replays,
                reserved_jobs=sum(len(reserved_ids(store, state.queue, token)) for token in tokens),
                last_beat=driver.last_seen_at if driver else None,
                live=driver is not None and alive(driver, now),
                error=state.error,
                stopped=state.stopped,
                jobs=state.jobs,
                seconds=state.seconds,
            )
        )
    return found


def release(store: Store, name: str) -> int:
    """Give the reserved jobs of a stream back without counting an attempt; return their number.

    A live driver is refused from then on. The batch stays, without jobs, for a driver that has it in its log.
    Raises InvalidInput if there is no such stream.
    """
    while True:
        state = known(store, name)
        if compare_and_set(store, name, state.taken_over(uuid4().hex)) is not None:
            break
    released = 0
    for token in (state.token, state.next_token):
        ids = reserved_ids(store, state.queue, token)
        give_back(store, state.queue, token, ids)
        released += len(ids)
    return released


def forget(store: Store, name: str) -> None:
    """Delete the state and the driver of a stream whose queue is deleted, if it exists."""
    while (state := load(store, name)) is not None:
        if store.compare_and_set(KIND, name, None, state.version):
            store.leave(worker_id(name, state.epoch))
            return
