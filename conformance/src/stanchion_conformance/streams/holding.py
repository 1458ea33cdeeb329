"""Batches of streams that are held, while a sink stores their rows outside of the store."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress

import pytest

from stanchion.core.spark_errors import LeasesLost, StreamTaken
from stanchion.stores.protocol import Store
from stanchion.stores.records.outcomes import Rollback
from stanchion.streams import SinkBatch, StreamSource
from stanchion.streams.sink import begin, rows
from stanchion.streams.state import reserved_ids
from stanchion_conformance.harness import StoreClock, new_job, sizes_of, worker
from stanchion_conformance.streams.reserved_jobs import reserve
from stanchion_conformance.streams.stream_driver import (
    NAME,
    REFUSED,
    SOURCE,
    Died,
    Driver,
    Log,
    Mortal,
    fill,
    nothing_left,
)

LATE = 3600.0
"""Seconds after which a driver that died starts again: long after its heartbeats were missed."""


def pass_time(store: Store, clock: StoreClock, seconds: float = LATE) -> None:
    """Let time pass, and what belongs to the dead go back."""
    clock.advance(seconds)
    store.beat([worker("w")])
    while store.recover():
        pass


def begun(store: Store, source: StreamSource, limit: int = 2) -> SinkBatch:
    """Reserve a batch and begin to read it."""
    start = source.initial()
    (part,) = source.parts(start, source.latest(start, limit), 1)
    begin(store, part, "run")
    batch = SinkBatch.read_by(store, NAME, "run")
    assert batch is not None
    return batch


class LakeDriver(Driver):
    """Its sink adds the rows of each batch to a table of its own, unless the table has the batch."""

    def __init__(self, store: Store, log: Log, table: dict[int, list[int]]) -> None:
        super().__init__(store, log, "lake", limit=2)
        self.table = table

    def _batch(self, number: int, start: object, end: object, seen: list[int]) -> Iterator[str]:
        run = f"{self.run}:{number}"
        for part in self.source.parts(start, end, 2):  # type: ignore[arg-type]
            begin(self.store, part, run)
            seen += [json.loads(row.payload) for row in rows(self.store, part)]
        batch = SinkBatch.read_by(self.store, self.name, run)
        if batch is None:
            raise StreamTaken(self.name)
        if batch.acknowledged:
            return
        if seen:
            batch = batch.hold()
            yield "held"
            self.table.setdefault(batch.seq, list(seen))
            yield "stored"
        batch.drop_rest()


class TestHeldBatches:
    JOBS = 3

    @pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
    def test_a_driver_dies_at_each_step_and_starts_late(self, store: Store, clock: StoreClock, after: bool) -> None:
        dies_at, survived = 0, False
        while not survived:
            dies_at += 1
            for value in store.values("stream"):
                store.compare_and_set("stream", value.name, None, value.version)
            store.drop_queue(SOURCE)
            fill(store, self.JOBS)
            log, table = Log(), dict[int, list[int]]()
            try:
                LakeDriver(Mortal(store, dies_at, after=after), log, table).work()
                survived = True
            except Died:
                for _ in range(6):
                    pass_time(store, clock)
                    with suppress(*REFUSED):
                        LakeDriver(store, log, table).work()
                    if nothing_left(store):
                        break
            assert (dies_at, sorted(one for batch in table.values() for one in batch)) == (dies_at, [0, 1, 2])
            assert nothing_left(store)
        assert dies_at > 20

    def test_it_stays_reserved_though_its_driver_is_dead(self, store: Store, clock: StoreClock) -> None:
        fill(store, 4)
        source = StreamSource(store, NAME, SOURCE)
        batch = begun(store, source)
        batch.hold()
        source.beat()  # of a driver that lives on for a while
        pass_time(store, clock)
        assert sizes_of(store, SOURCE).running == 2
        again = StreamSource(store, NAME, SOURCE)
        again.beat()
        pass_time(store, clock)
        assert sizes_of(store, SOURCE).running == 2
        start = again.initial()
        assert [part.size for part in again.parts(start, again.latest(start, 9), 1)] == [2]
        pass_time(store, clock, 86_400)
        assert sizes_of(store, SOURCE).running == 0, "not for ever"

    def test_its_workers_are_forgotten_once_it_is_acknowledged(self, store: Store, clock: StoreClock) -> None:
        fill(store, 2)
        first = StreamSource(store, NAME, SOURCE)
        start = first.initial()
        begun(store, first).hold()
        second = StreamSource(store, NAME, SOURCE)
        end = second.latest(start, 9)
        (part,) = second.parts(start, end, 1)
        begin(store, part, "run of the second")
        batch = SinkBatch.read_by(store, NAME, "run of the second")
        assert batch is not None
        batch.hold().drop_rest()
        assert second.latest(end, 9) == end
        assert [one.heartbeat for one in store.workers() if one.id.startswith("stream:")] == [10.0]
        clock.advance(LATE)
        store.maintain()
        assert store.workers() == []
        assert nothing_left(store)

    def test_a_batch_without_its_jobs_is_refused(self, store: Store) -> None:
        fill(store, 2)
        batch = begun(store, StreamSource(store, NAME, SOURCE))
        first, _ = reserved_ids(store, SOURCE, batch.token)
        store.settle([Rollback(batch.state.lease(first), 0.0, refund=True)])
        with pytest.raises(LeasesLost):
            batch.hold()

    def test_an_earlier_driver_is_refused(self, store: Store) -> None:
        fill(store, 2)
        batch = begun(store, StreamSource(store, NAME, SOURCE))
        StreamSource(store, NAME, SOURCE).initial()
        with pytest.raises(StreamTaken):
            batch.hold()


class TestHeartbeats:
    def test_a_worker_may_tell_another_heartbeat(self, store: Store, clock: StoreClock) -> None:
        store.push([new_job()])
        store.beat([worker("w")])
        assert reserve(store) == 1
        store.beat([worker("w", heartbeat=1000.0)])
        clock.advance(100)
        assert store.recover() == []
        store.beat([worker("w")])
        clock.advance(100)
        assert len(store.recover()) == 1
