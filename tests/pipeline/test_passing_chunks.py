"""Chunks that pass from station to station in memory: they are encoded where a store, or a program, needs the bytes."""

from __future__ import annotations

import pickle
import random
from typing import Any

import pytest

from stanchion import Job, JobState, Send, Stanchion, Worker
from stanchion.context import context_of
from stanchion.core.chunks.chunk import Chunk
from stanchion.core.values.framing import InMemory, encoded
from stanchion.jobs.reservation import Reservation
from stanchion.stores.records.outcomes import Move, Pass
from tests.pipeline.watched import Watched, chain, more

pa = pytest.importorskip("pyarrow")


def test_a_chunk_is_encoded_once_for_all_stations(watched: Watched, monkeypatch: pytest.MonkeyPatch) -> None:
    encodings: list[int] = []
    encode = Chunk.encoded

    def counting(chunk: Chunk) -> bytes:
        encodings.append(not chunk.is_encoded)
        return encode(chunk)

    chain(watched.etl, more, more, more, more)
    (chunk,) = watched.etl.push_chunks(range(100), size=100)
    monkeypatch.setattr(Chunk, "encoded", counting)
    watched.run()
    assert sum(encodings) == 2, "one for what came to the last station, one for the results"
    assert [type(one) for one in watched.outcomes] == [Pass]
    job = watched.get(chunk)
    assert [*job.payload] == [*range(3, 103)]
    assert [*job.result] == [*range(4, 104)]


def test_a_chunk_that_nobody_changes_keeps_its_bytes(watched: Watched) -> None:
    """Also one that a station before has changed: it came to the next station as it left the last one."""

    def same(item: dict[str, int]) -> Send:
        item["n"] = 7
        return Send("c" if "a" in item else "b")

    @watched.etl.station("a", to="b")
    def a(item: dict[str, int]) -> dict[str, int]:
        return {**item, "a": 1}

    watched.etl.station("b", to="c")(same)
    watched.etl.station("c")(lambda item: item)
    (chunk,) = watched.etl.push_chunks([{"n": n} for n in range(10)], size=10)
    watched.run()
    assert [[one.changed for one in ended.passages] for ended in watched.outcomes if isinstance(ended, Pass)] == [
        [True, False]
    ]
    assert [*watched.get(chunk).result] == [{"n": n, "a": 1} for n in range(10)], "a function's own item is no other's"


@pytest.mark.parametrize("end", ["fails", "moves itself", "with a priority", "to a station of its own", "at once"])
def test_the_store_gets_bytes_however_the_chunk_ends(app: Stanchion, end: str) -> None:
    """At a later station it fails, or its function settles it; or it ends its way in memory at the next one."""
    app.setup()
    watched, moved = Watched(app), list[str]()

    def last(item: int, job: Reservation) -> Any:
        if end == "fails":
            raise ValueError("no")
        if end == "moves itself" and not moved:
            moved.append(job.id)
            job.move("elsewhere")
        return Send("c", priority=3) if end == "with a priority" else item + 1

    watched.etl.station("a", to="b")(more)
    watched.etl.station("b", to="c", max_attempts=1, stored=end == "at once")(last)
    watched.etl.station("c", stored=end == "to a station of its own")(more)
    (chunk,) = watched.etl.push_chunks(range(150), size=150)
    watched.run()
    job = watched.get(chunk)
    if end == "fails":
        assert (job.state, [*job.payload]) == (JobState.DEAD, [*range(1, 151)])
        return
    if end == "moves itself":
        assert (job.queue, [*job.payload]) == ("elsewhere", [*range(1, 151)])
        return
    added = 2 if end != "with a priority" else 1
    assert [*job.payload] == [*range(added, 150 + added)]
    assert [*job.result] == [*range(added + 1, 151 + added)]


def test_a_chunk_is_drained_as_bytes(watched: Watched) -> None:
    chain(watched.etl, more, more)
    (chunk,) = watched.etl.push_chunks(range(100), size=100)
    watched.etl.drain()
    assert [type(one.payload) for one in watched.outcomes if isinstance(one, Move)] == [bytes]
    assert [*watched.get(chunk).result] == [*range(2, 102)]


def test_a_job_in_memory_is_pickled_with_its_bytes(watched: Watched) -> None:
    seen: list[Any] = []

    def look(item: int, job: Job) -> int:
        if not seen:
            seen.append(pickle.dumps(job.payload))
        return item

    chain(watched.etl, more, look)
    watched.etl.push_chunks(range(5), size=5)
    watched.run()
    assert [*pickle.loads(seen[0])] == [*range(1, 6)]  # noqa: S301 - its own bytes


def test_with_keys_the_stored_bytes_are_encrypted(tmp_path: Any) -> None:
    pytest.importorskip("cryptography")
    from cryptography.fernet import Fernet

    with Stanchion(f"sqlite:///{tmp_path}/jobs.db", keys=[Fernet.generate_key()]) as app:
        app.setup()
        etl = app.pipeline("etl")
        words = [{"word": f"confidential {n}"} for n in range(200)]
        etl.station("a", to="b")(lambda item: {**item, "a": 1})
        etl.station("b", to="c")(lambda item: {**item, "b": 1})
        etl.station("c", max_attempts=1)(lambda item: item["none"])
        (chunk,) = etl.push_chunks(words, size=200)
        Worker(app, until_empty=True, poll=0.02).run()
        row = app.store.fetch([chunk.id])[chunk.id]
        assert isinstance(row.payload, bytes)
        found = context_of(app).value_of(row.payload)
        assert isinstance(found, Chunk)
        assert [*found] == [{**one, "a": 1, "b": 1} for one in words]
    assert b"confidential" not in (tmp_path / "jobs.db").read_bytes()


@pytest.mark.parametrize("seed", range(30))
def test_the_bound_of_a_content_holds(seed: int) -> None:
    """Of texts that no compression shortens, of long and many names, of nested values and of positions."""
    chance = random.Random(seed)
    items = [
        {
            chance.choice("abc") * chance.randrange(1, 300) if seed % 3 == 0 else f"field {field}": value
            for field in range(chance.randrange(1, 40))
            for value in [chance.choice([chance.randbytes(20).hex(), chance.random(), [1, 2], {"x": {"y": 1}}, None])]
        }
        for _ in range(chance.choice([2, 10, 500]))
    ]
    chunk = Chunk.of(items)
    if seed % 2:
        chunk = chunk.rooted("r" * 32).take(chance.sample(range(len(items)), len(items) - 1))
    assert len(chunk.encoded()) <= chunk.content().bound()


def test_two_contents_in_memory_differ() -> None:
    one = Chunk.of([1, 2])
    first, second = InMemory(2, one.encoded), InMemory(2, one.encoded)
    assert first != second
    assert (encoded(first), encoded("text")) == (encoded(second), "text")
    copied = pickle.loads(pickle.dumps(first))  # noqa: S301 - its own bytes
    assert (copied, type(copied)) == (encoded(first), bytes)


def test_a_chunk_is_kept_as_it_came_to_a_station_in_memory(watched: Watched) -> None:
    chain(watched.etl, more, more, more, keep_arrival=True)
    watched.etl.push_chunks(range(100), size=100)
    watched.run()
    watched.etl.backfill("b")
    watched.run()
    ended = watched.etl.queue("c").find(state="done")
    assert [[*job.result] for job in ended] == [[*range(3, 103)]] * 2
    assert watched.passed == [("etl.b", "etl.c"), ("etl.c",)]
