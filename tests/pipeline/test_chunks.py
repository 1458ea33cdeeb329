"""Chunks at stations: each item ends as it would alone, whatever becomes of the others."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from stanchion import Bury, Cancel, Job, RetryAfter, Send, Snooze, Stanchion
from stanchion.errors import InvalidInput
from stanchion.pipelines import Pipeline
from stanchion.pipelines.chunks import work
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


@pytest.mark.parametrize("takes", ["arrow", "pandas"])
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


def test_a_batch_function_that_raises_is_halved(app: Stanchion) -> None:
    pytest.importorskip("pyarrow")
    etl = app.pipeline("etl")

    @etl.station("raw", takes="arrow", max_attempts=1)
    def raw(table: Any) -> Any:
        if 5 in table.column("n").to_pylist():
            raise ValueError("a five")
        return table.select(["n"])

    etl.push_chunks(items(16))
    etl.drain()
    assert results(app, "etl.raw") == sorted(({"n": n} for n in range(16) if n != 5), key=str)
    assert [job.payload["n"] for job in app.queue("etl.dead").find()] == [5]


def test_what_makes_no_sense_is_refused(app: Stanchion) -> None:
    etl = routed(app)
    with pytest.raises(InvalidInput, match="key belongs to an item"):
        etl.push_chunks(items(2), key="k")
    with pytest.raises(InvalidInput, match="order_key belongs to an item"):
        etl.push_chunks(items(2), order_key="k")
    with pytest.raises(InvalidInput, match="takes must be one of"):
        etl.station("x", takes="numpy")  # type: ignore[arg-type]

    async def of_tables(table: object) -> object:
        return table

    with pytest.raises(InvalidInput, match="plain function of a table"):
        etl.station("y", takes="arrow")(of_tables)


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
