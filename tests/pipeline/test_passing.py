"""Items that a worker passes from station to station in memory: what functions, listeners and the store see of it."""

from __future__ import annotations

import asyncio
import pickle
import threading
from collections.abc import Callable
from typing import Any

import pytest

from stanchion import Job, JobState, Retry, Send, Stanchion, Worker
from stanchion.context import context_of
from stanchion.errors import InvalidInput
from stanchion.jobs.reservation import Reservation
from stanchion.stores.records.claims import Claim
from stanchion.stores.records.jobs import JobRow
from stanchion.stores.records.outcomes import Move, Pass
from stanchion.stores.records.queues import QueueSettings
from stanchion.stores.rules.lifecycle.claims import claimed
from stanchion.stores.rules.lifecycle.outcomes import passed_on, settled
from stanchion.worker.running import passing
from tests.pipeline.watched import Watched, chain, figures, more

SECONDS = 120.0


def test_three_stations_end_by_one_outcome(watched: Watched) -> None:
    chain(watched.etl, more, more, more)
    item = watched.etl.push(1)
    watched.run()
    assert [type(one) for one in watched.outcomes] == [Pass]
    assert watched.passed == [("etl.b", "etl.c")]
    assert watched.get(item).result == 4
    assert figures(watched.etl) == [(1, 1, 0, 0, 0, 0)] * 3
    assert [watched.etl.queue(one).counts().reserved for one in "abc"] == [1, 1, 1]


def test_a_function_sees_the_job_as_if_it_had_been_claimed_there(watched: Watched) -> None:
    seen: list[Any] = []

    def look(item: int, job: Job) -> int:
        stops = [(stop.queue, stop.attempts) for stop in job.trail]
        seen.append((item, job.queue, job.attempt, job.payload, job.state, job.errors, stops))
        return item

    chain(watched.etl, more, look, more)
    watched.etl.push(1)
    watched.run()
    assert seen == [(2, "etl.b", 1, 2, JobState.RUNNING, [], [("etl.a", 1), ("etl.b", None)])]
    assert watched.passed == [("etl.b", "etl.c")]


def test_a_failure_is_one_of_the_station_where_it_happened(watched: Watched) -> None:
    tries: list[str] = []

    def first(item: int) -> int:
        tries.append("a")
        return item + 1

    def second(item: int, job: Job) -> int:
        tries.append("b")
        if job.attempt == 1:
            raise ValueError("not yet")
        return item

    chain(watched.etl, first, second, more, retry=Retry.constant(0, jitter=0))
    item = watched.etl.push(1)
    watched.run()
    assert tries == ["a", "b", "b"]
    assert watched.passed == [("etl.b",), ("etl.c",)]
    assert figures(watched.etl) == [(1, 1, 0, 0, 0, 0), (1, 1, 0, 1, 0, 0), (1, 1, 0, 0, 0, 0)]
    found = watched.get(item)
    assert found.result == 3
    assert [(stop.queue, stop.attempts) for stop in found.trail] == [("etl.a", 1), ("etl.b", 2), ("etl.c", None)]


def test_the_last_failure_makes_a_dead_letter_of_that_station(watched: Watched) -> None:
    def fail(_: int) -> None:
        raise ValueError("never")

    chain(watched.etl, more, fail, max_attempts=1)
    watched.etl.push(1)
    watched.run()
    (letter,) = watched.etl.dead_letters.find()
    assert (letter.dead_from, letter.payload, letter.dead_attempts) == ("etl.b", 2, 1)
    assert figures(watched.etl) == [(1, 1, 0, 0, 0, 0), (1, 0, 0, 0, 1, 0)]


def test_a_paused_station_gets_no_item(watched: Watched) -> None:
    chain(watched.etl, more, more, more)
    watched.etl.push(1)
    watched.etl.pause("b")
    worker = Worker(watched.app, threads=2, poll=0.02)
    worker.start()
    while watched.etl.queue("a").counts().moved == 0:
        threading.Event().wait(0.01)
    worker.stop()
    assert watched.passed == []
    assert watched.etl.queue("b").size().ready == 1
    watched.etl.resume("b")
    watched.run()
    assert watched.passed == [("etl.c",)]


@pytest.mark.parametrize("station", ["a", "b"])
def test_a_limit_that_an_operator_has_set_counts(watched: Watched, station: str) -> None:
    chain(watched.etl, more, more)
    watched.etl.queue(station).configure(max_running=1)
    watched.etl.push(1)
    watched.run()
    assert watched.passed == []
    assert figures(watched.etl) == [(1, 1, 0, 0, 0, 0)] * 2


def test_a_rate_of_a_station_does_not_count_for_the_next(watched: Watched) -> None:
    chain(watched.etl, more, more)
    watched.etl.queue("a").configure(max_rate=1000)
    watched.etl.push(1)
    watched.run()
    assert watched.passed == [("etl.b",)]


def test_a_worker_passes_items_only_to_its_own_queues(watched: Watched) -> None:
    chain(watched.etl, more, more)
    watched.etl.push(1)
    watched.run(queues=["etl.a"])
    assert watched.passed == []
    assert watched.etl.queue("b").size().ready == 1


@pytest.mark.parametrize(
    ("options", "sent"),
    [
        ({"order_key": "k"}, Send("b")),
        ({"expires": 600}, Send("b")),
        ({}, Send("b", delay=0.01)),
        ({}, Send("b", priority=9)),
        ({}, [Send("b"), Send("b")]),
    ],
    ids=["order key", "expires", "delay", "priority", "split"],
)
def test_an_item_that_has_to_be_stored(watched: Watched, options: Any, sent: object) -> None:
    watched.etl.station("a", to="b")(lambda _: sent)
    watched.etl.station("b")(more)
    watched.etl.push(1, **options)
    watched.run(until_finished=True)
    assert watched.passed == []
    assert watched.etl.queue("b").counts().committed == (2 if isinstance(sent, list) else 1)


def test_an_item_whose_worker_died_with_it_is_stored_at_each_station(watched: Watched) -> None:
    chain(watched.etl, more, more)
    watched.etl.push(1)
    (lost,) = watched.etl.queue("a").reserve(lease=0.01)
    context_of(watched.app).store.recover()
    while watched.etl.queue("a").size().running:
        context_of(watched.app).store.recover()
    assert watched.get(lost).errors
    watched.run(until_finished=True)
    assert watched.passed == []
    assert watched.get(lost).result == 3


def test_items_pass_on_while_others_wait(watched: Watched) -> None:
    chain(watched.etl, more, more)
    watched.etl.push_many(range(100))
    watched.run(threads=1)
    assert watched.passed == [("etl.b",)] * 100
    assert figures(watched.etl) == [(100, 100, 0, 0, 0, 0)] * 2


def test_a_chunk_passes_on_until_it_is_divided(watched: Watched) -> None:
    pytest.importorskip("pyarrow")

    def second(item: int) -> int:
        if item == 5:
            raise ValueError("no")
        return item

    for name, to, function in (("a", "b", more), ("b", "c", more), ("c", "d", second), ("d", None, more)):
        watched.etl.station(name, to=to, max_attempts=1)(function)
    watched.etl.push_chunks(range(10), size=10)
    watched.run()
    assert watched.passed == [("etl.b", "etl.c")]
    assert figures(watched.etl) == [
        (10, 10, 0, 0, 0, 0),
        (10, 10, 0, 0, 0, 0),
        (10, 9, 0, 0, 1, 0),
        (9, 9, 0, 0, 0, 0),
    ]


def test_after_a_while_an_item_is_stored(watched: Watched, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(passing, "SLICE_SECONDS", 0.0)
    chain(watched.etl, more, more, more)
    watched.etl.push(1)
    watched.run()
    assert watched.passed == []
    assert figures(watched.etl) == [(1, 1, 0, 0, 0, 0)] * 3


def test_a_worker_that_stops_stores_items(watched: Watched) -> None:
    begun, stopping = threading.Event(), threading.Event()

    def slow(item: int) -> int:
        begun.set()
        assert stopping.wait(SECONDS)
        return item

    chain(watched.etl, slow, more)
    watched.etl.push(1)
    worker = Worker(watched.app, threads=1, poll=0.02)
    worker.start()
    assert begun.wait(SECONDS)
    wind_up = worker._runners.wind_up

    def winding_up() -> Any:
        ends = wind_up()
        stopping.set()
        return ends

    worker._runners.wind_up = winding_up  # type: ignore[method-assign]
    worker.stop(grace=SECONDS)
    assert watched.passed == []
    assert watched.etl.queue("b").size().ready == 1


def test_an_item_that_is_cut_off_returns_to_the_station_where_it_is(watched: Watched) -> None:
    begun, end = threading.Event(), threading.Event()

    def slow(item: int) -> int:
        begun.set()
        end.wait(SECONDS)
        return item

    chain(watched.etl, more, slow)
    item = watched.etl.push(1)
    worker = Worker(watched.app, threads=1, poll=0.02)
    worker.start()
    assert begun.wait(SECONDS)
    worker.stop(grace=0)
    end.set()
    found = watched.get(item)
    assert (found.queue, found.state, found.attempts, found.payload) == ("etl.b", JobState.READY, 0, 2)


def test_the_time_out_is_that_of_the_station(watched: Watched) -> None:
    def slow(_: int) -> None:
        threading.Event().wait(SECONDS)

    chain(watched.etl, more, slow, timeout=0.1, max_attempts=1)
    watched.etl.push(1)
    watched.run()
    (letter,) = watched.etl.dead_letters.find()
    assert "ran longer than 0.1 s" in letter.errors[-1]["error"]
    assert letter.dead_from == "etl.b"


def test_a_job_that_is_asked_to_stop_goes_no_further_in_memory(watched: Watched) -> None:
    def first(item: int, job: Reservation) -> int:
        watched.app.cancel(job.id)
        while not job.cancelled:
            threading.Event().wait(0.01)
        return item

    chain(watched.etl, first, more)
    watched.etl.push(1)
    watched.run(heartbeat=0.1)
    assert watched.passed == []
    assert watched.etl.queue("a").counts().moved == 1


def test_coroutines_pass_on_to_coroutines(watched: Watched) -> None:
    async def slowly(item: int) -> int:
        await asyncio.sleep(0)
        return item + 1

    chain(watched.etl, more, slowly, slowly, more)
    item = watched.etl.push(1)
    watched.run()
    assert watched.passed == [("etl.b", "etl.c")]
    assert watched.get(item).result == 5


def test_listeners_and_middleware_meet_each_station(watched: Watched) -> None:
    heard: list[tuple[str, str]] = []

    @watched.app.middleware
    def around(attempt: Any, call: Callable[[], object]) -> object:
        heard.append(("called", attempt.job.queue))
        return call()

    for event in ("started", "done"):
        watched.app.on(event)(lambda job, event=event: heard.append((event, job.queue)))
    chain(watched.etl, more, more)
    watched.etl.push(1)
    watched.run()
    assert heard == [
        ("started", "etl.a"),
        ("called", "etl.a"),
        ("started", "etl.b"),
        ("called", "etl.b"),
        ("done", "etl.a"),
        ("done", "etl.b"),
    ]


def test_metrics_count_an_attempt_at_each_station(watched: Watched) -> None:
    chain(watched.etl, more, more)
    watched.etl.push_many([1, 2, 3])
    attempts = watched.run(metrics=True)._sums().attempts
    assert attempts == {("etl.a", "", "moved"): 3.0, ("etl.b", "", "done"): 3.0}


def test_a_reservation_ends_at_the_station_where_the_item_is(watched: Watched) -> None:
    refused: list[str] = []

    def second(item: int, job: Reservation) -> None:
        job.extend(60)
        job.progress(0.5)
        for leave in (job.to_dict, lambda: pickle.dumps(job)):
            with pytest.raises(InvalidInput, match="declare the station with stored=True") as error:
                leave()
            refused.append(str(error.value))
        job.commit(item * 10)

    chain(watched.etl, more, second)
    item = watched.etl.push(1)
    watched.run()
    found = watched.get(item)
    assert (found.queue, found.result, len(refused)) == ("etl.b", 20, 2)
    assert watched.passed == [("etl.b",)]
    assert figures(watched.etl) == [(1, 1, 0, 0, 0, 0)] * 2


def test_stored_always_is_one_outcome_a_station(app: Stanchion) -> None:
    app.setup()
    app.pipeline("etl", stored="always")
    watched = Watched(app)
    chain(watched.etl, more, more, more)
    watched.etl.push(1)
    watched.run()
    assert watched.passed == []
    assert len(watched.outcomes) == 3


def test_an_expectation_guards_its_station(watched: Watched) -> None:
    watched.etl.station("a", to="b")(more)
    watched.etl.station("b")(watched.etl.expect("item < 4", on_fail="drop")(lambda item: item))
    items = [watched.etl.push(1), watched.etl.push(5)]
    watched.run()
    assert watched.passed == [("etl.b",), ("etl.b",)]
    found = [watched.get(one) for one in items]
    assert [(one.queue, one.state, one.result) for one in found] == [
        ("etl.b", JobState.DONE, 2),
        ("etl.b", JobState.CANCELLED, None),
    ]


@pytest.mark.parametrize("trail", [None, '[["raw",1,1,0],["etl.a",2]]', '[["raw",1,1,1],["etl.a",2]]', "not a trail"])
@pytest.mark.parametrize("payload", [None, "2", "1"])
def test_the_view_of_the_worker_is_the_row_after_a_move_and_a_claim(payload: str | None, trail: str | None) -> None:
    fields: dict[str, Any] = dict.fromkeys(JobRow._fields)
    row = JobRow(**{**fields, **JobRow._field_defaults, **RUNNING, "trail": trail})
    move = Move(row.lease, "etl.b", payload, headers='{"x-route":[]}', keep_entry=True)
    moved = settled(row, move, QueueSettings("etl.a"), 9)
    there = claimed(moved.row, Claim("etl.b", 1, "token", "worker"), 30, 9)
    assert passed_on(row, move, 9) == there


RUNNING = {
    **{"id": "j", "queue": "etl.a", "payload": "1", "state": "running", "lane": 3, "run_at": 4, "enqueued_at": 1},
    **{"attempts": 2, "failures": 1, "errors": "[]", "started_at": 5, "token": "token", "worker": "worker"},
    **{"priority": 7, "rank": 7, "key": "k", "tenant": "t", "progress": 0.5, "max_attempts": 5, "headers": None},
}
