"""Another queue and Stanchion run side by side: each mail goes out once, by the queue that has the call."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from datetime import datetime
from pathlib import Path

import psycopg
import pytest
from huey import SqliteHuey
from psycopg.types.json import Jsonb

from coming_from.huey_to_stanchion import move_scheduled
from stanchion import Stanchion
from tests.docs.pages import ROOT

SCRIPTS = ROOT / "examples" / "coming_from"
DAILY = {"huey": None, "dramatiq": None, "apscheduler": None}
NIGHTLY = {
    "celery": None,
    "celery_redis": "redis_url",
    "rq": "redis_url",
    "dramatiq_redis": "redis_url",
    "procrastinate": "pg_url",
}
"""The fixture with the address for each case; None for a case without a server."""

CASES = [
    *(pytest.param(name, fixture, id=name) for name, fixture in DAILY.items()),
    *(pytest.param(name, fixture, id=name, marks=pytest.mark.nightly) for name, fixture in NIGHTLY.items()),
]


@pytest.mark.parametrize(("case", "fixture"), CASES)
def test_side_by_side(case: str, fixture: str | None, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    peer = case.partition("_")[0]
    address = [] if fixture is None else [str(request.getfixturevalue(fixture))]
    path = os.pathsep.join(map(str, (ROOT / "src", ROOT / "examples")))
    run = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", f"coming_from.{peer}_to_stanchion", *address],
        cwd=tmp_path, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert run.returncode == 0, run.stdout + run.stderr
    lines = run.stdout.splitlines()
    assert all(line.endswith(" 1 x") for line in lines)
    assert {line.partition(":")[0] for line in lines} == {"old", "new"}


def test_a_move_can_be_repeated_after_a_kill(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old = SqliteHuey("shop", filename=str(tmp_path / "huey.db"), immediate=False)
    old.task(name="welcome")(print).schedule(("eve@example.org",), delay=86_400)
    old.storage.add_to_schedule(old.storage.dequeue(), datetime(2031, 1, 1))  # as its consumer does
    app = Stanchion("memory://")

    @app.task(name="shop.welcome", queue="mail")
    def welcome(address: str) -> str:
        return address

    with monkeypatch.context() as killed:
        killed.setattr(old.storage, "flush_schedule", interrupted)
        with pytest.raises(KeyboardInterrupt):
            move_scheduled(old, app)
    (first,) = app.find(queue="mail")
    app.retry_job(first.id)
    app.drain()  # it runs before the script does again
    assert move_scheduled(old, app) == 1
    assert [job.id for job in app.find(queue="mail")] == [first.id]
    assert old.scheduled_count() == 0
    old.storage.close()


def interrupted() -> None:
    raise KeyboardInterrupt


def test_each_script_is_run_and_has_a_page() -> None:
    peers = {path.stem.removesuffix("_to_stanchion") for path in SCRIPTS.glob("*_to_stanchion.py")}
    assert peers == {name.partition("_")[0] for name in (*DAILY, *NIGHTLY)}
    for peer in peers:
        page = (ROOT / "docs" / "coming-from" / f"{peer}.md").read_text("utf-8")
        assert f"examples/coming_from/{peer}_to_stanchion.py" in page
        assert importlib.util.find_spec(peer) is not None


def test_waiting_jobs_of_oban_move_in_one_statement(pg_url: str) -> None:
    page = (ROOT / "docs" / "coming-from" / "oban-river.md").read_text("utf-8")
    (statement,) = (block for block in re.findall(r"```sql\n(.*?)```", page, re.DOTALL) if "oban_jobs" in block)
    app = Stanchion(pg_url)
    app.setup()
    with psycopg.connect(pg_url.replace("+psycopg", "")) as connection:
        connection.execute("CREATE TABLE oban_jobs (queue text, state text, args jsonb, scheduled_at timestamp)")
        rows = ("mail", "available", 0), ("mail", "scheduled", 1), ("mail", "executing", 0), ("x", "available", 0)
        for queue, state, days in rows:
            connection.execute(
                "INSERT INTO oban_jobs VALUES (%s, %s, %s, now() AT TIME ZONE 'UTC' + %s * interval '1 day')",
                [queue, state, Jsonb({"state": state}), days],
            )
        connection.execute(statement.encode())
        left = connection.execute("SELECT queue, state FROM oban_jobs ORDER BY queue").fetchall()
        assert left == [("mail", "executing"), ("x", "available")]
        assert app.queue("mail").size().total == 0  # not yet committed
    assert {(job.payload["state"], str(job.state)) for job in app.find(queue="mail")} == {
        ("available", "ready"),
        ("scheduled", "scheduled"),
    }
    app.close()
