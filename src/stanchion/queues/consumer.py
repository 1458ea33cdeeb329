"""Consumers: who reserves jobs without being a worker, by a name, and with heartbeats instead of leases."""

from __future__ import annotations

from datetime import timedelta
from types import TracebackType
from typing import Self

from stanchion.context.context import Context
from stanchion.core.checks import brief, checked_name, positive_seconds
from stanchion.core.concurrency.aio import off_loop
from stanchion.core.ids import NAME_MAX, process_id
from stanchion.errors import InvalidInput
from stanchion.queues.consumer_heart import ConsumerHeart
from stanchion.stores.records.claims import Claim


class Consumer:
    """A consumer that proves itself alive by heartbeats. Made by `app.consumer(name)`, and used as a block:

        with app.consumer("billing:4711") as consumer:
            for job in orders.reserve(10, holder=consumer): ...

    What it reserves has no lease and needs no `extend`. Jobs that it still holds go back once it has missed three
    heartbeats, `heartbeat` seconds apart: because its process died, or because the block has ended. With `lease=`, a
    job goes back at the end of its lease, regardless of the heartbeats.
    """

    def __init__(self, context: Context, name: str, heartbeat: float | timedelta = 10.0) -> None:
        self.name = checked_name(name, "the name of a consumer", NAME_MAX)
        self.id = process_id(self.name)
        """Its id in the store and in its jobs. It begins with the name, and several consumers may have the same."""
        self._heart = ConsumerHeart(context, self.name, self.id, positive_seconds(heartbeat, "heartbeat"))

    def beat(self) -> None:
        """Send a heartbeat now. A thread does it all the time; raises InvalidInput outside of the block."""
        self._heart.beat()

    abeat = off_loop(beat)

    def __enter__(self) -> Self:
        self._heart.start()
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self._heart.stop()

    _enter, _exit = off_loop(__enter__), off_loop(__exit__)

    async def __aenter__(self) -> Self:
        await self._enter()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._exit(kind, error, trace)

    def __repr__(self) -> str:
        return f"<Consumer {self.id!r}>"


def heart_of(consumer: Consumer) -> ConsumerHeart:
    """Return what sends the heartbeats of a consumer."""
    return consumer._heart


def claim_of(holder: str | Consumer | None, claim: Claim) -> Claim:
    """Return a claim as one of this holder."""
    if holder is None:
        return claim
    if isinstance(holder, Consumer):
        return heart_of(holder).claiming(claim)
    if not isinstance(holder, str):
        raise InvalidInput(f"holder is a name, such as 'billing:4711', or app.consumer(name), not {brief(holder)}")
    return claim._replace(holder=checked_name(holder, "holder"))
