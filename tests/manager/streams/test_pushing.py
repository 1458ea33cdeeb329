"""Pushes of all threads of a client on one stream, and of all clients in one call of the store."""

import threading
from collections.abc import Callable, Sequence
from typing import Any

import grpc
import pytest

from stanchion.core.ids import new_id
from stanchion.errors import DuplicateKey, InvalidInput, NotPermitted, StoreUnavailable
from stanchion.manager.server.streams import producers
from stanchion.stores.grpc.pushing import buffer, stream
from stanchion.stores.memory import MemoryStore
from stanchion.stores.protocol import Store
from stanchion.stores.records import calls
from stanchion.stores.records.jobs import NewJob, Pushed
from stanchion.stores.wire.jobs import NEW_JOB
from stanchion.stores.wire.messages import METHODS, pb
from stanchion_conformance.harness import in_threads, new_job
from tests.manager.conftest import Start, limited, secret, token
from tests.manager.test_client import LossyStore
from tests.servers.manager import ManagerThread
from tests.servers.proxy import TcpProxy
from tests.worker.conftest import until

Client = Callable[[str], Store]


class HeldStore(MemoryStore):
    """A store whose pushes wait until they may go on; it knows the batches that it has got."""

    def __init__(self) -> None:
        super().__init__()
        self.go_on = threading.Event()
        self.begun = threading.Semaphore(0)
        self.batches: list[list[str]] = []

    def push(self, jobs: Sequence[NewJob], *given: Any, **options: Any) -> list[Pushed]:
        self.batches.append([str(job.payload) for job in jobs])
        self.begun.release()
        assert self.go_on.wait(600)
        return super().push(jobs, *given, **options)


def total(store: Store) -> int:
    return store.stats(["orders"], ["states"])["orders"].states.total


def each(push: Callable[[NewJob], Any], jobs: list[NewJob]) -> list[Callable[[], Any]]:
    return [lambda job=job: push(job) for job in jobs]  # type: ignore[misc]


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pushes wait for as long as a test holds them back: none ends its stream, as of a manager that hangs."""
    monkeypatch.setattr(calls, "CALL_SECONDS", 600.0)


@pytest.mark.usefixtures("patient")
class TestOfOneProcess:
    def test_what_waits_goes_in_one_message(self, start: Start, client: Client) -> None:
        held = HeldStore()
        store = client(start(store=held).url)
        jobs = [new_job() for _ in range(20)]
        with in_threads(each(lambda job: store.push([job]), jobs)):
            assert held.begun.acquire(timeout=60)
            until(lambda: _waiting(store) + _sent(store) == 20)
            held.go_on.set()
        assert len(held.batches) <= 2  # the first, and all others
        assert sorted(one for batch in held.batches for one in batch) == sorted(job.payload for job in jobs)

    @pytest.mark.parametrize("sent", [1, buffer.MESSAGE_JOBS])
    def test_what_does_not_fill_a_message_waits_for_the_reply(self, sent: int) -> None:
        waiting = buffer.Buffer()
        for is_first, jobs in ((True, sent), (False, 1)):
            ended = iter((False, True))  # the sender looks once
            waiting.add(buffer.Push([new_job() for _ in range(jobs)], 60))
            assert (waiting.next(lambda ended=ended: next(ended), 0) is not None) == is_first  # type: ignore[misc]

    def test_a_second_message_is_under_way_once_it_is_full(self, start: Start, client: Client) -> None:
        held = HeldStore()
        store = client(start(store=held).url)
        halves = [[new_job() for _ in range(buffer.MESSAGE_JOBS // 2)] for _ in range(4)]
        with in_threads([lambda: store.push(halves[3])]):
            assert held.begun.acquire(timeout=60)
            sent = store._pushing._buffer._sent  # type: ignore[attr-defined]
            with in_threads([lambda: store.push(halves[0])]):
                until(lambda: _waiting(store) == 1)
                assert len(sent) == 1
                with in_threads([lambda: store.push(halves[1]), lambda: store.push(halves[2])]):
                    until(lambda: len(sent) == buffer.UNDER_WAY)
                    until(lambda: _waiting(store) + _sent(store) == 4)
                    assert [len(message.pushes) for message in sent.values()] == [1, 2]
                    held.go_on.set()
        assert total(held) == 4 * len(halves[0])

    def test_a_bad_push_fails_alone(self, start: Start, client: Client) -> None:
        held = HeldStore()
        store = client(start(limited(token("shop", "push", ("orders", "mail"))), held).url + f"?token={secret('shop')}")
        bad: list[tuple[NewJob, type[Exception]]] = [
            (new_job(key="taken", on_duplicate="raise"), DuplicateKey),
            (new_job(queue="secret"), NotPermitted),
            (new_job()._replace(id="no UUID"), InvalidInput),
            (new_job()._replace(headers="no JSON"), InvalidInput),
        ]
        good = [new_job(key="taken"), *(new_job() for _ in range(10))]
        raised: list[type[Exception]] = []

        def push_bad(one: tuple[NewJob, type[Exception]]) -> None:
            try:
                store.push([one[0]])
            except one[1] as error:
                raised.append(type(error))

        with in_threads([lambda: store.push([good[0]])]):
            assert held.begun.acquire(timeout=60)
            with in_threads([*each(lambda job: store.push([job]), good[1:]), *each(push_bad, bad)]):  # type: ignore[arg-type]
                until(lambda: _waiting(store) + _sent(store) == 15)
                held.go_on.set()
        assert len(raised) == len(bad)
        assert set(held.fetch([job.id for job in good])) == {job.id for job in good}
        assert total(held) == len(good)

    def test_a_duplicate_is_told_to_its_caller(self, manager: ManagerThread, client: Client) -> None:
        store = client(manager.url)
        first = new_job(key="k")
        store.push([first])
        (pushed,) = store.push([new_job(key="k")])
        assert (pushed.id, pushed.duplicate) == (first.id, True)
        with pytest.raises(DuplicateKey) as caught:
            store.push([new_job(key="k", on_duplicate="raise")])
        assert caught.value.job_id == first.id

    def test_results_are_those_of_the_caller(self, manager: ManagerThread, client: Client) -> None:
        store = client(manager.url)

        def push_many() -> None:
            for size in (1, 3, 2):
                jobs = [new_job() for _ in range(size)]
                assert [one.id for one in store.push(jobs)] == [job.id for job in jobs]

        with in_threads([push_many] * 8):
            pass
        assert total(manager.store) == 48

    def test_none(self, client: Client) -> None:
        assert client("grpc://127.0.0.1:1").push([]) == []


class TestLostStreams:
    def test_go_on_at_the_next_manager_with_the_same_ids(self, start: Start, client: Client) -> None:
        backing = MemoryStore()
        first, second = start(store=backing), start(store=backing)
        with TcpProxy("127.0.0.1", int(first.address.rpartition(":")[2])) as proxy:
            store = client(f"grpc://127.0.0.1:{proxy.port},{second.address}")
            store._channels.first = 0  # type: ignore[attr-defined]
            store.push([new_job()])
            jobs = [new_job() for _ in range(30)]
            with in_threads(each(lambda job: store.push([job]), jobs)):
                proxy.reset()
        assert total(backing) == 31

    def test_a_lost_answer(self, start: Start, client: Client) -> None:
        lossy = LossyStore()
        store = client(start(store=lossy).url)
        store.push([new_job()])
        lossy.lost["push"] = 2
        jobs = [new_job() for _ in range(10)]
        with in_threads(each(lambda job: store.push([job]), jobs)):
            pass
        assert total(lossy) == 11

    def test_are_marked(self, start: Start, client: Client) -> None:
        """Else a job that has ended meanwhile might be stored again."""
        held = HeldStore()
        store = client(start(store=held).url)
        requests, waiting = list[Any](), store._pushing._buffer  # type: ignore[attr-defined]
        taken = waiting._taken

        def seen() -> bytes:
            requests.append(pb.PushRequest.FromString(data := taken()))
            return bytes(data)

        waiting._taken = seen
        with in_threads([lambda: store.push([new_job()])]):
            assert held.begun.acquire(timeout=60)
            pushes = store._pushing._stream  # type: ignore[attr-defined]
            until(lambda: pushes.opened)
            pushes.cancel()
            until(lambda: len(requests) == 2)
            held.go_on.set()
        assert [one.repeat for one in requests] == [False, True]

    def test_the_manager_drains(self, start: Start, client: Client) -> None:
        backing = MemoryStore()
        first, second = start(store=backing), start(store=backing)
        store = client(f"grpc://{first.address},{second.address}")
        store._channels.first = 0  # type: ignore[attr-defined]
        pushed: list[str] = []
        ending = threading.Event()

        def work() -> None:
            while not ending.is_set():
                pushed.extend(one.id for one in store.push([new_job()]))

        with in_threads([work] * 3):
            until(lambda: len(pushed) > 10)
            first.stop(30)
            seen = len(pushed)
            until(lambda: len(pushed) > seen + 10)
            ending.set()
        assert total(backing) == len(pushed) == len(set(pushed))

    def test_an_idle_stream_ends_and_another_one_is_opened(
        self, manager: ManagerThread, client: Client, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(stream, "_IDLE_SECONDS", 0.05)
        store = client(manager.url)
        store.push([new_job()])
        until(lambda: not manager.server._guard.streams.taken)
        store.push([new_job()])
        assert total(manager.store) == 2


class TestBounds:
    @pytest.fixture
    def away(self, client: Client) -> Store:
        """A client of a manager that is away."""
        return client("grpc://127.0.0.1:1")

    def test_the_deadline_of_the_caller(self, start: Start, client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(calls, "CALL_SECONDS", 0.5)
        held = HeldStore()
        store = client(start(store=held).url)
        with pytest.raises(StoreUnavailable, match="may still do so"):
            store.push([new_job()])
        assert store._pushing._buffer._jobs == 0  # type: ignore[attr-defined]
        monkeypatch.setattr(calls, "CALL_SECONDS", 60.0)
        held.go_on.set()
        store.push([new_job()])

    def test_none_is_there(self, away: Store, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(calls, "CALL_SECONDS", 0.5)
        with pytest.raises(StoreUnavailable, match="check the URL"):
            away.push([new_job()])

    def test_too_much_waits_for_managers_that_are_away(self, away: Store, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(buffer, "MOST_JOBS", 3)
        monkeypatch.setattr(calls, "CALL_SECONDS", 600.0)
        ends: list[str] = []

        def push() -> None:
            with pytest.raises(StoreUnavailable, match="enough"):
                away.push([new_job(), new_job()])
            ends.append("the first")

        with in_threads([push]):
            until(lambda: away._pushing._stream is not None)  # type: ignore[attr-defined]
            until(lambda: away._pushing._stream.failure is not None)  # type: ignore[attr-defined]
            with pytest.raises(StoreUnavailable, match="jobs or 16 MiB wait"):
                away.push([new_job(), new_job()])
            ends.append("the second")
            away._pushing._buffer.refuse(StoreUnavailable("enough"))  # type: ignore[attr-defined]
        assert ends == ["the second", "the first"]

    def test_more_than_fits_goes_by_itself_while_a_manager_answers(
        self, manager: ManagerThread, client: Client, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(buffer, "MOST_JOBS", 0)
        store = client(manager.url)
        store.push([new_job()])
        assert total(manager.store) == 1

    def test_nothing_stays_counted(self, manager: ManagerThread, client: Client) -> None:
        store = client(manager.url)
        for _ in range(3):
            store.push([new_job()])
            with pytest.raises(InvalidInput):
                store.push([new_job()._replace(id="no UUID")])
        held = store._pushing._buffer  # type: ignore[attr-defined]
        assert (held._jobs, held._bytes) == (0, 0)


class TestRaw:
    def stream(self, raw: grpc.Channel, requests: list[bytes]) -> Any:
        call: Any = raw.stream_stream(METHODS["Queues.PushStream"].path)
        return call(iter(requests), timeout=60)

    def request(self, seq: int, *jobs: NewJob, **more: Any) -> bytes:
        return pb.PushRequest(seq=seq, jobs=[NEW_JOB.to_message(job) for job in jobs], **more).SerializeToString()

    def test_replies_carry_the_seq_of_their_request(self, raw: grpc.Channel) -> None:
        jobs = [new_job() for _ in range(50)]
        requests = [self.request(seq, job) for seq, job in enumerate(jobs, 7)]
        requests += [self.request(1000, new_job()._replace(id="no UUID")), self.request(1001)]
        replies = {reply.seq: reply for reply in map(pb.PushReply.FromString, self.stream(raw, requests))}
        assert len(replies) == 52
        assert all(replies[seq].pushed[0].id == job.id for seq, job in enumerate(jobs, 7))
        assert replies[1000].error.type == "InvalidInput"
        assert not replies[1001].HasField("error")

    def test_one_that_is_no_message_ends_the_stream(self, raw: grpc.Channel) -> None:
        with pytest.raises(grpc.RpcError) as caught:
            list(self.stream(raw, [b"\xff\xff\xff"]))
        assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT

    def test_a_push_whose_time_is_over_is_not_stored(self, start: Start) -> None:
        held = HeldStore()
        manager = start(store=held)
        with grpc.insecure_channel(manager.address) as channel:
            first, late = new_job(), new_job()
            replies = self.stream(channel, [self.request(1, first), self.request(2, late, wait_us=1000)])
            answer = pb.PushReply.FromString(next(replies))
            assert (answer.seq, answer.error.status) == (2, grpc.StatusCode.DEADLINE_EXCEEDED.value[0])
            held.go_on.set()
            assert pb.PushReply.FromString(next(replies)).seq == 1
        assert set(held.fetch([first.id, late.id])) == {first.id}

    def test_takes_the_role(self, start: Start) -> None:
        manager = start(limited(token("mail", "receive")))
        with grpc.insecure_channel(manager.address) as channel:
            call: Any = channel.stream_stream(METHODS["Queues.PushStream"].path)
            with pytest.raises(grpc.RpcError) as caught:
                list(call(iter(()), timeout=60, metadata=(("authorization", f"Bearer {secret('mail')}"),)))
            assert caught.value.code() is grpc.StatusCode.PERMISSION_DENIED

    def test_a_stream_has_so_many_requests_in_work(self, start: Start) -> None:
        held = HeldStore()
        manager = start(store=held)
        with grpc.insecure_channel(manager.address) as channel:
            replies = self.stream(channel, [self.request(seq, new_job()) for seq in range(100)])
            assert held.begun.acquire(timeout=60)
            until(lambda: manager.server._guard.calls.taken == producers.UNDER_WAY)
            held.go_on.set()
            assert len(list(replies)) == 100


@pytest.mark.usefixtures("patient")
class TestOfAllClients:
    def test_unary_pushes_and_those_of_streams_are_stored_together(self, start: Start, client: Client) -> None:
        held = HeldStore()
        manager = start(store=held)
        with in_threads([lambda: client(manager.url).push([new_job()])]):
            assert held.begun.acquire(timeout=60)
            with grpc.insecure_channel(manager.address) as channel:
                unary: Any = channel.unary_unary(METHODS["Queues.Push"].path)
                push = pb.PushRequest(jobs=[NEW_JOB.to_message(new_job())])
                calls_ = [unary.future(_with_id(push), timeout=60) for _ in range(5)]
                with in_threads([lambda: client(manager.url).push([new_job()])] * 3):
                    until(lambda: manager.server._guard.calls.taken == 9)
                    held.go_on.set()
                for call in calls_:
                    call.result(60)
        assert [len(batch) for batch in held.batches] == [1, 8]

    def test_a_bad_push_fails_alone_of_all_that_are_stored_together(self, start: Start) -> None:
        held = HeldStore()
        manager = start(store=held)
        jobs = [new_job(key="k"), *(new_job() for _ in range(6))]
        jobs.insert(4, new_job(key="k", on_duplicate="raise"))
        with grpc.insecure_channel(manager.address) as channel:
            unary: Any = channel.unary_unary(METHODS["Queues.Push"].path)
            push = pb.PushRequest(jobs=[NEW_JOB.to_message(new_job())]).SerializeToString()
            before = unary.future(push, timeout=60)
            assert held.begun.acquire(timeout=60)
            pushes = [pb.PushRequest(jobs=[NEW_JOB.to_message(job)]).SerializeToString() for job in jobs]
            calls_ = [unary.future(data, timeout=60) for data in pushes]
            until(lambda: manager.server._guard.calls.taken == 9)
            held.go_on.set()
            before.result(60)
            failed = [call.code() for call in calls_ if call.exception(60) is not None]
        assert failed == [grpc.StatusCode.ALREADY_EXISTS]
        assert total(held) == 8


def _with_id(push: Any) -> bytes:
    push.jobs[0].id = new_id()
    return bytes(push.SerializeToString())


def _waiting(store: Any) -> int:
    return len(store._pushing._buffer._waiting)


def _sent(store: Any) -> int:
    return sum(len(message.pushes) for message in list(store._pushing._buffer._sent.values()))
