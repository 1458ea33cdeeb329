"""Commands about jobs whose texts another program has written: they show the rest, and other jobs."""

from __future__ import annotations

import sqlite3
from contextlib import closing

import pytest

from stanchion import Stanchion
from tests.cli.conftest import Answer, Run

COLUMNS = (
    *("payload", "arrival_payload", "entry_payload", "result", "headers", "limits", "errors", "trail", "past_waits"),
    *("task", "tenant", "worker", "priority", "attempts", "run_at"),
)
Odd = str | bytes | bytearray

ODD: tuple[Odd, ...] = (
    "",
    "no json",
    "{",
    "[",
    "5",
    "null",
    "NaN",
    "{}",
    "[]",
    "[5]",
    '[["q"]]',
    "enc:",
    "enc:x",
    "[" * 5000,
    "\x1b[31m",
    '{"a": "München"}'.encode("latin-1"),
    bytearray(b'{"a": 1}'),
)
"""Values of a column; bytes are stored as text, and a bytearray as it is, in a column of texts or of numbers."""


def spoil(app: Stanchion, column: str, value: Odd, *jobs: str) -> None:
    """Write a value into a column of jobs, live or finished."""
    with closing(sqlite3.connect(app.url.removeprefix("sqlite:///"))) as connection, connection:
        for table in ("stanchion_jobs", "stanchion_history"):
            if table == "stanchion_jobs" and column == "result":
                continue
            for job in jobs:
                stored = "?" if isinstance(value, bytearray) else "CAST(? AS TEXT)"
                connection.execute(f"UPDATE {table} SET {column} = {stored} WHERE id = ?", (value, job))


@pytest.mark.parametrize("column", COLUMNS)
def test_jobs_are_listed_and_shown(run: Run, app: Stanchion, column: str) -> None:
    queue, each = app.queue("mail"), len(ODD)
    dead, done, live = (queue.push_many([kind] * each) for kind in ("dead", "done", "live"))
    fine = queue.push("fine")
    for held in queue.reserve(2 * each):
        held.bury("broken") if held.payload == "dead" else held.commit({"sent": 1})
    for value, *alike in zip(ODD, dead, done, live, strict=True):
        spoil(app, column, value, *(job.id for job in alike))
    listed = run("jobs", "--json", "--limit", "100")
    assert listed.code == 0, listed.error
    assert {job["id"] for job in listed.json} == {fine.id, *(job.id for job in (*dead, *done, *live))}
    answers: list[tuple[Odd, Answer]] = [
        ("all", run("jobs", "--limit", "100")),
        ("all", run("alerts", "--json")),
    ]
    for number, (value, *alike) in enumerate(zip(ODD, dead, done, live, strict=True)):
        job = alike[number % 3].id
        answers.append((value, run("show", job, *["--json"][: number % 2])))
    for shown, answer in answers:
        assert answer.code in (0, 1), (shown, answer.error)
        assert answer.out, (shown, answer.error)
        assert "\x1b" not in answer.out


def test_a_payload_that_is_no_json_is_named(run: Run, app: Stanchion) -> None:
    first, second = app.queue("mail").push_many([{"n": 1}, {"n": 2}])
    spoil(app, "payload", "no json", first.id)
    jobs = {job["id"]: job for job in run("jobs", "--json").json}
    assert (jobs[first.id]["payload"], jobs[second.id]["payload"]) == (None, {"n": 2})
    assert "not JSON, so another program has written it" in jobs[first.id]["unreadable"]
    assert "unreadable" not in jobs[second.id] or jobs[second.id]["unreadable"] is None
