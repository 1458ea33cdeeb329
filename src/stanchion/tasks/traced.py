"""An attempt inside its span, and the trace context of its continuation."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextvars import copy_context
from typing import TYPE_CHECKING, TypeVar

from stanchion.errors import TaskInterrupted, seen_outside
from stanchion.jobs.outcome import Cancel, Outcome, Snooze
from stanchion.stores.records import outcomes
from stanchion.stores.records.jobs import JobRow
from stanchion.stores.rules.lifecycle.outcomes import leaving_by
from stanchion.telemetry.traces import Traces, trace_headers, with_trace

if TYPE_CHECKING:
    from opentelemetry.trace import Span


T = TypeVar("T")


class TracedAttempt:
    """One attempt at a job, with its span, which the attempts of a batch share.

    `mask`: returns what hides values of the job in texts.
    """

    __slots__ = ("_mask", "_row", "_span", "_traces")

    def __init__(
        self, traces: Traces, row: JobRow, span: Span, mask: Callable[[], Callable[[str], str] | None]
    ) -> None:
        self._traces, self._row, self._span, self._mask = traces, row, span, mask

    def run(self, call: Callable[[], T]) -> T:
        """Call a function inside the span.

        In a copy of the thread's context: a time-out can interrupt any step, and the span must not stay current.
        """
        return copy_context().run(self._run, call)

    def _run(self, call: Callable[[], T]) -> T:
        try:
            self._traces.enter(self._span)
            return self._returned(call())
        except BaseException as error:
            self._raised(error)
            raise
        finally:
            self._span.end()

    async def run_async(self, call: Callable[[], Awaitable[T]]) -> T:
        """Await a call inside the span; for a task of an event loop, which has a separate context."""
        try:
            self._traces.enter(self._span)
            return self._returned(await call())
        except BaseException as error:
            self._raised(error)
            raise
        finally:
            self._span.end()

    def _returned(self, value: T) -> T:
        if isinstance(value, Outcome):
            self._raised(value)
        return value

    def _raised(self, error: BaseException) -> None:
        if not isinstance(error, Snooze | Cancel):
            seen = seen_outside(error) if isinstance(error, TaskInterrupted) else error
            self._traces.failed(self._span, seen, self._mask())

    def outcome(self, make: Callable[[], outcomes.Outcome]) -> outcomes.Outcome:
        """Return the outcome of a call; the job's continuation is under the span of this attempt."""
        return self._continued(copy_context().run(self._made, make))

    def _made(self, make: Callable[[], outcomes.Outcome]) -> outcomes.Outcome:
        self._traces.enter(self._span)
        return make()

    def _continued(self, outcome: outcomes.Outcome) -> outcomes.Outcome:
        if isinstance(outcome, outcomes.Commit) and not outcome.jobs:  # most are so, and need no headers
            return outcome
        headers, inherited = self._traces.of(self._span), trace_headers(self._row.headers)
        if not headers:
            return outcome
        match outcome:
            case outcomes.Move(headers=str(text)):
                return outcome._replace(headers=with_trace(text, headers))
            case outcomes.Continue(job=job, jobs=jobs):
                under = tuple(self._traces.under(headers, one, inherited) for one in (job, *jobs))
                return outcome._replace(job=under[0], jobs=under[1:])
            case outcomes.Commit(jobs=jobs):
                return outcome._replace(jobs=tuple(self._traces.under(headers, one, inherited) for one in jobs))
            case outcomes.Pass(headers=text, then=then):
                own = None if text is None else with_trace(text, headers)
                return leaving_by(outcome._replace(headers=own), self._continued(then))
        return outcome
