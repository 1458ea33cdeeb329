"""Durable streams whose drivers die, stall, or lose their jobs: no job is lost or doubled."""

from __future__ import annotations

import random
from contextlib import suppress

import pytest

from stanchion.core.ids import new_id
from stanchion.core.spark_errors import LeasesLost, StreamTaken
from stanchion.stores.protocol import Store
from stanchion.stores.records.jobs import JobState, NewJob
from stanchion.stores.records.outcomes import Bury
from stanchion.streams import SinkBatch, StreamSource, release, streams
from stanchion.streams.sink import begin, rows
from stanchion.streams.state import known
from stanchion_conformance.harness import StoreClock, claim, counts_of, find_jobs, ids_reserved, sizes_of, worker
from stanchion_conformance.streams.stream_driver import (
    NAME,
    REFUSED,
    SOURCE,
    TARGET,
    Actor,
    Died,
    Driver,
    Log,
    Mortal,
    Pausing,
    fill,
    late_claim,
    nothing_left,
    out,
    outputs,
    work_to_the_end,
)


class TestDeathAtEachStep:
    """A driver dies before or after each single call of the store; the next one continues from its log."""

    JOBS = 3

    @pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
    def test_nothing_is_lost_or_doubled(self, store: Store, mode: str, clock: StoreClock, after: bool) -> None:
        dies_at, survived = 0, False
        while not survived:
            dies_at += 1
            store.drop_queue(SOURCE)
            store.drop_queue(TARGET)
            fill(store, self.JOBS)
            log, mortal = self._new_log(store), Mortal(store, dies_at, after=after)
            try:
                Driver(mortal, log, mode, limit=2).work()
                survived = True
            except Died:
                work_to_the_end(store, log, mode, clock)
            assert (dies_at, outputs(store)) == (dies_at, list(range(self.JOBS)))
            assert nothing_left(store)
        assert dies_at > 20

    def _new_log(self, store: Store) -> Log:
        for value in store.values("stream"):
            store.compare_and_set("stream", value.name, None, value.version)
        return Log()

    def test_a_driver_that_finds_what_another_has_claimed_gives_it_back(self, store: Store) -> None:
        """The claim was made and the value not written."""
        fill(store, 3)
        log = Log()
        mortal = Mortal(store, 0, after=True)
        driver = Driver(mortal, log, "move")
        start = driver.source.initial()
        state = known(store, NAME)
        mortal._dies_at = mortal.calls + 3  # the value is read, the next jobs are seen and claimed
        with pytest.raises(Died):
            driver.source.latest(start, 2)
        assert len(ids_reserved(store, SOURCE, state.next_token)) == 2
        assert [(stream.reserved, stream.reserved_jobs) for stream in streams(store)] == [(0, 2)]
        assert StreamSource(store, NAME, SOURCE).initial() == start
        assert (sizes_of(store, SOURCE).ready, sizes_of(store, SOURCE).running) == (3, 0)

    def test_a_lost_log_gets_the_same_batch(self, store: Store, mode: str) -> None:
        fill(store, 6)
        steps = Driver(store, Log(), mode).steps()
        for step in steps:
            if step == "read":
                break
        assert Driver(store, Log(), mode).work()
        assert outputs(store) == list(range(6))


class TestTwoDrivers:
    def test_the_older_is_refused_at_its_next_call(self, store: Store, other_store: Store) -> None:
        fill(store, 2)
        older, newer = StreamSource(store, NAME, SOURCE), StreamSource(other_store, NAME, SOURCE)
        start = older.initial()
        end = older.latest(start, 1)
        (part,) = older.parts(start, end, 1)
        newer.initial()
        for call in (
            older.initial,
            older.beat,
            lambda: older.latest(start, 1),
            lambda: older.parts(start, end, 1),
            lambda: begin(store, part, "run"),
        ):
            with pytest.raises(StreamTaken):
                call()
        assert newer.latest(start, 1) == end

    def test_a_reader_of_a_batch_before_comes_late(self, store: Store) -> None:
        """Its batch was read by another task meanwhile, and is finished."""
        fill(store, 2)
        source = StreamSource(store, NAME, SOURCE)
        start = source.initial()
        first = source.latest(start, 1)
        (late,) = source.parts(start, first, 1)
        begin(store, late, "run:0")
        batch = SinkBatch.read_by(store, NAME, "run:0")
        assert batch is not None
        batch.drop_rest()
        (part,) = source.parts(first, source.latest(first, 1), 1)
        begin(store, part, "run:1")
        with pytest.raises(StreamTaken):
            begin(store, late, "run:0")
        state = known(store, NAME)
        assert (state.run, state.pending) == (state.begun, True)
        assert state.run is not None
        assert state.run.name == "run:1"

    def test_what_a_late_one_claims_goes_back(self, store: Store) -> None:
        """It stalls between the value and the claim, while its successor finishes that very batch."""
        fill(store, 4)
        late = Pausing(store, "claim")
        older = StreamSource(late, NAME, SOURCE)
        start = older.initial()

        def meanwhile() -> None:
            Driver(store, Log(), "move", limit=2).work()
            fill(store, 2)

        late.meanwhile = meanwhile
        with pytest.raises(StreamTaken):
            older.latest(start, 2)
        assert sizes_of(store, SOURCE).ready == 2
        assert outputs(store) == [0, 1, 2, 3]

    def test_what_a_late_one_claims_and_keeps_is_taken_from_it(self, store: Store, clock: StoreClock) -> None:
        start = StreamSource(store, NAME, SOURCE).initial()
        newer = StreamSource(store, NAME, SOURCE)
        newer.initial()
        state = known(store, NAME)
        fill(store, 2)
        store.claim(late_claim(state.id, 1, state.epoch - 1))  # the older one's, and then it dies
        clock.advance(20)
        newer.beat()
        assert store.recover() == []
        clock.advance(20)
        newer.beat()
        assert len(store.recover()) == 2
        assert newer.latest(start, 5).seq == 1

    def test_a_newer_one_keeps_the_batch_that_it_replays(self, store: Store, clock: StoreClock) -> None:
        fill(store, 3)
        older = StreamSource(store, NAME, SOURCE)
        start = older.initial()
        end = older.latest(start, 3)
        newer = StreamSource(store, NAME, SOURCE)
        newer.initial()
        for _ in range(4):
            clock.advance(20)
            newer.beat()
            assert store.recover() == []
        assert sum(len(rows(store, part)) for part in newer.parts(start, end, 2)) == 3

    def test_an_older_sink_acknowledges_nothing_of_the_newer_ones(self, store: Store, mode: str) -> None:
        """It finds another batch pending than the one it has read."""
        fill(store, 8)
        older = Driver(store, Log(), mode).steps()
        while next(older) != "done":
            pass
        newer = Driver(store, Log(), mode).steps()
        while known(store, NAME).reserved < 2:
            next(newer)
        with pytest.raises(StreamTaken):
            list(older)
        assert known(store, NAME).pending
        list(newer)
        assert outputs(store) == list(range(8))
        assert nothing_left(store)

    def test_what_a_late_one_claims_is_not_dropped_by_its_successor(self, store: Store) -> None:
        """It claims after the successor has moved the whole batch, and reads the value after that is finished."""
        fill(store, 2)
        late = Pausing(store, "claim")
        older = StreamSource(late, NAME, SOURCE)
        start = older.initial()
        newer = Driver(store, Log(), "move").steps()

        def up_to_the_sink() -> None:
            while next(newer) != "done":
                pass
            store.push([NewJob(new_id(), SOURCE, "2")])
            late.hold_up("compare_and_set", lambda: next(newer) and next(newer))

        late.meanwhile = up_to_the_sink
        with pytest.raises(StreamTaken):
            older.latest(start, 2)
        list(newer)
        assert outputs(store) == [0, 1, 2]

    @pytest.mark.parametrize("seed", range(4))
    def test_any_interleaving(self, store: Store, mode: str, clock: StoreClock, seed: int) -> None:
        """Drivers presumed dead continue beside their successors, jobs are taken back, the stream is released."""
        choose = random.Random(seed)
        fill(store, 12)
        log = Log()
        running: list[Actor] = []
        for _ in range(300 if store.capabilities.processes else 1500):
            what = choose.random()
            if not running or (what < 0.02 and len(running) < 4):
                # Now and then one without a log.
                running.append(Actor(store, log if choose.random() < 0.7 else Log(), mode))
            elif what < 0.03:
                clock.advance(40)
                store.beat([worker("w")])
                store.recover()
            elif what < 0.04 and streams(store):
                release(store, NAME)
            elif what < 0.05:
                running.remove(choose.choice(running))  # it is dead, or stands still for ever
            else:
                one = choose.choice(running)
                # Often a whole stretch, so that some get far.
                for _ in range(choose.choice((1, 1, 1, 5, 30))):
                    if not one.step():
                        running.remove(one)
                        break
        for one in running:
            while one.step():
                pass
        for _ in range(3):
            work_to_the_end(store, Log(), mode, clock)
        assert outputs(store) == list(range(12))
        assert nothing_left(store)


class TestPublishedAhead:
    """New jobs of a batch are stored once, while its own jobs stay reserved."""

    def _reserved_batch(self, store: Store) -> tuple[StreamSource, SinkBatch]:
        source = StreamSource(store, NAME, SOURCE)
        source.latest(source.initial(), 4)
        return source, self._pending(store)

    def _pending(self, store: Store) -> SinkBatch:
        found = SinkBatch.pending(store, NAME)
        assert found is not None
        return found[0]

    def _ahead(self, store: Store, batch: SinkBatch, attempt: str) -> SinkBatch:
        store.stage(batch.write, attempt, [out('"new"')])
        return batch.publish_ahead([(attempt, 1)])

    def test_a_repeat_does_nothing(self, store: Store) -> None:
        fill(store, 4)
        _, batch = self._reserved_batch(store)
        self._ahead(store, batch, "a")
        StreamSource(store, NAME, SOURCE).initial()
        again = self._ahead(store, self._pending(store), "b")
        assert outputs(store) == ["new"]
        assert sizes_of(store, SOURCE).running == 4
        again.drop_rest()
        assert nothing_left(store)
        assert counts_of(store, SOURCE).committed == 4

    def test_the_next_batch_has_its_own(self, store: Store) -> None:
        fill(store, 8)
        source, batch = self._reserved_batch(store)
        self._ahead(store, batch, "a").drop_rest()
        source.latest(source.initial(), 4)
        self._ahead(store, self._pending(store), "a").drop_rest()
        assert outputs(store) == ["new", "new"]
        assert nothing_left(store)

    def test_a_late_driver_is_refused(self, store: Store, clock: StoreClock) -> None:
        """Its reserved jobs went back, and are in a batch of its successor."""
        fill(store, 4)
        _, late = self._reserved_batch(store)
        clock.advance(40)
        store.beat([worker("w")])
        assert len(store.recover()) == 4
        source = StreamSource(store, NAME, SOURCE)
        self._pending(store).drop_rest()
        source.latest(source.initial(), 4)
        self._ahead(store, self._pending(store), "a").drop_rest()
        with pytest.raises(StreamTaken):
            self._ahead(store, late, "late")
        assert outputs(store) == ["new"]
        assert nothing_left(store)


class TestLostLeases:
    def test_what_was_taken_back_is_not_published(self, store: Store, clock: StoreClock) -> None:
        """Outputs of jobs that another driver gets must not be stored as well."""
        if not store.capabilities.atomic_batches:
            return
        fill(store, 4)
        log = Log()
        steps = Driver(store, log, "append").steps()
        while next(steps) != "found":
            pass
        clock.advance(40)
        store.beat([worker("w")])
        assert len(store.recover(limit=2)) == 2
        with pytest.raises(LeasesLost):
            list(steps)
        assert outputs(store) == []
        assert len(claim(store, 1, queue=SOURCE)) == 1  # and that one never comes back
        Driver(store, log, "append").work()
        assert len(outputs(store)) == len(set(outputs(store))) == 3

    def test_what_was_taken_back_is_not_moved(self, store: Store, clock: StoreClock) -> None:
        fill(store, 4)
        log = Log()
        steps = Driver(store, log, "move").steps()
        while next(steps) != "read":
            pass
        clock.advance(40)
        store.beat([worker("w")])
        assert len(store.recover(limit=3)) == 3
        list(steps)
        assert outputs(store) == list(range(4))
        assert counts_of(store, SOURCE).moved == 4

    def test_a_cancel_of_a_reserved_job_comes_too_late(self, store: Store, mode: str) -> None:
        fill(store, 2)
        steps = Driver(store, Log(), mode).steps()
        while next(steps) != "read":
            pass
        (row,) = [row for row in find_jobs(store, queue=SOURCE) if row.payload == "1"]
        assert store.cancel([row.id]) == [JobState.RUNNING]
        list(steps)
        assert outputs(store) == [0, 1]

    def test_jobs_finished_by_others_while_reserved(self, store: Store, mode: str) -> None:
        """A holder of the token ended one: the next run of the batch counts only the rest."""
        fill(store, 3)
        log = Log()
        steps = Driver(store, log, mode).steps()
        while next(steps) != "found":
            pass
        state = known(store, NAME)
        ids = ids_reserved(store, SOURCE, state.token)
        if ids:
            store.settle([Bury(state.lease(ids[0]), "by hand")])
            with pytest.raises(LeasesLost):
                list(steps)
        Driver(store, log, mode).work()
        assert outputs(store) == ([1, 2] if ids else [0, 1, 2])

    def test_a_batch_whose_queue_was_deleted(self, store: Store, mode: str) -> None:
        fill(store, 2)
        log = Log()
        steps = Driver(store, log, mode).steps()
        while next(steps) != "read":
            pass
        store.drop_queue(SOURCE)
        with suppress(*REFUSED):
            list(steps)
        fill(store, 2)
        Driver(store, log, mode).work()
        assert outputs(store) == [0, 1]
