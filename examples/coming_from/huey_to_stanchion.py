"""From Huey: python -m coming_from.huey_to_stanchion [FOLDER]

Both queues keep their jobs in SQLite files in that folder. Scheduled tasks move over: each is pushed with its old id
as key, so that a second run of the script stores nothing twice.
"""

from __future__ import annotations

import sys
import tempfile
from datetime import UTC
from pathlib import Path
from typing import Any

from huey import SqliteHuey

from coming_from.shop import DAY, check, send_mail, sent, wait_for
from stanchion import Stanchion, Worker


def move_scheduled(old: Any, app: Stanchion) -> int:
    """Move the scheduled tasks, while no consumer runs; return their number."""
    tasks = old.scheduled()
    for task in tasks:
        due = task.eta.replace(tzinfo=UTC)  # Huey stores naive times in UTC by default
        moved = app.using("shop.welcome", queue="mail", run_at=due, key=f"huey-{task.id}", key_ttl=DAY)
        moved.enqueue(*task.args, **task.kwargs)
    old.storage.flush_schedule()
    return len(tasks)


def main(folder: str | None = None) -> None:
    """Run both; raise SystemExit if a mail is lost or sent twice."""
    with tempfile.TemporaryDirectory() as temporary:
        _run(Path(folder or temporary))


def _run(folder: Path) -> None:
    old: Any = SqliteHuey("shop", filename=str(folder / "huey.db"))
    app = Stanchion(f"sqlite:///{folder}/jobs.db")

    @old.task(retries=3, retry_delay=60)
    def welcome_by_huey(address: str) -> None:
        send_mail("old", address)

    @app.task(name="shop.welcome", queue="mail", max_attempts=4)
    def welcome(address: str) -> str:
        return send_mail("new", address)

    # Before the switch: calls go to Huey; one of them is due tomorrow.
    for name in ("ann", "bob"):
        welcome_by_huey(f"{name}@example.org")
    welcome_by_huey.schedule(("eve@example.org",), delay=86_400)

    # The switch: `task(...)` becomes `task.enqueue(...)`, a plain call runs the function.
    welcome.enqueue("cid@example.org")

    # Both workers run until Huey's queue is empty. Its consumer moves scheduled tasks to its schedule.
    consumer = old.create_consumer(workers=1, periodic=False, check_worker_health=False)
    consumer.start()
    Worker(app, until_empty=True).run()
    wait_for(lambda: sent("old") == 2 and old.scheduled_count() == 1)
    consumer.stop(graceful=True)

    # Scheduled tasks move last, once the consumer has ended.
    assert move_scheduled(old, app) == 1
    assert move_scheduled(old, app) == 0
    (tomorrow,) = app.find(queue="mail", state="scheduled")
    app.retry_job(tomorrow.id)  # as if it were tomorrow
    Worker(app, until_empty=True).run()

    old.storage.close()
    app.close()
    check(old=["ann@example.org", "bob@example.org"], new=["cid@example.org", "eve@example.org"])


if __name__ == "__main__":
    main(*sys.argv[1:])
