"""The times of the jobs of a stream, for queries with a watermark: only batches that are finished move it."""

from __future__ import annotations

from stanchion.core.ids import new_id
from stanchion.stores.protocol import Store
from stanchion.stores.records.jobs import NewJob
from stanchion.stores.records.outcomes import Bury, Move
from stanchion.streams import StreamSource, release
from stanchion.streams.sink import rows
from stanchion_conformance.streams.stream_driver import NAME, SOURCE, fill


class TestTimesOfStreams:
    def test_they_count_once_their_batch_is_acknowledged(self, store: Store) -> None:
        fill(store, 3)
        source = StreamSource(store, NAME, SOURCE)
        place, seen = source.initial(), []
        for latest in (100, 50, None):
            end = source.latest(place, 1)
            source.parts(place, end, 1)
            source.settle([], latest)
            seen.append(source.state().seen)
            place = end
        source.latest(place, 1)
        assert seen == [None, 100, 100]
        assert source.state().seen == 100

    def test_those_of_a_batch_that_is_given_back_do_not(self, store: Store) -> None:
        fill(store, 2)
        source = StreamSource(store, NAME, SOURCE)
        start = source.initial()
        end = source.latest(start, 2)
        source.settle([], 100)
        assert release(store, NAME) == 2
        again = StreamSource(store, NAME, SOURCE)
        assert [part.size for part in again.parts(start, end, 2)] == [0]
        again.settle([], None)
        behind = again.latest(end, 2)
        assert (again.state().seen, behind.seq) == (None, end.seq + 1)

    def test_a_new_batch_has_none_of_the_batch_before(self, store: Store) -> None:
        fill(store, 2)
        source = StreamSource(store, NAME, SOURCE)
        end = source.latest(source.initial(), 1)
        source.settle([], 100)
        source.latest(end, 1)
        assert (source.state().seen, source.state().seeing) == (100, None)

    def test_jobs_are_taken_out_before_the_batch_is_read(self, store: Store) -> None:
        store.push([NewJob(new_id(), SOURCE, str(n)) for n in range(4)])
        source = StreamSource(store, NAME, SOURCE)
        start = source.initial()
        end = source.latest(start, 4)
        (part,) = source.parts(start, end, 1)
        first, second, *others = rows(store, part)
        source.settle([Bury(first.lease, "no time"), Move(second.lease, "late")], 7)
        (part,) = source.parts(start, end, 1)
        assert [row.id for row in rows(store, part)] == [row.id for row in others]
        assert store.stats(["late"], ["states"])["late"].states.ready == 1
        StreamSource(store, NAME, SOURCE).parts(start, end, 1)
        assert store.fetch([second.id])[second.id].queue == "late"
