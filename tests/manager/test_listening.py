"""Listening through a manager: any number of callers, by one listener of its store."""

import threading
from collections.abc import Callable
from typing import Any

import grpc
import pytest

from stanchion import Stanchion
from stanchion.stores.grpc.wakeup import Subscription
from stanchion.stores.protocol import Store
from stanchion.stores.wire.messages import METHODS, pb
from stanchion_conformance.harness import in_threads, new_job
from tests.servers.manager import ManagerThread
from tests.worker.conftest import until

Client = Callable[[str], Store]


class TestListeners:
    def test_one_stream_for_all(self, manager: ManagerThread, client: Client) -> None:
        store = client(manager.url)
        listeners = [store.listen([f"queue {number}"]) for number in range(20)]
        until(lambda: manager.server._guard.streams.taken == 1)
        manager.store.push([new_job(queue="queue 0"), new_job(queue="queue 19")])
        assert listeners[0].wait(60)
        assert listeners[19].wait(60)
        for listener in listeners:
            listener.close()
        manager.store.push([new_job(queue="queue 0")])
        until(lambda: manager.server._guard.streams.taken == 0)
        assert store.listen(["queue 0"]).connected

    def test_growing_loses_no_sign(self, manager: ManagerThread, client: Client) -> None:
        store = client(manager.url)
        first = store.listen(["orders"])
        while first.wait(0.3):
            pass
        for number in range(30):
            with in_threads([lambda: manager.store.push([new_job()])]):
                more = store.listen([f"other {number}"])
            assert first.wait(60), number
            more.close()

    def test_a_sign_under_way_on_the_stream_that_another_replaces(
        self, manager: ManagerThread, client: Client, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        store = client(manager.url)
        first = store.listen(["orders"])
        while first.wait(0.3):
            pass
        lost = threading.Event()
        with monkeypatch.context() as patched:
            patched.setattr(Subscription, "_pass_on", lambda _self, _wake: lost.set())
            manager.store.push([new_job()])
            assert lost.wait(60)
        store.listen(["others"])
        assert first.wait(60)

    def test_ends_of_jobs(self, manager: ManagerThread, client: Client) -> None:
        app, there = Stanchion(store=client(manager.url)), Stanchion(store=manager.store)
        job = app.queue("orders").push(1)
        (reserved,) = there.queue("orders").reserve()
        listener = app.store.listen([], finished=["orders"])
        reserved.commit()
        assert listener.wait(60)
        finished = listener.signs().finished
        assert finished is None or job.id in finished

    def test_hundreds_of_clients(self, manager: ManagerThread) -> None:
        """One thread and one listener of the store serve them all."""
        before = threading.active_count()
        with grpc.insecure_channel(manager.address) as channel:
            listen: Any = channel.unary_stream(METHODS["Queues.Listen"].path)
            data = pb.ListenRequest(queues=["orders"]).SerializeToString()
            streams = [listen(data, timeout=120) for _ in range(300)]
            for stream in streams:
                next(stream)
            server_threads = [one for one in threading.enumerate() if one.name == "stanchion-manager-listen"]
            assert len(server_threads) == 1
            manager.store.push([new_job()])
            for stream in streams:
                next(stream)
            for stream in streams:
                stream.cancel()
        until(lambda: manager.server._guard.streams.taken == 0)
        until(lambda: threading.active_count() <= before + 3)
