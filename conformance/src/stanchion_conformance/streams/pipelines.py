"""Pipelines over a store: items move from station to station, and none is lost, doubled or stuck."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from stanchion import Bury, Cancel, Job, JobState, Pipeline, Retry, Send, Stanchion
from stanchion.errors import InvalidInput
from stanchion.pipelines.pipeline import plan_of
from stanchion.stores.protocol import Store
from stanchion_conformance.harness import StoreClock, payloads, row_of


@pytest.fixture
def etl(app: Stanchion) -> Pipeline:
    """A pipeline without stations."""
    return app.pipeline("etl")


def stops(job: Job) -> list[list[Any]]:
    """Return the stations that an item has left, with the attempts that each took."""
    return [stop[:2] for stop in job.headers["x-route"]]


def same(item: Any) -> Any:
    """Pass an item on as it is."""
    return item


def the_item(app: Stanchion, job: Job) -> Job:
    """Return an item as it is now."""
    found = app.get(job.id)
    assert found is not None
    return found


class TestStations:
    def test_three_of_them_pass_an_item_on_unchanged(self, app: Stanchion, etl: Pipeline) -> None:
        etl.station("raw", to="clean")(same)
        etl.station("clean", to="done")(lambda _item: Send("done"))
        etl.station("done")(same)
        pushed = etl.push({"n": 1}, priority=7, tenant="acme", headers={"trace": "t"})
        assert etl.drain() == 3
        item = the_item(app, pushed)
        assert (item.id, item.queue, item.state) == (pushed.id, "etl.done", JobState.DONE)
        assert (item.payload, item.result) == ({"n": 1}, {"n": 1})
        assert (item.priority, item.tenant, item.headers["trace"]) == (7, "acme", "t")
        assert (item.attempts, item.failures) == (1, 0)

    def test_they_overwrite_it(self, app: Stanchion, etl: Pipeline) -> None:
        etl.station("raw", to="clean")(lambda item: {"doubled": 2 * item["n"]})
        etl.station("clean", to="done")(lambda item: [item["doubled"]])
        etl.station("done")(lambda _item: None)
        pushed = etl.push({"n": 4})
        etl.drain()
        assert (the_item(app, pushed).payload, the_item(app, pushed).result) == ([8], None)

    def test_they_merge_into_it(self, app: Stanchion, etl: Pipeline) -> None:
        etl.station("raw", to="clean", payload="merge")(lambda item: {"twice": 2 * item["n"]})
        etl.station("clean", to="done", payload="merge")(lambda _item: Send("done", {"n": 0}))
        etl.station("done")(same)
        pushed = etl.push({"n": 4, "name": "four"})
        etl.drain()
        assert the_item(app, pushed).result == {"n": 0, "name": "four", "twice": 8}

    def test_only_dicts_can_be_merged(self, app: Stanchion, etl: Pipeline) -> None:
        etl.station("raw", to="done", payload="merge")(lambda item: {"n": item})
        etl.station("done")(same)
        pushed = etl.push(4)
        etl.drain()
        letter = the_item(app, pushed)
        assert (letter.queue, letter.payload) == ("etl.dead", 4)
        assert "payload='replace'" in letter.errors[-1]["error"]

    def test_async_ones(self, app: Stanchion, etl: Pipeline) -> None:
        @etl.station("raw", to="done")
        async def raw(item: int) -> int:
            return item + 1

        @etl.station("done")
        async def done(item: int) -> int:
            return item + 1

        pushed = etl.push(1)
        etl.drain()
        assert the_item(app, pushed).result == 3

    def test_see_the_job_if_they_ask_for_it(self, etl: Pipeline) -> None:
        seen = []

        @etl.station("raw", to="done")
        def raw(item: int, job: Job) -> int:
            seen.append((item, job.id, job.attempt))
            return item

        @etl.station("done")
        def done(job: Job, item: int) -> None:
            seen.append((item, job.id, job.attempt))

        pushed = etl.push(1)
        etl.drain()
        assert seen == [(1, pushed.id, 1), (1, pushed.id, 1)]

    def test_the_way_is_on_record(self, app: Stanchion, etl: Pipeline, store: Store, clock: StoreClock) -> None:
        tries: Counter[str] = Counter()

        def fail_twice(item: Any) -> Any:
            tries["clean"] += 1
            if tries["clean"] < 3:
                raise ValueError("not yet")
            return item

        etl.station("raw", to="clean")(same)
        etl.station("clean", to="done", retry=Retry.constant(10, jitter=0))(fail_twice)
        etl.station("done")(same)
        pushed = etl.push({})
        before = store.now()
        for _ in range(3):
            etl.drain()
            clock.advance(11)
        item = the_item(app, pushed)
        assert stops(item) == [["raw", 1], ["clean", 3]]
        times = [stop[2] for stop in item.headers["x-route"]]
        assert before / 1e6 - 1 <= times[0] < times[1] <= store.now() / 1e6

    def test_a_task_can_be_called_in_their_queues(self, app: Stanchion, etl: Pipeline) -> None:
        etl.station("raw")(same)
        task = app.task(name="add", queue="etl.raw")(lambda one, two: one + two)
        handle = task.enqueue(1, 2)
        pushed = etl.push(9)
        assert etl.drain() == 2
        assert (handle.result(timeout=60), the_item(app, pushed).result) == (3, 9)

    def test_the_events_are_those_of_tasks(self, app: Stanchion, etl: Pipeline) -> None:
        story: list[tuple[str, str]] = []
        app.on("started")(lambda job: story.append(("started", job.queue)))
        app.on("done")(lambda job: story.append(("done", job.queue)))
        app.on("dead")(lambda job, _error: story.append(("dead", job.queue)))
        etl.station("raw", to=["mid"])(same)
        etl.station("mid", to="end")(lambda _item: Bury("no good"))
        etl.station("end")(same)
        etl.push(1)
        etl.drain()
        assert story == [("started", "etl.raw"), ("done", "etl.raw"), ("started", "etl.mid"), ("dead", "etl.mid")]


class TestForks:
    def test_a_choice_splits_items_in_turn(self, etl: Pipeline) -> None:
        names = ["one", "two", "three", "four", "five"]
        etl.station("raw", to=names)(lambda n: Send(names[n % 5], n))
        for name in names:
            etl.station(name)(same)
        etl.push_many(list(range(17)))
        etl.drain()
        ended = {name: sorted(payloads(etl.queue(name).history())) for name in names}
        assert ended == {name: list(range(n, 17, 5)) for n, name in enumerate(names)}
        assert etl.queue("raw").counts().moved == 17
        assert etl.queue("raw").history() == []

    @pytest.mark.parametrize("sent", [Send("lnog"), Send("end", 7), [Send("mid"), Send("lnog")], 7, [Send("mid"), 7]])
    def test_what_has_nowhere_to_go_is_a_dead_letter(
        self, app: Stanchion, other_app: Stanchion, etl: Pipeline, sent: Any
    ) -> None:
        etl.station("raw", to=["mid", "other"])(lambda _item: sent)
        for name in ("mid", "other"):
            etl.station(name, to="end")(same)
        etl.station("end")(same)
        pushed = etl.push({"n": 1})
        assert etl.drain() == 1
        letter = the_item(app, pushed)
        assert (letter.queue, letter.payload, letter.dead_from) == ("etl.dead", {"n": 1}, "etl.raw")
        assert "station 'raw'" in letter.errors[-1]["error"]
        assert etl.status().dead_letters == 1

        fixed = other_app.pipeline("etl")
        fixed.station("raw", to="end")(same)
        fixed.station("end")(same)
        other_app.retry_job(pushed.id)
        fixed.drain()
        assert (the_item(other_app, pushed).queue, the_item(other_app, pushed).result) == ("etl.end", {"n": 1})

    @pytest.mark.parametrize("way", [None, Cancel("not wanted"), []], ids=["None", "Cancel", "no Sends"])
    def test_a_dropped_item_leaves_nothing(self, app: Stanchion, etl: Pipeline, way: Any) -> None:
        etl.station("raw", to=["mid", "end"])(lambda _item: way)
        etl.station("mid", to="end")(same)
        etl.station("end")(same)
        pushed = etl.push({"n": 1})
        assert etl.drain() == 1
        item = the_item(app, pushed)
        assert item.state is (JobState.CANCELLED if isinstance(way, Cancel) else JobState.DONE)
        assert (item.queue, item.result) == ("etl.raw", None)
        status = etl.status()
        assert status.empty
        assert (status.stations[0].came, status.stations[0].out, status.stations[0].dropped) == (1, 0, 1)
        assert [one.came for one in status.stations[1:]] == [0, 0]

    def test_one_becomes_several_in_one_step(self, app: Stanchion, etl: Pipeline) -> None:
        @etl.station("raw", to=["word", "end"])
        def split(item: dict[str, str]) -> list[Send]:
            return [*(Send("word", word) for word in item["text"].split()), Send("end")]

        etl.station("word", to="end")(str.upper)
        etl.station("end")(same)
        pushed = etl.push({"text": "a b c"}, tenant="acme", priority=3, headers={"trace": "t"})
        assert etl.drain() == 8
        parent = the_item(app, pushed)
        assert (parent.queue, parent.state, parent.result) == ("etl.raw", JobState.DONE, None)
        assert etl.queue("raw").counts().moved == 1
        made = etl.queue("end").history()
        assert sorted(map(str, payloads(made))) == ["A", "B", "C", "{'text': 'a b c'}"]
        assert {job.origin for job in made} == {pushed.id}
        assert pushed.id not in {job.id for job in made}
        assert {(job.tenant, job.priority, job.headers["trace"]) for job in made} == {("acme", 3, "t")}
        assert sorted(map(len, map(stops, made))) == [1, 2, 2, 2]

    def test_one_send_in_a_list_keeps_the_id(self, app: Stanchion, etl: Pipeline) -> None:
        etl.station("raw", to="end")(lambda item: [Send("end", item + 1)])
        etl.station("end")(same)
        pushed = etl.push(1)
        etl.drain()
        assert the_item(app, pushed).result == 2

    @pytest.mark.parametrize("many", [False, True])
    def test_another_priority_on_the_way(self, etl: Pipeline, many: bool) -> None:
        etl.station("raw", to="mid")(lambda n: [Send("mid", n, priority=n)] * 2 if many else Send("mid", n, priority=n))
        etl.station("mid", to="end")(same)
        etl.station("end")(same)
        etl.push_many([1, 2, 3])
        etl.drain()
        ended = etl.queue("end").history()
        assert sorted((job.payload, job.priority) for job in ended) == [
            (n, n) for n in (1, 2, 3) for _ in range(1 + many)
        ]

    def test_a_delay_on_the_way(self, etl: Pipeline, clock: StoreClock) -> None:
        etl.station("raw", to="end")(lambda _item: Send("end", delay=60))
        etl.station("end")(same)
        etl.push(1)
        assert etl.drain() == 1
        assert etl.queue("end").size().scheduled == 1
        clock.advance(61)
        assert etl.drain() == 1


class TestLoops:
    def test_go_round_until_they_leave(self, app: Stanchion, etl: Pipeline) -> None:
        etl.station("poll", to=["poll", "end"])(lambda n: Send("poll", n - 1) if n else Send("end", "ready"))
        etl.station("end")(same)
        pushed = etl.push(5)
        assert etl.drain() == 7
        item = the_item(app, pushed)
        assert item.result == "ready"
        assert stops(item) == [["poll", 1]] * 6
        assert item.headers["x-rounds"] == {"poll": 6}

    def test_are_cut_off_at_last(self, app: Stanchion, etl: Pipeline) -> None:
        etl.station("one", to="two", max_rounds=10)(same)
        etl.station("two", to=["one", "end"])(lambda item: Send("one", item))
        etl.station("end")(same)
        pushed = etl.push({"n": 1})
        assert etl.drain() == 21
        letter = the_item(app, pushed)
        assert (letter.queue, letter.payload) == ("etl.dead", {"n": 1})
        assert "10 times" in letter.errors[-1]["error"]
        assert "max_rounds" in letter.errors[-1]["error"]

    def test_of_any_length_leave_short_headers(self, app: Stanchion, etl: Pipeline) -> None:
        etl.station("poll", to=["poll", "end"])(lambda n: Send("poll", n - 1) if n else Send("end"))
        etl.station("end")(same)
        pushed = etl.push(120)
        etl.drain()
        item = the_item(app, pushed)
        assert (len(stops(item)), item.headers["x-rounds"]) == (100, {"poll": 121})


class TestWhatGoesAlong:
    def test_a_semaphore_is_held_at_its_station_alone(self, app: Stanchion, etl: Pipeline, store: Store) -> None:
        app.semaphore("smtp", 1)
        held: list[tuple[str, int]] = []

        def look(name: str) -> Any:
            def work(item: Any) -> Any:
                held.append((name, store.semaphores()[0].held))
                return item

            return work

        etl.station("raw", to="mail")(look("raw"))
        etl.station("mail", to="end", limits=["smtp"])(look("mail"))
        etl.station("end")(look("end"))
        items = etl.push_many([1, 2])
        assert isinstance(items, list)
        for queue in etl.queues:
            app.drain([queue])
        assert Counter(held) == {("raw", 0): 2, ("mail", 1): 2, ("end", 0): 2}
        assert [(one.held, one.waiting) for one in store.semaphores()] == [(0, 0)]
        assert all(the_item(app, item).limits == [] for item in items)

    def test_several_made_of_one_get_the_limits_of_their_station(self, app: Stanchion, etl: Pipeline) -> None:
        app.semaphore("smtp", 1)
        etl.station("raw", to=["mail", "end"])(lambda n: [Send("mail", n), Send("mail", n + 1), Send("end", n + 2)])
        etl.station("mail", to="end", limits=["smtp"])(same)
        etl.station("end")(same)
        etl.push(1)
        app.drain(["etl.raw"])
        reserved = etl.queue("mail").reserve(2)
        assert len(reserved) == 1
        assert etl.queue("mail").size().waiting == 1
        reserved[0].release()
        etl.drain()
        assert sorted(payloads(etl.queue("end").history())) == [1, 2, 3]

    def test_an_item_from_elsewhere_holds_it_too(self, app: Stanchion, etl: Pipeline) -> None:
        app.semaphore("smtp", 1)
        etl.station("mail", limits=["smtp"])(same)
        app.queue("etl.mail").push_many([1, 2])
        assert len(etl.queue("mail").reserve(2)) == 1
        with pytest.raises(InvalidInput, match="station"):
            etl.push(3, limits=["other"])

    def test_tenants_keep_their_lanes(self, app: Stanchion, etl: Pipeline, store: Store) -> None:
        etl.station("raw", to=["end"])(lambda item: item if item < 8 else [Send("end", item), Send("end", -item)])
        etl.station("end", lanes=16, lanes_per_tenant=1)(same)
        for n in range(10):
            etl.push(n, tenant=f"t{n % 2}")
        app.drain(["etl.raw"])
        lanes = {(job.tenant, job.lane) for job in etl.queue("end").find()}
        direct = {(job.tenant, job.lane) for job in (etl.push(0, "end", tenant=t) for t in ("t0", "t1"))}
        assert lanes == direct
        assert all(lane is not None for _, lane in lanes)
        assert etl.queue("end").size().total == 14
        assert sum(store.lane_depths("etl.end").values()) == 14

    def test_the_settings_are_stored(self, etl: Pipeline) -> None:
        etl.station("raw", to="end", max_rate=50, history_ttl=60)(same)
        etl.station("end", dead_letter=None)(lambda _item: Bury("no"))
        etl.push(1)
        etl.drain()
        settings = etl.queue("raw").settings
        assert (settings.max_rate, settings.history_ttl, settings.dead_letter) == (50.0, 60.0, "etl.dead")
        assert etl.queue("end").settings.dead_letter is None
        assert etl.queue("end").history()[0].state is JobState.DEAD

    def test_a_paused_station_keeps_its_items(self, etl: Pipeline) -> None:
        etl.station("raw", to="end")(same)
        etl.station("end")(same)
        etl.pause("end")
        etl.push_many([1, 2])
        etl.drain()
        status = {one.station: (one.paused, one.depth.total, one.out) for one in etl.status().stations}
        assert status == {"raw": (False, 0, 2), "end": (True, 2, 0)}
        etl.resume()
        etl.drain()
        assert etl.status().empty

    def test_one_asked_to_stop_does_not_multiply(self, app: Stanchion, etl: Pipeline) -> None:
        @etl.station("raw", to="end")
        def raw(item: int, job: Job) -> list[Send]:
            app.cancel(job.id)
            return [Send("end", item), Send("end", item)]

        etl.station("end")(same)
        pushed = etl.push(1)
        etl.drain()
        assert the_item(app, pushed).state is JobState.CANCELLED
        assert etl.queue("end").size().total == 0

    def test_the_step_of_a_station_changes_nothing(self, etl: Pipeline, store: Store) -> None:
        etl.station("raw", to="end")(lambda item: item + 1)
        etl.station("end")(same)
        etl.push(1)
        (reserved,) = etl.queue("raw").reserve()
        row = row_of(store, reserved.id)
        first, second = (plan_of(etl).stations["raw"].step(row) for _ in range(2))
        assert first == second
        assert row_of(store, reserved.id) == row
        assert first is not None
        assert store.settle([first]) == [JobState.READY]
        assert payloads(etl.queue("end").find()) == [2]
