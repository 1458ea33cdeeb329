"""Statements by hand on MariaDB: what the database and the driver allow."""

from __future__ import annotations

import json
from time import sleep
from typing import Any, ClassVar
from urllib.parse import urlsplit

import pymysql

from benchmarks.contenders.base import Place, batches
from benchmarks.probe import Probe

CLAIM_BATCH = 100
IDLE_POLL = 0.001

SCHEMA = """
create table jobs (
    id bigint not null auto_increment primary key,
    priority smallint not null default 0,
    run_at datetime(6) not null default now(6),
    payload json not null,
    key jobs_ready (priority desc, run_at, id)
) engine=InnoDB
"""

INSERT = "insert into jobs (payload) values (%s)"

CLAIM = """
select id, payload from jobs where run_at <= now(6)
order by priority desc, run_at, id limit %s for update skip locked
"""

DELETE = "delete from jobs where id in %s"


class RawMariaDB:
    """Claim, run and delete in one transaction; nothing tells a worker of new jobs."""

    name: ClassVar[str] = "raw"
    settings: ClassVar[str] = (
        f"PyMySQL; select for update skip locked + delete, {CLAIM_BATCH} at a time; "
        f"idle poll {IDLE_POLL * 1000:g} ms; executemany for bulk"
    )
    drain_limit: ClassVar[int | None] = None
    bulk_limit: ClassVar[int | None] = None

    def __init__(self, place: Place) -> None:
        self._place = place
        self._producer: pymysql.Connection[Any] | None = None

    def _connect(self, *, autocommit: bool = True) -> pymysql.Connection[Any]:
        url = urlsplit(self._place.url)
        return pymysql.connect(
            host=url.hostname,
            port=url.port or 3306,
            user=url.username,
            password=url.password or "",
            database=url.path.strip("/"),
            autocommit=autocommit,
            init_command="set session transaction isolation level read committed",
        )

    def prepare(self) -> None:
        with self._connect() as connection, connection.cursor() as cursor:
            cursor.execute(SCHEMA)

    def open(self) -> None:
        self._producer = self._connect()

    def enqueue_one(self, first: int, count: int) -> None:
        assert self._producer is not None
        with self._producer.cursor() as cursor:
            for job in range(first, first + count):
                cursor.execute(INSERT, [_payload(job)])

    def enqueue_bulk(self, first: int, count: int) -> None:
        assert self._producer is not None
        with self._producer.cursor() as cursor:
            for jobs in batches(first, count):
                cursor.executemany(INSERT, [(_payload(job),) for job in jobs])

    def close(self) -> None:
        if self._producer is not None:
            self._producer.close()
            self._producer = None

    def unfinished(self) -> int:
        with self._connect() as connection, connection.cursor() as cursor:
            cursor.execute("select count(*) from jobs")
            (count,) = cursor.fetchone() or (0,)
        return int(count)

    def work(self, probe: Probe) -> None:
        with self._connect(autocommit=False) as connection, connection.cursor() as cursor:
            while True:
                cursor.execute(CLAIM, [CLAIM_BATCH])
                claimed = cursor.fetchall()
                for _, payload in claimed:
                    probe.hit(json.loads(payload)["n"])
                if claimed:
                    cursor.execute(DELETE, [[job for job, _ in claimed]])
                connection.commit()
                if not claimed:
                    sleep(IDLE_POLL)


def _payload(job: int) -> str:
    return json.dumps({"n": job})
