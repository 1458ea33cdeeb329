"""The server: health, reflection, limits, deadlines, and its end."""

import threading
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

from stanchion.core.values.framing import chunk_with
from stanchion.errors import InvalidInput, StoreUnavailable
from stanchion.manager.server import server as server_module
from stanchion.manager.server.settings import Limits, ServerSettings, listen_address
from stanchion.stores.memory import MemoryStore
from stanchion.stores.protocol import Store, pages
from stanchion.stores.records.query import Query
from stanchion.stores.records.queues import SemaphoreRow
from stanchion.stores.wire.messages import METHODS, SERVICES, pb
from stanchion_conformance.harness import claim, in_threads, new_job
from tests.manager.conftest import Start, ask
from tests.servers.manager import LOOPBACK, ManagerThread
from tests.worker.conftest import until

SERVING, NOT_SERVING = health_pb2.HealthCheckResponse.SERVING, health_pb2.HealthCheckResponse.NOT_SERVING


class SlowStore:
    """A store whose `semaphores` waits until it may go on, and counts its calls."""

    def __init__(self) -> None:
        self._store = MemoryStore()
        self.go_on = threading.Event()
        self.begun = threading.Semaphore(0)
        self.calls = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def semaphores(self, names: Iterable[str] | None = None) -> list[SemaphoreRow]:
        self.calls += 1
        self.begun.release()
        assert self.go_on.wait(60)
        return self._store.semaphores(names)


class AwayStore(MemoryStore):
    """A store that can be away."""

    away = False

    def __init__(self) -> None:
        super().__init__()
        now = self.now

        def checked() -> int:
            if self.away:
                raise StoreUnavailable("the database is away; start it")
            return now()

        self.now = checked


class TestHealth:
    def test_of_each_service(self, raw: grpc.Channel) -> None:
        stub = health_pb2_grpc.HealthStub(raw)
        for name in ("", *SERVICES):
            assert stub.Check(health_pb2.HealthCheckRequest(service=name), timeout=30).status == SERVING
        with pytest.raises(grpc.RpcError) as caught:
            stub.Check(health_pb2.HealthCheckRequest(service="other"), timeout=30)
        assert caught.value.code() is grpc.StatusCode.NOT_FOUND

    def test_services_serve_while_the_store_answers(self, start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(server_module, "CHECK_SECONDS", 0.05)
        store = AwayStore()
        manager = start(store=store)
        with grpc.insecure_channel(manager.address) as channel:
            stub = health_pb2_grpc.HealthStub(channel)

            def status(name: str) -> int:
                return int(stub.Check(health_pb2.HealthCheckRequest(service=name), timeout=30).status)

            store.away = True
            until(lambda: status("stanchion.v1.Queues") == NOT_SERVING)
            assert status("") == SERVING
            store.away = False
            until(lambda: status("stanchion.v1.Queues") == SERVING)


def test_reflection_names_the_services_and_their_proto(raw: grpc.Channel) -> None:
    stub = reflection_pb2_grpc.ServerReflectionStub(raw)
    asked = [
        reflection_pb2.ServerReflectionRequest(list_services=""),
        reflection_pb2.ServerReflectionRequest(file_containing_symbol="stanchion.v1.Queues"),
    ]
    listed, file = stub.ServerReflectionInfo(iter(asked), timeout=30)
    assert {one.name for one in listed.list_services_response.service} >= {*SERVICES, "grpc.health.v1.Health"}
    assert file.file_descriptor_response.file_descriptor_proto


class TestLimits:
    def test_of_calls_under_way(self, start: Start) -> None:
        store = SlowStore()
        manager = start(ServerSettings(LOOPBACK, limits=Limits(calls=2, threads=1)), store)
        with grpc.insecure_channel(manager.address) as channel:
            try:
                with in_threads([lambda: ask(channel, "Query.Semaphores")] * 2):
                    until(lambda: manager.server._guard.calls.taken == 2)
                    with pytest.raises(grpc.RpcError) as caught:
                        ask(channel, "Query.Semaphores")
                    assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
                    assert "2 calls under way" in str(caught.value.details())
                    store.go_on.set()
            finally:
                store.go_on.set()
            ask(channel, "Query.Semaphores")

    def test_of_streams(self, start: Start) -> None:
        manager = start(ServerSettings(LOOPBACK, limits=Limits(streams=3)))
        request = pb.ListenRequest(queues=["orders"]).SerializeToString()
        with grpc.insecure_channel(manager.address) as channel:
            listen: Any = channel.unary_stream(METHODS["Queues.Listen"].path)
            streams = [listen(request, timeout=60) for _ in range(3)]
            for stream in streams:
                next(stream)
            with pytest.raises(grpc.RpcError) as caught:
                next(listen(request, timeout=60))
            assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
            streams[0].cancel()
            until(lambda: manager.server._guard.streams.taken == 2)
            next(listen(request, timeout=60))

    def test_of_large_requests(self, raw: grpc.Channel) -> None:
        with pytest.raises(grpc.RpcError) as caught:
            ask(raw, "Queues.Push", bytes(17 * 1024 * 1024))
        assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert ask(raw, "Query.Now")

    @pytest.mark.parametrize("chunks", [False, True])
    def test_of_large_answers(self, start: Start, client: Callable[[str], Store], chunks: bool) -> None:
        manager = start()
        store, behind = client(manager.url), manager.store
        large = chunk_with(9, b"\xff" * 2_000_000) if chunks else f'"{"é" * 1_000_000}"'  # 2 MB each
        jobs = [new_job()._replace(payload=large) for _ in range(20)]
        behind.push(jobs)
        ids = [job.id for job in jobs]
        assert sorted(store.fetch(ids)) == sorted(ids)

        assert sorted(row.id for page in pages(store, Query()) for row in page) == sorted(ids)
        got: list[str] = []
        for _ in range(20):
            got += (rows := [row.id for row in claim(store, 20)])
            if not rows:
                break
        assert sorted(got) == sorted(ids)
        assert {row.attempts for row in behind.fetch(ids).values()} == {1}
        assert behind.stats(["orders"], ["totals"])["orders"].totals.pushed == 20 * (9 if chunks else 1)

    def test_of_many_chunks_in_one_push(self, start: Start, client: Callable[[str], Store]) -> None:
        """They are more than a request holds, and are sent in several."""
        manager = start()
        store = client(manager.url)
        jobs = [new_job()._replace(payload=chunk_with(9, bytes([n]) * 1_000_000)) for n in range(20)]
        assert [one.id for one in store.push(jobs)] == [job.id for job in jobs]
        rows = manager.store.fetch([job.id for job in jobs])
        assert [rows[job.id].payload for job in jobs] == [job.payload for job in jobs]


def test_a_finish_says_how_many_outcomes_are_new(manager: ManagerThread, raw: grpc.Channel) -> None:
    manager.store.push([new_job() for _ in range(3)])
    rows = claim(manager.store, 3)
    outcomes = [pb.Outcome(id=row.id, token=row.token, queue=row.queue, commit=pb.Commit()) for row in rows]

    def newly(count: int, *, repeat: bool) -> tuple[int, list[int]]:
        request = pb.FinishRequest(outcomes=outcomes[:count], repeat=repeat).SerializeToString()
        reply = pb.FinishReply.FromString(ask(raw, "Queues.Finish", request))
        return reply.newly, list(reply.states)

    done = pb.JOB_STATE_DONE
    assert newly(1, repeat=False) == (1, [done])
    assert newly(1, repeat=False) == (0, [pb.JOB_STATE_UNSPECIFIED])
    assert newly(2, repeat=True) == (1, [done, done])
    assert newly(3, repeat=True) == (1, [done, done, done])
    assert newly(3, repeat=True) == (0, [done, done, done])


def test_leases_are_renewed(manager: ManagerThread, raw: grpc.Channel) -> None:
    manager.store.push([new_job()])
    (row,) = claim(manager.store, lease=10.0)
    held = pb.Held(id=row.id, token=row.token, queue=row.queue)
    request = pb.ExtendRequest(held=[held, pb.Held(id=row.id, token="other", queue=row.queue)], lease_us=3600 * 10**6)
    reply = pb.FinishReply.FromString(ask(raw, "Queues.Extend", request.SerializeToString()))
    assert list(reply.states) == [pb.JOB_STATE_RUNNING, pb.JOB_STATE_UNSPECIFIED]
    renewed = manager.store.fetch([row.id])[row.id]
    assert (renewed.lease_until or 0) > (row.lease_until or 0) + 3000 * 10**6


class TestDeadlines:
    def test_a_call_that_waited_too_long_is_not_made(self, start: Start) -> None:
        store = SlowStore()
        manager = start(ServerSettings(LOOPBACK, limits=Limits(threads=1)), store)
        with grpc.insecure_channel(manager.address) as channel:
            try:
                with in_threads([lambda: ask(channel, "Query.Semaphores", timeout=60)]):
                    assert store.begun.acquire(timeout=60)
                    with pytest.raises(grpc.RpcError) as caught:
                        ask(channel, "Query.Semaphores", timeout=0.2)
                    assert caught.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED
                    until(lambda: manager.server._guard.calls.taken == 1)
                    store.go_on.set()
            finally:
                store.go_on.set()
            ask(channel, "Query.Check")
            assert store.calls == 1


class TestStop:
    def test_lets_calls_finish_and_takes_no_new_ones(self, start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
        store = SlowStore()
        manager = start(store=store)
        answers, stopping = [], threading.Event()
        end_streams = manager.server._services.end_streams

        def ending() -> None:
            end_streams()
            stopping.set()

        monkeypatch.setattr(manager.server._services, "end_streams", ending)
        with grpc.insecure_channel(manager.address) as channel:
            stub = health_pb2_grpc.HealthStub(channel)
            with in_threads([lambda: answers.append(ask(channel, "Query.Semaphores"))]):
                assert store.begun.acquire(timeout=60)
                with in_threads([lambda: manager.stop(60)]):
                    until(lambda: manager.server._guard.draining)
                    with pytest.raises(grpc.RpcError) as caught:
                        ask(channel, "Query.Check")
                    assert caught.value.code() is grpc.StatusCode.UNAVAILABLE
                    assert stub.Check(health_pb2.HealthCheckRequest(), timeout=30).status == NOT_SERVING
                    assert stopping.wait(60)
                    assert not answers
                    store.go_on.set()
        assert len(answers) == 1

    def test_ends_streams_at_once(self, start: Start) -> None:
        manager = start()
        with grpc.insecure_channel(manager.address) as channel:
            listen: Any = channel.unary_stream(METHODS["Queues.Listen"].path)
            stream = listen(pb.ListenRequest(queues=["orders"]).SerializeToString(), timeout=120)
            next(stream)
            topologies: Any = channel.unary_stream(METHODS["Queues.Topology"].path)
            topology = topologies(b"", timeout=120)
            replies = map(pb.TopologyReply.FromString, topology)
            first = next(reply for reply in replies if reply.managers)  # it begins to serve before it is in the store
            assert [one.address for one in first.managers] == [manager.address]
            with in_threads([lambda: manager.stop(60)]):
                with pytest.raises(grpc.RpcError) as caught:
                    next(stream)
                assert caught.value.code() is grpc.StatusCode.UNAVAILABLE
                last = next(reply for reply in replies if reply.managers[0].draining)
                assert last.version > first.version

    def test_does_not_wait_longer_than_its_grace(self, start: Start) -> None:
        store = SlowStore()
        manager = start(store=store)
        with grpc.insecure_channel(manager.address) as channel:
            method: Any = channel.unary_unary(METHODS["Query.Semaphores"].path)
            call = method.future(b"", timeout=60)
            assert store.begun.acquire(timeout=60)
            manager.stop(0.1)
            with pytest.raises(grpc.RpcError):
                call.result()
            store.go_on.set()


def test_two_managers_do_not_share_a_port(manager: ManagerThread, start: Start) -> None:
    with pytest.raises(InvalidInput, match="taken"):
        start(replace(ServerSettings(LOOPBACK), listen=listen_address(manager.address)))
