"""Durable streams read by queries with state, such as windows: the state of each batch has exactly its jobs."""

from __future__ import annotations

import json

import pytest

from stanchion.core.ids import new_id
from stanchion.core.spark_errors import BatchNotKept, LeasesLost, StreamTaken
from stanchion.queues.operating import purge
from stanchion.stores.protocol import Store
from stanchion.stores.records.jobs import NewJob
from stanchion.stores.records.outcomes import Bury, Commit
from stanchion.streams import SinkBatch, StreamSource
from stanchion.streams.sink import begin, rows
from stanchion_conformance.harness import StoreClock, claim, worker
from stanchion_conformance.streams.stream_driver import (
    NAME,
    SOURCE,
    Died,
    Driver,
    Log,
    Mortal,
    fill,
    nothing_left,
    outputs,
)


@pytest.fixture(params=["append", "foreign"])
def sink(request: pytest.FixtureRequest, store: Store) -> str:
    """The sinks of queries with state; "" for staged jobs and inputs in one step, where there are no transactions."""
    return str(request.param) if store.capabilities.atomic_batches or request.param == "foreign" else ""


class TestQueriesWithState:
    JOBS = 2

    @pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
    @pytest.mark.parametrize("history_ttl", [86_400.0, 0.0], ids=["kept", "dropped"])
    def test_death_at_each_step(self, store: Store, sink: str, history_ttl: float, after: bool) -> None:
        """The state has exactly the jobs of the batches that its log names as finished, once each."""
        if not sink or (sink == "foreign" and not history_ttl):  # for whom nothing is ever read from history
            return
        store.configure(SOURCE, {"history_ttl": history_ttl})
        written: list[int] = []
        dies_at, survived = 0, False
        while not survived:
            wanted = list(range(dies_at * self.JOBS, (dies_at + 1) * self.JOBS))
            store.push([NewJob(new_id(), SOURCE, json.dumps(n)) for n in wanted])
            dies_at += 1
            name, log, mortal = f"{NAME}-{dies_at}", Log(), Mortal(store, dies_at, after=after)
            try:
                Driver(mortal, log, sink, limit=2, name=name).work()
                survived = True
            except Died:
                Driver(store, log, sink, limit=2, name=name).work()
            assert (dies_at, log.state) == (dies_at, wanted)
            written += [one for batch in log.written.values() for one in batch]
        assert sorted(written + outputs(store)) == list(range(dies_at * self.JOBS))
        assert nothing_left(store)
        assert dies_at > 10

    def test_what_it_may_need_again_is_forgotten(self, store: Store, clock: StoreClock) -> None:
        """Its history was purged before the restart: it says so, and continues without its state."""
        if not store.capabilities.atomic_batches:
            return
        fill(store, 3)
        log = Log()
        steps = Driver(store, log, "append").steps()
        while next(steps) != "committed":
            pass
        clock.advance(8 * 86_400)
        assert purge(store, SOURCE) == 3
        with pytest.raises(BatchNotKept, match="history has 0 of its 3 jobs"):
            Driver(store, log, "append").work()
        fill(store, 2)
        Driver(store, Log(), "append").work()
        assert outputs(store) == [0, 0, 1, 1, 2]

    def test_a_stateless_query_has_nothing_again(self, store: Store) -> None:
        if not store.capabilities.atomic_batches:
            return
        fill(store, 3)
        source = StreamSource(store, NAME, SOURCE)
        start = source.initial()
        end = source.latest(start, 3)
        (part,) = source.parts(start, end, 1)
        begin(store, part, "run")
        batch = SinkBatch.read_by(store, NAME, "run")
        assert batch is not None
        batch.publish([], stateless=True)
        assert [again.size for again in StreamSource(store, NAME, SOURCE).parts(start, end, 2)] == [0]

    def test_jobs_that_are_read_again_are_those_of_the_batch(self, store: Store) -> None:
        """In parts, as they were; not those of other streams in the same queue, nor jobs with other ends."""
        if not store.capabilities.atomic_batches:
            return
        late = 2  # its id is amidst those of the batch
        store.push([NewJob(new_id(), SOURCE, str(n), priority=-(n == late)) for n in range(6)])
        source = StreamSource(store, NAME, SOURCE)
        start = source.initial()
        end = source.latest(start, 4)
        before = [row for part in source.parts(start, end, 2) for row in rows(store, part)]
        for part in source.parts(start, end, 2):
            begin(store, part, "run")
        batch = SinkBatch.read_by(store, NAME, "run")
        assert batch is not None
        assert batch.settle([Bury(before[1].lease, "no")]) == 1
        for row in claim(store, 2, queue=SOURCE):
            store.settle([Commit(row.lease)])
        batch.publish([], settled=1)
        parts = StreamSource(store, NAME, SOURCE).parts(start, end, 2)
        again = [row for part in parts for row in rows(store, part)]
        assert len(parts) == 2
        shown = ("id", "payload", "state", "attempts", "enqueued_at", "run_at", "result", "finished_at")
        kept = [row for n, row in enumerate(before) if n != 1]
        assert [[getattr(row, name) for name in shown] for row in again] == [
            [getattr(row, name) for name in shown] for row in kept
        ]

    def test_a_batch_held_for_its_log_that_lost_jobs_is_not_published(self, store: Store, clock: StoreClock) -> None:
        if not store.capabilities.atomic_batches:
            return
        store.configure(SOURCE, {"history_ttl": 0.0})
        fill(store, 3)
        log = Log()
        steps = Driver(store, log, "append").steps()
        while next(steps) != "found":
            pass
        clock.advance(40)
        store.beat([worker("w")])
        assert len(store.recover(limit=1)) == 1
        with pytest.raises(LeasesLost):
            list(steps)
        assert outputs(store) == []
        Driver(store, log, "append").work()
        assert (outputs(store), log.state) == ([0, 1, 2], [0, 1, 2])

    def test_a_batch_held_for_its_log_is_published_once_though_history_is_kept_by_now(self, store: Store) -> None:
        if not store.capabilities.atomic_batches:
            return
        store.configure(SOURCE, {"history_ttl": 0.0})
        fill(store, 2)
        log = Log()
        steps = Driver(store, log, "append").steps()
        while next(steps) != "committed":
            pass
        store.configure(SOURCE, {"history_ttl": 86_400.0})
        Driver(store, log, "append").work()
        assert (outputs(store), log.state) == ([0, 1], [0, 1])
        assert nothing_left(store)

    def test_rows_of_elsewhere_do_not_pass_for_those_of_a_run_before(self, store: Store) -> None:
        """A run that has read a batch is refused once another driver has come, unlike one that has read none."""
        fill(store, 2)
        source = StreamSource(store, NAME, SOURCE)
        start = source.initial()
        for part in source.parts(start, source.latest(start, 2), 1):
            begin(store, part, "run")
        assert SinkBatch.read_by(store, NAME, "another") is None
        for _ in range(3):
            StreamSource(store, NAME, SOURCE).initial()
            with pytest.raises(StreamTaken):
                SinkBatch.read_by(store, NAME, "run")
            assert SinkBatch.read_by(store, NAME, "another") is None
