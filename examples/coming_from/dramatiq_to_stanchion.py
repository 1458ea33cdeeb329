"""From Dramatiq: python -m coming_from.dramatiq_to_stanchion [REDIS_URL]

Without a URL, Dramatiq's messages are in its broker for tests, in memory.
"""

from __future__ import annotations

import sys

import dramatiq
from dramatiq.brokers.redis import RedisBroker
from dramatiq.brokers.stub import StubBroker

from coming_from.shop import check, send_mail
from stanchion import Retry, Stanchion, Worker


def main(redis_url: str | None = None, url: str = "memory://") -> None:
    """Run both; raise SystemExit if a mail is lost or sent twice."""
    broker: RedisBroker | StubBroker = StubBroker() if redis_url is None else RedisBroker(url=redis_url)
    app = Stanchion(url)

    @dramatiq.actor(broker=broker, actor_name="welcome", queue_name="mail", max_retries=3)
    def welcome_by_dramatiq(address: str) -> None:
        send_mail("old", address)

    @app.task(name="shop.welcome", queue="mail", retry=Retry.exponential(base=15, max=604_800, max_attempts=4))
    def welcome(address: str) -> str:
        return send_mail("new", address)

    # Before the switch: calls go to Dramatiq.
    for name in ("ann", "bob"):
        welcome_by_dramatiq.send(f"{name}@example.org")

    # The switch: `.send(...)` becomes `.enqueue(...)` in the callers.
    for name in ("cid", "dee"):
        welcome.enqueue(f"{name}@example.org")

    # Both workers run until Dramatiq's queue is empty.
    worker = dramatiq.Worker(broker, worker_threads=2, worker_timeout=100)
    worker.start()
    Worker(app, until_empty=True).run()
    broker.join("mail", timeout=60_000)
    worker.join()
    worker.stop()

    broker.close()
    app.close()
    check(old=["ann@example.org", "bob@example.org"], new=["cid@example.org", "dee@example.org"])


if __name__ == "__main__":
    main(*sys.argv[1:])
