"""From Celery: python -m coming_from.celery_to_stanchion [BROKER_URL]

Celery's worker and Stanchion's worker run in this process, one after the other; in production each is a process of
its own. The broker is Celery's in memory unless you name another, such as redis://localhost/0.
"""

from __future__ import annotations

import sys

from celery import Celery
from celery.contrib.testing.worker import start_worker

from coming_from.shop import check, send_mail, sent, wait_for
from stanchion import Stanchion, Worker


def main(broker: str = "memory://", url: str = "memory://") -> None:
    """Run both; raise SystemExit if a mail is lost or sent twice."""
    old = Celery("shop", broker=broker)
    app = Stanchion(url)

    @old.task(name="shop.welcome", ignore_result=True)
    def welcome_by_celery(address: str) -> None:
        send_mail("old", address)

    @app.task(name="shop.welcome", queue="mail", max_attempts=4)
    def welcome(address: str) -> str:
        return send_mail("new", address)

    # Before the switch: calls go to Celery, and some of them are still waiting.
    for name in ("ann", "bob"):
        welcome_by_celery.delay(f"{name}@example.org")

    # The switch: `.delay(...)` becomes `.enqueue(...)` in the callers.
    handles = [welcome.enqueue(f"{name}@example.org") for name in ("cid", "dee")]

    # Both workers run until Celery's queue is empty.
    with start_worker(old, pool="solo", perform_ping_check=False, shutdown_timeout=30):
        Worker(app, until_empty=True).run()
        wait_for(lambda: sent("old") == 2)

    assert [handle.result(timeout=30) for handle in handles] == ["sent to cid@example.org", "sent to dee@example.org"]
    app.close()
    check(old=["ann@example.org", "bob@example.org"], new=["cid@example.org", "dee@example.org"])


if __name__ == "__main__":
    main(*sys.argv[1:])
