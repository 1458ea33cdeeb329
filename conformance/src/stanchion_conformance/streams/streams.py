"""Durable streams: batches, positions, poison, and what an operator sees, without Spark."""

from __future__ import annotations

import json
import time
from contextlib import suppress
from uuid import uuid4

import pytest

from stanchion.core.boot_clock import boot_clock
from stanchion.core.ids import new_id
from stanchion.core.spark_errors import ForeignCheckpoint, StreamTaken
from stanchion.errors import CannotJoin, InvalidInput
from stanchion.stores.protocol import Store
from stanchion.stores.records.jobs import NewJob
from stanchion.streams import Position, StreamSource, release, state, streams
from stanchion.streams.sink import rows
from stanchion_conformance.harness import StoreClock, claim, counts_of, find_jobs, sizes_of
from stanchion_conformance.streams.stream_driver import NAME, SOURCE, Driver, Log, fill, nothing_left, outputs


class TestStreams:
    def test_a_batch_is_as_large_as_it_may_be(self, store: Store) -> None:
        fill(store, 5)
        source = StreamSource(store, NAME, SOURCE)
        start = source.initial()
        assert start.seq == 0
        end = source.latest(start, 3)
        assert end == Position(start.stream, 1)
        first = source.parts(start, end, 2)
        assert [len(rows(store, part)) for part in first] == [1, 2]
        following = source.latest(end, 3)
        assert [row.payload for part in source.parts(end, following, 1) for row in rows(store, part)] == ["3", "4"]
        assert source.latest(following, 3) == following
        assert counts_of(store, SOURCE).committed == 5
        assert nothing_left(store)

    def test_the_ids_of_a_batch_may_need_many_reads(self, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(state, "PAGE", 2)
        monkeypatch.setattr(state, "MORE", 3)
        fill(store, 11)
        source = StreamSource(store, NAME, SOURCE)
        start = source.initial()
        parts = source.parts(start, source.latest(start, 10), 2)
        assert [[row.payload for row in rows(store, part)] for part in parts] == [[*"01234"], [*"56789"]]

    def test_lanes_of_a_queue_are_streams_of_their_own(self, store: Store) -> None:
        store.configure(SOURCE, {"lanes": 8, "lanes_per_tenant": 1})
        store.push([NewJob(new_id(), SOURCE, str(lane), lane=lane) for lane in (-1, *range(8), 6)])
        found = {}
        for name, lanes in (("low", (-1, 3)), ("high", (4, 7))):
            source = StreamSource(store, name, SOURCE, lanes=lanes)
            start = source.initial()
            source.stop_after_ready()
            end = source.latest(start, 100)
            found[name] = sorted(row.payload for part in source.parts(start, end, 3) for row in rows(store, part))
            assert source.latest(end, 100) == end
        assert found == {"low": ["-1", "0", "1", "2", "3"], "high": ["4", "5", "6", "6", "7"]}
        assert {row.lanes[0][1:] for row in store.workers()} == {(-1, 3), (4, 7)}
        assert nothing_left(store)

    def test_the_position_stays_while_there_is_nothing(self, store: Store) -> None:
        source = StreamSource(store, NAME, SOURCE)
        start = source.initial()
        assert source.latest(start, 3) == start
        (part,) = source.parts(start, start, 4)
        assert rows(store, part) == []
        fill(store, 1)
        assert source.latest(start, 3).seq == 1

    def test_a_driver_that_stood_still_beats_before_it_reads_its_batch(
        self, store: Store, clock: StoreClock, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        away = 0.0
        monkeypatch.setattr("stanchion.streams.source.boot_clock", lambda: boot_clock() + away)
        fill(store, 3)
        source = StreamSource(store, NAME, SOURCE)
        start = source.initial()
        end = source.latest(start, 2)
        away = 3600.0
        clock.advance(away)
        parts = source.parts(start, end, 1)
        assert store.recover() == []
        assert [row.payload for part in parts for row in rows(store, part)] == ["0", "1"]
        away = 7200.0
        clock.advance(3600.0)
        assert len(store.recover()) == 2  # before the driver finds out
        assert [row.payload for part in source.parts(start, end, 1) for row in rows(store, part)] == []

    def test_reserved_jobs_are_running_and_go_to_nobody_else(self, store: Store, clock: StoreClock) -> None:
        fill(store, 3)
        source = StreamSource(store, NAME, SOURCE)
        source.latest(source.initial(), 2)
        assert sizes_of(store, SOURCE).running == 2
        assert [row.payload for row in claim(store, 9, queue=SOURCE, lease=30.0)] == ["2"]
        for _ in range(4):
            clock.advance(20)
            source.beat()
            assert [row.payload for row in store.recover()] in ([], ["2"])
        assert sizes_of(store, SOURCE).running == 2

    def test_a_whole_queue_goes_through(self, store: Store, mode: str) -> None:
        fill(store, 30)
        Driver(store, Log(), mode, limit=7).work()
        assert outputs(store) == list(range(30))
        assert nothing_left(store)

    def test_an_input_without_an_output_is_dropped(self, store: Store, mode: str) -> None:
        store.push([NewJob(new_id(), SOURCE, json.dumps(word)) for word in ("a", "drop", "b")])
        Driver(store, Log(), mode).work()
        assert outputs(store) == ["a", "b"]
        counts = counts_of(store, SOURCE)
        assert (counts.committed, counts.moved) == ((1, 2) if mode == "move" else (3, 0))

    def test_two_streams_of_one_queue_share_it(self, store: Store) -> None:
        fill(store, 4)
        one, other = StreamSource(store, "one", SOURCE), StreamSource(store, "other", SOURCE)
        ends = [source.latest(source.initial(), 2) for source in (one, other)]
        found = [rows(store, one.parts(Position(ends[0].stream, 0), ends[0], 1)[0])]
        found.append(rows(store, other.parts(Position(ends[1].stream, 0), ends[1], 1)[0]))
        assert [[row.payload for row in part] for part in found] == [["0", "1"], ["2", "3"]]

    def test_stops_after_what_was_ready(self, store: Store) -> None:
        fill(store, 5)
        source = StreamSource(store, NAME, SOURCE)
        source.stop_after_ready()
        place = source.initial()
        for size in (3, 2, 0):
            fill(store, 2)
            before, place = place, source.latest(place, 3)
            assert sum(len(rows(store, part)) for part in source.parts(before, place, 1)) == size
        assert sizes_of(store, SOURCE).ready == 6

    def test_staged_jobs_with_inputs_need_a_transaction(self, store: Store) -> None:
        fill(store, 2)
        with suppress(CannotJoin):
            Driver(store, Log(), "append").work()
        assert len(outputs(store)) == (2 if store.capabilities.atomic_batches else 0)


class TestRefusedPositions:
    def test_of_another_stream(self, store: Store) -> None:
        source = StreamSource(store, NAME, SOURCE)
        with pytest.raises(ForeignCheckpoint, match="another stream"):
            source.latest(Position(str(uuid4()), 0), 1)
        with pytest.raises(ForeignCheckpoint, match="another stream"):
            source.parts(source.initial(), Position(str(uuid4()), 0), 1)

    def test_older_and_newer_ones(self, store: Store) -> None:
        fill(store, 3)
        log = Log()
        Driver(store, log, "move", limit=1).work()
        source = StreamSource(store, NAME, SOURCE)
        for seq, age in ((2, "older"), (4, "newer")):
            with pytest.raises(ForeignCheckpoint, match=age):
                source.latest(Position(log.ends[0].stream, seq), 1)
            with pytest.raises(ForeignCheckpoint, match=age):
                source.parts(log.ends[0], Position(log.ends[0].stream, seq), 1)

    def test_a_stream_of_another_queue(self, store: Store) -> None:
        StreamSource(store, NAME, SOURCE).initial()
        with pytest.raises(InvalidInput, match="reads the queue 'raw'"):
            StreamSource(store, NAME, "other").initial()


class TestOperatingStreams:
    def test_are_listed(self, store: Store, clock: StoreClock) -> None:
        assert streams(store) == []
        fill(store, 3)
        source = StreamSource(store, NAME, SOURCE)
        end = source.latest(source.latest(source.initial(), 1), 2)
        (info,) = streams(store)
        assert (info.name, info.queue, info.reserved, info.acked, info.reserved_jobs) == (NAME, SOURCE, end.seq, 1, 2)
        assert (info.epoch, info.live) == (1, True)
        assert info.last_beat is not None
        clock.advance(31)
        assert not streams(store)[0].live

    def test_tell_size_and_time_of_their_last_finished_batch(self, store: Store) -> None:
        fill(store, 5)
        source = StreamSource(store, NAME, SOURCE)
        first = source.latest(source.initial(), 2)
        assert streams(store)[0][-2:] == (0, 0.0)
        time.sleep(0.002)  # of which it tells whole milliseconds
        second = source.latest(first, 3)
        (info,) = streams(store)
        assert (info.acked, info.jobs, info.seconds > 0) == (1, 2, True)
        time.sleep(0.002)  # of which it tells whole milliseconds
        assert source.latest(second, 3) == second  # nothing is left, so the batch that has ended is told at once
        (info,) = streams(store)
        assert (info.acked, info.jobs, info.seconds > 0) == (2, 3, True)

    def test_tell_nothing_of_a_batch_that_another_driver_has_ended(self, store: Store) -> None:
        fill(store, 2)
        first = StreamSource(store, NAME, SOURCE)
        end = first.latest(first.initial(), 2)
        source = StreamSource(store, NAME, SOURCE)
        assert source.latest(end, 2) == end
        assert streams(store)[0][-2:] == (0, 0.0)

    def test_count_the_jobs_behind_them(self, store: Store) -> None:
        store.configure(SOURCE, {"lanes": 4})
        store.push([NewJob(new_id(), SOURCE, "1", lane=n % 4) for n in range(8)])
        store.push([NewJob(new_id(), SOURCE, "1", delay=60, lane=3)])
        whole, half = StreamSource(store, NAME, SOURCE), StreamSource(store, "half", SOURCE, lanes=(0, 1))
        assert (whole.behind(), half.behind()) == (8, 4)

    def test_release_gives_the_jobs_back_and_refuses_the_driver(self, store: Store) -> None:
        fill(store, 3)
        log = Log()
        driver = Driver(store, log, "move", limit=2)
        steps = driver.steps()
        while next(steps) != "read":
            pass
        assert release(store, NAME) == 2
        assert sizes_of(store, SOURCE).ready == 3
        with pytest.raises(StreamTaken):
            list(steps)
        assert outputs(store) == []
        assert {row.attempts for row in find_jobs(store, queue=SOURCE)} == {0}
        Driver(store, log, "move", limit=2).work()
        assert outputs(store) == [0, 1, 2]

    def test_release_of_an_unknown_one(self, store: Store) -> None:
        with pytest.raises(InvalidInput, match="no stream 'nowhere'"):
            release(store, "nowhere")
