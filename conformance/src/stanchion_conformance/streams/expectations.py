"""Expectations of stations: an item that does not meet one never reaches the function, and is not lost."""

from __future__ import annotations

from typing import Any

import pytest

from stanchion import Job, JobState, Pipeline, Retry, Stanchion, Worker
from stanchion.context import context_of
from stanchion.context.queues.pauses import pauses_of
from stanchion.ops.reads.expectations import Expected, read_expectations
from stanchion.ops.reads.pipelines import Known
from stanchion.pipelines.pipeline import plan_of
from stanchion.pipelines.record import recorded
from stanchion_conformance.jobs.encryption import new_key
from stanchion_conformance.operate.claim_order import working
from stanchion_conformance.operate.waits import until

SEEN: list[Any] = []


@pytest.fixture
def expecting(app: Stanchion) -> Pipeline:
    """A pipeline whose first station has one expectation of each kind."""
    SEEN.clear()
    etl = app.pipeline("etl")

    @etl.station("raw", to="done", retry=Retry.constant(0, jitter=0, max_attempts=3))
    @etl.expect("miles > 0", on_fail="bury")
    @etl.expect("origin <> dest", on_fail="drop")
    @etl.expect("version = 1", on_fail="stop")
    def raw(item: dict[str, Any]) -> dict[str, Any]:
        SEEN.append(item["n"])
        return item

    etl.station("done")(lambda item: item)
    return etl


def flight(n: int, **fields: Any) -> dict[str, Any]:
    """Return an item that meets all expectations, but for these fields."""
    return {"n": n, "miles": 5, "origin": "a", "dest": "b", "version": 1, **fields}


def expected(app: Stanchion, expecting: Pipeline) -> dict[str, Expected]:
    """Return the expectations as the page shows them."""
    return {
        one.condition: one for one in read_expectations(context_of(app).store, Known(plan_of(expecting).record, "code"))
    }


def now(app: Stanchion, job: Job) -> Job:
    """Return an item as it is now."""
    found = app.get(job.id)
    assert found is not None
    return found


class TestExpectations:
    def test_an_item_is_buried_with_the_condition_and_the_values(self, app: Stanchion, expecting: Pipeline) -> None:
        bad, good = expecting.push(flight(1, miles=-3)), expecting.push(flight(2))
        expecting.drain()
        assert SEEN == [2]
        letter = now(app, bad)
        assert (letter.state, letter.queue, letter.dead_attempts) == (JobState.DEAD, "etl.dead", 1)
        assert letter.errors[-1]["error"] == "ExpectationFailed: miles > 0\nmiles = -3"
        assert now(app, good).state is JobState.DONE

    def test_an_item_is_dropped_with_a_reason(self, app: Stanchion, expecting: Pipeline) -> None:
        bad = expecting.push(flight(1, dest="a"))
        expecting.drain()
        dropped = now(app, bad)
        assert (SEEN, dropped.state, dropped.queue) == ([], JobState.CANCELLED, "etl.raw")
        assert dropped.errors[-1]["error"].endswith("ExpectationFailed: origin <> dest\norigin = 'a', dest = 'a'")
        assert expecting.status().stations[0].dropped == 1

    def test_a_station_stops_and_keeps_its_items(self, app: Stanchion, expecting: Pipeline) -> None:
        bad, good = expecting.push(flight(1, version=2)), expecting.push(flight(2))
        expecting.drain()
        item = now(app, bad)
        assert (SEEN, item.state, item.attempts, item.failures) == ([], JobState.READY, 0, 0)
        assert now(app, good).state is JobState.READY
        pause = pauses_of(context_of(app).store, ["etl.raw"])["etl.raw"]
        assert pause.note == f"item {bad.id} failed version = 1 with version = 2"
        assert pause.who == "the expectation of etl.raw"

    def test_a_stopped_station_goes_on_once_the_item_is_gone(self, app: Stanchion, expecting: Pipeline) -> None:
        bad, good = expecting.push(flight(1, version=2)), expecting.push(flight(2))
        expecting.drain()
        app.cancel(bad.id)
        expecting.resume("raw")
        expecting.drain()
        assert (SEEN, now(app, good).state) == ([2], JobState.DONE)

    def test_what_is_unknown_is_not_met(self, app: Stanchion, expecting: Pipeline) -> None:
        without, null, text = (expecting.push(flight(n, miles=miles)) for n, miles in enumerate((None, None, "5")))
        expecting.drain()
        assert SEEN == []
        assert {now(app, one).state for one in (without, null, text)} == {JobState.DEAD}

    def test_the_first_in_the_order_of_reading_decides(self, app: Stanchion, expecting: Pipeline) -> None:
        item = expecting.push(flight(1, miles=0, dest="a", version=2))
        expecting.drain()
        assert now(app, item).errors[-1]["error"].startswith("ExpectationFailed: miles > 0")
        assert not app.queue("etl.raw").settings.paused

    def test_a_retry_checks_an_item_again(self, app: Stanchion, expecting: Pipeline) -> None:
        bad = expecting.push(flight(1, miles=0))
        expecting.drain()
        expecting.dead_letters.retry(bad.id)
        expecting.drain()
        assert (SEEN, now(app, bad).state) == ([], JobState.DEAD)

    def test_values_of_encrypted_items_are_not_told(self, app: Stanchion) -> None:
        secret = Stanchion(store=app.store, keys=[new_key()])
        etl = secret.pipeline("hush")
        etl.station("raw")(etl.expect("iban like 'AT%'")(etl.expect("n <> 1", on_fail="stop")(lambda item: item)))
        bad, stops = etl.push({"iban": "DE00", "n": 0}), etl.push({"iban": "AT00", "n": 1})
        etl.drain()
        letter = app.get(bad.id)
        assert letter is not None
        assert letter.errors[-1]["error"] == "ExpectationFailed: iban like 'AT%'"
        assert pauses_of(context_of(app).store, ["hush.raw"])["hush.raw"].note == f"item {stops.id} failed n <> 1"


class TestCountsOfExpectations:
    def test_workers_count_each_condition(self, app: Stanchion, expecting: Pipeline) -> None:
        expecting.push_many([flight(n, miles=n % 2, dest="ab"[n % 3 > 0]) for n in range(12)])
        Worker(app, queues=expecting.queues, threads=4, until_empty=True).run()
        found = expected(app, expecting)
        assert {text: (one.on_fail, one.failed) for text, one in found.items()} == {
            "miles > 0": ("bury", 6),
            "origin <> dest": ("drop", 2),
            "version = 1": ("stop", 0),
        }
        assert found["miles > 0"].last is not None
        assert len(found["miles > 0"].ids) == 5
        assert set(found["origin <> dest"].ids) == {job.id for job in app.queue("etl.raw").find(state="cancelled")}
        assert sorted(SEEN) == [1, 5, 7, 11]

    def test_a_worker_that_stops_a_station_goes_on_with_others(self, app: Stanchion, expecting: Pipeline) -> None:
        bad = expecting.push(flight(1, version=None))
        with working(app, queues=expecting.queues):
            until(lambda: app.queue("etl.raw").settings.paused and now(app, bad).state is JobState.READY)
            end = expecting.push(flight(2), "done")
            until(lambda: now(app, end).state is JobState.DONE)
        assert expected(app, expecting)["version = 1"].failed == 1
        assert (SEEN, now(app, bad).attempts) == ([], 0)

    def test_a_process_without_the_code_knows_them(self, app: Stanchion, expecting: Pipeline) -> None:
        expecting.push(flight(1))
        (stored,) = recorded(context_of(app).store)
        first = (("miles > 0", "bury"), ("origin <> dest", "drop"), ("version = 1", "stop"))
        assert stored.stations[0].expectations == first
        assert stored == plan_of(expecting).record


class TestExpectationsOfAsyncStations:
    def test_an_async_station_checks_too(self, app: Stanchion) -> None:
        etl = app.pipeline("etl")

        @etl.station("raw")
        @etl.expect("item > 0", on_fail="drop")
        async def raw(item: int) -> int:
            return item

        etl.push_many([-1, 0, 1, 2])
        Worker(app, queues=etl.queues, threads=2, until_empty=True).run()
        states = {job.payload: job.state for job in app.queue("etl.raw").find(state=["done", "cancelled"])}
        assert states == {-1: "cancelled", 0: "cancelled", 1: "done", 2: "done"}
