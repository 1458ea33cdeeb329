"""From APScheduler: python -m coming_from.apscheduler_to_stanchion [FOLDER]

APScheduler's jobs are in one SQLite file of that folder, Stanchion's in another one. A job that is due once moves
over with its id as key; a recurring one becomes a schedule in code, before its old job is removed.
"""

from __future__ import annotations

import sys
import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from apscheduler.schedulers.background import BackgroundScheduler
from apscheduler.triggers.date import DateTrigger

from coming_from.shop import DAY, check, send_mail, sent, wait_for
from stanchion import Stanchion, Worker


def welcome_by_apscheduler(address: str) -> None:
    """The old job, which a job store finds by its import path."""
    send_mail("old", address)


def move_once(old: Any, app: Stanchion) -> int:
    """Move the jobs that are due once; return their number."""
    moved = 0
    for job in old.get_jobs():
        if isinstance(job.trigger, DateTrigger):
            due = job.trigger.run_date.astimezone(UTC)
            once = app.using("shop.welcome", queue="mail", run_at=due, key=f"apscheduler-{job.id}", key_ttl=DAY)
            once.enqueue(*job.args, **job.kwargs)
            job.remove()
            moved += 1
    return moved


def main(folder: str | None = None) -> None:
    """Run both; raise SystemExit if a mail is lost or sent twice."""
    with tempfile.TemporaryDirectory() as temporary:
        _run(Path(folder or temporary))


def _run(folder: Path) -> None:
    old = BackgroundScheduler(timezone=UTC)
    old.add_jobstore("sqlalchemy", url=f"sqlite:///{folder}/apscheduler.db")
    app = Stanchion(f"sqlite:///{folder}/jobs.db")

    @app.task(name="shop.welcome", queue="mail", max_attempts=4)
    def welcome(address: str) -> str:
        return send_mail("new", address)

    # Before the switch: one job is due now, one tomorrow, and one each night.
    soon, tomorrow = datetime.now(UTC) + timedelta(seconds=0.2), datetime.now(UTC) + timedelta(days=1)
    old.add_job(welcome_by_apscheduler, "date", run_date=soon, args=["ann@example.org"])
    old.add_job(welcome_by_apscheduler, "date", run_date=tomorrow, args=["eve@example.org"])
    old.add_job(welcome_by_apscheduler, "cron", hour=3, args=["all@example.org"], id="nightly")
    old.start()

    # The switch: the schedule is declared beside its task, and the old job is removed.
    app.cron("0 3 * * *", schedule="nightly", args=["all@example.org"])(welcome)
    old.remove_job("nightly")
    welcome.enqueue("cid@example.org")

    # Both run until the old scheduler has nothing left but jobs that move.
    wait_for(lambda: sent("old") == 1 and len(old.get_jobs()) == 1)
    old.pause()
    assert move_once(old, app) == 1
    assert move_once(old, app) == 0
    old.shutdown()
    Worker(app, until_empty=True).run()
    (waiting,) = app.find(queue="mail", state="scheduled")
    app.retry_job(waiting.id)  # as if it were tomorrow
    app.schedule("nightly").trigger()  # as if it were three o'clock
    Worker(app, until_empty=True).run()

    app.close()
    check(old=["ann@example.org"], new=["all@example.org", "cid@example.org", "eve@example.org"])


if __name__ == "__main__":
    main(*sys.argv[1:])
