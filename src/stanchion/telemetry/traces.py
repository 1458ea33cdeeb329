"""Traces of OpenTelemetry, by its semantic conventions for messaging. The trace context travels in a job's headers.

push mail ──traceparent, tracestate──► process welcome, attempt 1 (failed)
                                  └──► process welcome, attempt 2    each is a child of the push, and linked to it
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from stanchion.core.checks import MAX_HEADERS
from stanchion.core.partition_names import logical_name
from stanchion.errors import MissingExtra
from stanchion.stores.records.jobs import JobRow, NewJob

if TYPE_CHECKING:
    from opentelemetry.trace import Span

TRACEPARENT: Final = "traceparent"
TRACESTATE: Final = "tracestate"

Headers = Mapping[str, str]
"""The headers of a trace context; none if there is no trace."""


class Traces:
    """Makes the spans of one app, by the tracer provider of the process. Raises MissingExtra."""

    def __init__(self) -> None:
        try:
            from opentelemetry import trace
            from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
        except ModuleNotFoundError:
            raise MissingExtra("opentelemetry", "traces=True") from None
        self._trace, self._propagator = trace, TraceContextTextMapPropagator()
        self._tracer = trace.get_tracer("stanchion")  # follows a provider that is set later

    def __reduce__(self) -> tuple[Any, ...]:
        return Traces, ()

    @contextmanager
    def pushing(self, jobs: Sequence[NewJob], flow: str | None = None) -> Iterator[Span]:
        """Make the span of a push, the current one within the block."""
        queues = {logical_name(job.queue) for job in jobs}
        attributes = _operation("push", "send", queues.pop() if len(queues) == 1 else None, flow)
        if len(jobs) > 1:
            attributes["messaging.batch.message_count"] = len(jobs)
        name = " ".join(("push", *([attributes[_QUEUE]] if _QUEUE in attributes else ())))
        kind = self._trace.SpanKind.PRODUCER
        with self._tracer.start_as_current_span(
            name, kind=kind, attributes=attributes, record_exception=False, set_status_on_exception=False
        ) as span:
            try:
                yield span
            except BaseException as error:
                self.failed(span, error)
                raise

    def pushed(self, span: Span, job_id: str) -> None:
        """Name the only job of a push: for a duplicate, the one that has the key."""
        span.set_attribute(_MESSAGE_ID, job_id)

    def stamped(self, jobs: list[NewJob]) -> list[NewJob]:
        """Return new jobs with the current trace context, except for those with one of their own."""
        headers = self._headers()
        return [self.under(headers, job) for job in jobs] if headers else jobs

    def processing(self, row: JobRow, name: str) -> Span:
        """Start the span of an attempt: a child of the push, whatever runs in this thread, and linked to it."""
        given = self._propagator.extract(trace_headers(row.headers))
        pushed = self._trace.get_current_span(given).get_span_context()
        attributes = _operation("process", "process", logical_name(row.queue), row.flow_root)
        attributes |= {_MESSAGE_ID: row.id, "stanchion.job.attempt": row.attempts, "stanchion.job.task": name}
        return self._tracer.start_span(
            f"process {name}",
            given,
            self._trace.SpanKind.CONSUMER,
            attributes,
            [self._trace.Link(pushed)] if pushed.is_valid else [],
        )

    def enter(self, span: Span) -> None:
        """Make a span the current one, until the end of this `contextvars.Context`."""
        from opentelemetry.context import attach

        attach(self._trace.set_span_in_context(span))

    def failed(self, span: Span, error: BaseException) -> None:
        """Note the error that ends a span."""
        span.record_exception(error)
        span.set_attribute("error.type", type(error).__qualname__)
        span.set_status(self._trace.Status(self._trace.StatusCode.ERROR, type(error).__name__))

    def of(self, span: Span) -> Headers:
        """Return the headers of what a span causes."""
        return self._headers(self._trace.set_span_in_context(span))

    def _headers(self, context: Any = None) -> Headers:
        headers: dict[str, str] = {}
        self._propagator.inject(headers, context)
        return headers

    def under(self, headers: Headers, job: NewJob, inherited: Headers | None = None) -> NewJob:
        """Return a job with the headers of a trace context, unless it has one of its own.

        `inherited`: the context of the job that it continues, which is not its own.
        """
        own = trace_headers(job.headers)
        if own and own != inherited and self._is_valid(own):
            return job
        return job._replace(headers=with_trace(job.headers, headers))

    def _is_valid(self, headers: Headers) -> bool:
        context = self._propagator.extract(headers)
        return self._trace.get_current_span(context).get_span_context().is_valid


def traces_if(wanted: bool) -> Traces | None:
    """Return traces if they are wanted."""
    return Traces() if wanted else None


def trace_headers(text: str | None) -> dict[str, str]:
    """Return the trace context among the headers of a job, as it was given. What is not text is left out."""
    if text is None or TRACEPARENT not in text:
        return {}
    try:
        headers = json.loads(text)
    except ValueError:  # stored by something else
        return {}
    found = headers if isinstance(headers, dict) else {}
    return {name: value for name in (TRACEPARENT, TRACESTATE) if isinstance(value := found.get(name), str)}


def with_trace(text: str | None, headers: Headers) -> str | None:
    """Return the headers of a job with another trace context; unchanged where they have no room for it."""
    given = json.loads(text) if text else {}
    kept = {name: value for name, value in given.items() if name not in (TRACEPARENT, TRACESTATE)}
    changed = json.dumps({**kept, **headers}, separators=(",", ":"), ensure_ascii=False)
    return changed if len(changed) <= MAX_HEADERS else text


_QUEUE: Final = "messaging.destination.name"
_MESSAGE_ID: Final = "messaging.message.id"


def _operation(name: str, kind: str, queue: str | None, flow: str | None) -> dict[str, Any]:
    """Return the attributes of an operation; `kind` is its type in the conventions."""
    attributes = {
        "messaging.system": "stanchion",
        "messaging.operation.name": name,
        "messaging.operation.type": kind,
        _QUEUE: queue,
        "messaging.message.conversation_id": flow,
    }
    return {name: value for name, value in attributes.items() if value is not None}
