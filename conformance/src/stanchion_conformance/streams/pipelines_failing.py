"""Items that fail on their way, or are delayed."""

from __future__ import annotations

from collections import Counter
from typing import Any

from stanchion import Job, JobState, Pipeline, Retry, Snooze, Stanchion
from stanchion.stores.protocol import Store
from stanchion_conformance.harness import StoreClock
from stanchion_conformance.streams.pipelines import same, stops, the_item


class TestFailuresOfStations:
    def test_each_has_its_own_retries(self, app: Stanchion, etl: Pipeline, clock: StoreClock) -> None:
        ran: list[str] = []

        def failing(name: str, times: int) -> Any:
            def work(item: Any) -> Any:
                ran.append(name)
                if ran.count(name) < times:
                    raise ValueError(f"{name} {ran.count(name)}")
                return item

            return work

        etl.station("raw", to="mid", retry=Retry.constant(10, jitter=0, max_attempts=2))(failing("raw", 2))
        etl.station("mid", to="end", retry=Retry.constant(10, jitter=0, max_attempts=5))(failing("mid", 5))
        etl.station("end", retry=Retry.constant(10, jitter=0, max_attempts=3))(failing("end", 4))
        pushed = etl.push({"n": 1}, headers={"trace": "t"})
        for _ in range(12):
            etl.drain()
            clock.advance(11)
        assert Counter(ran) == {"raw": 2, "mid": 5, "end": 3}
        letter = the_item(app, pushed)
        assert (letter.queue, letter.state, letter.payload) == ("etl.dead", JobState.DEAD, {"n": 1})
        assert letter.headers["trace"] == "t"
        assert letter.dead_from == "etl.end"
        assert letter.dead_attempts == 3
        assert letter.errors[-1]["error"] == "ValueError: end 3"
        assert [entry["error"] for entry in letter.errors] == [f"ValueError: end {n}" for n in (1, 2, 3)]
        assert stops(letter) == [["raw", 2], ["mid", 5]]
        assert [(one.retried, one.dead) for one in etl.status().stations] == [(1, 0), (4, 0), (2, 1)]

        app.retry_job(pushed.id)
        etl.drain()
        item = the_item(app, pushed)
        assert (item.queue, item.result) == ("etl.end", {"n": 1})
        assert stops(item) == [["raw", 2], ["mid", 5]]

    def test_an_item_that_waits_is_overtaken(self, etl: Pipeline, clock: StoreClock) -> None:
        ended: list[int] = []

        @etl.station("raw", to="end", retry=Retry.constant(10, jitter=0))
        def raw(item: int, job: Job) -> int:
            if item == 1 and job.attempt == 1:
                raise ValueError("later")
            return item

        etl.station("end")(ended.append)
        etl.push_many([1, 2, 3])
        etl.drain()
        assert ended == [2, 3]
        clock.advance(11)
        etl.drain()
        assert ended == [2, 3, 1]

    def test_but_not_by_those_of_its_order_key(self, etl: Pipeline, clock: StoreClock) -> None:
        ended: list[int] = []

        @etl.station("raw", to="end", retry=Retry.constant(10, jitter=0))
        def raw(item: int, job: Job) -> int:
            if item == 1 and job.attempt == 1:
                raise ValueError("later")
            return item

        etl.station("end")(ended.append)
        for item in (1, 2, 3):
            etl.push(item, order_key="k")
        etl.drain()
        assert ended == []
        clock.advance(11)
        etl.drain()
        assert ended == [1, 2, 3]

    def test_a_snooze_uses_up_nothing(self, app: Stanchion, etl: Pipeline, clock: StoreClock) -> None:
        ran: list[int] = []

        def wait(item: int) -> Any:
            ran.append(item)
            return Snooze(60) if len(ran) < 4 else item

        etl.station("raw", max_attempts=2)(wait)
        pushed = etl.push(1)
        for _ in range(4):
            etl.drain()
            clock.advance(61)
        assert the_item(app, pushed).result == 1

    def test_one_that_comes_with_few_attempts_gets_those_of_the_station(
        self, app: Stanchion, other_app: Stanchion, etl: Pipeline
    ) -> None:
        etl.station("raw", retry=Retry.constant(0, jitter=0, max_attempts=3))(lambda _item: 1 / 0)
        mine = etl.push(1)
        theirs = other_app.queue("etl.raw").push(2)
        etl.drain()
        for pushed in (mine, theirs):
            letter = the_item(app, pushed)
            assert (letter.queue, letter.dead_attempts) == ("etl.dead", 3)

    def test_an_item_that_kills_its_worker_ends_dead(
        self, app: Stanchion, etl: Pipeline, store: Store, clock: StoreClock
    ) -> None:
        ran: list[int] = []
        etl.station("raw", to="end", max_attempts=2)(ran.append)
        etl.station("end", max_attempts=5)(same)
        pushed = etl.push(1)
        for _ in range(2):
            assert etl.queue("raw").reserve(lease=10)
            clock.advance(11)
            store.recover()
        clock.advance(60)  # it waits by its retry policy after a second lost lease
        etl.drain()
        assert ran == []
        assert the_item(app, pushed).queue == "etl.dead"
        assert "LeaseLost" in the_item(app, pushed).errors[-1]["error"]
