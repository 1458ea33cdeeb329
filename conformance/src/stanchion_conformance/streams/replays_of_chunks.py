"""Replays and backfills of chunks: a chunk runs again whole and once, whatever its items have become."""

from __future__ import annotations

from typing import Any

import pytest

from stanchion import Pipeline, Send, Stanchion
from stanchion.errors import InvalidInput
from stanchion.jobs.job import Job
from stanchion.pipelines.backfilling import run as backfill_run
from stanchion.stores.protocol import Store
from stanchion_conformance.harness import LONG_LEASE, StoreClock

LETTERS, RETRIED = (3, 4), 5


def declared(app: Stanchion, **options: Any) -> Pipeline:
    """raw, then clean, then short and long. At clean, some items die, and one fails once."""
    etl = app.pipeline("flights", **options)
    failed: set[int] = set()

    @etl.station("raw", to="clean")
    def raw(item: dict[str, Any]) -> dict[str, Any]:
        return {**item, "raw": True}

    @etl.station("clean", to=["short", "long"], max_attempts=2)
    def clean(item: dict[str, Any]) -> Send:
        n = item["n"]
        if n in LETTERS or (n == RETRIED and n not in failed):
            failed.add(n)
            raise ValueError(f"bad {n}")
        return Send("short" if n % 2 else "long", {**item, "clean": True})

    etl.station("short")(lambda item: item["n"])
    etl.station("long")(lambda item: item["n"])
    return etl


@pytest.fixture
def flights(app: Stanchion) -> Pipeline:
    """A pipeline whose chunks are divided at its second station."""
    pytest.importorskip("pyarrow")
    return declared(app)


def items(count: int = 10) -> list[dict[str, Any]]:
    """Return items that differ."""
    return [{"n": n} for n in range(count)]


def ended(etl: Pipeline, clock: StoreClock, count: int = 10) -> Job:
    """Run a chunk to the ends of its items; return the job that carried it."""
    (chunk,) = etl.push_chunks(items(count))
    run(etl, clock)
    return chunk


def run(etl: Pipeline, clock: StoreClock) -> None:
    """Run all that is live to its end."""
    for _ in range(3):
        etl.drain()
        clock.advance(3600)


def parts(etl: Pipeline, chunk: Job, station: str | None = None) -> list[str]:
    """Return the ids of the jobs that were cut from a chunk."""
    return [job.id for job in etl.find(station, limit=100) if job.id != chunk.id]


def copied(jobs: list[Job]) -> list[tuple[str, int | None, str | None]]:
    """Return where copies run, how many items each has, and of which job it is one."""
    return [(job.queue, job.items, job.origin) for job in jobs]


def forget(store: Store, job: Job) -> None:
    """Delete a finished job from history."""
    assert store.delete([store.fetch([job.id])[job.id].ref]) == [True]


class TestReplayOfChunks:
    """Of parts and letters, the chunk runs again from which they were cut."""

    @pytest.mark.parametrize("station", [None, "raw", "clean"])
    def test_parts_stand_for_their_chunk(self, flights: Pipeline, clock: StoreClock, station: str | None) -> None:
        chunk = ended(flights, clock)
        there = f"flights.{station or 'raw'}"
        of_letters = [job.id for job in flights.dead_letters.find()]
        assert len(of_letters) == 2
        for ids in (of_letters, parts(flights, chunk), [chunk.id, *parts(flights, chunk)], of_letters[:1]):
            assert copied(flights.replay(ids, from_=station)) == [(there, 10, chunk.id)]
        (copy,) = flights.replay([chunk.id], from_=station)
        assert [item["n"] for item in copy.payload] == list(range(10))
        assert all(("raw" in item) is (station == "clean") for item in copy.payload)

    def test_from_a_later_station_a_part_runs_itself(self, flights: Pipeline, clock: StoreClock) -> None:
        chunk = ended(flights, clock)
        of_short = parts(flights, chunk, "short")
        copies = flights.replay(of_short, from_="short")
        assert sorted(item["n"] for copy in copies for item in (copy.payload if copy.items else [copy.payload])) == [
            *(1, 5, 7, 9)
        ]
        with pytest.raises(InvalidInput, match=r"has not passed station 'flights\.short'"):
            flights.replay([chunk.id], from_="short")

    def test_items_are_counted(self, flights: Pipeline, clock: StoreClock) -> None:
        ended(flights, clock)
        flights.push({"n": 1})
        run(flights, clock)
        assert flights.replay(state="dead") == 10
        assert flights.replay(state="done", from_="raw", write_id="fix") == 11
        assert flights.replay(state="done", from_="raw", write_id="fix") == 0
        assert flights.replay(state="done", from_="long") == 4

    def test_what_runs_again_ends_as_before(self, flights: Pipeline, clock: StoreClock) -> None:
        chunk = ended(flights, clock)
        before = {one.station: one.out for one in flights.status().stations}
        flights.replay(parts(flights, chunk), from_="clean")
        run(flights, clock)
        after = {one.station: one.out for one in flights.status().stations}
        assert after == {"raw": 10, "clean": 2 * before["clean"], "short": 8, "long": 8}
        assert flights.status().dead_letters == 4

    def test_one_that_is_retried_is_on_its_way(self, flights: Pipeline) -> None:
        (chunk,) = flights.push_chunks(items())
        flights.drain()
        (retried,) = flights.queue("clean").find(state="scheduled")
        with pytest.raises(InvalidInput, match="is still on its way"):
            flights.replay([retried.id], from_="clean")
        assert copied(flights.replay([chunk.id], from_="clean")) == [("flights.clean", 10, chunk.id)]

    def test_of_a_chunk_that_is_a_letter(self, app: Stanchion) -> None:
        pytest.importorskip("pyarrow")
        etl = app.pipeline("down")
        etl.station("only", max_attempts=1)(lambda item: item["missing"])
        (chunk,) = etl.push_chunks(items(150))
        etl.drain()
        assert [(job.id, job.items) for job in etl.dead_letters.find()] == [(chunk.id, 150)]
        assert copied(etl.replay([chunk.id])) == [("down.only", 150, chunk.id)]
        assert etl.replay(state="dead", from_="only") == 150

    def test_a_part_runs_itself_once_its_chunk_is_gone(
        self, flights: Pipeline, clock: StoreClock, store: Store
    ) -> None:
        chunk = ended(flights, clock)
        forget(store, chunk)
        letters = [job.id for job in flights.dead_letters.find()]
        (copy,) = flights.replay(letters, from_="clean")  # what failed together at first
        assert [item["n"] for item in copy.payload] == [*LETTERS, RETRIED]
        assert all(item["raw"] for item in copy.payload)
        with pytest.raises(InvalidInput, match=f"was split from {chunk.id}, which is not in history any more"):
            flights.replay(letters, from_="raw")

    def test_a_letter_that_was_put_back(self, flights: Pipeline, clock: StoreClock, app: Stanchion) -> None:
        chunk = ended(flights, clock)
        (letter, *_) = flights.dead_letters.find()
        flights.dead_letters.retry(letter.id)
        run(flights, clock)
        assert [stop.queue for stop in app.get(letter.id).trail].count("flights.clean") == 4  # type: ignore[union-attr]
        assert copied(flights.replay([letter.id], from_="clean")) == [("flights.clean", 10, chunk.id)]


class TestBackfillOfChunks:
    """Each item of the window runs again once, and all figures are in items."""

    def test_each_item_once(self, flights: Pipeline, clock: StoreClock) -> None:
        chunk = ended(flights, clock)
        for station, count in (("raw", 10), ("clean", 10), ("short", 4), ("long", 4)):
            found = flights.backfill(station, dry_run=True)
            assert (station, found.enqueued, found.left_out) == (station, count, {})
        done = flights.backfill("clean", name="fix")
        assert (done.enqueued, done.left_out, done.fraction) == (10, {}, 1.0)
        assert copied(flights.queue("clean").find(state="ready")) == [("flights.clean", 10, chunk.id)]
        again = flights.backfill("clean", name="again", dry_run=True)
        assert (again.enqueued, again.left_out) == (10, {"live": 10})
        run(flights, clock)
        again = flights.backfill("clean", name="again", dry_run=True)
        assert (again.enqueued, again.left_out) == (10, {"copy": 10})

    def test_one_whose_holder_died(self, flights: Pipeline, clock: StoreClock, store: Store) -> None:
        (chunk,) = flights.push_chunks(items(64))
        assert flights.queue("raw").reserve(lease=LONG_LEASE)[0].id == chunk.id
        clock.advance(LONG_LEASE + 1)
        store.recover()
        run(flights, clock)
        assert len(parts(flights, chunk, "raw")) > 32
        for station in ("raw", "clean"):
            assert flights.backfill(station, dry_run=True).enqueued == 64
        flights.backfill("raw")
        assert copied(flights.queue("raw").find(state="ready")) == [("flights.raw", 64, chunk.id)]

    def test_one_that_is_on_its_way(self, flights: Pipeline) -> None:
        flights.push_chunks(items())
        found = flights.backfill("raw", dry_run=True)
        assert (found.enqueued, found.left_out) == (0, {"live": 10})

    def test_one_that_history_has_lost(self, flights: Pipeline, clock: StoreClock, store: Store) -> None:
        chunk = ended(flights, clock)
        forget(store, chunk)
        found = flights.backfill("raw", dry_run=True)
        assert (found.enqueued, found.left_out) == (0, {"lost": 10})
        found = flights.backfill("clean")
        assert (found.enqueued, found.left_out) == (3, {"lost": 7})
        (copy,) = flights.queue("clean").find(state="ready")
        assert [item["n"] for item in copy.payload] == [*LETTERS, RETRIED]

    def test_one_without_its_payload(self, app: Stanchion, clock: StoreClock) -> None:
        pytest.importorskip("pyarrow")
        lean = app.pipeline("lean", keep_entry=False)
        lean.station("raw", to="end")(lambda item: item["n"])
        lean.station("end", max_attempts=1)(lambda n: 1 // n)
        ended(lean, clock)
        found = lean.backfill("raw", dry_run=True)
        assert (found.enqueued, found.left_out) == (0, {"payload": 10})
        assert lean.backfill("end", dry_run=True).enqueued == 10

    def test_one_that_does_not_fit_a_new_schema(self, flights: Pipeline, app: Stanchion, clock: StoreClock) -> None:
        ended(flights, clock)
        app.queue("flights.raw", schema="n string")
        found = flights.backfill("raw", dry_run=True)
        assert (found.enqueued, found.left_out) == (0, {"misfit": 10})

    def test_it_waits_for_room_by_items(
        self, flights: Pipeline, clock: StoreClock, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for count in (6, 4, 20, 3):
            flights.push_chunks(items(count))
        run(flights, clock)
        held: list[int] = []
        monkeypatch.setattr(backfill_run, "sleep", lambda _seconds: run(flights, clock))
        done = flights.backfill(
            "raw", max_live=10, watch=lambda _: held.append(flights.status().stations[0].depth.total)
        )
        assert (done.enqueued, held[:3], set(held[3:])) == (33, [10, 20, 3], {3})

    def test_large_chunks_are_read_few_at_a_time(
        self, flights: Pipeline, clock: StoreClock, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for _ in range(5):
            flights.push_chunks(items(30))
        run(flights, clock)
        monkeypatch.setattr(backfill_run, "_CHARACTERS", 1)
        seen: list[int] = []
        flights.backfill("raw", watch=lambda done: seen.append(done.enqueued))
        assert seen[:5] == [30, 60, 90, 120, 150]
        assert set(seen[5:]) == {150}
