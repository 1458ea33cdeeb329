"""The context of an app: what its queues, tasks, handles and workers share."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Any

from stanchion.context.declarations.hiding import DeclaredHidden
from stanchion.context.declarations.rates import DeclaredRates, stored_rates
from stanchion.context.declarations.semaphores import DeclaredSemaphores
from stanchion.context.lanes import LaneChooser
from stanchion.context.queues.cached_settings import CachedSettings
from stanchion.context.queues.declared_settings import DeclaredQueues
from stanchion.context.queues.schemas import QueueSchemas
from stanchion.context.registry import Registry
from stanchion.core import environment
from stanchion.core.checks import brief
from stanchion.core.concurrency.aio import calls_pool
from stanchion.core.concurrency.blocking import BlockingCalls
from stanchion.core.functions import Hooks, Listeners, Middleware
from stanchion.core.retry import Retry, delay_anyway
from stanchion.errors import CannotJoin, InvalidInput, LeaseLost
from stanchion.partitions.layout import READ_SECONDS
from stanchion.partitions.opening import with_partitions
from stanchion.stores.ports import Partitions, Transactions
from stanchion.stores.records.jobs import JobRow, NewJob
from stanchion.stores.registry import absolute_url, current_folder, open_store, shown_url

if TYPE_CHECKING:
    from stanchion.context.progress import ProgressWriter
    from stanchion.context.unknown_work import UnknownWork
    from stanchion.context.upkeep import Upkeep
    from stanchion.core.values.codec import Codec
    from stanchion.core.values.framing import Content
    from stanchion.stores.protocol import Store
    from stanchion.stores.rules.capacity.declared_rates import StoredRate
    from stanchion.telemetry.traces import Traces
    from stanchion.waits import Waits

_KEPT = (
    *("retry", "timeout", "traces", "blocking", "events", "middleware", "registry", "declared", "schemas", "hidden"),
    *("rates", "decode", "hooks", "_partitions"),
)
"""The attributes that a pickled context keeps, in addition to its constructor's arguments."""

JobOf = Callable[["Context", JobRow], object]


class Context:
    """The store of an app, and this process's declarations for it. Only `Stanchion` makes it.

    `url`: of the store, which is opened and checked at first use, or a function that returns it then; None:
    STANCHION_URL. `store`: an open one.
    `job_of`: turns a stored row into the job that listeners get. `database`: URL of the database behind managers.
    `traces`: make spans of OpenTelemetry.
    """

    def __init__(
        self,
        url: str | Callable[[], str] | None,
        store: Store | None,
        codec: Codec,
        poll: float,
        unknown_work: UnknownWork,
        job_of: JobOf,
        database: str | None = None,
        traces: bool = False,
    ) -> None:
        if url is not None and not isinstance(url, str) and not callable(url):
            raise InvalidInput(f"the URL of a store is text, such as 'sqlite:///jobs.db', not {brief(url)}")
        self._context = self
        self._url, self._database = url, database
        self._folder = current_folder()
        self._job_of = job_of
        self._opening = threading.Lock()
        self._given = store
        self._store: Store | None = None
        self._opened_at: str | None = None
        """The URL of the open store, unless it was given."""
        self._partitions = False
        """The code of this process declares partitions, or has set some."""
        self._noticed_at = 0.0
        self.codec = codec
        self.decode: Callable[[type, Any], object] | None = None
        """Makes instances of the program's own types from their plain values."""
        self.poll = poll
        self.retry = Retry()
        """The default retry policy."""
        self.timeout: float | None = None
        """The default time-out of an attempt, in seconds."""
        self.traces = _new_traces() if traces else None
        self.blocking = BlockingCalls()
        self.events = Listeners()
        self.middleware = Middleware()
        self.hooks = Hooks()
        self.registry = Registry()
        self.declared = DeclaredQueues()
        self.semaphores = DeclaredSemaphores()
        self.hidden, self.rates = DeclaredHidden(), DeclaredRates()
        self.settings = CachedSettings()
        self.lanes = LaneChooser(self.settings)
        self.schemas = QueueSchemas()
        self.unknown_work = unknown_work
        self.calls = calls_pool()
        """The threads that call the store for coroutines."""
        self._making = threading.Lock()
        self._waits: Waits | None = None
        self._upkeep: Upkeep | None = None
        self._progress: ProgressWriter | None = None

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle without connections, threads and worker state, for other processes such as Spark's."""
        database = None if self._database is None else absolute_url(self._database)
        made_with = (self.place, None, self.codec, self.poll, self.unknown_work, self._job_of, database)
        return Context, made_with, {name: self.__dict__[name] for name in _KEPT}

    # -- the store

    @property
    def url(self) -> str:
        """The store's URL. Raises InvalidInput if none was given."""
        url = self._url() if callable(self._url) else self._url or os.environ.get(environment.URL)
        if not url:
            raise InvalidInput("no store: pass a URL, such as Stanchion('sqlite:///jobs.db'), or set STANCHION_URL")
        return url

    @property
    def database(self) -> str | None:
        """The URL of the database behind managers, for `tx=`."""
        return self._database

    @property
    def place(self) -> str:
        """The store's URL, with a file's path relative to the folder where the app was made."""
        return absolute_url(self.url, self._folder)

    @property
    def store(self) -> Store:
        """The store, opened and checked on first use."""
        self.blocking.check()
        return self._store or self._opened()

    def _opened(self) -> Store:
        with self._opening:
            if self._store is None:
                if (store := self._given) is None:
                    place = self.place
                    store = open_store(place, self._database)
                    store.check()
                    self._opened_at = place
                self._store = self._with_delays(with_partitions(store, always=self._partitions))
                self._noticed_at = time.monotonic()
        return self._store

    def follow_url(self) -> None:
        """Close the store if its URL is a function that returns another one by now: the next call opens that store."""
        if self._opened_at is None or not callable(self._url) or self._opened_at == self.place:
            return
        self.close()
        self._store = self._opened_at = self._waits = None

    def use_partitions(self) -> None:
        """Use queues with partitions from now on, as this process declares or sets some."""
        with self._opening:
            self._partitions = True
            if self._store is not None:
                self._store = with_partitions(self._store, always=True)

    @property
    def fresh_store(self) -> Store:
        """The store, for a call that is not about single jobs: it knows the partitions of READ_SECONDS ago at least."""
        store = self.store
        return store if time.monotonic() - self._noticed_at < READ_SECONDS else self.notice_partitions()

    def current_store(self) -> Store:
        """The store, with the partitions of queues whose settings were read since it was opened."""
        return self.notice_partitions() if self.settings.unknown_partitions else self.store

    def notice_partitions(self) -> Store:
        """Notice queues that other processes have partitioned since; return the store to use from now on."""
        self.settings.unknown_partitions = False
        self._noticed_at = time.monotonic()
        store = self.store
        if (partitions := store.extension(Partitions)) is not None:
            partitions.read_layouts()
        else:
            self._store = store = with_partitions(store)
        return store

    def _with_delays(self, store: Store) -> Store:
        """Apply the retry policies of tasks to jobs that lose their lease."""
        store.lost_lease_delay = self._lost_lease_delay
        return store

    def _lost_lease_delay(self, row: JobRow, number: int) -> float:
        """Return the seconds that a job waits after its `number`-th lost lease."""
        work = self.registry.work_of(row)
        retry = self.retry if work is None else work.retry
        return delay_anyway(retry, number, LeaseLost(row.id), row.task)

    def setup(self) -> None:
        """Create or migrate the tables, and store declarations of the code, such as settings and limits."""
        self.blocking.check()
        store = self._store or self._given or open_store(self.place, self._database)
        try:
            store.setup()
            store = with_partitions(store, always=self._partitions)
            self.semaphores.store(store)
            self.declared.store(store, self.declared)
            self.schemas.store(store, self.schemas.declared)
            self.store_texts(store)
            self.store_subscriptions(store)
            self.store_pipelines(store)
            self.registry.prepare(store, self.registry.stations)
        finally:
            if self._store is None and self._given is None:
                store.close()

    @contextmanager
    def on_store(self, store: Store) -> Iterator[None]:
        """Use another store within the block."""
        before, self._store = self._store, self._with_delays(with_partitions(store, always=self._partitions))
        waits, self._waits = self._waits, None
        opened_at, self._opened_at = self._opened_at, None
        try:
            yield
        finally:
            if self._waits is not None:
                self._waits.close()
            self._store, self._waits, self._opened_at = before, waits, opened_at
            if self._partitions:
                self.use_partitions()  # declared within the block

    def transaction(self) -> AbstractContextManager[object]:
        """Open a transaction of the store. Raises CannotJoin if the store has none."""
        store = self.store
        if (transactions := store.extension(Transactions)) is None:
            raise CannotJoin(
                f"the {store.capabilities.name} store has no transactions that jobs could be part of: leave tx out, or "
                f"use a store on the database that holds your transaction"
            )
        return transactions.transaction()

    def close(self) -> None:
        """Release connections and threads; a later call reopens them. Pending waits end with an error."""
        self.blocking.check()
        if self._waits is not None:
            self._waits.close()
        self.calls.close()
        if (store := self._store or self._given) is not None:
            store.close()

    # -- declarations of the code

    def declare(self, queue: str, tx: object = None) -> None:
        """Store new declared settings of a queue, and new declared semaphores, rates and subscriptions.

        For the queue of a station, include the queues of the other stations, where its items may move.
        """
        store = self._store or self._opened()
        if self.semaphores.declared:
            self.semaphores.store(store, tx)
        if (
            self.declared.settings
            and not self.declared.is_stored(store)
            and self.declared.store(store, self.registry.queues_with(queue), tx)
        ):
            self.settings.forget()
        if not self.schemas.are_stored(store) and self.schemas.store(store, self.registry.queues_with(queue), tx):
            self.settings.forget()
        if self.registry.declared_topics and tx is None:
            self.store_subscriptions(store)
        if self.registry.pipelines and tx is None:
            self.store_pipelines(store)
        if tx is None:
            self.store_texts(store)

    def stored_rates(self) -> list[StoredRate]:
        """Store what this code declares, where it is new; return all declared rates in the store, by name."""
        self.store_texts(self.store)
        return stored_rates(self.store)

    def store_texts(self, store: Store) -> None:
        """Store what tasks hide, and declared rates, where they are new or were lost.

        Not within a caller's transaction: on SQLite this write would wait for the lock that the transaction holds. The
        next call without one stores them.
        """
        if self.hidden.declared:
            self.hidden.store(store)
        self.rates.store(store)

    def store_pipelines(self, store: Store) -> None:
        """Store the stations of declared pipelines, where they are new."""
        for pipeline in self.registry.pipelines.values():
            pipeline.store_record(store)

    def store_subscriptions(self, store: Store) -> None:
        """Store new declared subscriptions."""
        for topic in self.registry.declared_topics.values():
            topic.store_declared(store)

    def keep_declared(self) -> None:
        """Check from time to time that declarations are still stored; see `DeclaredQueues` and `DeclaredTexts`."""
        store = self.store
        if self.declared.keep(store):
            self.settings.forget()
        self.schemas.keep(store)
        self.store_pipelines(store)
        self.store_texts(store)

    def value_of(self, content: Content | None) -> object:
        """Return the value of a stored content: a `Chunk` if it carries many items."""
        if not isinstance(content, bytes):
            return self.codec.decode(content)
        from stanchion.core.chunks.stored import opened

        return opened(self.codec, content)

    def check_fits(self, job: NewJob) -> None:
        """Raise PayloadMisfit for a job that is about to move to a queue whose schema it does not fit."""
        if concerned := self.settings.of(self.store, {job.queue}):
            self.schemas.check(self.store, self.codec, [job], concerned)

    def declared_rate(self, name: str) -> float | None:
        """Return the starts per second that are declared for a rate, in this code or in the store."""
        return self.rates.of(name, lambda: self.store)

    def store_semaphores(self, tx: object = None) -> Store:
        """Store new declared semaphores; return the store."""
        return self.semaphores.store(self.store, tx)

    # -- for waits and upkeep, made at first use: a program that only enqueues needs neither

    @property
    def waits(self) -> Waits:
        """The waiters of this process."""
        return self._waits or self._made_waits()

    def _made_waits(self) -> Waits:
        from stanchion.waits import Waits

        with self._making:
            if self._waits is None:
                self._waits = Waits(self)
            return self._waits

    @property
    def progress(self) -> ProgressWriter:
        """The progress of jobs that run here, before it is written."""
        return self._progress or self._made_progress()

    def _made_progress(self) -> ProgressWriter:
        from stanchion.context.progress import ProgressWriter

        with self._making:
            if self._progress is None:
                self._progress = ProgressWriter(self)
            return self._progress

    @property
    def upkeep(self) -> Upkeep:
        """The upkeep of the store by this process."""
        return self._upkeep or self._made_upkeep()

    def _made_upkeep(self) -> Upkeep:
        from stanchion.context.upkeep import Upkeep

        with self._making:
            if self._upkeep is None:
                self._upkeep = Upkeep(self)
            return self._upkeep

    def before_claim(self, queue: str) -> None:
        """Store the queue's declared settings and start upkeep if due; called before each claim."""
        self.upkeep.nudge()
        self.declare(queue)

    def answered(self) -> None:
        """Take in that the store has just answered a call of this process."""
        self.upkeep.steadiness.answered()

    def fire_dead(self, row: JobRow) -> None:
        """Fire the event for a job that died by a lost lease."""
        self.events.fire("dead", self._job_of(self, row), LeaseLost(row.id))

    def __repr__(self) -> str:
        url = "of a function" if callable(self._url) else shown_url(self._url) if self._url else self._given
        return f"<Stanchion {url}>"


def _new_traces() -> Traces:
    from stanchion.telemetry.traces import Traces

    return Traces()
