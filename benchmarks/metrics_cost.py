"""What a worker's metrics, the lines that it logs of its jobs, or traces cost: its throughput without and with them.

    python -m benchmarks.metrics_cost [URL] [--jobs 10000] [--rounds 9] [--scrape 5.0] [--lines | --traces]

Both ways take turns in one run. Each round drains empty jobs twice on an empty queue, without metrics and with them,
and begins with the other way than the round before. Probes are served both times; metrics are scraped every
`--scrape` seconds. With `--traces` each job was pushed within a span, and its own goes to a batch processor whose
exporter drops it; what the SDK takes for a span alone is told first. The default store is in memory, where a job costs
least, so that metrics cost most of it. A line gives the medians, and the median of the ratios (with / without) with
the middle half of these. Other work on the machine changes rates much more than processor time.
"""

from __future__ import annotations

import argparse
import logging
import os
import threading
import urllib.request
from collections.abc import Sequence
from contextlib import suppress
from statistics import median, quantiles
from time import perf_counter, process_time

from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult

from stanchion import Stanchion, Worker

LINES = 0.0
"""Instead of the seconds between scrapes: no metrics, but log lines."""


TRACES = -1.0
"""Instead of the seconds between scrapes: no metrics, but traces."""


class Nowhere(SpanExporter):
    """Drops all spans."""

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        return SpanExportResult.SUCCESS


def spans(number: int) -> float:
    """Return the processor time of the SDK for one span with the attributes of a job, in µs."""
    tracer, used = trace.get_tracer("floor"), process_time()
    for place in range(number):
        with tracer.start_as_current_span("process nothing", attributes={f"a{n}": str(place) for n in range(6)}):
            pass
    return 1e6 * (process_time() - used) / number


def drain(app: Stanchion, jobs: int, scrape: float | None) -> tuple[float, float]:
    """Return the jobs per second of one worker, and the processor time for each job in µs."""
    with trace.get_tracer("benchmark").start_as_current_span("push"):
        app.using("nothing").enqueue_many([()] * jobs)
    metrics = scrape is not None and scrape > 0
    logging.getLogger("stanchion.jobs").setLevel("INFO" if scrape == LINES else "ERROR")
    worker = Worker(app, threads=8, until_empty=True, health_port=0, metrics=metrics)
    stop = threading.Event()

    def scraping() -> None:
        with suppress(OSError):  # the worker has stopped
            while not stop.wait(scrape):
                urllib.request.urlopen(f"http://127.0.0.1:{worker.health_port}/metrics", timeout=10).read()

    started, used = perf_counter(), process_time()
    if metrics:
        threading.Thread(target=scraping, daemon=True).start()
    worker.run()
    figures = jobs / (perf_counter() - started), 1e6 * (process_time() - used) / jobs
    stop.set()
    return figures


def told(what: str, without: Sequence[float], with_them: Sequence[float]) -> str:
    """Return a line about one figure."""
    ratios = [one / other for one, other in zip(with_them, without, strict=True)]
    low, _, high = quantiles(ratios, n=4)
    medians = f"{median(without):,.0f} without, {median(with_them):,.0f} with"
    return f"{what}: {medians}; ratio {median(ratios):.3f} ({low:.3f} to {high:.3f})"


def main() -> None:
    """Measure."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.metrics_cost", description=__doc__)
    parser.add_argument("url", nargs="?", default="memory://")
    parser.add_argument("--jobs", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--scrape", type=float, default=5.0)
    parser.add_argument("--lines", action="store_true", help="measure log lines, to a file, instead of metrics")
    parser.add_argument("--traces", action="store_true", help="measure traces instead of metrics")
    given = parser.parse_args()
    logging.basicConfig(filename=os.devnull)
    given.scrape = LINES if given.lines else TRACES if given.traces else given.scrape
    apps = {way: Stanchion(given.url, traces=way == TRACES) for way in (None, given.scrape)}
    for app in apps.values():
        app.task(name="nothing", queue="metrics")(_nothing)
    if given.traces:
        provider = TracerProvider()
        provider.add_span_processor(BatchSpanProcessor(Nowhere(), max_queue_size=1 << 17))
        trace.set_tracer_provider(provider)
        print(f"a span of the SDK alone: {spans(given.jobs):.0f} µs of processor time")
    for way, app in apps.items():
        drain(app, given.jobs, way)
    figures: dict[float | None, list[tuple[float, float]]] = {None: [], given.scrape: []}
    for number in range(given.rounds):
        for way in list(figures)[:: -1 if number % 2 else 1]:
            figures[way].append(drain(apps[way], given.jobs, way))
    for place, what in enumerate(("jobs per second", "µs of processor time for each job")):
        print(told(what, *([one[place] for one in found] for found in figures.values())))
    for app in apps.values():
        app.close()


def _nothing() -> None: ...


if __name__ == "__main__":
    main()
