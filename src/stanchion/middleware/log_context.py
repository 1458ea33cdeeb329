"""The job of each log record: its id, task and attempt, and the span that is current."""

from __future__ import annotations

import logging
import sys
from contextvars import ContextVar

from stanchion.tasks.middleware import AsyncCallNext, Attempt, CallNext

_current: ContextVar[dict[str, object] | None] = ContextVar("stanchion_log_context", default=None)


class LogContext:
    """Middleware that adds `job`, `task`, `attempt` and `queue` to the log records of an attempt.

    For a batch, `jobs`, their number, in place of `job` and `attempt`. Also `trace_id` and `span_id`, if OpenTelemetry
    has a span. A field that the call of the logger gives in `extra` stays. Threads that get a copy of the context, as
    by `asyncio.to_thread`, are included.
    """

    def __init__(self) -> None:
        self._filter = _Fields()
        self._loggers = -1

    def run(self, attempt: Attempt, call_next: CallNext) -> object:
        """Run the rest of a sync attempt."""
        self._attach()
        before = _current.set(_fields_of(attempt))
        try:
            return call_next()
        finally:
            _current.reset(before)

    async def arun(self, attempt: Attempt, call_next: AsyncCallNext) -> object:
        """Run the rest of an async attempt."""
        self._attach()
        before = _current.set(_fields_of(attempt))
        try:
            return await call_next()
        finally:
            _current.reset(before)

    def _attach(self) -> None:
        """Add the fields to the records of each handler, including handlers made since the last attempt.

        A filter of a handler sees all records, one of a logger only its own.
        """
        handlers = list(logging.root.handlers)
        if (number := len(logging.root.manager.loggerDict)) != self._loggers:
            self._loggers = number
            for logger in list(logging.root.manager.loggerDict.values()):
                if isinstance(logger, logging.Logger):
                    handlers += logger.handlers
        for handler in handlers:
            if self._filter not in handler.filters:
                handler.addFilter(self._filter)


class _Fields(logging.Filter):
    def filter(self, record: logging.LogRecord) -> bool:
        if (fields := _current.get()) is not None:
            for name, value in (fields | _span()).items():
                record.__dict__.setdefault(name, value)
        return True


def _fields_of(attempt: Attempt) -> dict[str, object]:
    if attempt.is_batch:
        return {"jobs": len(attempt.jobs), "task": attempt.task, "queue": attempt.jobs[0].queue}
    job = attempt.job
    return {"job": job.id, "task": attempt.task, "attempt": job.attempt, "queue": job.queue}


def _span() -> dict[str, str]:
    # Another thread may be importing it now.
    current = getattr(sys.modules.get("opentelemetry.trace"), "get_current_span", None)
    if current is None:
        return {}
    context = current().get_span_context()
    if not context.is_valid:
        return {}
    return {"trace_id": f"{context.trace_id:032x}", "span_id": f"{context.span_id:016x}"}
