"""Durable streams whose query fails: on poison jobs, which end as dead, or by its own fault."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

import pytest

from stanchion.core.ids import new_id
from stanchion.core.spark_errors import StreamStopped
from stanchion.stores.protocol import Store
from stanchion.stores.records.jobs import JobRow, JobState, NewJob
from stanchion.streams import SinkBatch, StreamSource, streams
from stanchion.streams.poison import Ended
from stanchion.streams.sink import begin
from stanchion_conformance.harness import find_jobs, sizes_of
from stanchion_conformance.streams.stream_driver import (
    NAME,
    POISON,
    SOURCE,
    Driver,
    Failed,
    Log,
    fill,
    nothing_left,
    outputs,
)


def push(store: Store, payloads: list[Any], max_attempts: int = 1) -> None:
    """Push jobs that have few attempts."""
    store.push([NewJob(new_id(), SOURCE, json.dumps(one), max_attempts=max_attempts) for one in payloads])


def dead(store: Store) -> list[JobRow]:
    return find_jobs(store, queue=SOURCE, states=(JobState.DEAD,))


def fail(store: Store, log: Log, mode: str = "move", times: int = 1, limit: int = 8) -> None:
    """Start the query so often, each time on a job that breaks it."""
    for _ in range(times):
        with pytest.raises(Failed):
            Driver(store, log, mode, limit=limit).work()


class TestPoison:
    def test_is_found_and_buried_and_all_others_go_through(self, store: Store, mode: str) -> None:
        push(store, [POISON if n in (3, 11) else n for n in range(20)])
        log, restarts = Log(), 0
        while not nothing_left(store):
            restarts += 1
            assert restarts < 40
            with suppress(Failed):
                Driver(store, log, mode, limit=8).work()
        assert [json.loads(row.payload) for row in dead(store)] == [POISON, POISON]
        assert outputs(store) == [n for n in range(20) if n not in (3, 11)]

    def test_is_found_by_drivers_that_keep_no_log(self, store: Store, mode: str) -> None:
        push(store, [POISON if n == 2 else n for n in range(5)])
        restarts = 0
        while not nothing_left(store):
            restarts += 1
            assert restarts < 20
            with suppress(Failed):
                Driver(store, Log(), mode, limit=8).work()
        (row,) = dead(store)
        assert json.loads(row.payload) == POISON
        assert outputs(store) == [0, 1, 3, 4]

    @pytest.mark.parametrize("attempts", [1, 3])
    def test_the_attempts_of_the_job_decide(self, store: Store, attempts: int) -> None:
        push(store, [POISON], attempts)
        log = Log()
        fail(store, log, times=attempts)
        assert sizes_of(store, SOURCE).running == 1
        Driver(store, log, "move").work()
        (row,) = dead(store)
        assert "PoisonJob" in str(row.errors)
        assert "ValueError" in str(row.errors)
        assert nothing_left(store)

    def test_what_goes_back_has_used_up_no_attempt(self, store: Store) -> None:
        push(store, [POISON, 1, 2, 3])
        log = Log()
        fail(store, log, times=2)
        start, end = Driver(store, log, "move").source.initial(), log.ends[0]
        StreamSource(store, NAME, SOURCE).parts(start, end, 1)
        back = find_jobs(store, queue=SOURCE, states=(JobState.READY,))
        assert [(json.loads(row.payload), row.attempts) for row in back] == [(3, 0), (2, 0)]

    def test_is_listed_with_its_error(self, store: Store) -> None:
        push(store, [POISON], 3)
        log = Log()
        fail(store, log, times=2)
        (info,) = streams(store)
        assert (info.replays, info.error, info.stopped) == (1, 'ValueError: "poison"', False)

    def test_whose_outputs_were_stored_ahead_stays(self, store: Store) -> None:
        """Jobs that went back would have their outputs twice."""
        fill(store, 4)
        start = StreamSource(store, NAME, SOURCE).initial()
        end = StreamSource(store, NAME, SOURCE).latest(start, 4)
        for ahead in (True, False, False):
            found = SinkBatch.pending(store, NAME)
            assert found is not None
            batch = found[0].publish_ahead([]) if ahead else found[0]
            batch.failed("ValueError: late")
            source = StreamSource(store, NAME, SOURCE)
            assert [part.size for part in source.parts(start, end, 1)] == [4]


class TestInnocentJobs:
    """A batch that is begun again and again for another reason stays as it is."""

    def _begun(self, store: Store, log: Log) -> StreamSource:
        steps = Driver(store, log, "move", limit=4).steps()
        while next(steps) != "read":
            pass
        return StreamSource(store, NAME, SOURCE)

    def test_a_driver_that_dies_again_and_again(self, store: Store, mode: str) -> None:
        push(store, [0, 1, 2, 3])
        log = Log()
        for _ in range(12):
            self._begun(store, log)
        assert [row.state for row in find_jobs(store, queue=SOURCE)] == ["running"] * 4
        Driver(store, log, mode).work()
        assert outputs(store) == [0, 1, 2, 3]
        assert dead(store) == []

    def test_one_job_alone_whose_driver_dies(self, store: Store) -> None:
        push(store, [0])
        log = Log()
        for _ in range(12):
            self._begun(store, log)
        Driver(store, log, "move").work()
        assert outputs(store) == [0]

    def test_a_query_that_fails_before_it_reads(self, store: Store) -> None:
        push(store, [0])
        log = Log()
        self._begun(store, log)
        start, end = StreamSource(store, NAME, SOURCE).initial(), log.ends[0]
        for _ in range(5):
            source = StreamSource(store, NAME, SOURCE, how_ended=lambda run: Ended("x") if run == "not this" else None)
            assert [part.size for part in source.parts(start, end, 1)] == [1]
        assert dead(store) == []

    @pytest.mark.parametrize("error", [None, "StoreUnavailable: gone", "Python worker failed to connect back."])
    def test_runs_that_were_stopped_or_failed_by_other_causes(self, store: Store, error: str | None) -> None:
        push(store, [0])
        start = StreamSource(store, NAME, SOURCE).initial()
        end = StreamSource(store, NAME, SOURCE).latest(start, 1)
        for n in range(4):
            (part,) = StreamSource(store, NAME, SOURCE, how_ended=lambda _run: Ended(error)).parts(start, end, 1)
            assert part.size == 1
            begin(store, part, f"run {n}")
            batch = SinkBatch.read_by(store, NAME, f"run {n}")
            assert batch is not None
            batch.failed("ValueError: what the sink was told of a stop, too")
        assert (streams(store)[0].replays, dead(store)) == (0, [])

    def test_a_failure_counts_once(self, store: Store) -> None:
        push(store, [POISON, 1], 3)
        log = Log()
        fail(store, log)
        for _ in range(5):
            source = StreamSource(store, NAME, SOURCE, how_ended=lambda _run: Ended("ValueError"))
            assert [part.size for part in source.parts(source.initial(), log.ends[0], 1)] == [2]
        assert streams(store)[0].replays == 1

    def test_the_run_of_another_batch(self, store: Store) -> None:
        """Told late, as of a batch that was finished since."""
        push(store, [0, 1])
        source = StreamSource(store, NAME, SOURCE)
        start = source.initial()
        end = source.latest(start, 1)
        (part,) = source.parts(start, end, 1)
        begin(store, part, "run")
        batch = SinkBatch.read_by(store, NAME, "run")
        assert batch is not None
        following = source.latest(end, 1)
        batch.failed("ValueError: late")
        again = StreamSource(store, NAME, SOURCE, how_ended=lambda _run: Ended("ValueError"))
        assert [part.size for part in again.parts(end, following, 1)] == [1]
        assert (streams(store)[0].replays, dead(store)) == (0, [])


class TestStoppedStreams:
    """Two jobs in a row fail in the same way: the query is at fault, and no further job is buried."""

    def _stopped(self, store: Store, log: Log, payloads: list[Any]) -> None:
        push(store, payloads)
        fail(store, log, limit=1)
        fail(store, log, limit=1)  # the first is buried, and the second fails
        with pytest.raises(StreamStopped, match=f"the stream '{NAME}' stops: .*ValueError"):
            Driver(store, log, "move", limit=1).work()

    def test_the_second_is_not_buried(self, store: Store) -> None:
        log = Log()
        self._stopped(store, log, [f"{POISON} {n}" for n in range(4)])
        (info,) = streams(store)
        assert (info.stopped, info.reserved_jobs) == (True, 1)
        for _ in range(3):  # it is tried again, and says so again
            fail(store, log, limit=1)
            with pytest.raises(StreamStopped):
                Driver(store, log, "move", limit=1).work()
        assert len(dead(store)) == 1
        assert sizes_of(store, SOURCE).total == 3

    def test_a_query_that_was_corrected_goes_on(self, store: Store) -> None:
        log = Log()
        self._stopped(store, log, [f"{POISON} {n}" for n in range(3)])
        driver = Driver(store, log, "move", limit=1)
        driver.cured = (POISON,)
        driver.work()
        assert outputs(store) == [f"{POISON} 1", f"{POISON} 2"]
        (info,) = streams(store)
        assert (info.stopped, info.error) == (False, None)

    def test_another_failure_is_another_fault(self, store: Store) -> None:
        push(store, [f"{POISON} a", f"{POISON} b"])
        log = Log()
        fail(store, log, times=2, limit=1)
        Driver(store, log, "move", limit=1).work()
        assert len(dead(store)) == 2

    def test_not_with_a_job_finished_between(self, store: Store) -> None:
        push(store, [f"{POISON} 1", 0, f"{POISON} 2"])
        log = Log()
        fail(store, log, times=2, limit=1)
        Driver(store, log, "move", limit=1).work()
        assert len(dead(store)) == 2
        assert outputs(store) == [0]
