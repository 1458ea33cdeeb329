"""The backend of django.tasks that stores tasks as jobs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from django.core.exceptions import ImproperlyConfigured
from django.db import connections
from django.utils import timezone

from stanchion.context import context_of
from stanchion.core.ids import ID
from stanchion.core.names.partition_names import checked_queue
from stanchion.core.times import moment
from stanchion.django.databases.commits import after_commits
from stanchion.django.databases.database import in_transaction
from stanchion.django.tasks import known
from stanchion.django.tasks.compat import (
    DEFAULT_TASK_BACKEND_ALIAS,
    BaseTaskBackend,
    InvalidTask,
    TaskResult,
    TaskResultDoesNotExist,
    TaskResultStatus,
    path_of,
    task_backends,
    task_enqueued,
)
from stanchion.django.tasks.options import alias_of, joins, problems
from stanchion.django.tasks.pending import pending, remember
from stanchion.django.tasks.results import RUN_AFTER, local, result_of
from stanchion.django.tasks.running import work_for
from stanchion.django.tasks.shared import shared
from stanchion.django.tasks.task import StanchionTask, check_options
from stanchion.errors import InvalidInput
from stanchion.jobs.insert import insert
from stanchion.jobs.job import FreshJob

if TYPE_CHECKING:
    from datetime import datetime

    from django.core.checks import CheckMessage

    from stanchion import Stanchion
    from stanchion.stores.records.jobs import NewJob, Pushed


class StanchionBackend(BaseTaskBackend):
    """Tasks as jobs in a database of the project, or in any other store.

    OPTIONS: `database`, the alias of the database that holds the jobs, by default "default", or `url`, a store
    elsewhere; and arguments of `Stanchion`: `retry`, `timeout`, `keys`, `max_payload`, `poll`, `bury_unknown_after`,
    `traces`, `warn_blocking`.

    A failed task is retried by `retry`, by default up to 25 attempts; `@task(max_attempts=1)` allows one.

    Within `transaction.atomic` of that database, a task is stored in the transaction. Within blocks of other databases
    only, it is stored once all of them are committed, and its result can be read from then on.
    """

    task_class = StanchionTask
    supports_defer = True
    supports_async_task = True
    supports_get_result = True
    supports_priority = True

    def __init__(self, alias: str, params: Mapping[str, object]) -> None:
        super().__init__(alias, params)
        self._database = alias_of(self.options)

    @property
    def app(self) -> Stanchion:
        """The app of the backend: there is one in each process."""
        app = shared(self.alias, self.options)
        context_of(app).registry.subscribed.update(self.queues)
        return app

    @property
    def served(self) -> list[str]:
        """The queues that a worker of this backend serves: QUEUES, or all if QUEUES is empty."""
        return sorted(self.queues) or ["*"]

    def validate_task(self, task: Any) -> None:
        """Take in a task that the backend can run. Raises InvalidTask for any other."""
        super().validate_task(task)
        try:
            checked_queue(task.queue_name)
            check_options(task)
        except InvalidInput as error:
            raise InvalidTask(str(error)) from error
        known.note(task)

    def enqueue(self, task: object, args: Sequence[object], kwargs: Mapping[str, object]) -> Any:
        """Store a call of a task.

        Raises InvalidTask, TypeError for arguments that JSON can't hold, and InvalidInput for ones that the function
        does not take.
        """
        self.validate_task(task)
        result = TaskResult(
            task=task,
            id="",
            status=TaskResultStatus.READY,
            enqueued_at=None,
            started_at=None,
            finished_at=None,
            last_attempted_at=None,
            args=list(args),
            kwargs=dict(kwargs),
            backend=self.alias,
            errors=[],
            worker_ids=[],
        )
        app = self.app
        job = self._job(app, task, result)
        object.__setattr__(result, "id", job.id)
        if joins(self.options) and in_transaction(self._database):
            pushed = self._store(app, job, result, tx=connections[self._database])
            remember(self._database, FreshJob(context_of(app), job, pushed))
        else:
            after_commits(partial(self._store, app, job, result))
        return result

    def get_result(self, result_id: object) -> object:
        """Return the result of a task. Raises TaskResultDoesNotExist if history no longer has it, or never had."""
        job = None
        if isinstance(result_id, str) and ID.fullmatch(result_id):
            job = self.app.get(result_id) or pending(self._database, result_id)
        task = None if job is None or job.task is None else known.found(job.task)
        if job is None or task is None:
            raise TaskResultDoesNotExist(result_id)
        return result_of(task, job, self.alias)

    def check(self, **_options: object) -> Iterable[CheckMessage]:
        """Return the errors in its settings."""
        return problems(self.alias, self.options, self.queues)

    def _job(self, app: Stanchion, task: Any, result: Any) -> NewJob:
        """Return the job of a call."""
        options: dict[str, object] = {"queue": task.queue_name, "priority": task.priority}
        if task.run_after is not None:
            options |= {"run_at": _aware(task.run_after), "headers": {RUN_AFTER: task.run_after.isoformat()}}
        context_of(app).registry.subscribed.add(task.queue_name)
        own = work_for(app, self.alias, path_of(task))
        if own is None:
            raise InvalidTask(f"{path_of(task)} is no task: decorate the function under its own name")
        return own.calls(**options).job(tuple(result.args), result.kwargs)

    def _store(self, app: Stanchion, job: NewJob, result: object, tx: object = None) -> Pushed:
        (pushed,) = insert(context_of(app), [job], tx)
        object.__setattr__(result, "enqueued_at", local(moment(pushed.enqueued_at)))
        task_enqueued.send(type(self), task_result=result)
        return pushed


def _aware(at: datetime) -> datetime:
    """Return a time of Django's, which is naive and local with USE_TZ=False."""
    return timezone.make_aware(at) if timezone.is_naive(at) else at


def app_of(backend_alias: str = DEFAULT_TASK_BACKEND_ALIAS) -> Stanchion:
    """Return the app of a backend in settings.TASKS, for queues, flows, schedules and tasks of Stanchion itself.

    There is one in each process. Raises ImproperlyConfigured if the backend is not Stanchion's.
    """
    backend = task_backends[backend_alias]
    if not isinstance(backend, StanchionBackend):
        kind = type(backend)
        raise ImproperlyConfigured(
            f"TASKS[{backend_alias!r}] has the backend {kind.__module__}.{kind.__qualname__}, which has no app: set "
            f"its BACKEND to 'stanchion.django.StanchionBackend'"
        )
    return backend.app
