"""Chunks with an order key: their items keep their order at each station, whatever becomes of single items."""

from __future__ import annotations

import random
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from stanchion import Bury, Cancel, Send, Snooze, Stanchion
from stanchion.core.chunks.grouping import in_buckets
from stanchion.errors import InvalidInput
from stanchion.pipelines import Pipeline
from stanchion.pipelines.chunks import work
from stanchion.stores.memory import FrozenClock, MemoryStore
from tests.pipeline.test_chunks import figures, later


@pytest.fixture(params=["memory", "sqlite"])
def app(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Stanchion]:
    store = MemoryStore(FrozenClock()) if request.param == "memory" else None
    with Stanchion(store=store) if store else Stanchion(f"sqlite:///{tmp_path / 'jobs.db'}") as app:
        yield app


def orders(number: int, customers: int = 5) -> list[dict[str, Any]]:
    return [{"n": n, "customer": n % customers} for n in range(number)]


def finish(app: Stanchion, etl: Pipeline) -> None:
    """Run everything to its end, over all delays."""
    for _ in range(200):
        etl.drain()
        if etl.status().empty:
            return
        later(app, 86_400)
    raise AssertionError(etl.status())


def in_order(seen: list[dict[str, Any]]) -> bool:
    """Return whether the items of each customer came in their order, each once."""
    by = defaultdict[int, list[int]](list)
    for item in seen:
        by[item["customer"]].append(item["n"])
    return all(some == sorted(set(some)) for some in by.values())


def test_items_are_cut_by_the_hash_of_a_field(app: Stanchion) -> None:
    etl = app.pipeline("etl")
    etl.station("raw")(lambda _item: None)
    items = [{"n": n, "customer": f"customer {n % 100}"} for n in range(1000)]
    jobs = etl.push_chunks(items, order_key="customer", buckets=8, size=100)
    keys = {job.order_key for job in jobs}
    assert keys == {f"customer:{n}" for n in range(8)}
    assert sum(job.items or 1 for job in jobs) == 1000
    bucket_of = defaultdict[str, set[str | None]](set)
    for job in jobs:
        for item in job.payload:
            bucket_of[item["customer"]].add(job.order_key)
    assert all(len(some) == 1 for some in bucket_of.values())
    again = etl.push_chunks(items[:1], order_key="customer", buckets=8)
    assert {again[0].order_key} == bucket_of["customer 0"]


@pytest.mark.parametrize("value", [None, "", 1.5, True, ["a"]])
def test_a_value_that_is_no_text_and_no_integer_is_refused(app: Stanchion, value: object) -> None:
    etl = app.pipeline("etl")
    etl.station("raw")(lambda _item: None)
    with pytest.raises(InvalidInput, match="order_key='customer' is the field"):
        etl.push_chunks([{"customer": value}], order_key="customer")


def test_a_tenant_and_an_order_key_are_refused_together(app: Stanchion) -> None:
    etl = app.pipeline("etl")
    etl.station("raw")(lambda _item: None)
    with pytest.raises(InvalidInput, match="give one"):
        etl.push_chunks(orders(3), order_key="customer", tenant="customer")


@pytest.mark.parametrize("takes", [None, "arrow"])
def test_a_failed_item_holds_back_those_behind_it(app: Stanchion, takes: Any) -> None:
    etl = app.pipeline("etl")
    tries = list[int]()

    if takes is None:

        @etl.station("raw", to="end")
        def raw(item: dict[str, Any]) -> dict[str, Any]:
            tries.append(item["n"])
            if item["n"] == 4 and tries.count(4) < 3:
                raise ValueError("not yet")
            return item

    else:

        @etl.station("raw", to="end", takes=takes)
        def table(items: Any) -> Any:
            tries.extend(items["n"].to_pylist())
            wrong = [n == 4 and tries.count(4) < 3 for n in items["n"].to_pylist()]
            return items.append_column("error", [["not yet" if one else None for one in wrong]])

    seen = list[dict[str, Any]]()
    etl.station("end")(seen.append)
    (pushed,) = etl.push_chunks(orders(10, 1), order_key="customer", buckets=1)
    (behind,) = etl.push_chunks([{"n": n, "customer": 0} for n in (10, 11)], order_key="customer", buckets=1)
    etl.drain()
    assert [item["n"] for item in seen] == [0, 1, 2, 3]
    (rest,) = (job for job in app.queue("etl.raw").find(state="scheduled"))
    assert [item["n"] for item in rest.payload] == [4, 5, 6, 7, 8, 9]
    assert (rest.attempts, rest.origin, rest.order_key) == (1, pushed.id, "customer:0")
    assert rest.payload.names(rest.id)[0] == f"{pushed.id}/4"
    assert behind.id in {job.id for job in app.queue("etl.raw").find(state="waiting")}
    later(app, 600)
    etl.drain()
    again = app.get(rest.id)
    assert again is not None
    assert (again.id, again.attempts, len(again.errors)) == (rest.id, 2, 2)  # all of it failed: it stays whole
    finish(app, etl)
    assert [item["n"] for item in seen] == list(range(12))
    if takes is None:
        assert tries == [0, 1, 2, 3, 4, 4, *range(4, 12)]
    came, out, dropped, _, dead = figures(etl)["raw"]
    assert (came, out, dropped, dead) == (12, 12, 0, 0)


def test_an_item_behind_has_all_its_attempts(app: Stanchion) -> None:
    etl = app.pipeline("etl")
    tries = list[int]()

    @etl.station("raw", max_attempts=3)
    def raw(item: dict[str, Any]) -> None:
        tries.append(item["n"])
        if tries.count(item["n"]) < 3:
            raise ValueError(item["n"])

    etl.push_chunks(orders(5, 1), order_key="customer", buckets=1)
    finish(app, etl)
    assert tries == [n for n in range(5) for _ in range(3)]
    assert not list(app.queue("etl.dead").find())


def test_the_line_goes_on_past_a_dead_letter(app: Stanchion) -> None:
    etl = app.pipeline("etl")

    @etl.station("raw", to="end", max_attempts=2)
    def raw(item: dict[str, Any]) -> dict[str, Any]:
        if item["n"] in {2, 3, 7}:
            raise ValueError(f"bad {item['n']}")
        return item

    seen = list[dict[str, Any]]()
    etl.station("end")(seen.append)
    etl.push_chunks(orders(10, 1), order_key="customer", buckets=1, size=5)
    finish(app, etl)
    assert [item["n"] for item in seen] == [0, 1, 4, 5, 6, 8, 9]
    letters = {job.payload["n"]: job for job in app.queue("etl.dead").find()}
    assert {n: (job.attempts, job.errors[-1]["error"]) for n, job in letters.items()} == {
        n: (2, f"ValueError: bad {n}") for n in (2, 3, 7)
    }
    assert figures(etl)["raw"][:3] + figures(etl)["raw"][4:] == (10, 7, 0, 3)
    assert letters[2].origin is not None


def test_final_ends_of_single_items_cut_nothing(app: Stanchion) -> None:
    etl = app.pipeline("etl")

    @etl.station("raw", to="end")
    def raw(item: dict[str, Any]) -> object:
        n = item["n"]
        if n % 4 == 1:
            raise Cancel("no")
        if n % 4 == 2:
            raise Bury("never")
        return [] if n % 4 == 3 else item

    seen = list[dict[str, Any]]()
    etl.station("end")(seen.append)
    etl.push_chunks(orders(20, 1), order_key="customer", buckets=1)
    etl.drain()
    assert [item["n"] for item in seen] == list(range(0, 20, 4))
    assert figures(etl)["raw"] == (20, 5, 10, 0, 5)


@pytest.mark.parametrize("raised", [True, False])
def test_a_snoozed_item_holds_back_those_behind_it(app: Stanchion, raised: bool) -> None:
    etl = app.pipeline("etl")
    seen, tries = list[int](), list[int]()

    @etl.station("raw")
    def raw(item: dict[str, Any]) -> object:
        tries.append(item["n"])
        if item["n"] == 3 and tries.count(3) == 1:
            if raised:
                raise Snooze(60)
            return Snooze(60)
        seen.append(item["n"])
        return None

    etl.push_chunks(orders(6, 1), order_key="customer", buckets=1)
    etl.drain()
    (rest,) = app.queue("etl.raw").find(state="scheduled")
    assert (len(rest.payload), rest.attempts, seen) == (3, 0, [0, 1, 2])
    finish(app, etl)
    assert seen == list(range(6))


def test_delays_and_priorities_of_one_station_keep_the_order(app: Stanchion) -> None:
    etl = app.pipeline("etl")

    @etl.station("raw", to=["end", "other"])
    def raw(item: dict[str, Any]) -> Send:
        n = item["n"]
        if n % 2:
            return Send("other")
        return Send("end", delay=60 if n in {2, 8} else 0, priority=5 if n == 6 else None)

    seen, others = list[dict[str, Any]](), list[dict[str, Any]]()
    etl.station("end")(seen.append)
    etl.station("other")(others.append)
    etl.push_chunks(orders(12, 1), order_key="customer", buckets=1)
    etl.push_chunks([{"n": n, "customer": 0} for n in range(12, 14)], order_key="customer", buckets=1)
    etl.drain()
    assert [item["n"] for item in seen] == [0]
    finish(app, etl)
    assert [item["n"] for item in seen] == list(range(0, 14, 2))
    assert [item["n"] for item in others] == list(range(1, 14, 2))


def test_too_many_changes_are_refused(app: Stanchion) -> None:
    etl = app.pipeline("etl")
    etl.station("raw", to="end", max_attempts=1)(lambda item: Send("end", delay=item["n"] % 2 + 1))
    etl.station("end")(lambda _item: None)
    etl.push_chunks(orders(40, 1), order_key="customer", buckets=1)
    etl.drain()
    (dead,) = app.queue("etl.dead").find()
    assert "in 40 parts, as each change of delay or priority" in dead.errors[-1]["error"]


def test_an_item_that_becomes_several_is_refused(app: Stanchion) -> None:
    etl = app.pipeline("etl")

    @etl.station("raw", to=["end", "other"])
    def raw(item: dict[str, Any]) -> object:
        return [Send("end"), Send("other")] if item["n"] == 2 else Send("end")

    seen = list[dict[str, Any]]()
    etl.station("end")(seen.append)
    etl.station("other")(seen.append)
    etl.push_chunks(orders(5, 1), order_key="customer", buckets=1)
    etl.drain()
    assert [item["n"] for item in seen] == [0, 1, 3, 4]
    (dead,) = app.queue("etl.dead").find()
    assert "must become one item" in dead.errors[-1]["error"]


@pytest.mark.parametrize("returns", ["new rows", "rows twice"])
def test_a_table_of_new_rows_is_refused(app: Stanchion, returns: str) -> None:
    import pyarrow as pa

    etl = app.pipeline("etl")

    @etl.station("raw", to="end", takes="arrow", max_attempts=1)
    def raw(items: Any) -> Any:
        if returns == "rows twice":
            return pa.concat_tables([items, items])
        return pa.table({"sum": [1] * (len(items) + 1)})

    seen = list[object]()
    etl.station("end")(seen.append)
    etl.push_chunks(orders(5, 1), order_key="customer", buckets=1)
    etl.drain()
    assert not seen
    found = list(app.queue("etl.dead").find())
    assert all("must become one item" in job.errors[-1]["error"] for job in found)
    assert sum(job.items or 1 for job in found) == 5


def test_a_table_in_another_order_keeps_the_order(app: Stanchion) -> None:
    etl = app.pipeline("etl")
    etl.station("raw", to="end", takes="arrow")(lambda items: items.take(list(range(9, -1, -1))))
    seen = list[dict[str, Any]]()
    etl.station("end")(seen.append)
    etl.push_chunks(orders(10, 1), order_key="customer", buckets=1)
    etl.drain()
    assert [item["n"] for item in seen] == list(range(10))


def test_a_slice_leaves_the_rest_at_the_head_of_its_line(app: Stanchion, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(work, "SLICE", 0.0)
    etl = app.pipeline("etl")
    seen = list[dict[str, Any]]()

    @etl.station("raw", to="end")
    def raw(item: dict[str, Any]) -> dict[str, Any]:
        return item

    etl.station("end")(seen.append)
    etl.push_chunks(orders(30, 3), order_key="customer", buckets=2, size=10)
    finish(app, etl)
    assert len(seen) == 30
    assert in_order(seen)
    assert figures(etl)["end"][:2] == (30, 30)


def test_a_chunk_that_lost_its_lease_is_cut_in_order(app: Stanchion) -> None:
    etl = app.pipeline("etl")
    seen = list[dict[str, Any]]()
    etl.station("raw")(seen.append)
    first, _ = etl.push_chunks(orders(100, 1), order_key="customer", buckets=1, size=50)
    app.queue("etl.raw").configure(lease=10.0)
    (row,) = app.queue("etl.raw").reserve(5)
    assert row.id == first.id
    later(app, 60)
    app.store.recover()
    etl.drain()
    assert [item["n"] for item in seen] == list(range(100))
    assert figures(etl)["raw"][:2] == (100, 100)


def test_a_letter_that_is_retried_goes_first(app: Stanchion) -> None:
    etl = app.pipeline("etl")
    fail, seen = [True], list[int]()

    @etl.station("raw", max_attempts=1)
    def raw(item: dict[str, Any]) -> None:
        if fail[0] and item["n"] == 1:
            raise ValueError("bad")
        seen.append(item["n"])

    first, _ = etl.push_chunks(orders(8, 1), order_key="customer", buckets=1, size=4)
    etl.drain()
    assert seen == [0, 2, 3, 4, 5, 6, 7]
    (letter,) = app.queue("etl.dead").find()
    assert letter.enqueued_at == first.enqueued_at
    fail[0] = False
    etl.push_chunks([{"n": n, "customer": 0} for n in (8, 9)], order_key="customer", buckets=1)
    app.queue("etl.dead").retry(letter.id)
    etl.drain()
    assert seen[7:] == [1, 8, 9]


@pytest.mark.parametrize("seed", range(12))
def test_random_ends_keep_the_order(app: Stanchion, seed: int) -> None:
    chance = random.Random(seed)
    etl = app.pipeline("etl")
    dies = {n for n in range(300) if chance.random() < 0.01}

    def maybe(item: dict[str, Any]) -> None:
        if item["n"] in dies or chance.random() < 0.03:
            raise ValueError("bad")
        if chance.random() < 0.02:
            raise Snooze(chance.choice([1, 100, 1000]))

    @etl.station("raw", to=["mid"], max_attempts=12)
    def raw(item: dict[str, Any]) -> object:
        maybe(item)
        return (
            Send("mid", delay=50 if item["n"] % 71 == 0 else 0, priority=item["n"] % 3 if seed % 2 else None)
            if item["n"] % 71 == 0
            else item
        )

    @etl.station("mid", to=["left", "right"], max_attempts=12)
    def mid(item: dict[str, Any]) -> Send:
        maybe(item)
        return Send("left" if item["customer"] % 2 else "right")

    seen = list[dict[str, Any]]()

    def end(item: dict[str, Any]) -> None:
        maybe(item)
        seen.append(item)

    etl.station("left", max_attempts=12)(end)
    etl.station("right", max_attempts=12)(end)
    etl.push_chunks(orders(300, 7), order_key="customer", buckets=3, size=chance.choice([20, 50]))
    finish(app, etl)
    assert in_order(seen)
    dead = sorted(job.payload["n"] for job in app.queue("etl.dead").find(limit=500))
    assert sorted([item["n"] for item in seen] + dead) == list(range(300))
    assert set(dead) == dies


def test_a_value_has_the_same_bucket_in_each_process() -> None:
    code = "from stanchion.core.chunks.grouping import in_buckets; print(in_buckets('c', 1000)('Zoë'))"
    told = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
    assert told.strip() == in_buckets("c", 1000)("Zoë")
