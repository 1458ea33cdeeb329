"""Statements by hand on SQLite: what the library and the disk allow."""

from __future__ import annotations

import json
import sqlite3
from time import sleep
from typing import ClassVar

from benchmarks.contenders.base import Place, batches
from benchmarks.probe import Probe

CLAIM_BATCH = 100
IDLE_POLL = 0.001

SCHEMA = """
create table jobs (
    id integer primary key,
    priority integer not null default 0,
    run_at real not null default 0,
    state integer not null default 0,
    payload text not null
);
create index jobs_ready on jobs (priority desc, run_at, id) where state = 0;
"""

INSERT = "insert into jobs (payload) values (?)"

CLAIM = """
update jobs set state = 1 where id in (
    select id from jobs where state = 0 and run_at <= unixepoch()
    order by priority desc, run_at, id limit ?
) returning id, payload
"""

DELETE = "delete from jobs where id in (select value from json_each(?))"


class RawSqlite:
    """Claim in one statement, delete in another; write-ahead log, one commit per statement."""

    name: ClassVar[str] = "raw"
    settings: ClassVar[str] = (
        f"sqlite3, WAL, synchronous FULL or NORMAL; claim + delete, {CLAIM_BATCH} at a time; "
        f"idle poll {IDLE_POLL * 1000:g} ms"
    )
    drain_limit: ClassVar[int | None] = None
    bulk_limit: ClassVar[int | None] = None

    def __init__(self, place: Place) -> None:
        self._place = place
        self._producer: sqlite3.Connection | None = None

    def _connect(self) -> sqlite3.Connection:
        connection = sqlite3.connect(self._place.url, timeout=10, isolation_level=None)
        connection.execute("pragma journal_mode = wal")
        connection.execute(f"pragma synchronous = {'full' if self._place.durable else 'normal'}")
        return connection

    def prepare(self) -> None:
        connection = self._connect()
        connection.executescript(SCHEMA)
        connection.close()

    def open(self) -> None:
        self._producer = self._connect()

    def enqueue_one(self, first: int, count: int) -> None:
        assert self._producer is not None
        for job in range(first, first + count):
            self._producer.execute(INSERT, [json.dumps({"n": job})])

    def enqueue_bulk(self, first: int, count: int) -> None:
        assert self._producer is not None
        for jobs in batches(first, count):
            self._producer.execute("begin immediate")
            self._producer.executemany(INSERT, [(json.dumps({"n": job}),) for job in jobs])
            self._producer.execute("commit")

    def close(self) -> None:
        if self._producer is not None:
            self._producer.close()
            self._producer = None

    def unfinished(self) -> int:
        connection = self._connect()
        (count,) = connection.execute("select count(*) from jobs").fetchone()
        connection.close()
        return int(count)

    def work(self, probe: Probe) -> None:
        connection = self._connect()
        while True:
            # Read before the claim: a commit between the two then ends the wait at once.
            version = _data_version(connection)
            claimed = connection.execute(CLAIM, [CLAIM_BATCH]).fetchall()
            for _, payload in claimed:
                probe.hit(json.loads(payload)["n"])
            if claimed:
                connection.execute(DELETE, [json.dumps([job for job, _ in claimed])])
            while not claimed and _data_version(connection) == version:
                sleep(IDLE_POLL)


def _data_version(connection: sqlite3.Connection) -> int:
    """A number that changes when another connection commits."""
    return int(connection.execute("pragma data_version").fetchone()[0])
