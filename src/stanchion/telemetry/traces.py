"""Traces of OpenTelemetry, by its semantic conventions for messaging. The trace context travels in a job's headers.

push mail ──traceparent, tracestate──► process welcome, attempt 1 (failed)
                                  └──► process welcome, attempt 2    each is a child of the push, and linked to it
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from traceback import format_exception
from typing import TYPE_CHECKING, Final

from stanchion.core.checks import MAX_HEADERS
from stanchion.core.names.partition_names import logical_name
from stanchion.core.text.error_texts import type_name
from stanchion.core.text.redaction import redacted
from stanchion.core.times import iso, moment
from stanchion.errors import MissingExtra
from stanchion.stores.records.jobs import SECOND, JobRow, NewJob

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.trace import Link, Span, SpanContext, SpanKind
    from opentelemetry.util.types import AttributeValue

TRACEPARENT: Final = "traceparent"
TRACESTATE: Final = "tracestate"

LINKS: Final = 128
"""Pushes that the span of several jobs is linked to; an SDK keeps no more by default."""

SCHEMA_URL: Final = "https://opentelemetry.io/schemas/1.30.0"
"""The release of the semantic conventions that the attributes of spans are of."""

Headers = Mapping[str, str]
"""The headers of a trace context; none if there is no trace."""


class Traces:
    """Makes the spans of one app, by the tracer provider of the process. Raises MissingExtra."""

    def __init__(self) -> None:
        from importlib.metadata import version

        try:
            from opentelemetry import trace
            from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
        except ModuleNotFoundError:
            raise MissingExtra("opentelemetry", "traces=True") from None
        self._trace, self._propagator = trace, TraceContextTextMapPropagator()
        # It follows a provider that is set later.
        self._tracer = trace.get_tracer("stanchion", version("stanchion"), schema_url=SCHEMA_URL)

    def __reduce__(self) -> tuple[object, ...]:
        return Traces, ()

    @contextmanager
    def pushing(self, jobs: Sequence[NewJob], flow: str | None = None) -> Iterator[Span]:
        """Make the span of a push, the current one within the block."""
        queues = {logical_name(job.queue) for job in jobs}
        attributes = _operation("push", "send", queues.pop() if len(queues) == 1 else None, flow)
        if len(jobs) > 1:
            attributes[_COUNT] = len(jobs)
        with self._within(self._started(self._trace.SpanKind.PRODUCER, attributes)) as span:
            yield span

    def pushed(self, span: Span, job_id: str) -> None:
        """Name the only job of a push: for a duplicate, the one that has the key."""
        span.set_attribute(_MESSAGE_ID, job_id)

    def stamped(self, jobs: list[NewJob]) -> list[NewJob]:
        """Return new jobs with the current trace context, except for jobs that have one."""
        headers = self._headers()
        return [self.under(headers, job) for job in jobs] if headers else jobs

    def processing(self, row: JobRow, name: str) -> Span:
        """Start the span of an attempt: a child of the push, whatever runs in this thread, and linked to it."""
        given, pushed = self._pushed(row)
        attributes = _operation("process", "process", logical_name(row.queue), row.flow_root)
        attributes |= {_MESSAGE_ID: row.id, "stanchion.job.attempt": row.attempts, "stanchion.job.task": name}
        attributes |= _timing([row])
        return self._tracer.start_span(
            f"process {name}",
            given,
            self._trace.SpanKind.CONSUMER,
            attributes,
            [self._trace.Link(pushed)] if pushed.is_valid else [],
        )

    def processing_batch(self, rows: Sequence[JobRow], name: str) -> Span:
        """Start the span of an attempt at jobs: a child of the push of one job, linked to the pushes of several."""
        if len(rows) == 1:
            return self.processing(rows[0], name)
        attributes = _operation("process", "process", logical_name(rows[0].queue))
        attributes |= {_COUNT: len(rows), "stanchion.job.task": name, **_timing(rows)}
        none = self._propagator.extract({})
        return self._tracer.start_span(
            f"process {name}", none, self._trace.SpanKind.CONSUMER, attributes, self._links(rows)
        )

    @contextmanager
    def receiving(self, queue: str, name: str) -> Iterator[list[JobRow]]:
        """Make the span of a call that takes jobs of a queue, if it took some: those added to the list."""
        rows, began = list[JobRow](), time.time_ns()
        try:
            yield rows
        except BaseException as error:
            span = self._of_jobs(self._trace.SpanKind.CLIENT, _operation(name, "receive", queue), rows, began)
            self.failed(span, error)
            span.end()
            raise
        if rows:
            self._of_jobs(self._trace.SpanKind.CLIENT, _operation(name, "receive", queue), rows, began).end()

    @contextmanager
    def settling(self, rows: Sequence[JobRow], name: str) -> Iterator[None]:
        """Make the span of a call that ends reserved jobs."""
        queues = {logical_name(row.queue) for row in rows}
        attributes = _operation(name, "settle", queues.pop() if len(queues) == 1 else None)
        with self._within(self._of_jobs(self._trace.SpanKind.CLIENT, attributes, rows)):
            yield

    def block(self, queue: str, rows: Sequence[JobRow], size: int | None = None) -> Block:
        """Begin the span of work on jobs of a queue: a child of the push of one job, linked to the pushes of several.

        `size`: the number of jobs, some of which are `rows`.
        """
        if size is None and len(rows) == 1:
            return Block(self, self.processing(rows[0], rows[0].task or logical_name(queue)))
        attributes = _operation("process", "process", logical_name(queue))
        return Block(self, self._of_jobs(self._trace.SpanKind.CONSUMER, attributes, rows, size=size))

    def _of_jobs(
        self,
        kind: SpanKind,
        attributes: dict[str, AttributeValue],
        rows: Sequence[JobRow],
        began: int | None = None,
        size: int | None = None,
    ) -> Span:
        """Start the span of an operation on jobs, linked to their pushes; up to LINKS of them."""
        if attributes["messaging.operation.type"] != "settle":
            attributes |= _timing(rows)
        if size is None and len(rows) == 1:
            attributes[_MESSAGE_ID] = rows[0].id
        else:
            attributes[_COUNT] = len(rows) if size is None else size
        return self._started(kind, attributes, self._links(rows), began)

    def _started(
        self,
        kind: SpanKind,
        attributes: dict[str, AttributeValue],
        links: Sequence[Link] = (),
        began: int | None = None,
    ) -> Span:
        named = (str(attributes[name]) for name in ("messaging.operation.name", _QUEUE) if name in attributes)
        return self._tracer.start_span(" ".join(named), kind=kind, attributes=attributes, links=links, start_time=began)

    def _links(self, rows: Sequence[JobRow]) -> list[Link]:
        found: dict[tuple[int, int], Link] = {}
        for row in rows:
            if len(found) == LINKS:
                break
            pushed = self._pushed(row)[1]
            if pushed.is_valid:
                found[pushed.trace_id, pushed.span_id] = self._trace.Link(pushed)
        return list(found.values())

    def _pushed(self, row: JobRow) -> tuple[Context, SpanContext]:
        """Return the trace context that a job has, and the span in it."""
        given = self._propagator.extract(trace_headers(row.headers))
        return given, self._trace.get_current_span(given).get_span_context()

    @contextmanager
    def _within(self, span: Span) -> Iterator[Span]:
        block = Block(self, span)
        try:
            yield span
        except BaseException as error:
            block.end(error)
            raise
        block.end()

    def enter(self, span: Span) -> None:
        """Make a span the current one, until the end of this `contextvars.Context`."""
        from opentelemetry.context import attach

        attach(self._trace.set_span_in_context(span))

    def failed(self, span: Span, error: BaseException, mask: Callable[[str], str] | None = None) -> None:
        """Note the error that ends a span, redacted. `mask`: what hides further values in texts."""
        told = {"exception.message": str(error), "exception.stacktrace": "".join(format_exception(error))}
        span.record_exception(
            error, {name: redacted(text if mask is None else mask(text)) for name, text in told.items()}
        )
        span.set_attribute("error.type", type_name(error))
        span.set_status(self._trace.Status(self._trace.StatusCode.ERROR, type(error).__name__))

    def of(self, span: Span) -> Headers:
        """Return the headers of jobs that a span causes."""
        return self._headers(self._trace.set_span_in_context(span))

    def _headers(self, context: Context | None = None) -> Headers:
        headers: dict[str, str] = {}
        self._propagator.inject(headers, context)
        return headers

    def under(self, headers: Headers, job: NewJob, inherited: Headers | None = None) -> NewJob:
        """Return a job with the headers of a trace context, unless it has one.

        `inherited`: the context of the job that it continues, which is not its own.
        """
        own = trace_headers(job.headers)
        if own and own != inherited and self._is_valid(own):
            return job
        return job._replace(headers=with_trace(job.headers, headers))

    def _is_valid(self, headers: Headers) -> bool:
        context = self._propagator.extract(headers)
        return self._trace.get_current_span(context).get_span_context().is_valid


class Block:
    """A span that is the current one until its end, in the same thread or task of an event loop."""

    def __init__(self, traces: Traces, span: Span) -> None:
        from opentelemetry.context import attach
        from opentelemetry.trace import set_span_in_context

        self._traces, self._span = traces, span
        self._before = attach(set_span_in_context(span))

    @property
    def headers(self) -> Headers:
        """The headers of jobs that the block causes."""
        return self._traces.of(self._span)

    def end(self, error: BaseException | None = None) -> None:
        """End the span, by an error if there is one."""
        from opentelemetry.context import detach

        if error is not None:
            self._traces.failed(self._span, error)
        self._span.end()
        detach(self._before)


def trace_headers(text: str | None) -> dict[str, str]:
    """Return the trace context among the headers of a job, unchanged. Values other than text are left out."""
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
_COUNT: Final = "messaging.batch.message_count"


def _timing(rows: Sequence[JobRow]) -> dict[str, AttributeValue]:
    """Return when delivered jobs were due, and how long the first due one has waited since."""
    begun = [(row.run_at, row.started_at) for row in rows if row.started_at is not None]
    if not begun:
        return {}
    due, started = min(begun)
    return {"stanchion.job.due_at": iso(moment(due)), "stanchion.job.pickup_delay": max(0, started - due) / SECOND}


def _operation(name: str, kind: str, queue: str | None, flow: str | None = None) -> dict[str, AttributeValue]:
    """Return the attributes of an operation; `kind` is its type in the conventions."""
    attributes = {
        "messaging.system": "stanchion",
        "messaging.operation.name": name,
        "messaging.operation.type": kind,
        _QUEUE: queue,
        "messaging.message.conversation_id": flow,
    }
    return {name: value for name, value in attributes.items() if value is not None}
