"""Text that is not UTF-8 in a file of SQLite, which takes any bytes as text from other programs."""

from __future__ import annotations

import json
import random
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from stanchion import Stanchion
from stanchion.core.ids import new_id
from stanchion.stores.records.claims import Claim
from stanchion.stores.records.jobs import JobState
from stanchion.stores.rules.lifecycle.error_entries import entries_of
from stanchion.streams.state import reserved_ids

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
        assert app.store.claim(claim).reserved == 2
        assert reserved_ids(app.store, "q", claim.token) == sorted([first.id, last.id])
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
    (dead,) = app.find(state="dead")
    assert "in id: push it again" in entries_of(app.store.fetch([dead.id])[dead.id])[-1]["error"]


WRONG = (
    *(b"\xfc", b"a\xfcb", b"\x80", b"\xc3", b"\xc3\xbc\x80", b"\xc0\x80", b"\xc1\xbf", b"\xed\xa0\x80"),
    *(b"\xf4\x90\x80\x80", b"\xf5\x80\x80\x80", b"\xe2\x82", b"\xe0\x80\x80", b"\xf0\x80\x80\x80", b"\xff", b"\xfe"),
    b"\xc3\xbc\xe2\x82\xc3\xbc\xac",  # without the first character, the rest is one that is right
    *("\u6f22\u5b57".encode(encoding) for encoding in ("gbk", "shift_jis", "euc_jp")),
)
RIGHT = (
    *("", "abc", "\x7f", "Größe " * 30, "".join(map(chr, range(0x4E00, 0x5000)))),
    "üé€\U0001f600\u07ff\u0800\uffff\U0010ffff\ud7ff\ue000",
)


def pushed(path: Path, column: str, value: bytes) -> str | None:
    """Push a job with these bytes as a text, by plain SQL; return why it was refused."""
    fields = {"queue": b"q", "payload": b"1", column: value}
    names, values = ", ".join(f'"{name}"' for name in fields), ", ".join("CAST(? AS TEXT)" for _ in fields)
    with closing(sqlite3.connect(path)) as connection, connection:
        try:
            connection.execute(f"INSERT INTO stanchion_push ({names}) VALUES ({values})", tuple(fields.values()))
        except sqlite3.IntegrityError as refused:
            return str(refused)
    return None


@pytest.mark.parametrize("column", ["payload", "tenant", "key", "order_key", "headers", "queue"])
def test_a_plain_push_of_other_bytes_is_refused(app: Stanchion, path: Path, column: str) -> None:
    begin, end = (b'{"a": "', b'"}') if column in ("payload", "headers") else (b"a", b"b")
    for wrong in WRONG:
        refusal = pushed(path, column, begin + wrong + end) or ""
        assert "not UTF-8" in refusal or (begin == b"a" and "printable" in refusal), (wrong, refusal)
    assert app.queue("q").size().total == 0


def test_a_plain_push_of_any_characters_is_taken(app: Stanchion, path: Path) -> None:
    for number, right in enumerate(RIGHT):
        assert pushed(path, "payload", json.dumps(right, ensure_ascii=False).encode()) is None, right
        assert app.queue("q").size().total == number + 1
    assert [job.payload for job in app.queue("q").reserve(10)] == [*RIGHT]


def test_a_plain_push_tells_as_python_does(app: Stanchion, path: Path) -> None:
    chance = random.Random(20261128)
    some = (0x41, 0xC3, 0xBC, 0xE2, 0x82, 0xAC, 0xF0, 0x9F, 0x98, 0x80, 0xED, 0xA0, 0xFC, 0x20)
    for _ in range(300):
        text = bytes(chance.choice(some) for _ in range(chance.randint(1, 7)))
        try:
            text.decode()
        except UnicodeDecodeError:
            assert pushed(path, "payload", b'"' + text + b'"') is not None, text
        else:
            assert pushed(path, "payload", b'"' + text + b'"') is None, text
    app.queue("q").clear()


def test_what_a_plain_push_does_not_see_is_dead_when_it_is_claimed(app: Stanchion, path: Path) -> None:
    many = "".join(map(chr, range(0x4E00, 0x4F00))).encode()
    assert pushed(path, "payload", b'"' + many + b"\xfc" + b'"') is None
    assert app.queue("q").reserve(10) == []
    assert [job.state for job in app.queue("q").find()] == [JobState.DEAD]


def test_an_older_file_gets_the_check(app: Stanchion, path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection, connection:
        (text,) = connection.execute("SELECT sql FROM sqlite_master WHERE name = 'stanchion_push_insert'").fetchone()
        connection.execute("DROP TRIGGER stanchion_push_insert")
        connection.execute(text.replace("bytes GLOB", "bytes NOT GLOB"))
        connection.execute("UPDATE stanchion_meta SET version = version - 1")
    app.close()
    with closing(Stanchion(f"sqlite:///{path}")) as later:
        later.queue("q").push(1)
    assert "not UTF-8" in (pushed(path, "payload", b'"M\xfcnchen"') or "")


def test_setup_renews_an_older_view(app: Stanchion, path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection, connection:
        (text,) = connection.execute("SELECT sql FROM sqlite_master WHERE name = 'stanchion_push_insert'").fetchone()
        connection.execute("DROP TRIGGER stanchion_push_insert")
        connection.execute(text.replace("CAST(NEW.headers AS TEXT)", "NEW.headers"))
    app.setup()
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("SELECT sql FROM sqlite_master WHERE name = 'stanchion_push_insert'").fetchone() == (
            text,
        )
