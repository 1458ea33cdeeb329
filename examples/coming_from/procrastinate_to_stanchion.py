"""From Procrastinate: python -m coming_from.procrastinate_to_stanchion POSTGRESQL_URL

Both queues keep their jobs in one database, so waiting and scheduled jobs move over in one transaction: after a
failure at any point each job is in exactly one of them.
"""

from __future__ import annotations

import sys

import procrastinate
import psycopg

from coming_from.shop import check, send_mail
from stanchion import Stanchion, Worker

WAITING = """
    DELETE FROM procrastinate_jobs
    WHERE status = 'todo' AND task_name = %s AND attempts = 0 AND scheduled_at IS NOT NULL
    RETURNING args, scheduled_at
"""


def move_scheduled(connection: psycopg.Connection, app: Stanchion) -> int:
    """Move the scheduled jobs in one transaction; return their number."""
    with connection.transaction():
        rows = connection.execute(WAITING, ["shop.welcome"]).fetchall()
        for arguments, due in rows:
            app.using("shop.welcome", queue="mail", run_at=due, tx=connection).enqueue(**arguments)
    return len(rows)


def main(postgres_url: str) -> None:
    """Run both; raise SystemExit if a mail is lost or sent twice."""
    address = postgres_url.replace("postgresql+psycopg://", "postgresql://")
    old = procrastinate.App(connector=procrastinate.PsycopgConnector(conninfo=address))
    app = Stanchion(postgres_url)
    app.setup()

    @old.task(name="shop.welcome", queue="mail", retry=3)
    def welcome_by_procrastinate(address: str) -> None:
        send_mail("old", address)

    @app.task(name="shop.welcome", queue="mail", max_attempts=4)
    def welcome(address: str) -> str:
        return send_mail("new", address)

    with old.open():
        if not old.check_connection():
            old.schema_manager.apply_schema()

        # Before the switch: calls go to Procrastinate; one of them is due tomorrow.
        for name in ("ann", "bob"):
            welcome_by_procrastinate.defer(address=f"{name}@example.org")
        welcome_by_procrastinate.configure(schedule_in={"days": 1}).defer(address="eve@example.org")

        # The switch: `.defer(...)` becomes `.enqueue(...)`, and scheduled jobs move.
        welcome.enqueue("cid@example.org")
        with psycopg.connect(address) as connection:
            assert move_scheduled(connection, app) == 1
            assert move_scheduled(connection, app) == 0

    # Both workers run until Procrastinate's queue is empty.
    old.run_worker(wait=False, install_signal_handlers=False, listen_notify=False)
    Worker(app, until_empty=True).run()
    (tomorrow,) = app.find(queue="mail", state="scheduled")
    app.retry_job(tomorrow.id)  # as if it were tomorrow
    Worker(app, until_empty=True).run()

    app.close()
    check(old=["ann@example.org", "bob@example.org"], new=["cid@example.org", "eve@example.org"])


if __name__ == "__main__":
    main(*sys.argv[1:])
