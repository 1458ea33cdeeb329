"""A job that another transaction has locked holds up the outcomes of no other."""

from __future__ import annotations

import threading

import pytest
from sqlalchemy import create_engine, make_url, text
from tests.worker.conftest import until, working

from stanchion import JobState, Stanchion

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("short_calls")]

DRIVERS = {"postgresql": "postgresql+psycopg", "mysql": "mysql+pymysql", "mariadb": "mysql+pymysql"}


@pytest.mark.parametrize("url", ["postgresql", "mariadb"], indirect=True)
def test_outcomes_of_other_jobs_are_stored_meanwhile(
    app: Stanchion, url: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("stanchion.worker.finisher.LOAD_GROUP_MIN", 0)  # outcomes are stored together
    began, go_on = threading.Barrier(6), threading.Event()

    @app.task
    def task(n: int) -> int:
        began.wait(60)
        go_on.wait(60)
        return n

    @app.task
    def later(n: int) -> int:
        return n

    address = make_url(url)
    engine = create_engine(address.set(drivername=DRIVERS[address.drivername]))
    with working(app, threads=8), engine.connect() as connection:
        handles = task.enqueue_many([(n,) for n in range(5)])
        began.wait(60)
        connection.execute(text("SELECT id FROM stanchion_jobs WHERE id = :id FOR UPDATE"), {"id": handles[2].id})
        go_on.set()
        assert [handle.result(timeout=60) for handle in (*handles[:2], *handles[3:])] == [0, 1, 3, 4]
        assert later.enqueue(5).result(timeout=60) == 5
        until(lambda: "outcomes wait for the store" in caplog.text)
        assert handles[2].state is JobState.RUNNING
        connection.rollback()
        assert handles[2].result(timeout=60) == 2
        assert handles[2].job().attempts == 1
    engine.dispose()
