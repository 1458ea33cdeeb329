"""Durable streams over jobs that carry many items: a batch is limited by its items."""

from __future__ import annotations

from stanchion.stores.protocol import Store
from stanchion.streams import Part, Position, StreamSource
from stanchion.streams.sink import begin
from stanchion.streams.sizing import Growth
from stanchion_conformance.harness import claim, counts_of, new_job, sizes_of
from stanchion_conformance.jobs.chunk_contents import chunk
from stanchion_conformance.streams.stream_driver import SOURCE


def push(store: Store, *items: int | None) -> list[str]:
    """Push jobs with so many items; None: a job that carries no chunk."""
    jobs = [new_job(queue=SOURCE) if number is None else chunk(number, queue=SOURCE) for number in items]
    store.push(jobs)
    return [job.id for job in jobs]


def batch(source: StreamSource, start: Position, most: int, parts: int = 4) -> tuple[Position, list[Part]]:
    """Begin a batch; return its end, and its parts, of which there are none if nothing is ready."""
    end = source.latest(start, most)
    return end, [] if end == start else source.parts(start, end, parts, most)


def whole_run(source: StreamSource, most: int) -> list[tuple[int, int]]:
    """Run all batches; return the jobs and the items of each."""
    found: list[tuple[int, int]] = []
    start = source.initial()
    while True:
        end, parts = batch(source, start, most)
        if not parts:
            return found
        found.append((parts[0].size, parts[0].items))
        start = end


class TestBatchesOfItems:
    def test_have_no_more_items_than_asked_for(self, store: Store) -> None:
        push(store, *(10,) * 5, *(None,) * 5, *(10,) * 5, *(None,) * 30)
        found = whole_run(StreamSource(store, "s", SOURCE), 25)
        assert (sum(jobs for jobs, _ in found), sum(items for _, items in found)) == (45, 135)
        assert all(0 < items <= 25 for _, items in found)
        assert len(found) <= 14
        assert sizes_of(store, SOURCE).total == 0

    def test_of_single_items_are_as_before(self, store: Store) -> None:
        push(store, *(None,) * 20)
        assert whole_run(StreamSource(store, "s", SOURCE), 8) == [(8, 8), (8, 8), (4, 4)]

    def test_grow_while_they_are_full(self, store: Store) -> None:
        push(store, *(None,) * 100)
        source = StreamSource(store, "s", SOURCE)
        source.growth = Growth(40)
        assert [items for _, items in whole_run(source, 10)] == [10, 20, 40, 30]
        push(store, *(None,) * 12)
        assert [items for _, items in whole_run(source, 10)] == [10, 2]

    def test_grow_by_the_items_of_their_jobs(self, store: Store) -> None:
        push(store, *(10,) * 10)
        source = StreamSource(store, "s", SOURCE)
        source.growth = Growth(45)
        assert [items for _, items in whole_run(source, 20)] == [20, 40, 40]

    def test_have_at_least_one_job(self, store: Store) -> None:
        push(store, 100, 100)
        assert whole_run(StreamSource(store, "s", SOURCE), 8) == [(1, 100), (1, 100)]

    def test_leave_the_other_jobs_to_others(self, store: Store) -> None:
        push(store, *(None,) * 10, *(50,) * 10)
        source = StreamSource(store, "s", SOURCE)
        _, parts = batch(source, source.initial(), 60)
        assert (parts[0].size, parts[0].items) == (11, 60)
        assert (sizes_of(store, SOURCE).ready, sizes_of(store, SOURCE).running) == (9, 11)
        assert counts_of(store, SOURCE).rolled_back == 0  # no more were claimed

    def test_give_back_what_is_too_much(self, store: Store) -> None:
        push(store, *(None,) * 30, *(50,) * 10)
        source = StreamSource(store, "s", SOURCE)
        end, parts = batch(source, source.initial(), 20)  # so the next ones seem to have an item each
        assert (parts[0].size, parts[0].items) == (20, 20)
        end, parts = batch(source, end, 20)
        assert (parts[0].size, parts[0].items) == (10, 10)
        assert (sizes_of(store, SOURCE).ready, sizes_of(store, SOURCE).running) == (10, 10)
        assert batch(source, end, 60)[1][0].items == 50
        assert {row.attempts for row in claim(store, 20, queue=SOURCE)} == {1}

    def test_that_were_begun_keep_their_jobs(self, store: Store) -> None:
        push(store, *(10,) * 4)
        source = StreamSource(store, "s", SOURCE)
        start = source.initial()
        _, (part, *_) = batch(source, start, 100)
        begin(store, part, "run")
        later = StreamSource(store, "s", SOURCE)
        assert later.initial() == start
        assert later.parts(start, Position(start.stream, 1), 4, 15)[0].items == 40

    def test_end_with_what_was_ready(self, store: Store) -> None:
        push(store, *(None,) * 10, *(50,) * 3)
        source = StreamSource(store, "s", SOURCE)
        source.stop_after_ready()
        start = source.initial()
        end, parts = batch(source, start, 60)
        seen = parts[0].size
        push(store, None, None)
        while (begun := batch(source, end, 60))[1]:
            end, parts = begun
            seen += parts[0].size
        assert (seen, sizes_of(store, SOURCE).ready) == (13, 2)

    def test_are_divided_by_items(self, store: Store) -> None:
        ids = push(store, 100, *(None,) * 10, 30, None)
        source = StreamSource(store, "s", SOURCE)
        _, parts = batch(source, source.initial(), 1000, parts=2)
        assert [(part.first, part.last) for part in parts] == [(ids[0], ids[0]), (ids[1], ids[-1])]


class TestBacklogOfItems:
    def test_counts_items(self, store: Store) -> None:
        push(store, 100, None, None)
        source = StreamSource(store, "s", SOURCE)
        assert source.behind() == 102
        batch(source, source.initial(), 100)
        assert source.behind() < 102
