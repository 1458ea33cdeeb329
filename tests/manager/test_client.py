"""Clients: several managers, lost replies, forks, listeners, errors."""

import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from stanchion.core.ids import new_id
from stanchion.core.spark_errors import LeasesLost
from stanchion.core.urls import Listen
from stanchion.errors import CannotJoin, DuplicateKey, InvalidInput, MissingExtra, StoreUnavailable
from stanchion.manager.server.settings import ServerSettings
from stanchion.stores.grpc.client import channels as opening
from stanchion.stores.grpc.client.address import address_of
from stanchion.stores.grpc.client.calls import Calls
from stanchion.stores.memory import MemoryStore
from stanchion.stores.protocol import Store
from stanchion.stores.records import calls
from stanchion.stores.records.outcomes import Commit
from stanchion.stores.records.staging import Finish, Publication
from stanchion.stores.records.values import ValueChange, VersionedValue
from stanchion.stores.registry import shown_url
from stanchion.stores.wire.transport import PINGS
from stanchion_conformance.harness import claim, in_threads, new_job
from tests.manager.conftest import Start
from tests.servers.manager import LOOPBACK, ManagerThread
from tests.servers.proxy import TcpProxy
from tests.worker.conftest import until

Client = Callable[[str], Store]


class LossyStore:
    """A store that carries calls out and then loses the reply, as often as it is told."""

    def __init__(self, store: Store | None = None) -> None:
        self.store = store or MemoryStore()
        self.lost: dict[str, int] = {}
        self.calls: list[str] = []

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.store, name)
        if not callable(found):
            return found

        def called(*given: Any, **options: Any) -> Any:
            self.calls.append(name)
            answer = found(*given, **options)
            if self.lost.get(name):
                self.lost[name] -= 1
                raise StoreUnavailable("the connection broke; check it")
            return answer

        return called


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


class TestLostReplies:
    @pytest.fixture
    def lossy(self) -> LossyStore:
        return LossyStore()

    @pytest.fixture
    def store(self, lossy: LossyStore, start: Start, client: Client) -> Store:
        return client(start(store=lossy).url)

    def test_of_a_push(self, store: Store, lossy: LossyStore) -> None:
        lossy.lost["push"] = 2
        jobs = [new_job(), new_job(key="k")]
        assert [one.id for one in store.push(jobs)] == [job.id for job in jobs]
        assert lossy.calls.count("push") == 3
        assert store.stats(["orders"], ["states", "totals"])["orders"].totals.pushed == 2

    def test_of_a_claim(self, store: Store, lossy: LossyStore) -> None:
        store.push([new_job() for _ in range(5)])
        lossy.lost["claim"] = 1
        assert len(claim(store, 2)) == 2
        assert store.stats(["orders"], ["states"])["orders"].states.running == 2

    def test_of_a_settle(self, store: Store, lossy: LossyStore) -> None:
        store.push([new_job()])
        (row,) = claim(store)
        lossy.lost["settle"] = 1
        assert store.settle([Commit(row.lease)]) == ["done"]
        assert store.settle([Commit(row.lease)]) == [None]
        assert store.settle([Commit(row.lease)], repeat=True) == ["done"]

    def test_of_a_compare_and_set(self, store: Store, lossy: LossyStore) -> None:
        lossy.lost["compare_and_set"] = 1
        assert store.compare_and_set("kind", "name", "mine", 0)
        lossy.lost["compare_and_set"] = 1
        assert store.compare_and_set("kind", "name", "mine again", 1)
        lossy.lost["compare_and_set"] = 1
        assert not store.compare_and_set("kind", "name", "other", 1)
        lossy.lost["compare_and_set"] = 1
        assert store.compare_and_set("kind", "name", None, 2)
        assert store.values("kind") == []

    def test_of_a_deletion(self, store: Store, lossy: LossyStore) -> None:
        jobs = [new_job(), new_job()]
        store.push(jobs)
        (row,) = claim(store)
        queued = store.fetch([jobs[1].id])[jobs[1].id]
        lossy.lost["delete"] = 1
        assert store.delete([queued.ref, row.ref]) == [True, False]
        assert list(store.fetch([job.id for job in jobs])) == [row.id]

    def test_of_a_publication(self, store: Store, lossy: LossyStore) -> None:
        store.stage("write", "attempt", [new_job()])
        lossy.lost["publish"] = 1
        mine = ValueChange("stream", "s", f"mine {new_id()}", 0)
        assert store.publish(Publication("write", (("attempt", 1),), mine))
        assert store.values("stream") == [VersionedValue("s", mine.text, 1)]
        assert store.stats(["orders"], ["states"])["orders"].states.total == 1

    def test_of_a_recovery_is_not_repeated(self, store: Store, lossy: LossyStore) -> None:
        lossy.lost["recover"] = 1
        with pytest.raises(StoreUnavailable):
            store.recover()
        assert lossy.calls.count("recover") == 1

    @pytest.mark.usefixtures("short_calls")
    def test_end_with_the_deadline(self, store: Store, lossy: LossyStore) -> None:
        lossy.lost["now"] = 10**9
        with pytest.raises(StoreUnavailable):
            store.now()
        assert lossy.calls.count("now") > 1


class TestSeveralManagers:
    def test_the_next_one_when_one_is_gone(self, start: Start, client: Client) -> None:
        backing = MemoryStore()
        first, second = start(store=backing), start(store=backing)
        store = client(f"grpc://{first.address},{second.address}")
        for _ in range(3):
            store.push([new_job()])
        first.stop(0.0)
        for _ in range(3):
            store.push([new_job()])
        store.close()
        store.push([new_job()])
        assert backing.stats(["orders"], ["totals"])["orders"].totals.pushed == 7

    @pytest.mark.parametrize("verb", ["push", "now"])
    def test_the_next_one_when_one_hangs(
        self, start: Start, client: Client, monkeypatch: pytest.MonkeyPatch, verb: str
    ) -> None:
        """Each gets a share of the time. The second one is many hosts, as a slow machine may take several shares."""
        monkeypatch.setattr(calls, "CALL_SECONDS", 30.0)
        monkeypatch.setattr(opening, "_OPTIONS", [one for one in opening._OPTIONS if one not in PINGS])
        backing = MemoryStore()
        first, second = start(store=backing), start(store=backing)
        with TcpProxy("127.0.0.1", int(first.address.rpartition(":")[2])) as proxy:
            store = client(f"grpc://127.0.0.1:{proxy.port}{14 * f',{second.address}'}")
            channels = store._channels  # type: ignore[attr-defined]
            ask = {"push": lambda: store.push([new_job()]), "now": store.now}[verb]
            channels.first = 0
            ask()
            assert (channels.first, proxy.accepted) == (0, 1)
            proxy.black_hole()
            ask()
            assert channels.first > 0
        pushed = 2 if verb == "push" else 0
        assert backing.stats(["orders"], ["totals"])["orders"].totals.pushed == pushed

    def test_each_gets_a_share_of_the_time(self, start: Start, client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
        seconds: list[float] = []
        ask = Calls._ask

        def asked(self: Calls, host: str, call: Any, request: Any, share: float) -> Any:
            seconds.append(share)
            return ask(self, host, call, request, share)

        store = client(f"grpc://{','.join(4 * [start().address])}")
        monkeypatch.setattr(Calls, "_ask", asked)
        store.now()
        assert 0 < seconds[0] <= calls.CALL_SECONDS / 4

    def test_a_listener_goes_on_at_another_one(self, start: Start, client: Client) -> None:
        backing = MemoryStore()
        first, second = start(store=backing), start(store=backing)
        store = client(f"grpc://{first.address},{second.address}")
        store._channels.first = 0  # type: ignore[attr-defined]
        listener = store.listen(["orders"])
        assert listener.connected
        first.stop(0.0)
        assert listener.wait(60)  # once it listens again, it may have missed something
        until(lambda: listener.connected)
        while listener.wait(0.5):
            pass
        with in_threads([lambda: backing.push([new_job()])]):
            assert listener.wait(60)

    @pytest.mark.usefixtures("short_calls")
    def test_none_is_there(self, client: Client) -> None:
        store = client(f"grpc://127.0.0.1:{free_port()},127.0.0.1:{free_port()}?token=a-secret-of-the-test")
        with pytest.raises(StoreUnavailable, match="check the URL") as caught:
            store.now()
        assert not caught.value.lasting
        assert "a-secret-of-the-test" not in str(caught.value)

    def test_it_comes_back(self, client: Client, start: Start) -> None:
        port = free_port()
        store = client(f"grpc://127.0.0.1:{port}")
        answers: list[int] = []
        with in_threads([lambda: answers.append(store.now())]):
            time.sleep(0.3)
            start(ServerSettings(Listen("127.0.0.1", port)))
        assert answers


class TestErrors:
    def test_are_those_of_the_store(self, manager: ManagerThread, client: Client) -> None:
        store = client(manager.url)
        job = new_job(key="k")
        store.push([job])
        with pytest.raises(DuplicateKey) as caught:
            store.push([new_job(key="k", on_duplicate="raise")])
        assert (caught.value.queue, caught.value.key, caught.value.job_id) == ("orders", "k", job.id)
        with pytest.raises(LeasesLost) as lost:
            store.publish(Publication("w", finish=Finish("orders", "token", 3)))
        assert (lost.value.expected, lost.value.found) == (3, 0)

    def test_of_a_transaction(self, manager: ManagerThread, client: Client) -> None:
        store = client(manager.url)
        for refused in (
            lambda: store.push([new_job()], tx=object()),
            lambda: store.settle([], tx=object()),
            lambda: store.change_flows([], tx=object()),
        ):
            with pytest.raises(CannotJoin, match="leave tx out, or name the database of the managers"):
                refused()

    @pytest.mark.usefixtures("short_calls")
    def test_of_a_fault_in_the_manager(self, client: Client, start: Start) -> None:
        class Broken(MemoryStore):
            def setup(self, *, dry_run: bool = False) -> list[str]:
                raise ZeroDivisionError(f"the secret of the fault, {dry_run}")

        store = client(start(store=Broken()).url)
        with pytest.raises(Exception, match="ZeroDivisionError") as caught:
            store.setup()
        assert "the secret of the fault" not in str(caught.value)

    def test_of_a_request_that_is_too_large(self, manager: ManagerThread, client: Client) -> None:
        with pytest.raises(InvalidInput, match="fewer jobs at a time"):
            client(manager.url).push([new_job(), new_job(f'"{"x" * 17 * 2**20}"')])

    def test_of_none_for_a_batch_that_is_too_large(self, manager: ManagerThread, client: Client) -> None:
        store, jobs = client(manager.url), [new_job(f'"{"x" * 1_000_000}"') for _ in range(40)]
        assert [one.id for one in store.push(jobs)] == [job.id for job in jobs]
        store.stage("write", "attempt", [job._replace(id=new_id(), key=None) for job in jobs])
        assert store.publish(Publication("write", (("attempt", 40),)))
        assert store.stats(["orders"], ["states"])["orders"].states.total == 80

    def test_of_a_moved_clock(self, manager: ManagerThread, client: Client) -> None:
        store = client(manager.url)
        store.clock_offset = 0.0
        with pytest.raises(InvalidInput, match="clock"):
            store.clock_offset = 1.0

    def test_of_a_schema_to_make(self, client: Client, start: Start) -> None:
        class Old(MemoryStore):
            def setup(self, *, dry_run: bool = False) -> list[str]:
                assert dry_run
                return ["CREATE TABLE x"]

        store = client(start(store=Old()).url)
        assert store.setup(dry_run=True) == ["CREATE TABLE x"]
        with pytest.raises(InvalidInput, match="stanchion setup"):
            store.setup()
        assert client(start().url).setup() == []


class TestUrl:
    def test_hosts_and_options(self) -> None:
        address = address_of("grpcs://one,two:80,[::1]:90?token=secret-secret&ca=ca.pem&name=m&compression=gzip")
        assert address.hosts == ("one:7117", "two:80", "[::1]:90")
        assert (address.secure, address.token, address.ca, address.name) == (True, "secret-secret", "ca.pem", "m")
        assert address.compress
        assert "secret" not in repr(address)
        assert shown_url("grpc://host?token=secret-secret") == "grpc://host:7117"

    @pytest.mark.parametrize(
        "url",
        [
            *(
                "grpc://",
                "grpc://host/database",
                "grpc://host:x",
                "grpc://a,,b",
                "grpc://user:secret@host",
                "grpc://[x",
            ),
            *(
                "grpc://host?tokn=secret",
                "grpc://host?ca=ca.pem",
                "grpcs://host?cert=c.pem",
                "grpc://host?token=sécret",
            ),
            *("grpc://host?compression=zip",),
        ],
    )
    def test_wrong_ones(self, url: str, client: Client) -> None:
        with pytest.raises(InvalidInput) as caught:
            client(url)
        assert "secret" not in str(caught.value)
        assert "secret" not in shown_url(url)

    def test_without_the_extra(self, monkeypatch: pytest.MonkeyPatch, client: Client) -> None:
        monkeypatch.setattr("stanchion.stores.grpc.find_spec", lambda _name: None)
        with pytest.raises(MissingExtra, match=r"stanchion\[grpc\]"):
            client("grpc://host")


def test_compressed(start: Start, client: Client) -> None:
    store = client(f"{start(ServerSettings(LOOPBACK, compress=True)).url}?compression=gzip")
    job = new_job(f'"{"x" * 500_000}"')
    store.push([job])
    assert store.fetch([job.id])[job.id].payload == job.payload


def test_many_threads_share_a_store(manager: ManagerThread, client: Client) -> None:
    store = client(manager.url)
    store.push([new_job() for _ in range(200)])
    got: list[str] = []

    def consume() -> None:
        while rows := claim(store, 3):
            got.extend(row.id for row in rows)
            store.settle([Commit(row.lease) for row in rows])

    with in_threads([consume] * 8):
        pass
    assert len(got) == len(set(got)) == 200


@pytest.mark.parametrize("said", ["Cannot invoke RPC: Channel closed!", "Cannot invoke RPC on closed channel!"])
def test_a_channel_that_is_closed_meanwhile_is_opened_again(manager: ManagerThread, client: Client, said: str) -> None:
    """gRPC says it in either way, by the moment at which the other thread has closed it."""
    store: Any = client(manager.url)
    channels, failed = store._channels, list[str]()
    call = channels.call

    def closed_first(*given: Any) -> Any:
        if failed:
            return call(*given)
        failed.append(said)

        def fail(*_: Any, **_options: Any) -> None:
            raise ValueError(said)

        return fail

    channels.call = closed_first
    assert store.now() > 0
    assert failed == [said]


def test_close_while_others_call(manager: ManagerThread, client: Client) -> None:
    """A later call opens the channel again, also one that was under way in another thread."""
    store, ending = client(manager.url), threading.Event()

    def call() -> None:
        while not ending.is_set():
            assert store.now() > 0

    with in_threads([call] * 3):
        for _ in range(20):
            store.close()
            time.sleep(0.01)
        ending.set()


@pytest.mark.slow
def test_a_forked_child_has_channels_of_its_own() -> None:
    """In a process of its own, as the manager of these tests shares this one, and a server must not fork."""
    script = """
import os, signal, sys
from stanchion import Stanchion
app = Stanchion(sys.argv[1])
queue = app.queue("orders")
queue.push("parent")
queue.reserve(wait=0.1)
child = os.fork()
if child == 0:
    signal.alarm(60)
    try:
        queue.push("child")
        got = queue.reserve(wait=10)
        os._exit(0 if got else 2)
    finally:
        os._exit(1)
for _ in range(20):
    queue.push("parent")
code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
print(code, queue.counts().pushed)
app.close()
"""
    with ManagerThread(MemoryStore()) as manager:
        done = subprocess.run([sys.executable, "-c", script, manager.url], capture_output=True, text=True, timeout=120)
    assert done.stdout.split() == ["0", "22"], done.stderr
