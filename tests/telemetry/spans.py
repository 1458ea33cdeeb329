"""The spans that this process has made, and programs that make some."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from functools import cache

from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from stanchion import Job, Stanchion
from stanchion.core.times import iso

_EXPORTER = InMemorySpanExporter()


def recording() -> None:
    """Record from here on. A process has one provider."""
    _provide()
    _EXPORTER.clear()


@cache
def _provide() -> None:
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(_EXPORTER))
    trace.set_tracer_provider(provider)


def spans(name: str) -> list[ReadableSpan]:
    """Return the spans of a name that have ended, in the order of their ends."""
    return [span for span in _EXPORTER.get_finished_spans() if span.name == name]


def span(name: str) -> ReadableSpan:
    """Return the only span of a name."""
    (found,) = spans(name)
    return found


def parent(child: ReadableSpan) -> tuple[int, int] | None:
    """Return the trace and the span of a span's parent."""
    return None if child.parent is None else (child.parent.trace_id, child.parent.span_id)


def identity(one: ReadableSpan) -> tuple[int, int]:
    """Return the trace and the span."""
    return one.context.trace_id, one.context.span_id


def links(one: ReadableSpan) -> list[tuple[int, int]]:
    """Return the traces and spans that a span is linked to."""
    return [(link.context.trace_id, link.context.span_id) for link in one.links]


def attributes(one: ReadableSpan) -> dict[str, object]:
    """Return the attributes."""
    return dict(one.attributes or {})


def pickup(job: Job) -> dict[str, object]:
    """Return the attributes that tell when a job was due, and how long after that it was taken."""
    return {"stanchion.job.due_at": iso(job.run_at), "stanchion.job.pickup_delay": job.pickup_delay}


def stored(app: Stanchion, job_id: str) -> Job:
    """Return a job that is there."""
    job = app.get(job_id)
    assert job is not None
    return job


def printed(program: str, *arguments: str) -> Sequence[str]:
    """Return the words that a program prints."""
    done = subprocess.run([sys.executable, "-c", program, *arguments], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()
