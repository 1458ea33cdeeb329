"""What it costs to commit reserved jobs one by one, and together.

    python -m benchmarks.outcomes URL [--jobs 300] [--rounds 7]

Each round commits as many jobs in both ways, by turns; the figures are the medians of the rounds, in milliseconds. The
database must be empty.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from contextlib import closing
from statistics import median
from time import perf_counter

from stanchion import Stanchion
from stanchion.jobs.reservation import Reservation

QUEUE = "outcomes"
WARM_UP = 2


def one_by_one(app: Stanchion, jobs: list[Reservation]) -> None:
    """Commit each job by a call of its own."""
    for job in jobs:
        job.commit()


def together(app: Stanchion, jobs: list[Reservation]) -> None:
    """Commit all jobs by one call."""
    states = app.settle([job.committed() for job in jobs])
    if None in states:
        raise RuntimeError(f"{states.count(None)} leases were lost")


def milliseconds(app: Stanchion, count: int, end: Callable[[Stanchion, list[Reservation]], None]) -> float:
    """Return how long it takes to end that many jobs, which are pushed and reserved before."""
    queue = app.queue(QUEUE)
    queue.push_many([None] * count)
    jobs = queue.reserve(count, lease=600)
    if len(jobs) != count:
        raise RuntimeError(f"reserved {len(jobs)} jobs, not {count}; the database must be empty")
    began = perf_counter()
    end(app, jobs)
    return 1000 * (perf_counter() - began)


def main() -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("url")
    parser.add_argument("--jobs", type=int, default=300)
    parser.add_argument("--rounds", type=int, default=7)
    given = parser.parse_args()
    single, batch = [], []
    with closing(Stanchion(given.url)) as app:
        app.setup()
        for round_ in range(WARM_UP + given.rounds):
            alone, at_once = (milliseconds(app, given.jobs, end) for end in (one_by_one, together))
            if round_ >= WARM_UP:
                single.append(alone)
                batch.append(at_once)
    print(f"{given.jobs} jobs: {median(single):.1f} ms one by one, {median(batch):.1f} ms together", end=": ")
    print(f"{median(single) / median(batch):.0f} times as fast")


if __name__ == "__main__":
    main()
