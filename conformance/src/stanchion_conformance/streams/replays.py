"""Replays over a pipeline: items run again from a station that they have passed."""

from __future__ import annotations

from typing import Any

import pytest

from stanchion import Cancel, Job, JobState, Pipeline, Send, Snooze, Stanchion
from stanchion.errors import InvalidInput
from stanchion.jobs.reservation import Reservation
from stanchion.pipelines.outputs import INPUT
from stanchion.stores.protocol import Store
from stanchion_conformance.harness import StoreClock, row_of


@pytest.fixture
def trips(app: Stanchion) -> Pipeline:
    """raw, clean, then short, long, or legs of which each is an item; fails while an item says so."""
    etl = app.pipeline("etl")

    @etl.station("raw", to="clean")
    def raw(item: dict[str, Any]) -> dict[str, Any]:
        return {**item, "raw": item.get("raw", 0) + 1}

    @etl.station("clean", to=["short", "long", "legs"], max_attempts=1)
    def clean(item: dict[str, Any]) -> Any:
        if item.get("fails"):
            raise ValueError("as it says")
        if "legs" in item:
            return [Send("legs", {"leg": leg, "deep": item.get("deep", False)}) for leg in item["legs"]]
        return Send(item["to"], {"to": item["to"], "clean": True})

    @etl.station("legs", to=["short", "long"])
    def legs(item: dict[str, Any]) -> Any:
        if item.get("deep"):
            return [Send("short", {"leg": item["leg"], "half": half}) for half in (1, 2)]
        return Send("short", {"leg": item["leg"], "flown": True})

    etl.station("short")(lambda item: item)
    etl.station("long")(lambda item: item)
    return etl


def results(trips: Pipeline, station: str) -> list[Any]:
    """Return the results of the items that have ended at a station, oldest first."""
    return [job.result for job in reversed(trips.queue(station).history())]


def way(job: Job) -> list[str]:
    """Return the stations of an item."""
    return [stop.queue.partition(".")[2] for stop in job.trail]


class TestFindItems:
    def test_in_every_station_that_they_passed(self, trips: Pipeline) -> None:
        ids = [trips.push({"to": to}).id for to in ("short", "long", "long")]
        trips.drain()
        newest = list(reversed(ids))
        assert [item.id for item in trips.find("raw")] == [item.id for item in trips.find("clean")] == newest
        assert [item.id for item in trips.find()] == newest
        assert [item.id for item in trips.find("long")] == newest[:2]
        assert [item.id for item in trips.find("raw", limit=2, after=newest[0])] == newest[1:]
        assert trips.find("legs") == []
        found = trips.queue("raw").get(ids[1], passed=True)
        assert found is not None
        assert (way(found), found.entry_payload) == (["raw", "clean", "long"], {"to": "long"})

    def test_dead_ones_and_those_on_their_way(self, trips: Pipeline) -> None:
        dead = trips.push({"to": "short", "fails": True}).id
        trips.drain()
        waiting = trips.push({"to": "short"}).id
        assert [item.id for item in trips.find("raw")] == [waiting, dead]
        assert [item.id for item in trips.find("clean")] == [dead]
        assert [item.id for item in trips.find("raw", state="dead")] == [dead]

    def test_items_that_were_split(self, trips: Pipeline) -> None:
        trips.push({"legs": [1, 2]})
        trips.drain()
        assert [way(item) for item in trips.find("raw")] == [
            ["raw", "clean", "legs", "short"],
            ["raw", "clean", "legs", "short"],
            ["raw", "clean"],
        ]


class TestReplayOfItems:
    def test_from_the_entry_with_what_entered(self, trips: Pipeline, store: Store, clock: StoreClock) -> None:
        item = trips.push({"to": "long"}, tenant="acme", priority=7, headers={"trace": "t"}, key="k")
        trips.drain()
        clock.advance(60)
        (copy,) = trips.replay([item.id])
        assert (copy.queue, copy.payload, copy.origin) == ("etl.raw", {"to": "long"}, item.id)
        came_at, again_at = copy.headers[INPUT]
        assert came_at < again_at
        headers = {"trace": "t", INPUT: [came_at, again_at]}
        assert (copy.tenant, copy.priority, copy.headers) == ("acme", 7, headers)
        assert row_of(store, copy.id).trail is None
        assert trips.drain() == 3
        assert results(trips, "long") == [{"to": "long", "clean": True}] * 2

    def test_of_dead_letters(self, trips: Pipeline, app: Stanchion) -> None:
        ids = [trips.push({"to": "short", "fails": True, "n": n}).id for n in range(3)]
        trips.push({"to": "short"})
        trips.drain()
        assert trips.replay(from_="raw", state="dead") == 3
        copies = list(reversed(trips.queue("raw").find()))
        assert [copy.origin for copy in copies] == ids
        assert {copy.payload["n"] for copy in copies} == {0, 1, 2}
        assert copies[0].dead_from is None
        again = trips.replay(ids[:1], from_="clean")
        assert (again[0].queue, again[0].payload) == ("etl.clean", {"to": "short", "fails": True, "n": 0, "raw": 1})
        letter = app.get(ids[0])
        assert letter is not None
        assert (letter.queue, letter.state) == ("etl.dead", JobState.DEAD)

    def test_of_a_condition_with_a_limit(self, trips: Pipeline) -> None:
        ids = [trips.push({"to": "short"}, tenant="ab"[n % 2]).id for n in range(6)]
        trips.drain()
        assert trips.replay(tenant="a", limit=2) == 2
        assert [copy.origin for copy in trips.queue("raw").find()] == [ids[4], ids[2]]  # the oldest runs first
        assert trips.replay(tenant="nobody") == 0
        assert trips.replay(tenant="b", state="running") == 0
        with pytest.raises(InvalidInput, match="which items"):
            trips.replay(from_="raw")

    def test_of_items_split_from_another_runs_that_once(self, trips: Pipeline, app: Stanchion) -> None:
        parent = trips.push({"legs": [1, 2, 3]})
        trips.drain()
        legs = [item.id for item in trips.find("legs")]
        assert len(legs) == 3
        (copy,) = trips.replay(legs)
        assert (copy.origin, copy.queue, copy.payload) == (parent.id, "etl.raw", {"legs": [1, 2, 3]})
        assert len(trips.replay([*legs, parent.id], from_="clean")) == 1
        (one,) = trips.replay(legs[:1], from_="legs")
        assert (one.origin, one.payload["leg"]) == (legs[0], 3)
        app.cancel(one.id)
        trips.drain()
        assert len(results(trips, "short")) == 3 * 3

    def test_of_items_split_twice(self, trips: Pipeline) -> None:
        parent = trips.push({"legs": [1, 2], "deep": True})
        trips.drain()
        halves = [item.id for item in trips.find("short")]
        assert len(halves) == 4
        (copy,) = trips.replay(halves)
        assert copy.origin == parent.id
        copies = trips.replay(halves, from_="legs")
        assert sorted(copy.payload["leg"] for copy in copies) == [1, 2]

    def test_a_commit_of_another_payload_does_not_spoil_it(self, app: Stanchion) -> None:
        one = app.pipeline("one")

        @one.station("raw", to="end")
        def raw(item: int) -> Any:
            return Snooze(0, payload=item + 1) if item < 3 else item * 10

        @one.station("end")
        def end(item: int, job: Job) -> None:
            assert isinstance(job, Reservation)
            job.commit("mine", payload=f"spoiled {item}")

        item = one.push(1)
        one.station("other", entry=True)(lambda item: item)
        one.drain()
        found = app.get(item.id)
        assert found is not None
        assert found.entry_payload == 1
        assert one.replay([item.id])[0].payload == 1

    def test_refuses_what_it_can_not_run(self, trips: Pipeline, app: Stanchion) -> None:
        done = trips.push({"to": "short"}).id
        trips.drain()
        waiting = trips.push({"to": "short"}).id
        for ids, station, why in (
            ([waiting], None, "is still on its way"),
            ([done, waiting], "raw", "is still on its way"),
            ([done], "long", "has not passed"),
            ([app.queue("other").push(1).id], None, "has not passed"),
            ([done], "nowhere", "has no station"),
        ):
            with pytest.raises(InvalidInput, match=why):
                trips.replay(list(ids), from_=station)
        with pytest.raises(InvalidInput, match="not both"):
            trips.replay([done], tenant="acme")  # type: ignore[call-overload]
        assert trips.status().stations[0].depth.total == 1
        assert trips.replay([]) == trips.replay(["01a1fe3f-73a2-767e-a69c-404dbf034853"]) == []

    def test_of_payloads_that_are_not_kept(self, app: Stanchion) -> None:
        lean = app.pipeline("lean", keep_entry=False)
        lean.station("raw", to="mid")(lambda item: item)
        lean.station("mid", to="end")(lambda item: item + 1)
        lean.station("end")(lambda item: Cancel("no") if item < 0 else item)
        item = lean.push(1).id
        lean.drain()
        with pytest.raises(InvalidInput, match=r"replay it from lean\.end"):
            lean.replay([item])
        assert lean.replay(state="done") == 0
        assert [copy.payload for copy in lean.replay([item], from_="end")] == [2]

    def test_of_an_item_whose_origin_is_gone(self, trips: Pipeline) -> None:
        trips.push({"legs": [3]})  # one leg is the same item
        trips.push({"legs": [1, 2]})
        trips.drain()
        trips.queue("clean").purge_history(older_than=0)
        legs = [item.id for item in trips.find("legs")]
        with pytest.raises(InvalidInput, match="not in history any more"):
            trips.replay(legs[:2])
        assert len(trips.replay(legs[:2], from_="legs")) == 2
