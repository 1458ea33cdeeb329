"""Topics and their subscriptions: push once, and each subscriber gets its own job."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from datetime import datetime, timedelta
from itertools import count
from typing import Any, Literal, NamedTuple, TypeVar, Unpack
from uuid import UUID

from stanchion.context import context_of
from stanchion.context.context import Context
from stanchion.core.checks import aware, brief, checked_name, refuse_unknown, seconds_of, several
from stanchion.core.concurrency.aio import off_loop, off_loop_alone
from stanchion.core.ids import beside, new_id
from stanchion.core.times import micros
from stanchion.core.types import Transaction
from stanchion.errors import InvalidInput
from stanchion.jobs.insert import BATCH, BATCH_CHARACTERS, batches, store_batches
from stanchion.jobs.options import Push, PushOptions, checked
from stanchion.queues.queue import Queue
from stanchion.stores.fields.jobs import OPTIONS
from stanchion.stores.records.jobs import SECOND
from stanchion.stores.records.queues import Sizes
from stanchion.tasks.task import Task, work_of
from stanchion.topics.directory import TopicDirectory, check_semaphores, subscribed
from stanchion.topics.fan_out import Copy, FanOut, store_copies
from stanchion.topics.filters import Filter, checked_filter
from stanchion.topics.past import past_events
from stanchion.topics.terms import KIND, Terms, TopicTerms, terms_in

Since = datetime | timedelta | Literal["all"]

AnyTask = TypeVar("AnyTask", bound=Task[..., object])

_OF_EACH = frozenset(one.name for one in OPTIONS if one.of_event)
"""Options that belong to an event, and not to a subscription."""


_REMEMBERED = 10_000
"""Topics whose subscriptions a process caches."""


class Event(NamedTuple):
    """A pushed event: its id, the header `x-event` of all its copies, and the ids of the jobs, by subscription.

    `jobs` is empty if there are no subscriptions, or no filter lets the event through. `duplicates`: the subscriptions
    in whose queues a live job had the event's key already.
    """

    id: str
    jobs: dict[str, str]
    duplicates: tuple[str, ...] = ()


class Lag(NamedTuple):
    """Backlog of a subscriber: its unfinished jobs, the ready and running jobs among them, and the seconds since its
    first due job became due.
    """

    jobs: int
    ready: int
    running: int
    age: float


class Subscription:
    """A subscription to a topic. Made by `topic.subscribe(name)`; `topic.subscriptions()` returns all."""

    def __init__(self, context: Context, topic: str, name: str, terms: Terms) -> None:
        self._context, self.topic, self.name, self._terms = context, topic, name, terms

    @property
    def queue(self) -> Queue:
        """The queue of its jobs."""
        return Queue(self._context, self._terms.queue)

    @property
    def filter(self) -> Filter | None:
        """The conditions on its events, each field with its comparisons; None: it gets all."""
        return self._terms.filter

    @property
    def task(self) -> str | None:
        """The name of the task that its jobs call; None: they are plain payloads."""
        return self._terms.task

    def lag(self) -> Lag:
        """Count the unfinished jobs."""
        return _lags(self._context, [self])[self.name]

    alag = off_loop(lag)

    def __repr__(self) -> str:
        return f"<Subscription {self.name!r} of topic {self.topic!r}>"


def terms_of(subscription: Subscription) -> Terms:
    """Return the terms of a subscription as they are stored."""
    return subscription._terms


class Topic:
    """A named stream of events. Made by `app.topic(name)`."""

    def __init__(self, context: Context, name: str) -> None:
        self._context, self.name = context, checked_name(name, "topic")
        known = context.registry.declared_topics.get(self.name)
        self._directory = known if isinstance(known, TopicDirectory) else TopicDirectory(context, self.name)

    # -- in

    @staticmethod
    def new_id() -> str:
        """Return a new id for `push(id=)` or `push_many(id=)`: a UUID of version 7."""
        return new_id()

    def push(
        self, payload: object, *, id: str | None = None, tx: Transaction | None = None, **options: Unpack[PushOptions]
    ) -> Event:
        """Store a job for each subscription, all in one step; with `tx`, in that transaction.

        The options are those of `Queue.push`, and apply to each job: a `key` is unique in each queue. `id`: id of the
        event, from `new_id()`. A repeated push with the same id stores no second job, live or finished.
        """
        (event,) = self._pushed([Push(payload, **options)], id, tx)
        return event

    def push_many(
        self, items: Iterable[object], *, id: str | None = None, tx: Transaction | None = None
    ) -> list[Event]:
        """Store many events, given as payloads or as `Push(payload, **options)`, some 2000 jobs at a time.

        Each event is stored in one step; with `tx`, all are in that transaction. `id`: of the first event, from
        `new_id()`; the others have ids that follow from it. The same items with it are not stored again.
        """
        several(items, "the events", "[{'id': 1}, {'id': 2}]")
        return list(self._pushed((item if isinstance(item, Push) else Push(item) for item in items), id, tx))

    apush = off_loop(push)
    apush_many = off_loop(push_many)

    def _pushed(self, items: Iterable[Push], first: str | None, tx: object) -> Iterator[Event]:
        ids = iter(new_id, "") if first is None else _ids_from(first)
        for batch in self._batches(zip(items, ids, strict=False), tx):
            copies = [copy for _, its in batch for copy in its]
            taken = store_copies(self._context, copies, tx)
            for event, its in batch:
                duplicates = tuple(copy.subscription for copy in its if copy.job.id in taken)
                yield Event(event, {one.subscription: one.job.id for one in its if one.job.id not in taken}, duplicates)

    def _batches(self, items: Iterable[tuple[Push, str]], tx: object) -> Iterator[list[tuple[str, list[Copy]]]]:
        """Yield events with their copies, as many as one step takes."""
        batch, jobs, size = list[tuple[str, list[Copy]]](), 0, 0
        fan_out: FanOut | None = None
        for item, event in items:
            if item.queue is not None:
                raise InvalidInput(f"{brief(item)} names a queue; an event goes to the queues of the subscriptions")
            terms = self._directory.recent(in_transaction=tx is not None)
            if fan_out is None or fan_out.terms is not terms:
                fan_out = FanOut(self._context, self.name, terms)
            its = list(fan_out.copies(event, item))
            characters = sum(len(copy.job.payload) for copy in its)
            if batch and (jobs + len(its) > BATCH or size + characters > BATCH_CHARACTERS):
                yield batch
                batch, jobs, size = [], 0, 0
            batch.append((event, its))
            jobs, size = jobs + len(its), size + characters
        if batch:
            yield batch

    # -- subscriptions

    def subscribe(
        self,
        name: str,
        *,
        queue: str | None = None,
        task: Task[..., object] | None = None,
        filter: Filter | None = None,
        since: Since | None = None,
        **options: Unpack[PushOptions],
    ) -> Subscription:
        """Store a subscription, or change the one of this name: it gets the events that are pushed from now on.

        `queue`: of its jobs, by default `topic.name`. `task`: the task that its jobs call, with the payload as the
        argument; None: they are plain payloads. `filter`: conditions on the events, see `topics.filters`. `since`: also
        deliver past events; see `catch_up`. `options`: defaults for its jobs where an event sets none: priority, delay,
        max_attempts, timeout, limits and rate. Other processes use it within a second.
        """
        _checked_since(since, self._context)
        terms = self._terms(name, queue, task, filter, options)
        self._refuse_shared(name, terms, named=queue is not None)
        check_semaphores(self._context, terms)
        if task is not None:
            self._context.registry.subscribed.add(terms.queue)
        self._directory.change(lambda known: subscribed(known, self.name, name, terms))
        if since is not None:
            self._directory.wait_until_known()
            self.catch_up(name, since)
        return Subscription(self._context, self.name, name, terms)

    def subscriber(
        self,
        name: str,
        *,
        queue: str | None = None,
        filter: Filter | None = None,
        **options: Unpack[PushOptions],
    ) -> Callable[[AnyTask], AnyTask]:
        """Declare a task as a subscriber, above `@app.task`; takes the parameters of `subscribe`.

        It is stored when this process first uses the topic or works for its queue. A declaration that has not changed
        is not stored again, so that what an operator has changed stays in force.
        """

        def declare(task: AnyTask) -> AnyTask:
            terms = self._terms(name, queue, task, filter, options)
            self._directory.declare(name, terms)
            self._context.registry.subscribed.add(terms.queue)
            return task

        return declare

    def catch_up(self, name: str, since: Since = "all") -> int:
        """Bring past events to a subscription, oldest first; return their number.

        These are events that were stored since then and still exist as a job of another subscription, live or in
        history: `since` is an aware datetime, a timedelta before now, or "all". Each has its payload, headers, tenant,
        order key and priority, and must pass the subscription's filter. An event that the subscriber already got is not
        delivered again while the queue keeps its history, so a failed call may be repeated.
        """
        moment, its = _checked_since(since, self._context), terms_of(self.subscription(name))
        others = {one.name: terms_of(one) for one in self.subscriptions() if one.name != name}
        fan_out = FanOut(self._context, self.name, TopicTerms({name: its}))
        past = past_events(self._context, self.name, others, moment, its.options.get("delay", 0))
        jobs = (copy.job for event, push in past for copy in fan_out.copies(event, push))
        return sum(len(stored) for stored, _ in store_batches(self._context, batches(jobs)))

    def unsubscribe(self, name: str, *, delete: bool = False) -> bool:
        """Remove a subscription; False if there is none. Its queue and jobs stay, unless `delete` removes them.

        With `delete`, first wait a good second, until no process pushes by the subscription any more.
        """
        checked_name(name, "subscription")
        its = self._directory.change(lambda known: known.unsubscribed(name)).subscriptions.get(name)
        if its is not None and delete:
            self._directory.wait_until_known()
            self._context.store.drop_queue(its.queue)
        return its is not None

    def subscription(self, name: str) -> Subscription:
        """Return a subscription. Raises InvalidInput if the name is unknown."""
        checked_name(name, "subscription")
        for one in self.subscriptions():
            if one.name == name:
                return one
        raise InvalidInput(f"topic {self.name!r} has no subscription {name!r}; `stanchion topics` lists them")

    def subscriptions(self) -> list[Subscription]:
        """Return its subscriptions, by name."""
        self._directory.store_declared(self._context.store)
        return [
            Subscription(self._context, self.name, name, its)
            for name, its in sorted(self._directory.now().subscriptions.items())
        ]

    def lag(self) -> dict[str, Lag]:
        """Return what each subscriber has still to do, by name, with one call of the store."""
        return _lags(self._context, self.subscriptions())

    asubscribe = off_loop_alone(subscribe)
    aunsubscribe = off_loop_alone(unsubscribe)
    acatch_up = off_loop_alone(catch_up)
    asubscription = off_loop(subscription)
    asubscriptions = off_loop(subscriptions)
    alag = off_loop(lag)

    def _terms(self, name: str, queue: str | None, task: object, wanted: Filter | None, options: Any) -> Terms:
        checked_name(name, "subscription")
        own = checked_name(queue if queue is not None else f"{self.name}.{name}", "queue")
        if task is not None and not isinstance(task, Task):
            raise InvalidInput(
                f"the task of a subscription is a function below @app.task, such as @topic.subscriber({name!r}) above "
                f"it, not {brief(task)}"
            )
        if task is not None and context_of(task) is not self._context:
            raise InvalidInput(f"task {task.name!r} belongs to another app; register it with this one")
        refuse_unknown(options, PushOptions.__optional_keys__ - _OF_EACH, "option of a subscription")
        if task is not None:
            of_jobs = PushOptions.__optional_keys__ - _OF_EACH
            of_task = {one: its for one, its in work_of(task).options.items() if one in of_jobs}
            options = {"max_attempts": task.retry.max_attempts, **of_task, **options}
        name_of_task = None if task is None else task.name
        fields = checked(
            options, self._context.codec, queue=own, task=name_of_task, declared=self._context.declared_rate
        )
        return Terms(own, name_of_task, checked_filter(wanted), fields)

    def _refuse_shared(self, name: str, terms: Terms, *, named: bool) -> None:
        """Raise InvalidInput if a default queue belongs to another topic, as dots in names allow."""
        for value in [] if named else self._context.store.values(KIND):
            for other, its in terms_in(value).subscriptions.items() if value.name != self.name else ():
                if its.queue == terms.queue:
                    raise InvalidInput(
                        f"subscription {other!r} of topic {value.name!r} already uses the queue {terms.queue!r}; "
                        f"give {name!r} another one, with queue="
                    )

    def __repr__(self) -> str:
        return f"<Topic {self.name!r} of {self._context!r}>"


def _checked_since(since: object, context: Context) -> int | None:
    """Return the time since which events are wanted, by the store's clock; None for all."""
    if since is None or since == "all":
        return None
    if isinstance(since, timedelta):
        return context.store.now() - round(seconds_of(since, "since") * SECOND)
    if isinstance(since, datetime):
        return micros(aware(since, "since"))
    raise InvalidInput(f"since is an aware datetime, a timedelta before now, or 'all', not {brief(since)}")


def _ids_from(first: object) -> Iterator[str]:
    try:
        if isinstance(first, str) and UUID(first).version == 7:
            return (beside(first, n) for n in count())
    except ValueError:
        pass
    raise InvalidInput(f"the id of an event is a UUID of version 7, such as topic.new_id() makes, not {brief(first)}")


def topics_of(context: Context) -> list[Topic]:
    """Return the topics that have subscriptions, by name."""
    context.store_subscriptions(context.store)
    return [topic_of(context, value.name) for value in context.store.values(KIND) if terms_in(value).subscriptions]


def topic_of(context: Context, name: str) -> Topic:
    """Return a topic, one for all callers of this process."""
    known: dict[str, Topic] = context.registry.topics
    if len(known) > _REMEMBERED:
        known.clear()
    topic = known.get(checked_name(name, "topic"))
    return known.setdefault(name, Topic(context, name)) if topic is None else topic


def _lags(context: Context, subscriptions: list[Subscription]) -> dict[str, Lag]:
    if not subscriptions:
        return {}
    store = context.store
    found = store.stats([terms_of(one).queue for one in subscriptions], ["states", "next_due"])
    now = store.now()
    lags = {}
    for one in subscriptions:
        sizes: Sizes = found[terms_of(one).queue].states
        due = found[terms_of(one).queue].next_due
        age = 0.0 if due is None else max(0, now - due) / SECOND
        lags[one.name] = Lag(sizes.total, sizes.ready, sizes.running, age)
    return lags
