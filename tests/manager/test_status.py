"""What managers say of themselves: by the store of their clients, and by `stanchion manager status`."""

from __future__ import annotations

import threading
from contextlib import closing
from typing import Any

from stanchion import Stanchion, Worker
from stanchion.manager.server.tokens import Caller, Role, token_of
from stanchion.stores.grpc.store import GrpcStore
from stanchion.stores.records.managers import ManagerStatus, QueueFigures
from tests.manager.conftest import Start, limited, secret
from tests.servers.manager import ManagerThread
from tests.worker.conftest import until


def status_of(app: Stanchion) -> ManagerStatus:
    """Return the figures of the only manager."""
    store = app.store
    assert isinstance(store, GrpcStore)
    (one,) = store.manager_status()
    return one


def figures(app: Stanchion, queue: str) -> QueueFigures:
    return next(one for one in status_of(app).queues if one.queue == queue)


def test_a_worker_and_its_jobs_are_counted(manager: ManagerThread) -> None:
    with closing(Stanchion(manager.url)) as app:
        running, go_on = threading.Semaphore(0), threading.Event()

        @app.task(name="work", queue="counted")
        def work() -> None:
            running.release()
            go_on.wait(120)

        app.queue("counted").configure(lanes=1)
        worker = Worker(app, ["counted"], threads=3)
        working = threading.Thread(target=worker.run)
        working.start()
        try:
            store: Any = app.store
            until(lambda: store._receivers.fed(["counted"]))  # until then it claims by calls
            handles = work.enqueue_many([()] * 5)
            for _ in range(3):
                assert running.acquire(timeout=120)
            until(lambda: figures(app, "counted").in_flight >= 3)
            one = status_of(app)
            assert (one.address, one.answered, one.store_answers, one.draining) == (manager.address, True, True, False)
            assert {receiver.worker for receiver in one.receivers} == {worker.id}
            assert not one.receivers[0].slow
            go_on.set()
            for handle in handles:
                handle.result(timeout=120)
            until(lambda: figures(app, "counted").acknowledged == 5)
            found = figures(app, "counted")
            assert (found.in_flight, found.window) == (0, 0)
            assert found.sent >= 3
            assert found.statements > 0
        finally:
            go_on.set()
            worker.stop()
            working.join(120)


def test_a_token_limited_to_queues_sees_these_only(start: Start) -> None:
    limited_one = Caller("one", frozenset({Role.RECEIVE}), ("mine",))
    manager = start(limited(token_of(secret("one"), limited_one), token_of(secret("all"), Caller("all"))))
    with closing(Stanchion(f"{manager.url}?token={secret('all')}")) as app:
        for name in ("mine", "other"):
            app.queue(name).push(1)
        app.task(name="nothing", queue="other")(lambda: None)
        worker = Worker(app, ["other"])
        working = threading.Thread(target=worker.run)
        working.start()
        try:
            until(lambda: {"mine", "other"} <= {one.queue for one in status_of(app).queues})
            until(lambda: status_of(app).receivers)
            with closing(Stanchion(f"{manager.url}?token={secret('one')}")) as other:
                assert [one.queue for one in status_of(other).queues] == ["mine"]
                assert status_of(other).receivers == ()
        finally:
            worker.stop()
            working.join(120)
