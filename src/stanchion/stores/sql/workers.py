"""Workers as rows: their heartbeats, and the jobs that they are to stop."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace

from sqlalchemy import String, Text, case, delete, exists, func, select, text, update

from stanchion.stores.records.jobs import SECOND
from stanchion.stores.records.workers import LEASES_SEARCHED_MAX, Beat, WorkerRow
from stanchion.stores.rules.leases.liveness import LATE_BEATS, MISSED_BEATS, Leased, holders_of, least_sharing
from stanchion.stores.rules.leases.serving import serving_in, serving_text
from stanchion.stores.rules.times import times_in, times_text
from stanchion.stores.sql.engine.columns import BY_WORKER, as_integer, id_as_text, param
from stanchion.stores.sql.engine.database import Database
from stanchion.stores.sql.engine.dialect import Dialect
from stanchion.stores.sql.engine.runner import Row, Runner
from stanchion.stores.sql.engine.schema import Real, jobs, workers


class WorkerStatements:
    """The statements about workers, for one dialect."""

    def __init__(self, dialect: Dialect) -> None:
        now, worker = dialect.now, param("worker", String)
        overdue = workers.c.last_seen_at <= now - as_integer(MISSED_BEATS * SECOND * workers.c.heartbeat)
        late = workers.c.last_seen_at <= now - as_integer(LATE_BEATS * SECOND * workers.c.heartbeat)
        its_jobs = BY_WORKER & (jobs.c.worker == workers.c.id)
        self.beat = (
            update(workers)
            .where(workers.c.id == worker)
            .values(
                last_seen_at=now,
                heartbeat=param("worker_heartbeat", Real),
                state=param("worker_state", String),
                queues=param("worker_queues", Text),
                began=param("worker_began", Text),
                serving=param("worker_serving", Text),
                times=param("worker_times", Text),
            )
        )
        self.join = dialect.insert_ignoring(
            workers,
            {
                column.name: now if column.name in {"started_at", "last_seen_at"} else param(column.name, column.type)
                for column in workers.columns
            },
        )
        claiming = (workers.c.state == "running") & ~late
        self.live = (
            select(workers.c.queues, workers.c.serving, func.count(), func.sum(case((claiming, 1), else_=0)))
            .where(~overdue)
            .group_by(workers.c.queues, workers.c.serving)
        )
        self.to_stop = select(id_as_text(jobs.c.id)).where(
            BY_WORKER, text(dialect.among("worker", "workers")), jobs.c.cancel_requested
        )
        self.leave = delete(workers).where(workers.c.id == worker)
        running = select(func.count()).select_from(jobs).where(its_jobs).scalar_subquery()
        self.all = select(*workers.columns, running).order_by(workers.c.started_at, workers.c.id)
        self.holders = text(f"""
            SELECT worker, queue, count(*), min(started_at), max(started_at) FROM (
                SELECT worker, queue, started_at FROM stanchion_jobs {dialect.by("stanchion_jobs_leased")}
                WHERE lease_until IS NOT NULL ORDER BY lease_until LIMIT :most
            ) AS leased
            WHERE worker IS NOT NULL GROUP BY worker, queue
        """)
        self.any_dead = select(workers.c.id).where(overdue).limit(1)
        self.forget_dead = delete(workers).where(overdue, ~exists().where(its_jobs))


class Workers:
    """The rows of workers, which prove that they are alive."""

    def __init__(self, db: Database) -> None:
        self._db = db
        self._statements = db.dialect.once(WorkerStatements)

    def beat(self, rows: Sequence[WorkerRow]) -> Beat:
        """Record these heartbeats; return the number of live workers, and the jobs that these workers are to stop."""

        def work(run: Runner, _again: bool) -> Beat:
            if run.change_each(self._statements.beat, [_seen(row) for row in rows]) < len(rows):
                run.change_each(self._statements.join, [_joining(row) for row in rows])
            live = run.rows(self._statements.live)
            sharing = [(_serving(names, serving), int(claiming)) for names, serving, _, claiming in live]
            named = {"workers": self._db.dialect.listed({row.id for row in rows})}
            to_stop = run.rows(self._statements.to_stop, named) if rows else []
            return Beat(
                live=sum(int(alive) for _, _, alive, _ in live),
                cancelled=[str(row[0]) for row in to_stop],
                sharing=least_sharing(rows, sharing),
            )

        return self._db.write(work)

    def leave(self, worker: str) -> None:
        """Delete the row of a worker that holds no jobs any more."""
        self._db.write(lambda run, _again: run.change(self._statements.leave, {"worker": worker}))

    def workers(self, *, holders: bool = False) -> list[WorkerRow]:
        """Return all known workers, late ones included, with their numbers of running jobs; then holders of leases."""

        def work(run: Runner) -> list[WorkerRow]:
            found = [_worker_in(row) for row in run.rows(self._statements.all)]
            if not holders:
                return found
            leased = run.rows(self._statements.holders, {"most": LEASES_SEARCHED_MAX})
            return found + holders_of(Leased(*row) for row in leased)

        return self._db.read(work)

    def forget_dead(self) -> None:
        """Delete the rows of dead workers that hold no job."""

        def work(run: Runner, _again: bool) -> None:
            if run.rows(self._statements.any_dead):  # the next statement searches the index of all running jobs
                run.change(self._statements.forget_dead)

        self._db.write(work)


def began_in(stored: str | None) -> tuple[str, ...] | None:
    """Return the jobs that a worker reported as begun; None if it has reported nothing."""
    return None if stored is None else tuple(json.loads(stored))


def _stored(row: WorkerRow) -> tuple[str, str | None]:
    return json.dumps(row.queues), None if row.began is None else json.dumps(row.began)


def _seen(row: WorkerRow) -> dict[str, object]:
    queues, began = _stored(row)
    seen = {
        "worker": row.id,
        "worker_heartbeat": row.heartbeat,
        "worker_state": row.state,
        "worker_queues": queues,
        "worker_began": began,
    }
    return {**seen, "worker_serving": serving_text(row), "worker_times": times_text(row.times)}


def _joining(row: WorkerRow) -> dict[str, object]:
    queues, began = _stored(row)
    described = {name: getattr(row, name) for name in ("id", "host", "pid", "threads", "heartbeat", "state")}
    return {**described, "queues": queues, "began": began, "serving": serving_text(row), "times": times_text(row.times)}


def _serving(queues: str, serving: str | None) -> WorkerRow:
    """Return a row that stands for the workers of these queues and lanes."""
    return WorkerRow("", "", 0, tuple(json.loads(queues)), 0, 0.0, **serving_in(serving))


def _worker_in(row: Row) -> WorkerRow:
    name, host, pid, queues, threads, heartbeat, state, started_at, last_seen_at, began, serving, times, running = row
    described = WorkerRow(name, host, pid, tuple(json.loads(queues)), threads, heartbeat, state)
    seen = {"started_at": started_at, "last_seen_at": last_seen_at, "running": running}
    return replace(described, **seen, began=began_in(began), times=times_in(times), **serving_in(serving))
