"""The app: one store, its queues and its tasks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from stanchion.app.jobs import JobCalls
from stanchion.app.project import ProjectCalls
from stanchion.app.queues import QueueCalls
from stanchion.app.running import RunCalls
from stanchion.app.store import StoreCalls
from stanchion.app.tasks import TaskCalls
from stanchion.context.context import Context
from stanchion.context.unknown_work import A_DAY, UnknownWork
from stanchion.core.concurrency.blocking import BlockingCalls
from stanchion.core.retry import Retry
from stanchion.core.values.codec import MAX_PAYLOAD, Codec
from stanchion.jobs.call import COLLECT, collected
from stanchion.jobs.options import checked_span
from stanchion.tasks.task import checked_retry
from stanchion.tasks.work import TaskWork

if TYPE_CHECKING:
    from stanchion.jobs.job import Job
    from stanchion.stores.protocol import Store
    from stanchion.stores.records.jobs import JobRow


class Stanchion(StoreCalls, QueueCalls, TaskCalls, ProjectCalls, JobCalls, RunCalls):
    """One store, its queues and its tasks.

    `url`: the store, such as `sqlite:///jobs.db`, `postgresql://user@host/db` or `memory://`; by default STANCHION_URL.
    It connects at first use, when a function given as `url` is called for it. `keys`: Fernet keys, newest first, to
    encrypt payloads and results. `max_payload`: the largest payload in bytes. `poll`: seconds between polls of all live
    workers together, the fallback for lost signals. `bury_unknown_after`: seconds for which a job of an unknown task is
    put off before it is dead. `timeout`: seconds that an attempt may run if neither its job, its task nor its queue
    says so. `database`: with a URL of managers, that of their database, for `tx=`. `traces`: make OpenTelemetry spans.
    `discover`: packages whose modules called `tasks` are imported when a process first needs them; see `include`.
    `retry`: the retry policy of tasks that have none, and of bare payloads. `warn_blocking`: log a warning, once for
    each method, if a call blocks a running event loop.

    `encode`, `decode`: convert types of your own. `encode(value)` returns the plain value of an instance, or
    NotImplemented for a type that it does not know; `decode(cls, plain)` makes an instance of the class that a
    parameter or a result is annotated with.

    As a block, `with app:` or `async with app:`, it is closed at the end.
    """

    def __init__(
        self,
        url: str | Callable[[], str] | None = None,
        *,
        store: Store | None = None,
        keys: Sequence[str | bytes] = (),
        max_payload: int = MAX_PAYLOAD,
        poll: float = 0.5,
        bury_unknown_after: float | timedelta = A_DAY,
        timeout: float | timedelta | None = None,
        database: str | None = None,
        traces: bool = False,
        discover: Sequence[str] = (),
        retry: Retry | None = None,
        warn_blocking: bool = True,
        encode: Callable[[Any], object] | None = None,
        decode: Callable[[type, Any], object] | None = None,
    ) -> None:
        codec, unknown_work = Codec(keys, max_payload, encode), UnknownWork(bury_unknown_after)
        self._context = Context(url, store, codec, poll, unknown_work, _job_of, database, traces)
        self._context.blocking = BlockingCalls(warn=warn_blocking)
        self._context.decode = decode
        self._context.timeout = checked_span(timeout)
        self._context.registry.includes.discover(discover)
        self._context.retry = checked_retry(retry) or self._context.retry
        self._context.registry.built_in[COLLECT] = TaskWork(self._context, collected, COLLECT, self._context.retry, {})

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle without connections, threads and worker state, for other processes, such as Spark executors."""
        return app_of, (self._context,)

    def __repr__(self) -> str:
        return repr(self._context)


def app_of(context: Context) -> Stanchion:
    """Return an app that shares the context of another one, or of a pipeline."""
    app = Stanchion.__new__(Stanchion)
    app._context = context
    return app


def _job_of(context: Context, row: JobRow) -> Job:
    """Return a stored row as the job that listeners get."""
    from stanchion.jobs.lookup import job_of

    return job_of(context, row)
