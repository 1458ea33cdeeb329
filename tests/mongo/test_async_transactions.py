"""Transactions of an AsyncMongoClient: joined by the async twins, on the event loop of the client."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping
from contextlib import asynccontextmanager, closing
from typing import Any

import pytest
from pymongo import AsyncMongoClient, MongoClient, monitoring
from pymongo.asynchronous.client_session import AsyncClientSession
from pymongo.errors import OperationFailure, PyMongoError

from stanchion import JobState, Push, Queue, Stanchion, chain
from stanchion.errors import CannotJoin, DuplicateKey, LeaseLost
from stanchion.stores.registry import open_store
from stanchion_conformance.harness import QUEUE, NewStore, new_job
from tests.servers.mongo import MongoServer, OwnMongoServer

Document = dict[str, Any]


@pytest.fixture
def app(database: str) -> Iterator[Stanchion]:
    app = Stanchion(database)
    yield app
    for settings in app.store.queues():
        app.store.drop_queue(settings.name)
    app.close()
    with MongoClient[Document](database) as client:
        client.get_default_database()["effects"].drop()
        client.get_default_database().create_collection("effects")


@pytest.fixture
def queue(app: Stanchion) -> Queue:
    return app.queue("orders")


@asynccontextmanager
async def session_of(url: str, **options: Any) -> AsyncIterator[AsyncClientSession]:
    """A session of an application's client, with options of its own, and a transaction."""
    client: AsyncMongoClient[Document]
    async with AsyncMongoClient(url, tz_aware=True, w=1, **options) as client, client.start_session() as session:
        await session.start_transaction()
        yield session


async def write_effect(session: AsyncClientSession) -> None:
    await session.client.get_default_database()["effects"].insert_one({"what": "paid"}, session=session)


def effects(url: str) -> int:
    with MongoClient[Document](url) as client:
        return client.get_default_database()["effects"].count_documents({})


def test_all_verbs_are_stored_by_the_commit_only(app: Stanchion, queue: Queue, database: str) -> None:
    @app.task(name="charge")
    def charge(order: int) -> int:
        return order

    topic = app.topic("sales")
    topic.subscribe("audit")
    queue.push_many(["held", "moved"])
    held, moved = queue.reserve(2)

    async def all_verbs(tx: AsyncClientSession) -> None:
        await write_effect(tx)
        await queue.apush(1, key="k", tx=tx)
        await queue.apush_many([Push(n, priority=n) for n in range(3)], tx=tx)
        assert (await queue.apush(2, key="k", tx=tx)).duplicate
        await charge.using(tx=tx).aenqueue(17)
        await charge.using(tx=tx).aenqueue_many([(18,), (19,)])
        await chain(charge.s(20), charge.s()).aenqueue(tx)
        await topic.apush({"id": 1}, tx=tx)
        await held.acommit({"a": 1}, tx=tx)
        await moved.amove("next", payload=2, tx=tx)

    async def work() -> None:
        async with session_of(database) as session:
            await all_verbs(session)
            assert (await queue.asize()).running == 2  # to all others
            await session.abort_transaction()
        assert (await queue.asize()).running == 2
        assert [(await app.queue(name).asize()).total for name in ("orders", "default", "next")] == [2, 0, 0]
        assert effects(database) == 0
        async with session_of(database) as session:
            await all_verbs(session)
            await session.commit_transaction()

    asyncio.run(work())
    assert effects(database) == 1
    assert queue.get(held.id).result == {"a": 1}  # type: ignore[union-attr]
    assert (queue.size().ready, app.queue("next").size().ready) == (4, 1)
    app.maintain()  # applies the outbox: this app does not see the commit
    assert app.drain(["default"]) == 5


@pytest.mark.parametrize("known", [False, True], ids=["first", "known"])
def test_a_synchronous_call_names_the_twin(queue: Queue, database: str, known: bool) -> None:
    async def work() -> None:
        async with session_of(database) as session:
            if known:
                await queue.apush(1, tx=session)
            with pytest.raises(CannotJoin, match="await the async twin"):
                queue.push(2, tx=session)
            await session.commit_transaction()

    asyncio.run(work())
    assert queue.size().total == int(known)


def test_errors_of_a_call_are_those_of_the_store(app: Stanchion, queue: Queue, database: str) -> None:
    queue.push(1, key="taken")
    (late,) = queue.reserve(lease=5)
    app.store.clock_offset += 6
    (again,) = queue.reserve()

    async def work() -> None:
        async with session_of(database) as session:
            with pytest.raises(DuplicateKey):
                await queue.apush(2, key="taken", on_duplicate="raise", tx=session)
            with pytest.raises(LeaseLost):
                await late.acommit(tx=session)

    asyncio.run(work())
    again.commit()
    assert queue.size().total == 0


def test_a_transaction_that_conflicts_is_run_again_whole(queue: Queue, database: str) -> None:
    queue.push("held")
    (held,) = queue.reserve()
    runs: list[BaseException | None] = []

    async def work() -> None:
        client: AsyncMongoClient[Document]

        async def pay(session: AsyncClientSession) -> None:
            await write_effect(session)
            await queue.apush(17, tx=session)
            if not runs:
                await asyncio.to_thread(held.progress, 0.5)  # writes to the job that the transaction is to end
            try:
                await held.acommit(tx=session)
            except PyMongoError as error:
                runs.append(error)
                raise
            runs.append(None)

        async with AsyncMongoClient(database) as client, client.start_session() as session:
            await session.with_transaction(pay)

    asyncio.run(work())
    (conflict, success) = runs
    assert isinstance(conflict, OperationFailure)
    assert conflict.has_error_label("TransientTransactionError")
    assert success is None
    assert (effects(database), queue.size().ready, queue.size().running) == (1, 1, 0)
    assert queue.get(held.id).state is JobState.DONE  # type: ignore[union-attr]


@pytest.mark.parametrize("end", ["abort_transaction", "commit_transaction"])
def test_no_signal_precedes_the_commit(new_store: NewStore, app: Stanchion, database: str, end: str) -> None:
    listener = new_store().listen([QUEUE])

    async def work() -> None:
        async with session_of(database) as session:
            await app.queue(QUEUE).apush(1, tx=session)
            assert not listener.wait(0.3)
            await getattr(session, end)()

    with closing(listener):
        while listener.wait(0.1):
            pass
        asyncio.run(work())
    assert app.queue(QUEUE).size().total == int(end == "commit_transaction")  # its workers find it by their polls


class Watch(monitoring.CommandListener):
    """Sees the commands of a client."""

    def __init__(self, succeeded: Callable[[str], object] = str) -> None:
        self.commands: list[Mapping[str, Any]] = []
        self._succeeded = succeeded

    def started(self, event: monitoring.CommandStartedEvent) -> None:
        self.commands.append(event.command)

    def succeeded(self, event: monitoring.CommandSucceededEvent) -> None:
        self._succeeded(event.command_name)

    def failed(self, event: monitoring.CommandFailedEvent) -> None: ...

    def names(self) -> list[str]:
        return [next(iter(command)) for command in self.commands]


def test_commands_are_bounded_by_the_time_out_of_the_call(queue: Queue, database: str) -> None:
    watch = Watch()

    async def work() -> None:
        async with session_of(database, event_listeners=[watch]) as session:
            await queue.apush(1, tx=session)

    asyncio.run(work())
    assert {"find", "insert"} <= set(watch.names())
    assert all("maxTimeMS" in command for command in watch.commands[: watch.names().index("insert") + 1])


def test_a_cancelled_call_runs_no_further_command(queue: Queue, database: str) -> None:
    calls: list[asyncio.Task[Any]] = []
    watch = Watch(lambda name: name == "find" and [call.cancel() for call in calls])

    async def work() -> None:
        async with session_of(database, event_listeners=[watch]) as session:
            await queue.apush(1, tx=session)
            watch.commands.clear()
            calls.append(asyncio.create_task(queue.apush(2, tx=session)))
            with pytest.raises(asyncio.CancelledError):
                await calls[0]
            assert watch.names() == ["find"]
            await session.abort_transaction()

    asyncio.run(work())
    assert queue.size().total == 0


PRODUCER = """
import asyncio, sys
from pymongo import AsyncMongoClient
from stanchion import Stanchion

async def main() -> None:
    queue = Stanchion(sys.argv[1]).queue("orders")
    async with AsyncMongoClient(sys.argv[1]) as client, client.start_session() as session:
        await session.start_transaction()
        await queue.apush("lost", key="k", tx=session)
        print("stored", flush=True)
        await asyncio.Event().wait()

asyncio.run(main())
"""


def test_a_killed_client_leaves_nothing_behind(queue: Queue, database: str) -> None:
    producer = subprocess.Popen([sys.executable, "-c", PRODUCER, database], stdout=subprocess.PIPE, text=True)
    with producer:
        try:
            assert producer.stdout is not None
            assert producer.stdout.readline() == "stored\n"
            assert queue.size().total == 0
        finally:
            producer.send_signal(signal.SIGKILL)
    assert queue.push("kept", key="k", on_duplicate="raise").duplicate is False
    assert [job.payload for job in queue.reserve(10)] == ["kept"]


def refused(work: Callable[[], Coroutine[Any, Any, None]], match: str) -> None:
    with pytest.raises(CannotJoin, match=match):
        asyncio.run(work())


def test_a_session_without_a_transaction_is_refused(queue: Queue, database: str) -> None:
    async def work() -> None:
        client: AsyncMongoClient[Document]
        async with AsyncMongoClient(database) as client, client.start_session() as session:
            await queue.apush(1, tx=session)

    refused(work, "start_transaction")
    assert queue.size().total == 0


def test_one_on_another_server_is_refused(queue: Queue, own_mongo_server: OwnMongoServer, database: str) -> None:
    url = own_mongo_server.url(database.rpartition("/")[2])

    async def work() -> None:
        async with session_of(url) as session:
            await queue.apush(1, tx=session)

    refused(work, "another server")  # there is nothing of ours
    with closing(open_store(url)) as elsewhere:
        elsewhere.setup()
        elsewhere.push([new_job()])
    refused(work, "another server")  # this client reaches a store, and not this one
    assert queue.size().total == 0


def test_a_standalone_server_has_none(mongo_server: MongoServer, database: str) -> None:
    if not isinstance(mongo_server, OwnMongoServer):
        pytest.skip("the server is another's, and what it is: see what STANCHION_TEST_MONGODB names")
    url = mongo_server.url(database.rpartition("/")[2], like="standalone")

    async def work() -> None:
        async with session_of(url) as session, Stanchion(url) as app:
            await app.queue("orders").apush(1, tx=session)

    with pytest.raises(PyMongoError):
        asyncio.run(work())
