"""Every public call that waits for the store has an async twin, which leaves the event loop alone."""

import asyncio
import inspect
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from stanchion import (
    Consumer,
    EventGroup,
    Feed,
    FlowHandle,
    Job,
    JobHandle,
    Pipeline,
    Queue,
    Reservation,
    Schedule,
    Signature,
    Stanchion,
    StanchionError,
    Subscription,
    Task,
    Tasks,
    Topic,
    Worker,
    chain,
    group,
)
from stanchion.context import context_of
from stanchion.flows.parts import Chain, Group, Payload
from stanchion.queues.batch import Batch
from stanchion.queues.semaphore import Semaphore
from stanchion.stores.registry import open_store
from stanchion.tasks.enqueuer import Enqueuer

CLASSES = (
    *(Stanchion, Queue, Batch, Consumer, Semaphore, Job, Reservation, JobHandle, FlowHandle, EventGroup),
    *(Signature, Chain, Group, Payload, Task, Enqueuer, Topic, Subscription, Schedule, Pipeline, Feed, Worker),
)

WORDS = {
    *("aback", "abase", "abash", "abate", "abet", "abide", "ablaze", "aboard", "about", "above", "abreast", "abroad"),
    *("abuse", "account", "acquit", "acting", "acute", "address", "adjust", "admit", "adrift", "advance", "advice"),
    *("affix", "afire", "afloat", "afoot", "again", "agape", "aghast", "aglow", "ago", "ahead", "aim", "ajar", "akin"),
    *("alarm", "alias", "alight", "align", "alike", "alive", "allot", "allow", "aloft", "alone", "along", "aloud"),
    *("alter", "amass", "amaze", "amend", "amid", "amount", "amuse", "anew", "annex", "anon", "apart", "append"),
    *("appending", "apply", "appoint", "arise", "around", "arouse", "arrange", "array", "arrest", "ascent", "aside"),
    *("askew", "asleep", "aspire", "assay", "assert", "assign", "assize", "assort", "assume", "astir", "astray"),
    *("atone", "attach", "attack", "attend", "attest", "attire", "avail", "aver", "avert", "avoid", "avow", "await"),
    *("awaiting", "awake", "award", "aware", "awash", "away", "awhile", "awry"),
}
"""Words of English that a name with an `a` in front could make."""


class Reached(AssertionError):
    """A call has reached the store."""


class Unreachable:
    """A store that no call may reach."""

    def __getattr__(self, name: str) -> Any:
        raise Reached(name)


class Recording:
    """A store that notes the threads in which its verbs are called."""

    def __init__(self, store: Any) -> None:
        self.__dict__.update(_store=store, calls=0, threads=set())

    def __getattr__(self, name: str) -> Any:
        its = getattr(self._store, name)
        if not callable(its):
            return its

        def call(*args: Any, **kwargs: Any) -> Any:
            self.__dict__["calls"] += 1
            self.threads.add(threading.get_ident())
            return its(*args, **kwargs)

        return call

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self._store, name, value)


class Things:
    """An object of each class, of one app."""

    def __init__(self, app: Stanchion, held: Reservation | None = None) -> None:
        self.app = app
        self.queue = app.queue("orders")
        self.batch, self.consumer = self.queue.batch(), app.consumer("billing")
        self.semaphore = app.semaphore("smtp", 2)
        self.task = app.task(name="send")(lambda *args: args)
        self.enqueuer = self.task.using(priority=1)
        self.call = self.task.s(1)
        self.chain, self.group = chain(self.call, self.call), group(self.call)
        self.etl = app.pipeline("etl")
        self.etl.station("raw")(lambda item: item)
        self.topic = app.topic("sales")
        self.feed = app.watch()
        self.worker = Worker(app, queues=["work"], threads=1)
        if held is not None:
            self.held = Reservation.from_dict(app, held.to_dict())
            self.handle, self.flow = JobHandle(app, held.id), FlowHandle(app, held.id)

    def of(self, kind: type) -> Any:
        return next(one for one in vars(self).values() if isinstance(one, kind))


TWINS: dict[str, Callable[[Any], Any]] = {
    "Stanchion.setup": lambda x: x.app.asetup(),
    "Stanchion.transaction": lambda x: x.app.atransaction(),
    "Stanchion.maintain": lambda x: x.app.amaintain(1),
    "Stanchion.close": lambda x: x.app.aclose(),
    "Stanchion.workers": lambda x: x.app.aworkers(),
    "Stanchion.alerts": lambda x: x.app.aalerts(),
    "Stanchion.monitor": lambda x: x.app.amonitor(),
    "Stanchion.queues": lambda x: x.app.aqueues(),
    "Stanchion.delete_queue": lambda x: x.app.adelete_queue("none"),
    "Stanchion.semaphores": lambda x: x.app.asemaphores(),
    "Stanchion.rates": lambda x: x.app.arates(),
    "Stanchion.topics": lambda x: x.app.atopics(),
    "Stanchion.enqueue": lambda x: x.app.aenqueue("send", 1),
    "Stanchion.schedules": lambda x: x.app.aschedules(),
    "Stanchion.schedule": lambda x: x.app.aschedule("nightly"),
    "Stanchion.get": lambda x: x.app.aget(x.id),
    "Stanchion.find": lambda x: x.app.afind(state="dead"),
    "Stanchion.cancel": lambda x: x.app.acancel(x.other_id),
    "Stanchion.retry_job": lambda x: x.app.aretry_job(x.other_id),
    "Stanchion.replay": lambda x: x.app.areplay([x.other_id]),
    "Stanchion.settle": lambda x: x.app.asettle([x.held.committed()]),
    "Stanchion.reservation": lambda x: x.app.areservation(x.id, x.held.token),
    "Stanchion.reservations": lambda x: x.app.areservations([(x.id, x.held.token)]),
    "Stanchion.enqueue_flow": lambda x: x.app.aenqueue_flow(x.chain),
    "Stanchion.event_group": lambda x: x.app.aevent_group("order-2"),
    "Stanchion.drain": lambda x: x.app.adrain(["none"]),
    "Pipeline.drain": lambda x: x.etl.adrain(),
    "Queue.push": lambda x: x.queue.apush(1),
    "Queue.push_many": lambda x: x.queue.apush_many([1]),
    "Queue.pop": lambda x: x.queue.apop(),
    "Queue.reserve": lambda x: x.queue.areserve(),
    "Queue.until_due": lambda x: x.queue.auntil_due(0),
    "Queue.size": lambda x: x.queue.asize(),
    "Queue.counts": lambda x: x.queue.acounts(),
    "Queue.lanes": lambda x: x.queue.alanes(),
    "Queue.next_due": lambda x: x.queue.anext_due(),
    "Queue.get": lambda x: x.queue.aget(x.id),
    "Queue.find": lambda x: x.queue.afind(state="dead"),
    "Queue.history": lambda x: x.queue.ahistory(),
    "Queue.peek": lambda x: x.queue.apeek(),
    "Queue.get_settings": lambda x: x.queue.aget_settings(),
    "Queue.get_schema": lambda x: x.queue.aget_schema(),
    "Queue.cancel": lambda x: x.queue.acancel(x.id),
    "Queue.retry": lambda x: x.queue.aretry(x.id),
    "Queue.replay": lambda x: x.queue.areplay([x.id]),
    "Queue.clear": lambda x: x.queue.aclear(),
    "Queue.purge_history": lambda x: x.queue.apurge_history(),
    "Queue.pause": lambda x: x.queue.apause(),
    "Queue.resume": lambda x: x.queue.aresume(),
    "Queue.configure": lambda x: x.queue.aconfigure(max_rate=5),
    "Queue.reset": lambda x: x.queue.areset(),
    "Queue.delete": lambda x: x.queue.adelete(),
    "Batch.extend": lambda x: x.batch.aextend(5),
    "Batch.settle": lambda x: x.batch.asettle(),
    "Consumer.beat": lambda x: x.consumer.abeat(),
    "Semaphore.get_capacity": lambda x: x.semaphore.aget_capacity(),
    "Semaphore.usage": lambda x: x.semaphore.ausage(),
    "Semaphore.holders": lambda x: x.semaphore.aholders(),
    "Semaphore.blocked": lambda x: x.semaphore.ablocked(),
    "Semaphore.resize": lambda x: x.semaphore.aresize(3),
    "Semaphore.reset": lambda x: x.semaphore.areset(),
    "Reservation.get_cancelled": lambda x: x.held.aget_cancelled(),
    "Reservation.report_progress": lambda x: x.held.areport_progress(0.5),
    "Reservation.extend": lambda x: x.held.aextend(60),
    "Reservation.moved": lambda x: x.held.amoved("mail"),
    "Reservation.rollback": lambda x: x.held.arollback(),
    "Reservation.release": lambda x: x.held.arelease(),
    "Reservation.move": lambda x: x.held.amove("mail"),
    "Reservation.bury": lambda x: x.held.abury(),
    "Reservation.abandon": lambda x: x.held.aabandon(),
    "Reservation.commit": lambda x: x.held.acommit(),
    "JobHandle.job": lambda x: x.handle.ajob(),
    "JobHandle.get_state": lambda x: x.handle.aget_state(),
    "JobHandle.result": lambda x: x.handle.aresult(timeout=0.1),
    "JobHandle.cancel": lambda x: x.handle.acancel(),
    "FlowHandle.get_state": lambda x: x.flow.aget_state(),
    "FlowHandle.result": lambda x: x.flow.aresult(timeout=0.1),
    "FlowHandle.members": lambda x: x.flow.amembers(),
    "FlowHandle.graph": lambda x: x.flow.agraph(),
    "FlowHandle.draw": lambda x: x.flow.adraw("text"),
    "FlowHandle.value_for": lambda x: x.flow.avalue_for(x.held),
    "FlowHandle.failure_for": lambda x: x.flow.afailure_for(x.held),
    "FlowHandle.cancel": lambda x: x.flow.acancel(),
    "EventGroup.add": lambda x: x.events.aadd(x.call),
    "EventGroup.close": lambda x: x.events.aclose(),
    "Part.enqueue": lambda x: x.chain.aenqueue(),
    "Task.enqueue": lambda x: x.task.aenqueue(1),
    "Task.enqueue_many": lambda x: x.task.aenqueue_many([(1,)]),
    "Enqueuer.enqueue": lambda x: x.enqueuer.aenqueue(1),
    "Enqueuer.enqueue_many": lambda x: x.enqueuer.aenqueue_many([(1,)]),
    "Topic.push": lambda x: x.topic.apush(1),
    "Topic.push_many": lambda x: x.topic.apush_many([1]),
    "Topic.subscribe": lambda x: x.topic.asubscribe("audit"),
    "Topic.catch_up": lambda x: x.topic.acatch_up("audit"),
    "Topic.subscription": lambda x: x.topic.asubscription("audit"),
    "Topic.subscriptions": lambda x: x.topic.asubscriptions(),
    "Topic.lag": lambda x: x.topic.alag(),
    "Topic.unsubscribe": lambda x: x.topic.aunsubscribe("audit"),
    "Subscription.lag": lambda x: x.subscription.alag(),
    "Schedule.pause": lambda x: x.schedule.apause(),
    "Schedule.resume": lambda x: x.schedule.aresume(),
    "Schedule.trigger": lambda x: x.schedule.atrigger(),
    "Schedule.remove": lambda x: x.schedule.aremove(),
    "Pipeline.push": lambda x: x.etl.apush(1),
    "Pipeline.push_many": lambda x: x.etl.apush_many([1]),
    "Pipeline.push_chunks": lambda x: x.etl.apush_chunks([1, 2]),
    "Pipeline.find": lambda x: x.etl.afind(),
    "Pipeline.replay": lambda x: x.etl.areplay([x.id]),
    "Pipeline.split": lambda x: x.etl.asplit(x.id),
    "Pipeline.backfill": lambda x: x.etl.abackfill("raw", dry_run=True),
    "Pipeline.output": lambda x: x.etl.aoutput("raw", 1),
    "Pipeline.backfills": lambda x: x.etl.abackfills(),
    "Pipeline.status": lambda x: x.etl.astatus(),
    "Pipeline.plan": lambda x: x.etl.aplan(),
    "Pipeline.results": lambda x: x.etl.aresults("raw"),
    "Pipeline.pause": lambda x: x.etl.apause(),
    "Pipeline.resume": lambda x: x.etl.aresume(),
    "Feed.next": lambda x: x.feed.anext(0),
    "Worker.start": lambda x: x.worker.astart(),
    "Worker.stop": lambda x: x.worker.astop(),
}
"""A call of each twin, by its method."""

RUN_JOBS = {"Stanchion.run", "Pipeline.run", "Worker.run"}
"""Methods that run jobs in the calling thread."""

FOR_TESTS = {"Stanchion.testing", "Stanchion.on_store", "Stanchion.assert_enqueued"}
"""Methods for tests, whose store is in memory."""

DONT_WAIT: dict[str, Callable[[Any], Any]] = {
    "Stanchion.queue": lambda x: x.app.queue("mail", lanes=2),
    "Stanchion.semaphore": lambda x: x.app.semaphore("lines", 3),
    "Stanchion.rate": lambda x: x.app.rate("api", "5/s"),
    "Stanchion.topic": lambda x: x.app.topic("news"),
    "Stanchion.watch": lambda x: x.app.watch(),
    "Stanchion.consumer": lambda x: x.app.consumer("other"),
    "Stanchion.task": lambda x: x.app.task(name="other")(lambda: None),
    "Stanchion.using": lambda x: x.app.using("unknown", rate_key="elsewhere"),
    "Stanchion.pipeline": lambda x: x.app.pipeline("other"),
    "Stanchion.cron": lambda x: x.app.cron("* * * * *")(x.task),
    "Stanchion.middleware": lambda x: x.app.middleware(lambda _attempt, call_next: call_next()),
    "Stanchion.on_worker_start": lambda x: x.app.on_worker_start(lambda: None),
    "Stanchion.on_worker_stop": lambda x: x.app.on_worker_stop(lambda: None),
    "Stanchion.register": lambda x: x.app.register(Tasks()),
    "Stanchion.include": lambda x: x.app.include("json"),
    "Stanchion.on": lambda x: x.app.on("started")(lambda _job: None),
    "Stanchion.flow": lambda x: x.app.flow(x.held.id),
    "Queue.batch": lambda x: x.queue.batch(),
    "Batch.count": lambda x: x.batch.count(1),
    "Batch.index": lambda x: x.batch.index(1),
    "Reservation.abandoned": lambda x: x.held.abandoned(),
    "Reservation.buried": lambda x: x.held.buried(),
    "Reservation.committed": lambda x: x.held.committed(),
    "Reservation.released": lambda x: x.held.released(),
    "Reservation.rolled_back": lambda x: x.held.rolled_back(),
    "Reservation.to_dict": lambda x: x.held.to_dict(),
    "Reservation.from_dict": lambda x: Reservation.from_dict(x.app, x.held.to_dict()),
    "Part.on_failure": lambda x: x.chain.on_failure(x.call),
    "Part.then": lambda x: x.chain.then(x.call),
    "Task.s": lambda x: x.task.s(1),
    "Task.si": lambda x: x.task.si(1),
    "Task.using": lambda x: x.task.using(rate_key="elsewhere"),
    "Enqueuer.s": lambda x: x.enqueuer.s(1),
    "Enqueuer.si": lambda x: x.enqueuer.si(1),
    "Topic.new_id": lambda x: x.topic.new_id(),
    "Job.item": lambda x: x.held.item(0),
    "Topic.subscriber": lambda x: x.topic.subscriber("audit")(x.task),
    "Schedule.next": lambda x: x.schedule.next(2),
    "Pipeline.expect": lambda x: x.etl.expect,
    "Pipeline.graph": lambda x: x.etl.graph(),
    "Pipeline.queue": lambda x: x.etl.queue("raw"),
    "Pipeline.spark_station": lambda x: x.etl.spark_station("spark", schema="a int")(lambda frame: frame),
    "Pipeline.station": lambda x: x.etl.station("other"),
    "Pipeline.svg": lambda x: x.etl.svg(),
    "Feed.close": lambda x: x.feed.close(),
    "Worker.finish": lambda x: x.worker.finish(),
}
"""Calls of the methods that don't wait for the store, and so have no twin."""

KNOWN = {*TWINS, *DONT_WAIT, *RUN_JOBS, *FOR_TESTS}


def methods() -> Iterator[tuple[type, str, str]]:
    """Yield the public methods that are no twins: their class, their name, and the class that has them in a table."""
    for kind in CLASSES:
        for name in dir(kind):
            if name.startswith("_") or not callable(getattr(kind, name)) or is_twin(kind, name):
                continue
            bases = [f"{base.__name__}.{name}" for base in kind.__mro__]
            yield kind, name, next((base for base in bases if base in KNOWN), bases[0])


def is_twin(kind: type, name: str) -> bool:
    return name.startswith("a") and callable(getattr(kind, name[1:], None))


def properties() -> Iterator[tuple[type, str]]:
    for kind in CLASSES:
        yield from ((kind, name) for name in dir(kind) if isinstance(inspect.getattr_static(kind, name), property))


@pytest.fixture
def held() -> Reservation:
    app = Stanchion("memory://")
    app.queue("orders").push(1)
    (job,) = app.queue("orders").reserve()
    return job


def test_every_method_has_a_twin_or_does_not_wait() -> None:
    found = list(methods())
    assert len(found) > 150
    assert [f"{kind.__name__}.{name}" for kind, name, key in found if hasattr(kind, f"a{name}") != (key in TWINS)] == []
    unknown = {key for _, _, key in found} - KNOWN
    assert not unknown, "give them twins, and calls in TWINS; or, if they never wait for the store, calls in DONT_WAIT"


@pytest.mark.parametrize("name", DONT_WAIT)
def test_a_method_without_a_twin_does_not_reach_the_store(name: str, held: Reservation) -> None:
    things: Any = Things(Stanchion(store=cast(Any, Unreachable())), held)
    if name == "Schedule.next":
        app = Stanchion("memory://")
        app.cron("* * * * *", schedule="nightly")(app.task(name="night")(lambda: None))
        things.schedule = app.schedule("nightly")
        things.schedule._context = context_of(things.app)
    with suppress(StanchionError, ValueError):
        DONT_WAIT[name](things)


def test_a_property_that_asks_the_store_has_a_method_and_its_twin(held: Reservation) -> None:
    asked = set()
    for kind, name in properties():
        things: Any = Things(Stanchion(store=cast(Any, Unreachable())), held)
        others = {Job: held, Payload: None, Signature: things.call}
        if kind in (EventGroup, Subscription, Schedule, Payload):
            continue  # they are read from the store first, or have the properties of another class
        try:
            getattr(others.get(kind) or things.of(kind), name)
        except Reached:
            asked.add((kind, name))
        except (StanchionError, AttributeError):  # a worker has no queues before it starts
            pass
    assert {(Queue, "settings"), (JobHandle, "state"), (Reservation, "cancelled")} <= asked
    asked.discard((Stanchion, "store"))  # the port to the database, opened at first use
    assert [(kind, name) for kind, name in asked if not hasattr(kind, f"aget_{name}")] == []


def test_a_twin_has_the_parameters_of_its_method() -> None:
    twins = [(kind, name) for kind, name, _ in methods() if hasattr(kind, f"a{name}")]
    assert len(twins) > 90
    for kind, name in twins:
        twin = getattr(kind, f"a{name}")
        assert twin.__name__ == f"a{name}", twin
        expected = inspect.signature(getattr(kind, name)).parameters
        assert list(inspect.signature(twin).parameters.values()) == list(expected.values()), (kind, name)


def test_a_twin_is_no_other_word() -> None:
    assert [name for _, name, _ in methods() if f"a{name}" in WORDS or name.startswith("wait")] == []


def stored(app: Stanchion) -> Any:
    """Return things that are in the store of an app."""
    app.setup()
    things: Any = Things(app)
    things.task.using(queue="orders").enqueue(0)
    things.task.using(queue="orders").enqueue(0)
    held, other = things.queue.reserve(2)
    things = Things(app, held)
    app.cron("* * * * *", schedule="nightly")(app.task(name="night")(lambda: None))
    things.id, things.other_id = held.id, other.id
    things.schedule, things.events = app.schedule("nightly"), app.event_group("order-1")
    things.subscription = things.topic.subscribe("mail")
    return things


class Blocking:
    """Has the methods of an object under the names of their twins."""

    def __init__(self, given: Any) -> None:
        self._given = given

    def __getattr__(self, name: str) -> Any:
        return getattr(self._given, name.removeprefix("a"))


def test_each_method_warns_on_a_running_loop(caplog: pytest.LogCaptureFixture) -> None:
    things = stored(Stanchion("memory://"))
    plain, blocking = dict(vars(things)), SimpleNamespace(**vars(things))
    for name, value in plain.items():
        if isinstance(value, CLASSES) and name not in ("held", "call", "chain"):
            setattr(blocking, name, Blocking(value))

    async def run() -> None:
        for name, call in TWINS.items():
            blocking.held = Blocking(plain["held"]) if name.startswith("Reservation.") else plain["held"]
            blocking.chain = Blocking(plain["chain"]) if name == "Part.enqueue" else plain["chain"]
            with suppress(StanchionError):
                given = call(blocking)
                if isinstance(given, Iterator):
                    list(given)

    asyncio.run(run())
    warned = {record.getMessage().partition(" ")[0] for record in caplog.records}
    reported = {key for kind, name, key in methods() if f"{kind.__name__}.{name}" in warned}
    # A batch and a consumer wait for the store within their blocks only; a drain is an error on a running loop.
    assert TWINS.keys() - reported <= {"Batch.settle", "Consumer.beat", "Stanchion.drain", "Pipeline.drain"}


def test_a_twin_leaves_the_event_loop_alone(tmp_path: Path) -> None:
    store = Recording(open_store(f"sqlite:///{tmp_path}/jobs.db"))
    things = stored(Stanchion(store=cast(Any, store)))

    async def run() -> list[str]:
        idle = []
        for name, call in TWINS.items():
            before = store.calls
            with suppress(StanchionError):
                await _done(call(things))
            if store.calls == before:
                idle.append(name)
        return idle

    store.threads.clear()
    idle = asyncio.run(run())
    assert threading.get_ident() not in store.threads
    # A batch and a consumer wait for the store within their blocks only.
    assert set(idle) <= {"Batch.extend", "Batch.settle", "Consumer.beat"}


async def _done(given: Any) -> None:
    """Await a call, read all of an iterator, or enter and leave a block."""
    if isinstance(given, AbstractAsyncContextManager):
        async with given:
            return
    elif isinstance(given, AsyncIterator):
        async for _ in given:
            pass
    else:
        assert isinstance(given, Awaitable)
        await given
