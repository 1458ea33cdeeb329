"""PostgreSQL databases whose encoding lacks characters, or checks none."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import closing

import psycopg
import pytest
from tests.crash.scene import until
from tests.servers.manager import ManagerThread
from tests.servers.postgres import PostgresServer

from stanchion import Bury, Cancel, InvalidInput, JobState, Retry, Stanchion, StoreUnavailable, Worker
from stanchion.stores.registry import open_store


def database(server: PostgresServer, encoding: str) -> str:
    name = f"test_{uuid.uuid4().hex}"
    with psycopg.connect(server.url(), autocommit=True) as owner:
        owner.execute(f"CREATE DATABASE {name} ENCODING '{encoding}' LOCALE 'C' TEMPLATE template0")
    return server.url(name)


@pytest.fixture
def latin1(postgres_server: PostgresServer) -> Iterator[str]:
    url = database(postgres_server, "LATIN1")
    yield url
    postgres_server.drop_database(url.rpartition("/")[2])


@pytest.fixture(params=["direct", "managers"])
def served(request: pytest.FixtureRequest, latin1: str) -> Iterator[str]:
    """The URL of a store in that database, set up; behind a manager, too."""
    with closing(open_store(latin1)) as store:
        store.setup()
        if request.param == "direct":
            yield latin1
        else:
            with ManagerThread(store) as manager:
                yield manager.url


def test_outcomes_with_a_character_that_the_encoding_lacks(served: str) -> None:
    with closing(Stanchion(served)) as app:

        @app.task(name="work", retry=Retry.constant(300, max_attempts=5))
        def work(kind: str) -> str:
            match kind:
                case "result":
                    return "5 \u20ac"
                case "error":
                    raise ValueError("5 \u20ac")
                case "bury":
                    raise Bury("5 \u20ac")
                case "cancel":
                    raise Cancel("5 \u20ac")
            return "5 £"

        handles = {kind: work.enqueue(kind) for kind in ("result", "error", "bury", "cancel", "known")}
        worker = Worker(app, threads=1)
        worker.start()
        try:
            until(
                lambda: all(handle.job().errors or handle.job().finished_at for handle in handles.values()), 60, "ends"
            )
        finally:
            worker.stop()
        jobs = {kind: handle.job() for kind, handle in handles.items()}
    assert {kind: (job.state, job.attempts) for kind, job in jobs.items()} == {
        "result": (JobState.DEAD, 1),
        "error": (JobState.SCHEDULED, 1),
        "bury": (JobState.DEAD, 1),
        "cancel": (JobState.CANCELLED, 1),
        "known": (JobState.DONE, 1),
    }
    assert "the outcome can't be stored: the store" in jobs["result"].errors[-1]["error"]
    assert "whose encoding is UTF8" in jobs["result"].errors[-1]["error"]
    assert jobs["error"].errors[-1]["error"] == "ValueError: 5 \u20ac"
    assert jobs["bury"].errors[-1]["error"] == "5 \u20ac"
    assert jobs["known"].result == "5 £"


def test_calls_with_a_character_that_the_encoding_lacks(latin1: str) -> None:
    with closing(Stanchion(latin1)) as app:
        app.setup()
        queue = app.queue("orders")
        for call in (
            lambda: queue.push("5 \u20ac"),
            lambda: queue.push("5", key="\u20ac"),
            lambda: queue.push("5", tenant="\u20ac"),
            lambda: queue.find(text="\u20ac"),
        ):
            with pytest.raises(InvalidInput, match="can't hold a value"):
                call()
        queue.push("5 £")
        assert [job.payload for job in queue.reserve(5)] == ["5 £"]


def test_drain_with_a_character_that_the_encoding_lacks(latin1: str) -> None:
    with closing(Stanchion(latin1)) as app:
        app.setup()

        @app.task(name="work")
        def work() -> str:
            return "5 \u20ac"

        handle = work.enqueue()
        app.drain()
        assert handle.state is JobState.DEAD


def test_an_encoding_that_checks_nothing_is_refused(postgres_server: PostgresServer) -> None:
    url = database(postgres_server, "SQL_ASCII")
    try:
        with closing(open_store(url)) as store, pytest.raises(StoreUnavailable, match="SQL_ASCII") as caught:
            store.setup()
        assert caught.value.lasting
        with psycopg.connect(url) as owner:
            assert owner.execute("SELECT count(*) FROM pg_tables WHERE tablename LIKE 'stanchion%'").fetchone() == (0,)
    finally:
        postgres_server.drop_database(url.rpartition("/")[2])


def test_the_client_encoding_is_ours(latin1: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGCLIENTENCODING", "LATIN1")
    with closing(Stanchion(f"{latin1}?client_encoding=latin1")) as app:
        app.setup()
        app.queue("Größe").push("£")
        assert [job.payload for job in app.queue("Größe").reserve(wait=5)] == ["£"]
