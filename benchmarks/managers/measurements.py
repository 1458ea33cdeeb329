"""What is measured, on either side."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import UTC, datetime, timedelta
from statistics import median
from typing import NamedTuple

import psycopg
import pymysql
from sqlalchemy.engine import make_url

from benchmarks.managers.program import QUEUE, tasks
from benchmarks.managers.sides import Side, Work, processor_time, programs, said
from stanchion import Stanchion
from stanchion.manager.leadership.rows import SLICE, slice_row


class Cost(NamedTuple):
    """Jobs per second, and for each job: µs of processor time of clients, managers and database, statements, log."""

    rate: float
    client: float
    managers: float
    database: float
    statements: float
    log: float

    @property
    def total(self) -> float:
        """µs of all processor time for each job."""
        return self.client + self.managers + self.database


def pushes(side: Side, processes: int, threads: int, jobs: int) -> Cost:
    """Push jobs singly, in so many processes of so many threads."""
    each = jobs // processes
    with programs(processes, "push", side.url, threads, each) as running:
        for one in running:
            said(one)
        before = side.work()
        for one in running:
            assert one.stdin is not None
            one.stdin.write("\n")
            one.stdin.flush()
        found = [said(one) for one in running]
        work = side.work().since(before)
    seconds = max(one["ended"] for one in found) - min(one["began"] for one in found)
    return _cost(seconds, sum(one["cpu"] for one in found), work, each * processes)


def end_to_end(side: Side, workers: int, threads: int, jobs: int, nap: float) -> Cost:
    """Push jobs and work them off, from the first push to the last outcome; four threads push batches of 100."""

    def push(app: Stanchion) -> None:
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(lambda _: app.tasks["nap"].enqueue_many([(nap,)] * 100), range(jobs // 100)))

    return _worked_off(side, workers, threads, jobs, push)


def paced(side: Side, workers: int, threads: int, jobs: int, rate: float) -> Cost:
    """Push jobs singly at a rate, in jobs per second, and work them off."""

    def push(app: Stanchion) -> None:
        began = time.perf_counter()
        for number in range(jobs):
            time.sleep(max(0.0, began + number / rate - time.perf_counter()))
            app.tasks["nap"].enqueue(0.0)

    return _worked_off(side, workers, threads, jobs, push)


def _worked_off(side: Side, workers: int, threads: int, jobs: int, push: Callable[[Stanchion], None]) -> Cost:
    with closing(Stanchion(side.url)) as app, closing(Stanchion(side.database_url)) as watching:
        tasks(app)
        with programs(workers, "work", side.url, threads) as running:
            while len(watching.workers()) < workers:
                time.sleep(0.05)
            time.sleep(1.0)  # for the first claims
            before, began, used = side.work(), time.perf_counter(), time.process_time()
            worked = sum(processor_time(one.pid) for one in running)
            push(app)
            used = time.process_time() - used
            while watching.queue(QUEUE).size().total:
                time.sleep(max(0.02, 0.02 * (time.perf_counter() - began)))  # looks cost the database work, too
            seconds = time.perf_counter() - began
            work = side.work().since(before)
            worked = sum(processor_time(one.pid) for one in running) - worked
    return _cost(seconds, used + worked, work, jobs)


def delays(side: Side, jobs: int, due_in: float = 0.0) -> float:
    """Return the median ms between a push, or the due time, and the start of the job by an idle worker."""
    gaps = random.Random(jobs)
    with closing(Stanchion(side.url)) as app, programs(1, "work", side.url, 4):
        tasks(app)
        while not app.workers():
            time.sleep(0.05)
        handles = []
        for number in range(jobs + 10):
            due = datetime.now(UTC) + timedelta(seconds=due_in * gaps.uniform(1.0, 2.0))
            task = app.tasks["tell"].using(run_at=due) if due_in else app.tasks["tell"]
            handles.append(handle := task.enqueue(due.timestamp()))
            if number < 10:
                handle.result(timeout=60)
            time.sleep(gaps.uniform(0.02, 0.06))
        return 1000 * median(handle.result(timeout=60) for handle in handles[10:])


def plain_insert(side: Side, rows: int) -> float:
    """Return the median ms of a durable insert of one row, on a connection of its own."""
    url = make_url(side.database_url)
    at = {"host": url.host, "port": url.port, "user": url.username, "password": url.password or ""}
    taken = []
    connection: psycopg.Connection[object] | pymysql.Connection[pymysql.cursors.Cursor]
    if side.server.kind == "postgresql":
        connection = psycopg.connect(side.database_url, autocommit=True)
    else:
        connection = pymysql.connect(**at, database=url.database, autocommit=True)  # type: ignore[arg-type]
    with closing(connection), connection.cursor() as cursor:
        cursor.execute("CREATE TABLE plain (id INT PRIMARY KEY, payload TEXT)")
        for number in range(rows):
            began = time.perf_counter()
            cursor.execute("INSERT INTO plain VALUES (%s, '{\"args\":[1]}')", (number,))
            taken.append(time.perf_counter() - began)
            time.sleep(0.03)
    return 1000 * median(taken)


def take_over(side: Side) -> tuple[float, float]:
    """Kill a manager; return the seconds until another one has its slices, and until all jobs pushed then have begun.

    Workers claim by calls in between, so these may begin before.
    """
    with closing(Stanchion(side.url)) as app, closing(Stanchion(side.database_url)) as watching:
        tasks(app)
        with programs(1, "work", side.url, 4):
            while not app.workers():
                time.sleep(0.05)
            time.sleep(10.0)  # until each manager has its share
            side.managers[0].kill()
            began = time.time()
            handles = app.tasks["tell"].enqueue_many([(began,) for _ in range(200)])
            while len({slice_row(value).owner for value in watching.store.values(SLICE)}) > 1:
                time.sleep(0.02)
            owned = time.time() - began
            return owned, max(handle.result(timeout=120) for handle in handles)


def _cost(seconds: float, client: float, work: Work, jobs: int) -> Cost:
    database, managers, statements, log = work
    micro = 1e6 / jobs
    return Cost(jobs / seconds, client * micro, managers * micro, database * micro, statements / jobs, log / jobs)
