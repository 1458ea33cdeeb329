"""What the metrics of a worker cost: its throughput without and with them, in turns in one run.

    python -m benchmarks.metrics_cost [URL] [--jobs 4000] [--rounds 7] [--scrape 1.0]

Each round drains empty jobs twice on an empty queue, without metrics and with them, and begins with the other way than
the round before; with them, they are scraped every `--scrape` seconds. A line gives the median rates, and the median of
the ratios (with / without) with the middle half of these. `--against DIRECTORY`: compare, instead of with metrics, with
the package in another checkout, without any: what it costs to be able to.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import threading
import urllib.request
from pathlib import Path
from statistics import median, quantiles
from time import perf_counter, process_time
from typing import Any

HERE = Path(__file__).parents[1]


def drain(url: str, jobs: int, scrape: float | None) -> tuple[float, float]:
    """Return the jobs per second of one worker, and its processor time for each job in µs."""
    from stanchion import Stanchion, Worker

    app = Stanchion(url)

    @app.task(name="nothing", queue="metrics")
    def nothing() -> None: ...

    nothing.enqueue_many([()] * jobs)
    options: dict[str, Any] = {} if scrape is None else {"metrics": True, "health_port": 0}
    worker = Worker(app, threads=8, until_empty=True, **options)
    stop = threading.Event()

    def scraping() -> None:
        while not stop.wait(scrape):
            urllib.request.urlopen(f"http://127.0.0.1:{worker.health_port}/metrics", timeout=10).read()

    if scrape is not None:
        threading.Timer(0.2, scraping).start()
    started, used = perf_counter(), process_time()
    worker.run()
    figures = jobs / (perf_counter() - started), 1e6 * (process_time() - used) / jobs
    stop.set()
    app.close()
    return figures


def measured(source: Path, url: str, jobs: int, scrape: float | None) -> tuple[float, float]:
    """Drain in a process of its own, with the package of a checkout."""
    program = (
        "import sys, json; sys.path[:0] = sys.argv[1:3]; from benchmarks.metrics_cost import drain; "
        "print(json.dumps(drain(sys.argv[3], int(sys.argv[4]), json.loads(sys.argv[5]))))"
    )
    with tempfile.TemporaryDirectory() as folder:
        place = url.replace("FOLDER", folder)
        command = [sys.executable, "-c", program, str(source / "src"), str(HERE), place, str(jobs), json.dumps(scrape)]
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=600)
    rate, cost = json.loads(done.stdout.splitlines()[-1])
    return rate, cost


def main() -> None:
    """Measure."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.metrics_cost", description=__doc__)
    parser.add_argument("url", nargs="?", default="sqlite:///FOLDER/jobs.db?synchronous=off")
    parser.add_argument("--jobs", type=int, default=4000)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--scrape", type=float, default=1.0)
    parser.add_argument("--against", type=Path)
    given = parser.parse_args()
    ways = {
        "without": (HERE if given.against is None else given.against, None),
        "with": (HERE, given.scrape if given.against is None else None),
    }
    rates: dict[str, list[float]] = {name: [] for name in ways}
    costs: dict[str, list[float]] = {name: [] for name in ways}
    for number in range(given.rounds):
        for name in list(ways)[:: -1 if number % 2 else 1]:
            rate, cost = measured(ways[name][0], given.url, given.jobs, ways[name][1])
            rates[name].append(rate)
            costs[name].append(cost)
    for what, found in (("jobs per second", rates), ("µs of processor time for each job", costs)):
        ratios = [one / other for one, other in zip(found["with"], found["without"], strict=True)]
        low, _, high = quantiles(ratios, n=4)
        print(
            f"{what}: {median(found['without']):,.0f} without, {median(found['with']):,.0f} with; "
            f"ratio {median(ratios):.3f} ({low:.3f} to {high:.3f})"
        )


if __name__ == "__main__":
    main()
