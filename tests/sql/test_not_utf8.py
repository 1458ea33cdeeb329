"""Text that is not UTF-8 in a file of SQLite, which takes any bytes as text from other programs."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from stanchion import Stanchion
from stanchion.core.ids import new_id
from stanchion.stores.records.claims import Claim
from stanchion.stores.records.jobs import JobState
from stanchion.stores.rules.error_entries import entries_of

LATIN = 'München "1"'.encode("latin-1")
COLUMNS = ("payload", "task", "headers", "tenant", "key", "order_key", "limits")
WAYS = ("worker", "pop", "reserve", "unseen", "ids")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "jobs.db"


@pytest.fixture
def app(path: Path) -> Iterator[Stanchion]:
    with closing(Stanchion(f"sqlite:///{path}")) as app:
        app.setup()
        yield app


def spoil(path: Path, job: str, column: str, value: bytes = LATIN) -> None:
    """Write bytes into a column of a job, as a program of another encoding does."""
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(f"UPDATE stanchion_jobs SET {column} = CAST(? AS TEXT) WHERE id = ?", (value, job))


@pytest.mark.parametrize("column", COLUMNS)
@pytest.mark.parametrize("way", WAYS)
def test_the_job_is_dead_and_others_run(app: Stanchion, path: Path, column: str, way: str) -> None:
    ran: list[object] = []
    note = app.task(name="note")(ran.append)
    first, odd, last = (note.using(queue="q").enqueue(n) for n in range(3))
    other = note.using(queue="other").enqueue(3)
    value = LATIN if column != "payload" else '{"args": ["München"]}'.encode("latin-1")
    spoil(path, odd.id, column, value)
    if way == "worker":
        app.run(queues=["q", "other"], until_finished=True)
        assert sorted(ran, key=str) == [0, 2, 3]
        assert [job.state for job in (first, last, other)] == [JobState.DONE] * 3
    elif way == "unseen":
        claim = Claim("q", 10, new_id(), lease=600, rows=False)
        assert app.store.claim(claim).reserved in (2, 3), "the job is dead at the latest when the rows are read"
        assert {row.id for row in app.store.claim(claim._replace(rows=True, repeat=True)).rows} == {first.id, last.id}
    elif way == "ids":
        claim = Claim("q", 10, new_id(), lease=600, ids=((odd.id, "w"), (last.id, "w")))
        assert [row.id for row in app.store.claim(claim).rows] == [last.id]
    elif way == "pop":
        assert [job.id for _ in range(3) if (job := app.queue("q").pop()) is not None] == [first.id, last.id]
    else:
        assert {job.id for _ in range(2) for job in app.queue("q").reserve(10)} == {first.id, last.id}
    row = app.store.fetch([odd.id])[odd.id]
    assert row.state == JobState.DEAD
    assert entries_of(row)[-1]["error"].startswith(f"the job has text that is not UTF-8, in {column}: push it again")


def test_other_bytes_are_shown_by_replacement_characters(app: Stanchion, path: Path) -> None:
    job = app.queue("q").push({"to": "Ada"})
    for column in ("progress", "token", "worker", *COLUMNS):
        spoil(path, job.id, column)
    row = app.store.fetch([job.id])[job.id]
    assert row.tenant == row.payload == row.key == 'M\ufffdnchen "1"'
    assert [found.id for found in app.queue("q").find()] == [job.id]
    app.queue("q").cancel(job.id)
    assert app.store.fetch([job.id])[job.id].state == JobState.CANCELLED


def test_a_queue_or_an_id_of_other_bytes_stops_no_other_queue(app: Stanchion, path: Path) -> None:
    ran: list[object] = []
    note = app.task(name="note")(ran.append)
    jobs = [note.using(queue="q").enqueue(n) for n in range(3)]
    spoil(path, jobs[0].id, "queue")
    spoil(path, jobs[1].id, "id")
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(
            "INSERT INTO stanchion_counter_events (queue, what, n) VALUES (CAST(? AS TEXT), 'pushed', 1)", (LATIN,)
        )
    assert [job.id for job in app.queue("q").reserve(10)] != []
    app.maintain()
    assert app.queue("q").counts() is not None
    assert len(list(app.queue("q").find())) == 2
