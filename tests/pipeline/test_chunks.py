"""Chunks at stations: each item ends as it would alone, whatever becomes of the others."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from stanchion import Bury, Cancel, Job, RetryAfter, Send, Snooze, Stanchion
from stanchion.errors import InvalidInput
from stanchion.pipelines import Pipeline
from stanchion.pipelines.chunks import tables, work
from stanchion.stores.memory import FrozenClock, MemoryStore
from stanchion.stores.records.jobs import SECOND


@pytest.fixture(params=["memory", "sqlite"])
def app(request: pytest.FixtureRequest, tmp_path: Any) -> Iterator[Stanchion]:
    store = MemoryStore(FrozenClock()) if request.param == "memory" else None
    with Stanchion(store=store) if store else Stanchion(f"sqlite:///{tmp_path / 'jobs.db'}") as app:
        yield app


def items(number: int) -> list[dict[str, Any]]:
    return [{"n": n, "word": f"word {n}"} for n in range(number)]


def later(app: Stanchion, seconds: float) -> None:
    app.store.clock_offset += seconds


def figures(etl: Pipeline) -> dict[str, tuple[int, ...]]:
    """Return what status counts of each station."""
    return {one.station: (one.came, one.out, one.dropped, one.retried, one.dead) for one in etl.status().stations}


def results(app: Stanchion, queue: str) -> list[Any]:
    """Return the results of an end station, by item."""
    found: list[Any] = []
    for job in app.queue(queue).find(state="done", limit=500):
        if job.items is None:
            found.append(job.result)
        elif job.items:
            found += list(job.result)
    return sorted(found, key=str)


def routed(app: Stanchion) -> Pipeline:
    """Return a pipeline in which items part, fail, come again, are dropped and die."""
    etl = app.pipeline("etl")
    tries: Counter[int] = Counter()

    @etl.station("raw", to="clean")
    def raw(item: dict[str, Any]) -> dict[str, Any]:
        return {**item, "raw": True}

    @etl.station("clean", to=["short", "long"], max_attempts=2)
    def clean(item: dict[str, Any]) -> object:
        n = item["n"]
        tries[n] += 1
        if n % 10 == 3:
            raise ValueError(f"bad {n}")
        if n % 10 == 4 and tries[n] == 1:
            raise KeyError("once")
        if n % 10 == 5:
            raise Cancel("not wanted")
        if n % 10 == 6:
            return []
        if n % 10 == 7:
            return [Send("short", {"n": n, "half": 1}), Send("long", {"n": n, "half": 2})]
        if n % 10 == 8 and tries[n] == 1:
            raise Snooze(1)
        return Send("short" if n % 2 else "long")

    @etl.station("short")
    def short(item: dict[str, Any]) -> object:
        return item["n"]

    @etl.station("long")
    def long(item: dict[str, Any]) -> object:
        return {"long": item["n"]}

    return etl


def test_each_item_ends_as_it_would_alone() -> None:
    ends = []
    for chunks in (False, True):
        with Stanchion(store=MemoryStore()) as app:
            etl = routed(app)
            if chunks:
                assert [job.items for job in etl.push_chunks(items(100), size=40)] == [40, 40, 20]
            else:
                etl.push_many(items(100))
            for _ in range(4):
                etl.drain()
                later(app, 600)
            assert etl.status().empty
            dead = sorted(job.payload["n"] for job in app.queue("etl.dead").find())
            errors = {job.errors[-1]["error"] for job in app.queue("etl.dead").find()}
            queues = [*(f"etl.{name}" for name in ("raw", "clean", "short", "long")), "etl.dead"]
            counts = {name: app.store.stats([name], ["totals"])[name].totals._asdict() for name in queues}
            ends.append((counts, figures(etl), results(app, "etl.short"), results(app, "etl.long"), dead, errors))
    assert ends[0] == ends[1]


def test_a_chunk_that_stays_whole_keeps_its_id(app: Stanchion) -> None:
    etl = app.pipeline("etl")
    etl.station("raw", to="end")(lambda item: {**item, "more": item["n"] / 2})
    etl.station("end")(lambda item: item["more"])
    (pushed,) = etl.push_chunks(items(50))
    etl.drain()
    done = app.get(pushed.id)
    assert done is not None
    assert (done.queue, done.items, list(done.result)) == ("etl.end", 50, [n / 2 for n in range(50)])
    assert figures(etl) == {"raw": (50, 50, 0, 0, 0), "end": (50, 50, 0, 0, 0)}


def test_one_item_is_an_ordinary_job(app: Stanchion) -> None:
    etl = routed(app)
    (job,) = etl.push_chunks([{"n": 1}])
    assert (job.items, job.payload) == (None, {"n": 1})


def test_failed_items_are_retried_alone_and_die_alone(app: Stanchion) -> None:
    etl = app.pipeline("etl")
    seen: list[int] = []

    @etl.station("only", max_attempts=2)
    def only(item: dict[str, Any]) -> int:
        seen.append(item["n"])
        if item["n"] in (3, 7):
            raise ValueError(f"bad {item['n']}")
        return int(item["n"])

    (pushed,) = etl.push_chunks(items(10))
    etl.drain()
    (part,) = app.queue("etl.only").find(state=["ready", "scheduled"])
    assert (part.items, part.attempts, part.origin, len(part.errors)) == (2, 1, pushed.id, 1)
    assert "bad 3" in part.errors[-1]["error"]
    assert [one["n"] for one in part.payload] == [3, 7]
    assert part.payload.names(part.id) == [f"{pushed.id}/3", f"{pushed.id}/7"]
    later(app, 600)
    etl.drain()
    letters = app.queue("etl.dead").find()
    assert sorted(job.errors[-1]["error"] for job in letters) == ["ValueError: bad 3", "ValueError: bad 7"]
    assert [job.items for job in letters] == [None, None]
    assert seen == [*range(10), 3, 7]
    assert results(app, "etl.only") == sorted((n for n in range(10) if n not in (3, 7)), key=str)
    assert figures(etl) == {"only": (10, 8, 0, 2, 2)}
    for job in letters:
        app.queue("etl.dead").retry(job.id)
    assert sorted(job.payload["n"] for job in app.queue("etl.only").find(state="ready")) == [3, 7]


def test_many_deaths_are_one_letter(app: Stanchion) -> None:
    etl = app.pipeline("etl")

    @etl.station("only", max_attempts=1)
    def only(item: dict[str, Any]) -> None:
        if item["n"]:
            raise OSError("the service is down")

    etl.push_chunks(items(300))
    etl.drain()
    (letter,) = app.queue("etl.dead").find()
    assert (letter.items, letter.errors[-1]["error"]) == (299, "OSError: the service is down (299 items)")


def test_an_outcome_of_an_item_is_its_own(app: Stanchion) -> None:
    etl = app.pipeline("etl")

    @etl.station("only")
    def only(item: dict[str, Any]) -> object:
        match item["n"]:
            case 0:
                return Bury("never")
            case 1:
                raise RetryAfter(30)
            case 2:
                return Snooze(60)
        return None

    etl.push_chunks(items(5))
    etl.drain()
    now = app.store.now()
    parts = {job.payload["n"]: job for job in app.queue("etl.only").find(state="scheduled")}
    assert {n: (job.attempts, round((job.run_at.timestamp() - now / SECOND) / 30)) for n, job in parts.items()} == {
        1: (1, 1),
        2: (0, 2),
    }
    assert [job.payload["n"] for job in app.queue("etl.dead").find()] == [0]


def test_a_slice_ends_and_the_rest_goes_back(app: Stanchion, monkeypatch: pytest.MonkeyPatch) -> None:
    etl = app.pipeline("etl")
    monkeypatch.setattr(work, "SLICE", 0.0)
    seen: list[int] = []
    etl.station("only")(lambda item: seen.append(item["n"]))
    etl.push_chunks(items(40))
    job = app.queue("etl.only").reserve()[0]
    job.release()
    etl.drain()
    assert sorted(seen) == list(range(40))
    assert seen[0] == 0
    assert figures(etl)["only"][0] == 40
    assert etl.status().empty


def test_a_chunk_whose_holder_died_is_cut(app: Stanchion) -> None:
    etl = app.pipeline("etl")
    seen: list[int] = []
    etl.station("only")(lambda item: seen.append(item["n"]))
    etl.push_chunks(items(64))
    app.queue("etl.only").reserve(lease=10)
    later(app, 11)
    app.store.recover()
    etl.drain()
    assert sorted(seen) == list(range(64))
    done = [job.items for job in app.queue("etl.only").find(state="done", limit=500)]
    assert Counter(done) == {0: 1, 2: 32}


def test_more_ways_than_a_chunk_may_part_on(app: Stanchion) -> None:
    etl = app.pipeline("etl")
    etl.station("raw", to="end")(lambda item: Send("end", delay=item["n"]))
    etl.station("end")(lambda _item: None)
    etl.push_chunks(items(20))
    etl.drain()
    (letter,) = app.queue("etl.dead").find()
    assert "16 are the most" in letter.errors[-1]["error"]
    assert letter.items == 20


def test_a_send_that_leads_nowhere_concerns_its_item(app: Stanchion) -> None:
    etl = app.pipeline("etl")
    seen = []

    @etl.station("raw", to=["end", "other"])
    def raw(item: dict[str, Any]) -> Send:
        if item["n"] == 1:
            raise Cancel("not wanted")
        return Send("nowhere" if item["n"] == 3 else "other" if item["n"] % 2 else "end")

    etl.station("end")(lambda item: seen.append(item["n"]))
    etl.station("other")(lambda item: seen.append(-item["n"]))
    etl.push_chunks(items(8))
    etl.drain()
    assert sorted(seen) == [-7, -5, 0, 2, 4, 6]
    (letter,) = app.queue("etl.dead").find()
    assert letter.payload["n"] == 3
    assert "'nowhere', which is no station" in letter.errors[-1]["error"]


def test_a_value_that_json_cannot_hold(app: Stanchion) -> None:
    etl = app.pipeline("etl")
    etl.station("raw", to="end")(lambda item: {"n": object()} if item["n"] == 2 else item)
    etl.station("end")(lambda item: item["n"])
    etl.push_chunks(items(5))
    etl.drain()
    assert results(app, "etl.end") == [0, 1, 3, 4]
    assert [job.payload["n"] for job in app.queue("etl.dead").find()] == [2]


def test_an_expectation_concerns_the_item(app: Stanchion) -> None:
    pytest.importorskip("sqlglot")
    etl = app.pipeline("etl")

    @etl.station("only")
    @etl.expect("n <> 3")
    @etl.expect("n <> 4", on_fail="drop")
    def only(item: dict[str, Any]) -> int:
        return int(item["n"])

    etl.push_chunks(items(6))
    etl.drain()
    assert results(app, "etl.only") == [0, 1, 2, 5]
    assert [job.payload["n"] for job in app.queue("etl.dead").find()] == [3]
    assert figures(etl) == {"only": (6, 4, 1, 0, 1)}


def test_async_functions_and_functions_of_a_job(app: Stanchion) -> None:
    etl = app.pipeline("etl")
    ids = set()

    @etl.station("raw", to="end")
    async def raw(item: dict[str, Any]) -> dict[str, Any]:
        return {**item, "twice": 2 * item["n"]}

    @etl.station("end")
    def end(item: dict[str, Any], job: Job) -> int:
        ids.add(job.id)
        return int(item["twice"])

    (pushed,) = etl.push_chunks(items(4))
    etl.drain()
    assert (results(app, "etl.end"), ids) == ([0, 2, 4, 6], {pushed.id})


@pytest.mark.parametrize("takes", ["arrow", "pandas", "polars"])
def test_batch_functions(app: Stanchion, takes: Any) -> None:
    pa = pytest.importorskip("pyarrow")
    etl = app.pipeline("etl")
    sizes = []

    @etl.station("raw", to="end", takes=takes, max_attempts=1)
    def raw(table: Any) -> Any:
        sizes.append(len(table))
        if takes == "pandas":
            table["twice"] = table["n"] * 2
            table["error"] = [f"bad {n}" if n == 3 else None for n in table["n"]]
            return table[table["n"] != 4]
        if takes == "polars":
            import polars as pl

            failed = pl.when(pl.col("n") == 3).then(pl.format("bad {}", "n")).alias("error")
            return table.filter(pl.col("n") != 4).with_columns(twice=2 * pl.col("n")).with_columns(failed)
        rows = [row for row in table.to_pylist() if row["n"] != 4]
        return pa.Table.from_pylist(
            [{**row, "twice": 2 * row["n"], "error": f"bad {row['n']}" if row["n"] == 3 else None} for row in rows]
        )

    etl.station("end")(lambda item: item["twice"])
    (pushed,) = etl.push_chunks(items(8))
    etl.push({"n": 100, "word": "single"})
    etl.drain()
    assert results(app, "etl.end") == sorted([0, 2, 4, 10, 12, 14, 200], key=str)
    (letter,) = app.queue("etl.dead").find()
    assert (letter.payload["n"], letter.errors[-1]["error"]) == (3, "ItemFailed: bad 3")
    assert sorted(sizes) == [1, 8]
    assert figures(etl)["raw"] == (9, 7, 1, 0, 1)
    assert pushed.id


def test_a_process_that_is_no_worker_asks_seldom_whether_to_stop(
    app: Stanchion, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each look reads the whole chunk."""
    monkeypatch.setattr(work, "LOOK", float("inf"))
    looks = Counter[str]()
    fetch = app.store.fetch

    def counted(ids: list[str]) -> Any:
        looks.update(ids)
        return fetch(ids)

    monkeypatch.setattr(app.store, "fetch", counted)
    etl = app.pipeline("etl")
    etl.station("raw")(lambda item: item["n"])
    (pushed,) = etl.push_chunks(items(500))
    etl.drain()
    assert looks[pushed.id] == 1
    assert len(results(app, "etl.raw")) == 500


def test_the_library_of_its_tables_is_missing(app: Stanchion, monkeypatch: pytest.MonkeyPatch) -> None:
    etl = app.pipeline("etl")
    etl.station("raw", takes="polars", max_attempts=1)(lambda table: table)
    (pushed,) = etl.push_chunks(items(200))
    monkeypatch.setitem(sys.modules, "polars", None)
    monkeypatch.setattr(tables, "table_for", None)  # no table is made
    etl.drain()
    (letter,) = app.queue("etl.dead").find()
    assert (letter.id, len(letter.payload)) == (pushed.id, 200)
    assert "polars is not installed where the station runs: pip install polars" in letter.errors[-1]["error"]


def test_an_item_in_two_tables_has_ended_once(app: Stanchion) -> None:
    etl = app.pipeline("etl")

    @etl.station("raw", to=["left", "right"], takes="arrow")
    def raw(table: Any) -> list[Send]:
        return [Send("left", table.slice(0, 3)), Send("right", table.slice(1, 2))]

    etl.station("left")(lambda item: item["n"])
    etl.station("right")(lambda item: item["n"])
    etl.push_chunks(items(4))
    etl.drain()
    assert (results(app, "etl.left"), results(app, "etl.right")) == ([0, 1, 2], [1, 2])
    assert figures(etl)["raw"] == (4, 3, 1, 0, 0)


def test_a_batch_function_that_raises_is_halved(app: Stanchion) -> None:
    pytest.importorskip("pyarrow")
    etl = app.pipeline("etl")

    @etl.station("raw", to="next", takes="arrow", max_attempts=1)
    def raw(table: Any) -> Any:
        if 5 in table.column("n").to_pylist():
            raise ValueError("a five")
        return table.select(["n"])

    etl.station("next")(lambda item: item)
    (pushed,) = etl.push_chunks(items(16))
    etl.drain()
    (ended,) = app.queue("etl.next").find()  # the halves go on together
    assert ended.payload.names(ended.id) == [f"{pushed.id}/{n}" for n in range(16) if n != 5]
    assert results(app, "etl.next") == sorted(({"n": n} for n in range(16) if n != 5), key=str)
    assert [job.payload["n"] for job in app.queue("etl.dead").find()] == [5]


def test_an_item_that_is_sent_twice_does_not_stand_for_another(app: Stanchion) -> None:
    pytest.importorskip("pyarrow")
    etl = app.pipeline("etl")
    etl.station("raw", to="next", takes="arrow")(lambda table: table.take([0, 0]))
    etl.station("next")(lambda item: item["n"])
    etl.push_chunks(items(2))
    etl.drain()
    assert results(app, "etl.next") == [0, 0]
    assert figures(etl)["raw"] == (2, 1, 1, 0, 0)


def test_what_makes_no_sense_is_refused(app: Stanchion) -> None:
    etl = routed(app)
    with pytest.raises(InvalidInput, match="key belongs to an item"):
        etl.push_chunks(items(2), key="k")
    with pytest.raises(InvalidInput, match="takes must be one of"):
        etl.station("x", takes="numpy")  # type: ignore[arg-type]

    async def of_tables(table: object) -> object:
        return table

    with pytest.raises(InvalidInput, match="plain function of a table"):
        etl.station("y", takes="arrow")(of_tables)


@pytest.mark.parametrize("table", [False, True])
def test_chunks_by_tenant(app: Stanchion, table: bool) -> None:
    import pyarrow as pa

    etl = routed(app)
    given = [{"n": n, "airline": "ABBCABA"[n % 7]} for n in range(100)] + [{"n": 100, "airline": "D"}]
    jobs = etl.push_chunks(pa.Table.from_pylist(given) if table else iter(given), size=20, tenant="airline", priority=3)
    rows = {job.id: app.get(job.id) for job in jobs}
    found: dict[str | None, list[Any]] = {}
    for job in rows.values():
        assert job is not None
        assert job.priority == 3
        assert (job.items or 1) <= 20
        found.setdefault(job.tenant, []).extend([job.payload] if job.items is None else job.payload)
    by_airline = {one: [item for item in given if item["airline"] == one] for one in "ABCD"}
    assert found == by_airline
    sizes = [size for some in by_airline.values() for size in (*[20] * (len(some) // 20), len(some) % 20) if size]
    assert sorted(job.items or 1 for job in jobs) == sorted(sizes)
    for job in rows.values():
        if job is not None and job.items:
            assert job.payload.names(job.id) == [f"{job.id}/{n}" for n in range(job.items)]


def test_chunks_of_many_tenants_do_not_wait_for_the_end(app: Stanchion) -> None:
    etl = routed(app)

    def endless() -> Iterator[dict[str, Any]]:
        for n in range(1000):
            yield {"n": n, "airline": f"airline {n % 300}"}
        raise RuntimeError("the input fails")

    with pytest.raises(RuntimeError, match="the input fails"):
        etl.push_chunks(endless(), size=10, tenant="airline")
    assert app.queue("etl.raw").counts().pushed > 500


@pytest.mark.parametrize(
    ("item", "tenant", "told"),
    [
        ({"n": 1}, "airline", "item 1 has None there"),
        ({"n": 1, "airline": 5}, "airline", "item 1 has 5 there"),
        ("text", "airline", "item 1 has None there"),
        ({"n": 1, "airline": "A"}, 7, "must be the name of a field"),
    ],
)
def test_an_item_without_its_tenant(app: Stanchion, item: object, tenant: Any, told: str) -> None:
    etl = routed(app)
    with pytest.raises(InvalidInput, match=told):
        etl.push_chunks([{"n": 0, "airline": "A"}, item], tenant=tenant)
    assert app.queue("etl.raw").size().total == 0


def test_parts_that_outgrow_what_a_payload_may_take() -> None:
    with Stanchion(store=MemoryStore(), max_payload=4000) as app:
        etl = app.pipeline("etl")
        import random

        etl.station("raw", to="end")(lambda item: {"n": item["n"], "more": random.randbytes(100).hex()})
        etl.station("end")(lambda item: item["n"])
        etl.push_chunks([{"n": n} for n in range(100)])
        etl.drain()
        assert results(app, "etl.end") == sorted(range(100), key=str)
        assert figures(etl) == {"raw": (100, 100, 0, 0, 0), "end": (100, 100, 0, 0, 0)}
