"""Errors and transactions for Sentry."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from stanchion.errors import MissingExtra, TaskInterrupted, seen_outside
from stanchion.jobs.outcome import Outcome
from stanchion.tasks.middleware import AsyncCallNext, Attempt, CallNext


class Sentry:
    """Middleware that reports the errors of attempts to Sentry, and makes a transaction of each attempt.

    Call `sentry_sdk.init` yourself. An outcome that a task raises on purpose, such as Bury or RetryAfter, is no error.
    A job whose headers carry `sentry-trace` continues that trace. Raises MissingExtra without sentry-sdk.
    """

    def __init__(self) -> None:
        try:
            import sentry_sdk
        except ModuleNotFoundError:
            raise MissingExtra("sentry", "stanchion.middleware.Sentry") from None
        self._sdk = sentry_sdk

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), ()

    def run(self, attempt: Attempt, call_next: CallNext) -> object:
        """Run the rest of a sync attempt."""
        with self._reporting(attempt):
            return call_next()

    async def arun(self, attempt: Attempt, call_next: AsyncCallNext) -> object:
        """Run the rest of an async attempt."""
        with self._reporting(attempt):
            return await call_next()

    @contextmanager
    def _reporting(self, attempt: Attempt) -> Iterator[None]:
        job, sdk = attempt.jobs[0], self._sdk
        told: dict[str, object] = {"task": attempt.task, "queue": job.queue}
        if attempt.is_batch:
            told |= {"jobs": len(attempt.jobs)}
        else:
            told |= {"job": job.id, "attempt": job.attempt, "tenant": job.tenant}
        with sdk.isolation_scope() as scope:
            scope.clear_breadcrumbs()
            scope.set_transaction_name(attempt.task, source="task")
            scope.set_tag("stanchion.queue", job.queue)
            scope.set_context("stanchion", told)
            headers = {} if attempt.is_batch else job.headers or {}
            transaction = sdk.continue_trace(
                {name: value for name, value in headers.items() if isinstance(value, str)},
                op="queue.process",
                name=attempt.task,
                source="task",
            )
            outcome: Outcome | None = None
            with sdk.start_transaction(transaction):
                try:
                    yield
                except Outcome as raised:  # raised outside, as one that leaves the transaction would fail it
                    outcome = raised
                except TaskInterrupted as error:
                    transaction.set_status("deadline_exceeded")
                    sdk.capture_exception(seen_outside(error))
                    raise
                except Exception as error:
                    transaction.set_status("internal_error")
                    sdk.capture_exception(error)
                    raise
                transaction.set_status("ok")
            if outcome is not None:
                raise outcome
