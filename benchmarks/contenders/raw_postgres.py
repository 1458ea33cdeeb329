"""Statements by hand on PostgreSQL: what the database and the driver allow."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, ClassVar

import psycopg
from psycopg.types.json import Jsonb

from benchmarks.contenders.base import Place, batches
from benchmarks.probe import Probe

CHANNEL = "raw_jobs"
CLAIM_BATCH = 100

SCHEMA = """
create table jobs (
    id bigint generated always as identity primary key,
    priority smallint not null default 0,
    run_at timestamptz not null default now(),
    state smallint not null default 0,
    payload jsonb not null
);
create index jobs_ready on jobs (priority desc, run_at, id) where state = 0;
"""

INSERT = "insert into jobs (payload) values (%s)"

INSERT_AND_NOTIFY = f"""
with added as (insert into jobs (payload) values (%s))
select pg_notify('{CHANNEL}', '')
"""

INSERT_MANY = "insert into jobs (payload) select unnest(%s::jsonb[])"

CLAIM = """
update jobs set state = 1 where id in (
    select id from jobs where state = 0 and run_at <= now()
    order by priority desc, run_at, id limit %s for update skip locked
) returning id, payload
"""

DELETE = "delete from jobs where id = any(%s)"


class RawPostgres:
    """Claim in one statement, delete in another; autocommit, one commit per statement."""

    name: ClassVar[str] = "raw"
    settings: ClassVar[str] = f"psycopg 3, autocommit; claim + delete, {CLAIM_BATCH} at a time"
    drain_limit: ClassVar[int | None] = None
    bulk_limit: ClassVar[int | None] = None
    wakeups: ClassVar[tuple[bool, ...]] = (True, False)

    def __init__(self, place: Place) -> None:
        self._place = place
        self._producer: psycopg.Connection[Any] | None = None

    def _connect(self) -> psycopg.Connection[Any]:
        return psycopg.connect(self._place.url, autocommit=True)

    def prepare(self) -> None:
        with self._connect() as connection:
            connection.execute(SCHEMA)

    def open(self) -> None:
        self._producer = self._connect()

    def enqueue_one(self, first: int, count: int) -> None:
        assert self._producer is not None
        # A single job is followed by its wake-up; a run of them needs none to be measured.
        statement = INSERT_AND_NOTIFY if count == 1 else INSERT
        for job in range(first, first + count):
            self._producer.execute(statement, [Jsonb({"n": job})])

    def enqueue_bulk(self, first: int, count: int) -> None:
        assert self._producer is not None
        for jobs in batches(first, count):
            self._producer.execute(INSERT_MANY, [[Jsonb({"n": job}) for job in jobs]])

    def close(self) -> None:
        if self._producer is not None:
            self._producer.close()
            self._producer = None

    @contextmanager
    def committers(self, count: int, wakeup: bool) -> Iterator[list[Callable[[int], object]]]:
        statement = INSERT_AND_NOTIFY if wakeup else INSERT

        def committer(connection: psycopg.Connection[Any]) -> Callable[[int], object]:
            return lambda job: connection.execute(statement, [Jsonb({"n": job})])

        with ExitStack() as stack:
            yield [committer(stack.enter_context(self._connect())) for _ in range(count)]

    def unfinished(self) -> int:
        with self._connect() as connection:
            row = connection.execute("select count(*) from jobs").fetchone()
        return int(row[0]) if row else 0

    def work(self, probe: Probe) -> None:
        with self._connect() as listener, self._connect() as connection:
            listener.execute(f"listen {CHANNEL}")
            while True:
                claimed = connection.execute(CLAIM, [CLAIM_BATCH]).fetchall()
                for _, payload in claimed:
                    probe.hit(payload["n"])
                if claimed:
                    connection.execute(DELETE, [[job for job, _ in claimed]])
                else:
                    for _ in listener.notifies(timeout=0.5, stop_after=1):
                        pass
