"""Jobs enqueued in two-phase transactions of PostgreSQL."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import psycopg
import pytest
from sqlalchemy import create_engine
from sqlalchemy.engine import make_url
from sqlalchemy.orm import Session

from stanchion import JobState, Stanchion


@pytest.fixture
def app(pg_url: str) -> Iterator[Stanchion]:
    with closing(Stanchion(pg_url)) as app:
        app.setup()
        yield app


@pytest.fixture
def driver(pg_url: str) -> Iterator[psycopg.Connection[Any]]:
    with psycopg.connect(pg_url) as connection:
        yield connection


def test_a_job_comes_with_the_second_phase(app: Stanchion, driver: psycopg.Connection[Any]) -> None:
    driver.tpc_begin("one")
    app.queue("mail").push({}, key="k", tx=driver)
    app.queue("mail").push_many([1, 2], tx=driver)
    driver.tpc_prepare()
    assert app.queue("mail").size().total == 0
    driver.tpc_commit()
    assert app.queue("mail").size().ready == 3


def test_a_job_goes_with_a_rollback(app: Stanchion, driver: psycopg.Connection[Any]) -> None:
    driver.tpc_begin("one")
    app.queue("mail").push({}, tx=driver)
    driver.tpc_prepare()
    driver.tpc_rollback()
    assert app.queue("mail").size().total == 0


def test_another_process_commits_what_was_prepared(
    app: Stanchion, driver: psycopg.Connection[Any], pg_url: str
) -> None:
    driver.tpc_begin("one")
    app.queue("mail").push({}, tx=driver)
    driver.tpc_prepare()
    driver.close()
    with psycopg.connect(pg_url) as other:
        (left,) = other.tpc_recover()
        other.tpc_commit(left)
    assert app.queue("mail").size().ready == 1


def test_an_outcome_is_part_of_it(app: Stanchion, driver: psycopg.Connection[Any]) -> None:
    app.queue("mail").push({})
    (job,) = app.queue("mail").reserve()
    driver.tpc_begin("one")
    job.commit(tx=driver)
    driver.tpc_prepare()
    assert app.get(job.id).state is JobState.RUNNING  # type: ignore[union-attr]
    driver.tpc_commit()
    assert app.get(job.id).state is JobState.DONE  # type: ignore[union-attr]


def test_without_a_signal_it_is_found_by_polling(app: Stanchion, driver: psycopg.Connection[Any]) -> None:
    found = []
    waiting = threading.Thread(target=lambda: found.extend(app.queue("mail").reserve(wait=60)))
    waiting.start()
    driver.tpc_begin("one")
    app.queue("mail").push({}, tx=driver)
    driver.tpc_prepare()
    driver.tpc_commit()
    waiting.join(60)
    assert len(found) == 1


@pytest.mark.parametrize("tx", ["session", "connection"])
def test_of_sqlalchemy(app: Stanchion, pg_url: str, tx: str) -> None:
    engine = create_engine(make_url(pg_url).set(drivername="postgresql+psycopg"))
    if tx == "session":
        with Session(engine, twophase=True) as session:
            app.queue("mail").push({}, tx=session)
            session.prepare()
            session.commit()
    else:
        with engine.connect() as connection:
            transaction = connection.begin_twophase()
            app.queue("mail").push({}, tx=connection)
            transaction.prepare()
            transaction.commit()
    engine.dispose()
    assert app.queue("mail").size().ready == 1
