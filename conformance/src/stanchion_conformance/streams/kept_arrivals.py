"""Stations that keep the payload of each arrival: replays and backfills begin there."""

from __future__ import annotations

from typing import Any

import pytest

from stanchion import Pipeline, Send, Stanchion, Worker
from stanchion.errors import InvalidInput
from stanchion.pipelines.backfilling import run as backfill_run
from stanchion.stores.protocol import Store
from stanchion_conformance.harness import row_of
from stanchion_conformance.jobs.encryption import new_key

RUNS = ("drain", "worker")


def declared(app: Stanchion, **options: Any) -> Pipeline:
    """raw, then clean, which keeps what arrives, then rate, then end. Each station adds its name and changes `n`."""
    etl = app.pipeline("kept", **options)

    def step(name: str) -> Any:
        return lambda item: {**item, "n": item["n"] * 10, "way": [*item["way"], name]}

    etl.station("raw", to="clean")(step("raw"))
    etl.station("clean", to="rate", keep_arrival=True)(step("clean"))
    etl.station("rate", to="end")(step("rate"))
    etl.station("end")(lambda item: item["n"])
    return etl


@pytest.fixture
def kept(app: Stanchion, monkeypatch: pytest.MonkeyPatch) -> Pipeline:
    """A pipeline with a station in the middle that keeps what arrives; few items are several pages of a backfill."""
    monkeypatch.setattr(backfill_run, "PAGE", 3)
    return declared(app)


def items(count: int) -> list[dict[str, Any]]:
    """Return items that differ."""
    return [{"n": n, "way": []} for n in range(1, count + 1)]


def run(app: Stanchion, etl: Pipeline, way: str = "drain") -> None:
    """Run all that is live to its end; a worker passes items in memory."""
    if way == "drain":
        etl.drain()
    else:
        Worker(app, list(etl.queues), threads=2, until_empty=True, poll=0.02).run()


def waiting(etl: Pipeline, station: str) -> list[Any]:
    """Return the waiting items of a station, in the order in which they run."""
    found = reversed(etl.queue(station).find(state="ready", limit=1000))
    return [item for job in found for item in (job.payload if job.items else [job.payload])]


class TestKeptArrivals:
    @pytest.mark.parametrize("way", RUNS)
    def test_a_backfill_of_a_station_in_the_middle(self, app: Stanchion, kept: Pipeline, way: str) -> None:
        kept.push_many(items(7))
        run(app, kept, way)
        done = kept.backfill("clean")
        assert (done.enqueued, done.left_out) == (7, {})
        assert waiting(kept, "clean") == [{"n": n * 10, "way": ["raw"]} for n in range(1, 8)]
        run(app, kept, way)
        results = sorted(job.result for job in kept.queue("end").find(state="done", limit=100))
        assert results == sorted([n * 1000 for n in range(1, 8)] * 2)
        missing = kept.backfill("rate", dry_run=True)
        assert (missing.enqueued, missing.left_out) == (0, {"payload": 7, "copy": 7})
        assert "declare station 'rate' with keep_arrival=True for later items" in missing.told[0]

    @pytest.mark.parametrize("way", RUNS)
    def test_of_a_chunk(self, app: Stanchion, kept: Pipeline, way: str) -> None:
        pytest.importorskip("pyarrow")
        (chunk,) = kept.push_chunks(items(20))
        run(app, kept, way)
        (copy,) = kept.replay([chunk.id], from_="clean")
        assert (copy.items, copy.origin) == (20, chunk.id)
        assert list(copy.payload) == [{"n": n * 10, "way": ["raw"]} for n in range(1, 21)]
        assert kept.backfill("clean", dry_run=True).enqueued == 20

    @pytest.mark.parametrize("way", RUNS)
    def test_of_a_chunk_that_is_divided_later(self, app: Stanchion, way: str) -> None:
        pytest.importorskip("pyarrow")
        etl = app.pipeline("divided")
        etl.station("raw", to="clean")(lambda item: {**item, "raw": True})
        etl.station("clean", to="part", keep_arrival=True)(lambda item: {**item, "clean": True})

        @etl.station("part", to=["odd", "even"], max_attempts=1)
        def part(item: dict[str, Any]) -> Send:
            if item["n"] == 7:
                raise ValueError("seven")
            return Send("odd" if item["n"] % 2 else "even", item["n"])

        etl.station("odd")(lambda n: n)
        etl.station("even")(lambda n: n)
        (chunk,) = etl.push_chunks([{"n": n} for n in range(10)])
        run(app, etl, way)
        letters = [job.id for job in etl.dead_letters.find()]
        (copy,) = etl.replay(letters, from_="clean")
        assert (copy.origin, list(copy.payload)) == (chunk.id, [{"n": n, "raw": True} for n in range(10)])
        assert etl.backfill("clean").enqueued == 10
        assert etl.backfill("part", dry_run=True).enqueued == 10

    def test_of_items_with_another_priority(self, app: Stanchion, store: Store) -> None:
        etl = app.pipeline("urgent")
        etl.station("raw", to="clean")(lambda item: item + 1)
        etl.station("clean", to="end", keep_arrival=True)(lambda item: Send("end", item + 1, priority=50))
        etl.station("end")(lambda item: item)
        item = etl.push(0)
        etl.drain()
        assert row_of(store, item.id).priority == 50
        assert [copy.payload for copy in etl.replay([item.id], from_="clean")] == [1]

    def test_of_a_station_without_the_entry(self, app: Stanchion) -> None:
        lean = declared(app, keep_entry=False)
        item = lean.push(items(1)[0])
        lean.drain()
        assert [copy.payload["way"] for copy in lean.replay([item.id], from_="clean")] == [["raw"]]
        with pytest.raises(InvalidInput, match=r"replay it from kept\.clean or kept\.end, and declare station 'raw'"):
            lean.replay([item.id])

    def test_of_dead_letters(self, app: Stanchion) -> None:
        etl = app.pipeline("failing")
        etl.station("raw", to="clean", keep_arrival=True)(lambda item: item + 1)
        etl.station("clean", to="end", keep_arrival=True)(lambda item: item + 1)
        etl.station("end", max_attempts=1)(lambda item: 1 // (item - 2))
        item = etl.push(0)
        etl.drain()
        (letter,) = etl.dead_letters.find()
        assert letter.id == item.id
        for station, payload in (("raw", 0), ("clean", 1), ("end", 2)):
            assert [copy.payload for copy in etl.replay([item.id], from_=station)] == [payload]

    def test_of_encrypted_items(self, store: Store) -> None:
        old, new = new_key(), new_key()
        first = declared(Stanchion(store=store, keys=[old]))
        item = first.push(items(1)[0])
        first.drain()
        assert "way" not in str(row_of(store, item.id).kept_payloads)
        later = declared(Stanchion(store=store, keys=[new, old]))
        assert [copy.payload["way"] for copy in later.replay([item.id], from_="clean")] == [["raw"]]

    def test_a_copy_fits_the_schema_of_the_station(self, app: Stanchion, kept: Pipeline) -> None:
        kept.push_many(items(2))
        kept.drain()
        app.queue("kept.clean", schema="n string")
        found = kept.backfill("clean", dry_run=True)
        assert (found.enqueued, found.left_out) == (0, {"misfit": 2})

    def test_in_partitions(self, app: Stanchion) -> None:
        etl = app.pipeline("spread")
        etl.station("raw", to="clean", partitions=3)(lambda item: item + 1)
        etl.station("clean", to="end", keep_arrival=True, partitions=2)(lambda item: item + 1)
        etl.station("end")(lambda item: item)
        pushed = [etl.push(n, tenant=f"t{n}") for n in range(6)]
        etl.drain()
        copies = etl.replay([item.id for item in pushed], from_="clean")
        assert sorted(copy.payload for copy in copies) == [1, 2, 3, 4, 5, 6]
        assert etl.backfill("clean", dry_run=True).enqueued == 6

    def test_what_is_wrong_is_told(self, store: Store) -> None:
        with pytest.raises(InvalidInput, match="keep_arrival of a station must be True or False"):
            Stanchion(store=store).pipeline("etl").station("raw", keep_arrival="yes")  # type: ignore[arg-type]
        large = Stanchion(store=store, max_payload=4 << 20).pipeline("etl")
        with pytest.raises(InvalidInput, match=r"a payload may have at most 2,359,296 bytes: set max_payload"):
            large.station("raw", keep_arrival=True)(lambda item: item)
