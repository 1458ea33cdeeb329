"""Job handles: the state of a job, and its result once it has finished."""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING, Generic, cast

from stanchion.context import HasContext, context_of
from stanchion.core.checks import checked_id
from stanchion.core.concurrency.aio import off_loop
from stanchion.core.types import R_co
from stanchion.errors import JobCancelled, JobFailed, JobNotFound, ResultTimeout
from stanchion.stores.records.jobs import JobState

if TYPE_CHECKING:
    from stanchion.jobs.job import Job
    from stanchion.waits.ends import SeenJob


class JobHandle(Generic[R_co]):
    """A reference to a job by its id. Its type names the result: `JobHandle[int]`."""

    __slots__ = ("_context", "duplicate", "id")

    def __init__(self, app: HasContext, job_id: str, *, duplicate: bool = False) -> None:
        self._context, self.id, self.duplicate = context_of(app), checked_id(job_id), duplicate

    def job(self) -> Job:
        """Read the job. Raises JobNotFound if it is neither live nor in history."""
        from stanchion.jobs import lookup

        found = lookup.get(self._context, self.id)
        if found is None:
            raise JobNotFound(self.id)
        return found

    def get_state(self) -> JobState:
        """Read the job's current state. Raises JobNotFound."""
        return self.job().state

    @property
    def state(self) -> JobState:
        """The job's current state, read from the store; see `get_state`."""
        return self.get_state()

    def cancel(self) -> JobState:
        """Cancel the job, or ask it to stop if it is running; return its new state."""
        from stanchion.jobs import lookup

        state = lookup.cancel(self._context, self.id)
        if state is None:
            raise JobNotFound(self.id)
        return state

    def result(self, timeout: float | None = None) -> R_co:
        """Wait until the job has finished and return its result, as a model if its task says that it returns one.

        Raises ResultTimeout after `timeout` seconds, or StoreUnavailable if the store does not answer by then;
        JobFailed for a dead job; JobCancelled; JobNotFound if the queue keeps no history; ResultMisfit for a result of
        another release that does not fit the task's annotation.
        """
        from stanchion.core.backoff import deadline_in

        return self._result_of(self._context.waits.for_job(self.id, deadline_in(timeout)).result(), timeout)

    async def aresult(self, timeout: float | None = None) -> R_co:
        """Await `result`. Waiting takes no thread."""
        from asyncio import get_running_loop

        from stanchion.core.backoff import deadline_in

        waiter = self._context.waits.for_job(self.id, deadline_in(timeout), get_running_loop())
        return self._result_of(await waiter.answer(), timeout)

    acancel = off_loop(cancel)
    ajob = off_loop(job)
    aget_state = off_loop(get_state)

    def __await__(self) -> Generator[object, object, R_co]:
        return self.aresult().__await__()

    def _result_of(self, seen: SeenJob, timeout: float | None) -> R_co:
        from stanchion.jobs.job import Job
        from stanchion.stores.rules.lifecycle.dead_letters import is_letter

        job = Job(self._context, seen.row, seen.state)
        if not job.state.final:
            raise ResultTimeout(
                f"job {job.id} is still {job.state} after {timeout} s; wait longer, or make sure that a worker "
                f"runs for queue {job.queue!r}"
            )
        if job.state is JobState.DONE:
            return cast(R_co, self._context.registry.given_result(job.task, job.result))
        last = job.errors[-1]["error"] if job.errors else "no error recorded"
        if job.state is JobState.CANCELLED:
            raise JobCancelled(f"job {job.id} was cancelled ({last})")
        where = f", in the dead-letter queue {job.queue!r}" if is_letter(seen.row) else ""
        raise JobFailed(
            f"job {job.id} is dead after {job.attempts} attempts{where}: {last}; fix the cause, then `retry` it"
        )

    def __repr__(self) -> str:
        return f"<JobHandle {self.id}>"
