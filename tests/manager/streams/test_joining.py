"""Jobs that came through managers and end in transactions on the database behind these."""

import pickle
import threading
from collections.abc import Iterator
from contextlib import ExitStack, closing, suppress
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import create_engine
from sqlalchemy.orm import Session

from stanchion import JobState, Reservation, Stanchion
from stanchion.errors import CannotJoin, InvalidInput
from stanchion.stores.grpc import joining
from stanchion.stores.records.values import VersionedValue
from stanchion.stores.registry import open_store
from stanchion.stores.rules.leases.sessions import SessionRow, session_row
from stanchion.worker.worker import Worker
from tests.servers.manager import ManagerThread
from tests.worker.conftest import until


class Undone(Exception):
    """Makes a transaction roll back."""


class Shop:
    """An app behind a manager, with the database beside it, and a worker whose tasks end in transactions."""

    def __init__(self, stack: ExitStack, url: str) -> None:
        store = stack.enter_context(closing(open_store(url)))
        store.setup()
        self.manager = stack.enter_context(ManagerThread(store, lease=30.0))  # a slow machine ends no lease
        self.app = stack.enter_context(closing(Stanchion(self.manager.url, database=url)))
        self.begun, self.settled, self.go_on = threading.Semaphore(0), threading.Semaphore(0), threading.Event()

        @self.app.task(queue="orders", name="pay")
        def pay(end: str, job: Reservation) -> None:
            self.begun.release()
            if end == "at once":
                return
            with suppress(Undone), self.app.transaction() as tx:
                self.app.queue("paid").push(end, tx=tx)
                job.commit(end, tx=tx) if end != "move" else job.move("moved", tx=tx)
                self.settled.release()
                assert self.go_on.wait(60)
                if end == "roll back":
                    raise Undone

        self.pay: Any = pay
        self.worker = Worker(self.app, ["orders"], threads=2)
        self.worker.start()
        stack.callback(self.worker.stop, 0)
        self.app.enqueue("pay", "at once")
        self.receivers: Any = self.app.store._receivers  # type: ignore[attr-defined]
        until(lambda: self.receivers.fed(["orders"]) and self.begun.acquire(blocking=False))
        until(lambda: not self.in_flight)

    @property
    def in_flight(self) -> set[str]:
        return {lease.id for lease in list(self.manager.manager.engine._flights._all)}

    @property
    def held(self) -> set[str]:
        (worker,) = self.receivers._workers.values()
        return {lease.id for lease in list(worker.receiver._held)}


@pytest.fixture(params=["sqlite", "pg_store_url", "mariadb_url", "mongo_url"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/jobs.db" if request.param == "sqlite" else request.getfixturevalue(request.param)


@pytest.fixture
def shop(url: str) -> Iterator[Shop]:
    with ExitStack() as stack:
        yield Shop(stack, url)


@pytest.mark.parametrize("end", ["commit", "move"])
@pytest.mark.nightly_except("pg_store_url", "mongo_url")
def test_the_room_is_free_once_it_is_committed(shop: Shop, end: str) -> None:
    handle = shop.pay.enqueue(end)
    assert shop.settled.acquire(timeout=60)
    assert shop.in_flight == shop.held == {handle.id}
    shop.go_on.set()
    until(lambda: shop.in_flight == shop.held == set())
    assert shop.app.queue("paid").size().total == 1
    if end == "commit":
        assert handle.result(60) == end
    else:
        assert shop.app.queue("moved").size().total == 1
    counted = {one.queue: one for one in shop.manager.manager.engine.status().queues}
    assert counted["orders"].acknowledged == 2


@pytest.mark.nightly_except("sqlite", "mariadb_url")
def test_a_job_whose_end_is_rolled_back_goes_on_being_held(shop: Shop) -> None:
    handle = shop.pay.enqueue("roll back")
    assert shop.settled.acquire(timeout=60)
    leases = shop.manager.manager.engine._flights._all
    (lease,) = list(leases)
    shop.go_on.set()
    after = shop.pay.enqueue("commit")
    assert after.result(60) == "commit"
    until(lambda: shop.in_flight == shop.held == {handle.id})
    assert list(leases) == [lease]  # it has not run again
    assert handle.state is JobState.RUNNING
    assert shop.app.queue("paid").size().total == 1
    row = shop.app.store.fetch([handle.id])[handle.id]
    with shop.app.transaction() as tx:  # it can end in another one
        shop.app.reservation(handle.id, str(row.token)).commit("at last", tx=tx)
    assert handle.result(60) == "at last"
    until(lambda: shop.in_flight == shop.held == set())


@pytest.mark.nightly_except("pg_store_url", "mongo_url")
def test_jobs_pushed_in_a_transaction_come_by_the_stream(shop: Shop) -> None:
    with suppress(Undone), shop.app.transaction() as tx:
        shop.pay.using(tx=tx).enqueue("at once")
        raise Undone
    with shop.app.transaction() as tx:
        handle = shop.pay.using(tx=tx).enqueue("at once")
    handle.result(60)
    assert shop.app.queue("orders").counts().pushed == 2


def test_a_session_tells_of_its_commit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(joining, "FIRST", 600.0)
    url = f"sqlite:///{tmp_path}/jobs.db"
    with ExitStack() as stack:
        shop = Shop(stack, url)
        engine = create_engine(url)
        stack.callback(engine.dispose)

        @shop.app.task(queue="orders", name="by a session")
        def work(job: Reservation) -> None:
            with Session(engine) as session:
                job.commit("done", tx=session)
                session.commit()

        assert shop.app.enqueue("by a session").result(60) == "done"
        until(lambda: shop.in_flight == shop.held == set())


class TestRefused:
    @pytest.fixture
    def database(self, tmp_path: Path) -> str:
        url = f"sqlite:///{tmp_path}/theirs.db"
        with closing(open_store(url)) as store:
            store.setup()
        return url

    @pytest.fixture
    def manager(self, database: str) -> Iterator[ManagerThread]:
        with closing(open_store(database)) as store, ManagerThread(store) as manager:
            yield manager

    def test_a_database_that_the_managers_do_not_use(self, manager: ManagerThread, tmp_path: Path) -> None:
        with closing(Stanchion(manager.url, database=f"sqlite:///{tmp_path}/other.db")) as app:
            app.queue("orders").push(1)
            (job,) = app.queue("orders").reserve()
            with pytest.raises(CannotJoin, match="another database than that of the managers"), app.transaction():
                pass
            with closing(open_store(f"sqlite:///{tmp_path}/other.db")) as other:
                tx: Any
                with other.transaction() as tx:  # type: ignore[attr-defined]
                    for call in (lambda: job.commit(tx=tx), lambda: app.queue("orders").push(2, tx=tx)):
                        with pytest.raises(CannotJoin, match="another database than that of the managers"):
                            call()
            assert app.queue("orders").size().total == 1

    def test_a_copy_of_the_database(
        self, manager: ManagerThread, database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """It has the sessions of the managers too, but they end there."""
        monkeypatch.setattr(joining, "_LATE_SECONDS", 1.0)
        copy = tmp_path / "copy.db"
        with closing(open_store(database)) as store, closing(open_store(f"sqlite:///{copy}")) as other:
            other.setup()
            for value in store.values("manager.session"):
                assert other.compare_and_set("manager.session", value.name, '{"until":1}', 0)
        app = Stanchion(manager.url, database=f"sqlite:///{copy}")
        with closing(app), pytest.raises(CannotJoin, match="a copy of the database"), app.transaction():
            pass

    def test_managers_that_renew_their_sessions_late(
        self, manager: ManagerThread, database: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """They wait for their processor, or for the database, which is theirs all the same."""
        with closing(Stanchion(manager.url, database=database)) as before, before.transaction() as tx:
            before.queue("orders").push(0, tx=tx)  # from now on their session is no new one
        monkeypatch.setattr(joining, "_NEW_SECONDS", 0.0)
        looks = 0

        def late(value: VersionedValue) -> SessionRow:
            nonlocal looks
            looks += 1
            return session_row(value)._replace(until=0) if looks < 3 else session_row(value)

        monkeypatch.setattr(joining, "session_row", late)
        with closing(Stanchion(manager.url, database=database)) as app, app.transaction() as tx:
            app.queue("orders").push(1, tx=tx)
        assert looks == 3

    def test_without_a_database(self, manager: ManagerThread) -> None:
        with closing(Stanchion(manager.url)) as app:
            assert not app.store.capabilities.joins_transactions
            with pytest.raises(CannotJoin, match="database"):
                app.queue("orders").push(1, tx=object())  # type: ignore[arg-type]
            with pytest.raises(CannotJoin, match="database"):
                app.transaction().__enter__()

    @pytest.mark.parametrize("given", ["memory://", "redis://localhost"])
    def test_a_store_without_transactions(self, given: str) -> None:
        with pytest.raises(InvalidInput, match="leave it out"):
            open_store("grpc://manager", given)

    def test_a_database_beside_a_database(self) -> None:
        with pytest.raises(InvalidInput, match="is for URLs of managers"):
            open_store("sqlite:///jobs.db", "sqlite:///jobs.db")


def test_a_pickled_app_has_the_database_too(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/jobs.db"
    with closing(open_store(url)) as store, ManagerThread(store) as manager:
        store.setup()
        with closing(pickle.loads(pickle.dumps(Stanchion(manager.url, database=url)))) as app:  # noqa: S301 - our own
            with app.transaction() as tx:
                app.queue("orders").push(1, tx=tx)
            assert app.queue("orders").size().total == 1
