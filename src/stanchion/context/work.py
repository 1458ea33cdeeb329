"""What a job calls, as those see it who run jobs: a task, or a station of a pipeline."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection
from typing import Any, Protocol

from stanchion.core.retry import Retry
from stanchion.stores.records.jobs import JobRow, NewJob
from stanchion.stores.records.outcomes import Outcome


class Work(Protocol):
    """A function, and what is to be known of it to run it for a job.

    `name`: for logs and errors. `timeout`: seconds that an attempt may take, for jobs that say nothing of it.
    `attempts_max`: attempts after which a failed job is dead; None: as the job says. `job_parameter`: the parameter
    that gets the job.
    """

    @property
    def name(self) -> str: ...
    @property
    def function(self) -> Callable[..., Any]: ...
    @property
    def signature(self) -> inspect.Signature: ...
    @property
    def job_parameter(self) -> str | None: ...
    @property
    def is_async(self) -> bool: ...
    @property
    def retry(self) -> Retry: ...
    @property
    def timeout(self) -> float | None: ...
    @property
    def attempts_max(self) -> int | None: ...
    @property
    def queue(self) -> str: ...

    def arguments(self, payload: Any) -> tuple[list[Any], dict[str, Any]]:
        """Return the arguments that a payload stands for; ValueError for one that is not for this work."""

    def refused(self, row: JobRow) -> str | None:
        """Return why a reserved job is not to be run any more, or None."""

    def outcome(self, row: JobRow, payload: Any, value: Any) -> Outcome:
        """Return what becomes of a job whose function returned a value; InvalidInput says what is wrong with that."""


class QueueWork(Work, Protocol):
    """Work on the bare payloads of one queue.

    `on_workers`: workers can do it. `queues`: those that its items may come to, its own included.
    """

    @property
    def on_workers(self) -> bool: ...
    @property
    def queues(self) -> Collection[str]: ...

    def fitted(self, job: NewJob) -> NewJob:
        """Return a job that comes from outside with what this work asks of its jobs; InvalidInput where it can't be."""

    def check_worked(self) -> None:
        """Raise InvalidInput, which says what to mend, unless a worker can do it."""
