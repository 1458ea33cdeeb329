"""The calls of an app that concern queues, topics, and limits shared by jobs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Unpack

from stanchion.app.area import Area
from stanchion.core.concurrency.aio import off_loop
from stanchion.jobs.options import keyed_rate

if TYPE_CHECKING:  # imported at first use, so that a program loads only what it uses
    from stanchion.context.queues.options import QueueOptions
    from stanchion.feed.feed import Feed
    from stanchion.feed.options import FeedOptions
    from stanchion.queues.consumer import Consumer
    from stanchion.queues.queue import Queue
    from stanchion.queues.semaphore import Semaphore
    from stanchion.stores.rules.capacity.declared_rates import StoredRate
    from stanchion.topics.topic import Topic


class QueueCalls(Area):
    """Queues, semaphores, rates, topics and feeds."""

    def queue(self, name: str, **settings: Unpack[QueueOptions]) -> Queue:
        """Return a queue. Settings given here are stored when this process first uses it, or by `setup`.

        Settings of several calls are merged. An operator's change stays until the code declares another value.
        """
        from stanchion.queues.queue import declared_queue

        return declared_queue(self._context, name, settings)

    def queues(self) -> list[Queue]:
        """Return all queues in the store, by name."""
        from stanchion.queues.queue import stored_queues

        return stored_queues(self._context)

    def delete_queue(self, name: str) -> int:
        """Delete a queue by any name, also one that `queue` refuses; return the number of live jobs deleted."""
        from stanchion.queues.operating import delete_queue

        return delete_queue(self._context, name)

    def semaphore(self, name: str, capacity: int | None = None) -> Semaphore:
        """Return a semaphore: jobs with `limits=[name]` hold its slots. `capacity`: stored at first use; 0 closes."""
        from stanchion.queues.semaphore import declared_semaphore

        return declared_semaphore(self._context, name, capacity)

    def semaphores(self) -> list[Semaphore]:
        """Return all semaphores in the store, by name."""
        from stanchion.queues.semaphore import Semaphore

        return [Semaphore(self._context, row.name) for row in self._context.store_semaphores().semaphores()]

    def rate(self, key: str, rate: str | float) -> None:
        """Declare the rate of all jobs with this `rate_key`, such as "20/s"; stored as settings of a queue are."""
        self._context.rates.declare(keyed_rate(key, rate))

    def rates(self) -> list[StoredRate]:
        """Return all declared rates in the store, by name, including rates of tasks and queues."""
        return self._context.stored_rates()

    def topic(self, name: str) -> Topic:
        """Return a topic: each event pushed to it becomes a job for each of its subscriptions."""
        from stanchion.topics.topic import topic_of

        return topic_of(self._context, name)

    def topics(self) -> list[Topic]:
        """Return the topics that have subscriptions, by name."""
        from stanchion.topics.topic import topics_of

        return topics_of(self._context)

    def watch(
        self,
        queues: Sequence[str] | None = None,
        events: Iterable[str] | None = None,
        since: str | datetime | None = None,
        **options: Unpack[FeedOptions],
    ) -> Feed:
        """Return a feed of what happens: `for event in app.watch():`, or `async for event in app.watch():`.

        `queues`: names, and patterns such as `mail.*`; None: all. New queues are included. `events`: some of pushed,
        started, finished; None: all. `since`: the position of an event or of a feed, to continue there; or a time, as
        far back as history reaches; None: from now on. `task`, `tenant`: only jobs of these. `overlap`, `skew`: see
        `feed.options`.
        """
        from stanchion.feed.event import KINDS
        from stanchion.feed.options import watch

        return watch(self._context, queues, KINDS if events is None else events, since, options)

    def consumer(self, name: str, heartbeat: float | timedelta = 10.0) -> Consumer:
        """Return a consumer for `reserve(holder=...)`, a block whose heartbeats hold the jobs that it reserves."""
        from stanchion.queues.consumer import Consumer

        return Consumer(self._context, name, heartbeat)

    aqueues = off_loop(queues)
    adelete_queue = off_loop(delete_queue)
    asemaphores = off_loop(semaphores)
    arates = off_loop(rates)
    atopics = off_loop(topics)
