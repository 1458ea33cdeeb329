"""From RQ: python -m coming_from.rq_to_stanchion REDIS_URL

RQ calls a function by its import path, so the old program stays importable until its queue is empty. Scheduled jobs
move over: each is pushed with its old id as key, so that a second run of the script stores nothing twice.
"""

from __future__ import annotations

import sys
from datetime import UTC, timedelta

from redis import Redis
from rq import Queue, SimpleWorker

from coming_from.shop import DAY, check, send_mail
from stanchion import Stanchion, Worker

OLD_TASK = "coming_from.rq_to_stanchion.welcome_by_rq"


def welcome_by_rq(address: str) -> None:
    """The old task, which RQ imports by its path."""
    send_mail("old", address)


def move_scheduled(old: Queue, app: Stanchion) -> int:
    """Move the scheduled jobs of a queue; return their number."""
    scheduled = old.scheduled_job_registry
    ids = scheduled.get_job_ids()
    for job_id in ids:
        job = old.fetch_job(job_id)
        if job is not None:
            due = scheduled.get_scheduled_time(job_id).astimezone(UTC)
            moved = app.using("shop.welcome", queue="mail", run_at=due, key=f"rq-{job_id}", key_ttl=DAY)
            moved.enqueue(*job.args, **job.kwargs)
            scheduled.remove(job_id, delete_job=True)
    return len(ids)


def main(redis_url: str, url: str = "memory://") -> None:
    """Run both; raise SystemExit if a mail is lost or sent twice."""
    connection = Redis.from_url(redis_url)
    old = Queue("mail", connection=connection)
    app = Stanchion(url)

    @app.task(name="shop.welcome", queue="mail", max_attempts=4)
    def welcome(address: str) -> str:
        return send_mail("new", address)

    # Before the switch: calls go to RQ; one of them is due tomorrow.
    for name in ("ann", "bob"):
        old.enqueue(OLD_TASK, f"{name}@example.org")
    old.enqueue_in(timedelta(days=1), OLD_TASK, "eve@example.org")

    # The switch: `queue.enqueue(function, ...)` becomes `function.enqueue(...)`, and scheduled jobs move.
    welcome.enqueue("cid@example.org")
    assert move_scheduled(old, app) == 1
    assert move_scheduled(old, app) == 0

    # Both workers run until RQ's queue is empty.
    SimpleWorker([old], connection=connection).work(burst=True, logging_level="WARNING")
    Worker(app, until_empty=True).run()
    (tomorrow,) = app.find(queue="mail", state="scheduled")
    app.retry_job(tomorrow.id)  # as if it were tomorrow
    Worker(app, until_empty=True).run()

    connection.close()
    app.close()
    check(old=["ann@example.org", "bob@example.org"], new=["cid@example.org", "eve@example.org"])


if __name__ == "__main__":
    main(*sys.argv[1:])
