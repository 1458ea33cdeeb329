"""`Queues.Receive` as any client may use it."""

import queue
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, Self

import grpc
import pytest

from stanchion.core.ids import new_id
from stanchion.manager.server.settings import Limits, ServerSettings
from stanchion.manager.server.streams import outgoing
from stanchion.stores.memory import MemoryStore
from stanchion.stores.protocol import Store
from stanchion.stores.records.claims import Claim
from stanchion.stores.records.jobs import NewJob
from stanchion.stores.records.workers import WorkerRow
from stanchion.stores.wire.messages import METHODS, pb
from stanchion.stores.wire.outcomes import WORKER_ROW
from stanchion_conformance.harness import new_job, worker
from tests.manager.conftest import Start, ask, limited, secret, token
from tests.servers.manager import LOOPBACK, ManagerThread
from tests.worker.conftest import until

LEASE_US = 5_000_000


class Stream:
    """A stream of a receiver, by hand."""

    def __init__(self, channel: grpc.Channel, **options: Any) -> None:
        self._ups: queue.SimpleQueue[Any] = queue.SimpleQueue()
        call: Any = channel.stream_stream(METHODS["Queues.Receive"].path)
        self._call = call(iter(self._ups.get, None), timeout=60, **options)
        self.stamp = 1000

    def up(self, **fields: Any) -> Self:
        self.stamp += 1
        self._ups.put(pb.Up(stamp_us=self.stamp, **fields).SerializeToString())
        return self

    def hello(
        self, *queues: str, receiver: str = "", capacity: int = 10, holding: Any = (), worker: WorkerRow | None = None
    ) -> Self:
        row = None if worker is None else WORKER_ROW.carry(worker)
        hello = pb.Hello(receiver=receiver or new_id(), queues=queues or ("orders",), holding=holding, worker=row)
        return self.up(hello=hello, capacity=capacity)

    def down(self, wanted: Callable[[Any], Any]) -> Any:
        """Return the next message that is wanted."""
        for data in self._call:
            if wanted(message := pb.Down.FromString(data)):
                return message
        raise AssertionError("the stream has ended")

    def jobs(self, count: int) -> list[Any]:
        found: list[Any] = []
        while len(found) < count:
            found += self.down(lambda message: message.jobs).jobs
        return found

    def code(self) -> grpc.StatusCode:
        """Read to the end; return the status."""
        with pytest.raises(grpc.RpcError) as caught:
            self.down(lambda _: False)
        found: grpc.StatusCode = caught.value.code()
        return found

    def end(self) -> None:
        self._ups.put(None)

    def cut(self) -> None:
        self._call.cancel()


@pytest.fixture
def stream(raw: grpc.Channel) -> Iterator[Stream]:
    one = Stream(raw)
    yield one
    one.end()


def push(manager: ManagerThread, count: int = 1) -> list[NewJob]:
    jobs = [new_job() for _ in range(count)]
    manager.store.push(jobs)
    return jobs


class TestJobs:
    def test_come_with_what_guards_them(self, manager: ManagerThread, stream: Stream) -> None:
        jobs = push(manager, 3)
        stream.hello()
        first = stream.down(lambda _: True)
        assert first.lease_us == LEASE_US
        message = stream.down(lambda message: message.jobs)
        assert message.heard_us == stream.stamp
        assert 0 < message.lease_left_us <= LEASE_US
        (one,) = manager.manager.leadership.owned
        assert {(job.epoch, job.slice) for job in message.jobs} == {(one.epoch, one.slice)}
        assert {job.id for job in message.jobs} <= {job.id for job in jobs}

    def test_no_more_than_it_takes(self, manager: ManagerThread, stream: Stream) -> None:
        push(manager, 5)
        stream.hello(capacity=2)
        first, second = stream.jobs(2)
        assert manager.store.stats(["orders"], ["states"])["orders"].states.running == 2
        commit = pb.Outcome(id=first.id, token=first.token, queue="orders", commit=pb.Commit())
        stream.up(outcomes=[commit])
        assert {job.id for job in stream.jobs(1)}.isdisjoint({first.id, second.id})
        states = manager.store.stats(["orders"], ["states"])["orders"].states
        assert (states.running, states.ready) == (2, 2)

    def test_the_bound_of_unsent_bytes(self, start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(outgoing, "MOST_BYTES", 1)
        manager = start()
        push(manager, 50)
        with grpc.insecure_channel(manager.address) as channel:
            one = Stream(channel).hello(capacity=50)
            assert len({job.id for job in one.jobs(50)}) == 50
            one.end()

    def test_outcomes_are_confirmed(self, manager: ManagerThread, stream: Stream) -> None:
        push(manager, 2)
        stream.hello()
        done, other = stream.jobs(2)
        commits = [pb.Outcome(id=done.id, token=done.token, queue="orders", commit=pb.Commit(result="7"))]
        commits.append(pb.Outcome(id=other.id, token="stale", queue="orders", commit=pb.Commit()))
        stream.up(outcomes=commits)
        settled, lost = list[Any](), list[Any]()
        while not (settled and lost):
            message = stream.down(lambda message: message.settled or message.lost)
            settled += message.settled
            lost += message.lost
        assert [one.id for one in settled] == [done.id]
        assert [(one.id, one.token) for one in lost] == [(other.id, "stale")]
        assert manager.store.fetch([done.id])[done.id].result == "7"

    def test_refused_ones_go_back_uncounted(self, manager: ManagerThread, stream: Stream) -> None:
        (job,) = push(manager)
        stream.hello(capacity=1)
        (sent,) = stream.jobs(1)
        refused = pb.Outcome(id=sent.id, token=sent.token, queue="orders", refused=pb.Refused())
        stream.up(outcomes=[refused], capacity=0)
        until(lambda: manager.store.fetch([job.id])[job.id].attempts == 0)

    def test_what_an_answer_does_not_name_stays(self, manager: ManagerThread, stream: Stream) -> None:
        (job,) = push(manager)
        receiver = new_id()
        stream.hello(receiver=receiver)
        stream.down(lambda message: message.report)
        stream.up(hello=pb.Hello(receiver=receiver, queues=["orders"], answer=True))
        (sent,) = stream.jobs(1)
        stream.up(hello=pb.Hello(receiver=receiver, queues=["orders"], answer=True))
        stream.up(outcomes=[pb.Outcome(id=sent.id, token=sent.token, queue="orders", commit=pb.Commit())])
        assert stream.down(lambda message: message.settled).settled[0].id == job.id

    def test_of_one_that_is_cancelled_it_is_told_at_once(
        self, manager: ManagerThread, raw: grpc.Channel, stream: Stream
    ) -> None:
        (job,) = push(manager)
        stream.hello()
        (sent,) = stream.jobs(1)
        ask(raw, "Control.Cancel", pb.CancelRequest(ids=[job.id]).SerializeToString())
        (held,) = stream.down(lambda message: message.cancel).cancel
        assert (held.id, held.token) == (job.id, sent.token)


class TestEnds:
    def test_a_goodbye_gives_back_what_never_arrived(self, manager: ManagerThread, stream: Stream) -> None:
        (job,) = push(manager)
        stream.hello()
        stream.jobs(1)
        stream.up(goodbye=True)
        stream.end()
        until(lambda: manager.store.fetch([job.id])[job.id].attempts == 0)

    def test_a_new_stream_names_what_arrived(self, manager: ManagerThread, raw: grpc.Channel, stream: Stream) -> None:
        jobs = push(manager, 2)
        receiver = new_id()
        stream.hello(receiver=receiver, capacity=2)
        first, second = stream.jobs(2)
        held = pb.Held(id=first.id, token=first.token, queue="orders")
        again = Stream(raw).hello(receiver=receiver, capacity=1, holding=[held])
        until(lambda: manager.store.fetch([second.id])[second.id].attempts == 0)
        assert manager.store.fetch([first.id])[first.id].token == first.token
        again.up(outcomes=[pb.Outcome(id=first.id, token=first.token, queue="orders", commit=pb.Commit())])
        assert again.down(lambda message: message.settled).settled[0].id == first.id
        assert {first.id, second.id} == {job.id for job in jobs}
        again.end()

    def test_of_the_manager(self, manager: ManagerThread, stream: Stream) -> None:
        stream.hello()
        stream.down(lambda message: message.lease_us)
        manager.drain()
        assert stream.down(lambda message: message.draining)
        ending = threading.Thread(target=manager.stop, args=(30,))
        ending.start()
        assert stream.code() is grpc.StatusCode.UNAVAILABLE
        ending.join(60)

    def test_of_one_that_is_silent(self) -> None:
        with ManagerThread(MemoryStore(), lease=0.5) as manager, grpc.insecure_channel(manager.address) as channel:
            one = Stream(channel).hello()
            assert one.code() is grpc.StatusCode.UNAVAILABLE
            one.end()


class TestRefused:
    @pytest.mark.parametrize(
        "first",
        [
            pb.Up(),
            pb.Up(hello=pb.Hello(receiver=new_id(), queues=["orders"], answer=True)),
            pb.Up(hello=pb.Hello(receiver="no UUID", queues=["orders"])),
            pb.Up(hello=pb.Hello(receiver=new_id(), queues=["x" * 300])),
            pb.Up(hello=pb.Hello(receiver=new_id(), queues=["orders"], worker=pb.WorkerRow(id="x" * 300))),
        ],
    )
    def test_streams_that_begin_otherwise(self, raw: grpc.Channel, first: Any) -> None:
        call: Any = raw.stream_stream(METHODS["Queues.Receive"].path)
        with pytest.raises(grpc.RpcError) as caught:
            list(call(iter([first.SerializeToString()]), timeout=60))
        assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT

    def test_a_second_hello(self, stream: Stream) -> None:
        stream.hello().hello()
        assert stream.code() is grpc.StatusCode.INVALID_ARGUMENT

    def test_no_hello_in_time(self, start: Start) -> None:
        manager = start(ServerSettings(LOOPBACK, limits=Limits(read_seconds=0.1)))
        with grpc.insecure_channel(manager.address) as channel:
            one = Stream(channel)
            assert one.code() is grpc.StatusCode.DEADLINE_EXCEEDED
            one.end()

    @pytest.mark.parametrize(
        ("roles", "queues", "code"),
        [
            ("push", None, grpc.StatusCode.PERMISSION_DENIED),
            ("receive", ("mail",), grpc.StatusCode.PERMISSION_DENIED),
        ],
    )
    def test_callers_without_the_right(self, start: Start, roles: str, queues: Any, code: grpc.StatusCode) -> None:
        manager = start(limited(token("shop", roles, queues)))
        with grpc.insecure_channel(manager.address) as channel:
            one = Stream(channel, metadata=(("authorization", f"Bearer {secret('shop')}"),)).hello()
            assert one.code() is code
            one.end()

    def test_a_worker_of_others_is_not_replaced(self, start: Start) -> None:
        manager = start(limited(token("shop", "receive", ("mail",))))
        manager.store.beat([replace(worker("theirs"), queues=("orders",))])
        mail = new_job(queue="mail")
        manager.store.push([mail])
        mine = replace(worker("mine"), queues=("mail",))
        with grpc.insecure_channel(manager.address) as channel:

            def opened(row: WorkerRow) -> Stream:
                return Stream(channel, metadata=(("authorization", f"Bearer {secret('shop')}"),)).hello(
                    "mail", worker=row
                )

            for row in (replace(mine, id="theirs"), replace(mine, queues=("mail", "orders"))):
                one = opened(row)
                assert one.code() is grpc.StatusCode.PERMISSION_DENIED
                one.end()
            one = opened(mine)
            assert [job.id for job in one.jobs(1)] == [mail.id]
            one.end()

    def test_outcomes_of_queues_out_of_reach_change_nothing(self, start: Start) -> None:
        manager = start(limited(token("shop", "receive", ("mail",))))
        store: Store = manager.store
        (job,) = push(manager)
        store.beat([worker("w")])
        (row,) = store.claim(Claim("orders", 1, "t", worker="w")).rows
        mail = new_job(queue="mail")
        store.push([mail])
        with grpc.insecure_channel(manager.address) as channel:
            one = Stream(channel, metadata=(("authorization", f"Bearer {secret('shop')}"),)).hello("mail")
            (sent,) = one.jobs(1)
            foreign = pb.Outcome(id=row.id, token=row.token, queue="orders", commit=pb.Commit())
            own = pb.Outcome(id=sent.id, token=sent.token, queue="mail", commit=pb.Commit())
            one.up(outcomes=[foreign, own])
            assert [held.id for held in one.down(lambda message: message.settled).settled] == [mail.id]
            one.end()
        assert store.fetch([job.id])[job.id].state == "running"
