"""Messages down to a receiver, joined and in bounds."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from stanchion.core.ids import new_id
from stanchion.manager.dispatch.receivers.receiver import Guard, Sent
from stanchion.manager.leadership.owner import Owned
from stanchion.manager.server.streams import outgoing
from stanchion.manager.server.streams.outgoing import Outgoing
from stanchion.manager.server.streams.receivers import ReceiverStream
from stanchion.stores.records.jobs import Lease
from stanchion.stores.rules.lifecycle.jobs import created
from stanchion.stores.wire.messages import pb, read, written
from stanchion.stores.wire.outcomes import LARGEST
from stanchion_conformance.harness import new_job


def sent(payload: str = "{}") -> Sent:
    return Sent(created(new_job(payload), 0)._replace(token="m:3:x"), 3, 1)


async def sent_by(one: Outgoing) -> pb.Down:
    data = await one.next()
    assert data is not None
    return read(pb.Down, data)


def run(case: Callable[[], Awaitable[None]]) -> None:
    async def limited() -> None:
        await asyncio.wait_for(case(), 60)

    asyncio.run(limited())


def test_what_waits_goes_in_one_message() -> None:
    async def case() -> None:
        one, lease = Outgoing(), Lease("orders", new_id(), "t")
        one.send([sent(), sent()], Guard(10, 5))
        one.confirm([lease], [], 1)
        one.confirm([], [lease._replace(token="u")], 0)
        one.cancel([lease])
        one.report([Owned("orders", 1, 3, (0, 7))])
        down = await sent_by(one)
        assert [(job.epoch, job.slice) for job in down.jobs] == [(3, 1), (3, 1)]
        assert (down.settled[0].id, down.lost[0].token, down.newly, down.cancel[0].id) == (lease.id, "u", 1, lease.id)
        assert (down.report, down.slices[0].epoch, down.slices[0].lanes.last) == (True, 3, 7)
        waiting = asyncio.create_task(one.next())
        await asyncio.sleep(0)
        assert not waiting.done()
        one.say(draining=True)
        assert (await waiting) == written(pb.Down(draining=True))

    run(case)


def test_the_guard_that_ends_first_holds_for_all() -> None:
    async def case() -> None:
        one = Outgoing()
        one.send([sent()], Guard(10, 5))
        one.send([sent()], Guard(12, 9))
        down = await sent_by(one)
        assert (len(down.jobs), down.heard_us, down.lease_left_us) == (2, 10, 5)
        one.send([sent()], Guard(12, 9))
        assert (await sent_by(one)).heard_us == 12

    run(case)


def test_large_jobs_go_in_messages_of_their_own() -> None:
    async def case() -> None:
        one = Outgoing()
        one.send([sent(f'"{"x" * LARGEST}"') for _ in range(3)], Guard(1, 1))
        assert [len((await sent_by(one)).jobs) for _ in range(3)] == [1, 1, 1]
        assert one.unsent_bytes == 0

    run(case)


def test_one_with_too_many_unsent_bytes_takes_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outgoing, "MOST_BYTES", 1000)

    class Context:
        """Takes messages when it is told to."""

        def __init__(self) -> None:
            self.go_on = asyncio.Event()

        async def write(self, _data: bytes) -> None:
            await self.go_on.wait()

    class Changes:
        """Counts how often the engine is told of a change."""

        def __init__(self) -> None:
            self.seen = asyncio.Event()

        def changed(self, _stream: Any) -> None:
            self.seen.set()

    async def case() -> None:
        context, engine = Context(), Changes()
        stream = ReceiverStream(pb.Hello(receiver=new_id(), queues=["orders"]), context)  # type: ignore[arg-type]
        stream.asked = 7
        writing = asyncio.create_task(stream.write(engine))  # type: ignore[arg-type]
        await asyncio.sleep(0)
        assert stream.capacity == 7
        stream.send([sent(f'"{"x" * 1000}"')], Guard(1, 1))
        assert stream.capacity == 0
        context.go_on.set()
        await engine.seen.wait()
        assert stream.capacity == 7
        stream.outgoing.close()
        await writing

    run(case)
