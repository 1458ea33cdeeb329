"""What the metrics of a worker, or the lines that it logs of its jobs, cost: its throughput without and with them.

    python -m benchmarks.metrics_cost [URL] [--jobs 10000] [--rounds 9] [--scrape 5.0] [--lines]

Both ways take turns in one run. Each round drains empty jobs twice on an empty queue, without metrics and with them,
and begins with the other way than the round before. Probes are served both times; metrics are scraped every
`--scrape` seconds. The default store is in memory, where a job costs least, so that metrics cost most of it. A line
gives the medians, and the median of the ratios (with / without) with the middle half of these. Other work on the
machine changes rates much more than processor time.
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

from stanchion import Stanchion, Worker

LINES = 0.0
"""Instead of the seconds between scrapes: no metrics, but log lines."""


def drain(app: Stanchion, jobs: int, scrape: float | None) -> tuple[float, float]:
    """Return the jobs per second of one worker, and the processor time for each job in µs."""
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
    given = parser.parse_args()
    logging.basicConfig(filename=os.devnull)
    given.scrape = LINES if given.lines else given.scrape
    app = Stanchion(given.url)

    @app.task(name="nothing", queue="metrics")
    def nothing() -> None: ...

    drain(app, given.jobs, given.scrape)
    figures: dict[float | None, list[tuple[float, float]]] = {None: [], given.scrape: []}
    for number in range(given.rounds):
        for way in list(figures)[:: -1 if number % 2 else 1]:
            figures[way].append(drain(app, given.jobs, way))
    for place, what in enumerate(("jobs per second", "µs of processor time for each job")):
        print(told(what, *([one[place] for one in found] for found in figures.values())))
    app.close()


if __name__ == "__main__":
    main()
