"""Values of wrong types in a file of SQLite, which stores any value in any column."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from stanchion import Queue, Stanchion
from stanchion.core.ids import new_id
from stanchion.jobs.handle import JobHandle
from stanchion.stores.ports import ArrowReads
from stanchion.stores.records.claims import Claim
from stanchion.stores.records.jobs import JobState
from stanchion.stores.records.query import Condition, Query
from stanchion.stores.rules.lifecycle.error_entries import entries_of
from stanchion.streams.state import reserved_ids

TEXTS = ("payload", "task", "headers", "tenant", "key", "order_key", "limits")
ALSO_TEXTS = ("errors", "trail", "arrival_payload", "entry_payload", "flow_after")
NUMBERS = ("priority", "enqueued_at", "failures", "max_attempts", "timeout")  # a claim writes the others anew
SEEN = (*TEXTS, *ALSO_TEXTS, *NUMBERS)
WITH_CLAIMS = ("rank", "slots_held", "waits_since", "id", "run_at", "lane", "queue")
SHAPES: dict[str, dict[str, Any]] = {
    "plain": {},
    "lanes": {"lanes": 3},
    "bounded": {"max_running": 100},
    "ordered": {"ordered": True},
}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "jobs.db"


@pytest.fixture
def app(path: Path) -> Iterator[Stanchion]:
    with closing(Stanchion(f"sqlite:///{path}?synchronous=off")) as app:
        app.setup()
        yield app


def spoil(path: Path, job: str, column: str, value: object, table: str = "stanchion_jobs") -> None:
    """Write a value into a column of a job, as another program does."""
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("PRAGMA synchronous=off")
        connection.execute(f'UPDATE {table} SET "{column}" = ? WHERE id = ?', (value, job))


def check_dead(app: Stanchion, job: str, column: str) -> None:
    """Check that a job is dead by a column."""
    (row,) = app.store.fetch([job]).values()
    assert row.state == JobState.DEAD, column
    told = str(entries_of(row)[-1]["error"])
    assert told.startswith(f"the job has values of wrong types, in {column}: push it again by Stanchion"), told


def spoilt(app: Stanchion, path: Path, column: str, value: object) -> tuple[Queue, list[JobHandle], JobHandle]:
    """Return the queue of a column, with three jobs; the second is spoilt, and the first one due."""
    task = app.task(name="note")(print) if "note" not in app.tasks else app.tasks["note"]
    q = app.queue(column)
    first, odd, last = (task.using(queue=column).enqueue(n) for n in range(3))
    spoil(path, odd.id, "run_at", 1)  # first in its queue, also where all are stored in one millisecond
    spoil(path, odd.id, column, value)
    return q, [first, last], odd


@pytest.mark.parametrize("way", ["pop", "reserve", "unseen", "ids"])
def test_the_job_is_dead_and_others_are_handed_out(app: Stanchion, path: Path, way: str) -> None:
    for column in SEEN:
        q, fine, odd = spoilt(app, path, column, b'{"args": [7]}')
        claim = Claim(column, 10, new_id(), lease=600)
        if way == "unseen":
            claim = claim._replace(rows=False)
            assert app.store.claim(claim).reserved == 2
            found = set(reserved_ids(app.store, column, claim.token))
        elif way == "ids":
            claim = claim._replace(ids=tuple((one.id, "w") for one in (*fine, odd)))
            found = {row.id for row in app.store.claim(claim).rows}
        elif way == "pop":
            found = {job.id for _ in range(3) for job in [q.pop()] if job is not None}
        else:
            found = {job.id for _ in range(5) for job in q.reserve(1)}
        assert found == {job.id for job in fine}, column
        check_dead(app, odd.id, column)


def test_a_worker_ends(app: Stanchion, path: Path) -> None:
    ran: list[int] = []
    app.task(name="note")(ran.append)
    odd = {column: spoilt(app, path, column, b"\xfc")[2] for column in SEEN}
    app.run(queues=[*odd], until_finished=True)
    assert sorted(ran) == sorted([0, 2] * len(odd))
    for column, job in odd.items():
        check_dead(app, job.id, column)


@pytest.mark.parametrize("value", ["soon", b"5", 1.5])
def test_no_number(app: Stanchion, path: Path, value: object) -> None:
    for column in NUMBERS:
        q, fine, odd = spoilt(app, path, column, value)
        found = {job.id for _ in range(5) for job in q.reserve(1)}
        if value == 1.5 and column == "timeout":
            assert len(found) == 3
            continue
        assert found == {job.id for job in fine}, column
        check_dead(app, odd.id, column)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("value", ["soon", b"5"])
def test_no_claim_fails(app: Stanchion, path: Path, value: object, shape: str) -> None:
    columns = [*WITH_CLAIMS, "order_key", "limits"]
    if isinstance(value, str):
        columns = [one for one in columns if one not in ("id", "queue", "order_key", "limits")]
    handed: dict[str, tuple[set[str], list[JobHandle]]] = {}
    for column in columns:
        app.store.configure(column, SHAPES[shape])
        _, fine, _ = spoilt(app, path, column, value)
        handed[column] = set(), fine
    for column, (found, _) in handed.items():
        assert app.store.stats([column], ["states", "heads", "next_due", "totals"])
        assert app.store.lane_depths(column) is not None
        for _ in range(4):
            for held in app.queue(column).reserve(1):
                found.add(held.id)
                held.commit()
        assert app.store.stats([column], ["heads", "next_due"])
    assert {column: found for column, (found, _) in handed.items()} == {
        column: {job.id for job in fine} for column, (_, fine) in handed.items()
    }
    app.maintain()
    dead = app.store.fetch([job.id for job in app.find(state="dead", limit=100)]).values()
    told = sorted(str(entries_of(row)[-1]["error"]).partition(":")[0] for row in dead)
    assert told == sorted(f"the job has values of wrong types, in {column}" for column in columns)


@pytest.mark.parametrize("rows", [True, False])
def test_numbers_of_more_than_32_bits(app: Stanchion, path: Path, rows: bool) -> None:
    """Managers could not send them, nor other databases store them."""
    for column in ("priority", "failures", "max_attempts"):
        for number in (2**31, -(2**40)):
            queue = f"{column} {number}"
            odd, fine = app.queue(queue).push_many([1, 2])
            spoil(path, odd.id, column, number)
            claim = Claim(queue, 10, new_id(), lease=600, rows=rows)
            claimed = app.store.claim(claim)
            assert ([row.id for row in claimed.rows] == [fine.id]) if rows else claimed.reserved == 1
            check_dead(app, odd.id, column)


def test_a_taken_key_as_bytes(app: Stanchion, path: Path) -> None:
    q = app.queue("q")
    q.push(1, key="k")
    odd = q.push(2)
    spoil(path, odd.id, "key", b"k")
    spoil(path, odd.id, "run_at", "soon")
    app.maintain()
    check_dead(app, odd.id, "run_at and key")
    assert [job.payload for job in q.reserve(5)] == [1]


def test_lists_and_pages(app: Stanchion, path: Path) -> None:
    q = app.queue("q")
    columns = (*SEEN, "progress", "attempts", "token", "worker", "past_waits")
    jobs, ended = q.push_many([*columns]), q.push_many([*columns])
    for job, old, column in zip(jobs, ended, columns, strict=True):
        app.cancel(old.id)
        spoil(path, job.id, column, b"\xfc")
        spoil(path, old.id, column, b"\xfc", "stanchion_history")
    assert {job.id for job in q.find(limit=100)} == {*(job.id for job in jobs), *(job.id for job in ended)}
    assert {job.id for job in q.peek(100)} == {job.id for job in jobs}
    query = Query("all", where=(Condition("queue", "=", "q"),), order="id", columns=("id", *SEEN))
    store = cast("ArrowReads", app.store)
    assert sum(batch.num_rows for batch in store.select_arrow(query)) == 2 * len(columns)
    page = app.store.select(replace(query, order="newest", limit=100))
    assert {type(value) for row in page.rows for value in row[: len(TEXTS)]} <= {str, type(None)}
    for job in jobs:
        assert app.cancel(job.id) == "cancelled"


def test_bytes_of_a_value_are_read_as_text(app: Stanchion, path: Path) -> None:
    assert app.store.compare_and_set("kind", "name", "text", 0)
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE stanchion_values SET text = CAST(text AS BLOB) WHERE kind = 'kind'")
    assert [value.text for value in app.store.values("kind")] == ["text"]


def test_a_plain_push_of_bytes(app: Stanchion, path: Path) -> None:
    """Bytes of JSON are text; a name is none."""
    ran: list[tuple[Any, ...]] = []
    app.task(name="note")(lambda *args: ran.append(args))
    app.store.set_semaphore("smtp", 2)
    fields = {"payload": b'{"args":[1]}', "headers": b'{"a":1}', "limits": b'["smtp"]'}
    with closing(sqlite3.connect(path)) as connection, connection:
        insert = "INSERT INTO stanchion_push (queue, task, payload, headers, limits) VALUES ('q', 'note', ?, ?, ?)"
        connection.execute(insert, tuple(fields.values()))
        connection.execute("INSERT INTO stanchion_push (queue, task, args) VALUES ('q', 'note', ?)", (b"[2]",))
        for column in ("queue", "task", "tenant", "key", "order_key"):
            names = f'queue, payload, "{column}"' if column != "queue" else "payload, queue"
            given = ("q", "1", b"name")[-1 - names.count(",") :]
            insert = f"INSERT INTO stanchion_push ({names}) VALUES ({', '.join('?' * len(given))})"
            with pytest.raises(sqlite3.IntegrityError, match=f"{column} must be"):
                connection.execute(insert, given)
        types = "SELECT DISTINCT typeof(payload), typeof(coalesce(headers, '')) FROM stanchion_jobs"
        assert connection.execute(types).fetchall() == [("text", "text")]
    app.run(queues=["q"], until_finished=True)
    assert sorted(ran) == [(1,), (2,)]
