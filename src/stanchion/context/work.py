"""Work: the task or station that a job calls."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

if TYPE_CHECKING:
    from stanchion.core.retry import Retry
    from stanchion.stores.protocol import Store
    from stanchion.stores.records.jobs import JobRow, NewJob
    from stanchion.stores.records.outcomes import Ending, Outcome


class Models(Protocol):
    """The parameters and the result of a function that are models."""

    def given(self, args: Sequence[object], kwargs: Mapping[str, object]) -> tuple[list[object], dict[str, object]]:
        """Return stored arguments as the function gets them. Raises ArgumentMisfit."""

    def stored_result(self, value: object) -> object:
        """Return a result as it is stored. Raises ResultMisfit."""

    def given_result(self, value: object) -> object:
        """Return a stored result as the function has returned it. Raises ResultMisfit."""


class Checks(Protocol):
    """The expectations of a function for its payload."""

    def check(self, store: Store, row: JobRow, item: object) -> None:
        """Raise the outcome of a job whose payload does not meet it."""


class Batching(NamedTuple):
    """How one call of a function gets many jobs.

    `size`: the most jobs of a call. `wait`: seconds for more jobs, from the first one in hand. `signature`: of the
    function. `jobs_parameter`: the parameter that gets the jobs.
    """

    size: int
    wait: float
    signature: inspect.Signature
    jobs_parameter: str | None


class Work(Protocol):
    """A function, with everything needed to run it for a job.

    `name`: for logs and errors. `timeout`: seconds per attempt, for jobs without their own. `attempts_max`: attempts
    after which a failed job is dead; None: by the job. `job_parameter`: the parameter that gets the job;
    `failure_parameter`: the one that gets why a part of a flow has failed.
    `models`: the parameters and the result that are models, if any. `expectations`: for a payload, if any. `batching`:
    of a function that gets many jobs at once; `signature` and `models` are of the call of one job.
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
    def failure_parameter(self) -> str | None: ...
    @property
    def models(self) -> Models | None: ...
    @property
    def expectations(self) -> Checks | None: ...
    @property
    def batching(self) -> Batching | None: ...
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

    def arguments(self, payload: object) -> tuple[list[object], dict[str, object]]:
        """Return the arguments in a payload. Raises ValueError if it is not for this work."""

    def refused(self, row: JobRow) -> str | None:
        """Return why a reserved job must not run, or None."""

    def of_chunk(self, row: JobRow) -> Work:
        """Return the work of a job that carries a chunk. Raises StanchionError if it takes none."""

    def outcome(self, row: JobRow, payload: object, value: object) -> Outcome:
        """Return the outcome of a job whose function returned a value. Raises InvalidInput for a wrong value."""


class QueueWork(Work, Protocol):
    """Work on the bare payloads of one queue.

    `on_workers`: whether workers can run it. `queues`: the queues that its items may enter, including its own.
    """

    @property
    def on_workers(self) -> bool: ...
    @property
    def queues(self) -> Collection[str]: ...

    def passes_to(self, queue: str) -> bool:
        """Return whether jobs may pass in memory to the work of another queue, as far as that follows from the code."""

    def fitted(self, job: NewJob) -> NewJob:
        """Return a new job with the options that this work sets. Raises InvalidInput if the job's own contradict."""

    def check_worked(self) -> None:
        """Raise InvalidInput unless a worker can run it."""

    def cut(self, row: JobRow) -> Ending:
        """Return the outcome that cuts a chunk into parts, which run as if it had not been begun."""

    def prepare(self, store: Store) -> None:
        """Make what it needs in the store besides its queue. Raises InvalidInput if that can't be."""


class DeclaredTopic(Protocol):
    """The subscriptions that code declares, of one topic."""

    def store_declared(self, store: Store) -> None:
        """Store new declared subscriptions."""
