"""How quickly finished jobs are purged, by upkeep and by hand, beside how quickly they are finished, by one process.

    python -m benchmarks.purging mongodb://127.0.0.1:27017/bench --jobs 20000 --rounds 3

The database must be empty. `counted`: what happened to the jobs is counted before they are purged by hand; that has its
own rate, where the store counts afterwards.
"""

from __future__ import annotations

import argparse
from contextlib import closing
from time import perf_counter

from stanchion.core.ids import new_id, new_ids
from stanchion.queues.operating import purge
from stanchion.stores.protocol import Store
from stanchion.stores.records.claims import Claim
from stanchion.stores.records.jobs import NewJob
from stanchion.stores.records.outcomes import Commit
from stanchion.stores.records.queues import QueueSettings
from stanchion.stores.registry import open_store

QUEUE = "purged"
BATCH = 100
PORTION = 1000


def finish(store: Store, jobs: int) -> float:
    """Push and finish jobs; return how many a second, the push left out."""
    for _ in range(0, jobs, PORTION):
        store.push([NewJob(one, QUEUE, '{"to": "somebody@example.org"}') for one in new_ids(PORTION)])
    began, done = perf_counter(), 0
    while done < jobs:
        rows = store.claim(Claim(QUEUE, BATCH, new_id(), "worker")).rows
        store.settle([Commit(row.lease) for row in rows])
        done += len(rows)
    return done / (perf_counter() - began)


def purge_by_upkeep(store: Store, jobs: int) -> float:
    """Have jobs purged that are older than history is kept; return how many a second."""
    store.clock_offset += 2 * QueueSettings(QUEUE).history_ttl
    began = perf_counter()
    while store.maintain():
        pass
    return jobs / (perf_counter() - began)


def purge_by_hand(store: Store) -> float:
    """Purge all that has finished; return how many jobs a second."""
    began = perf_counter()
    return purge(store, QUEUE, 0.0) / (perf_counter() - began)


def count(store: Store, jobs: int) -> float:
    """Fold what happened into the counts, but for what is to be purged; return how many jobs a second."""
    began = perf_counter()
    store.maintain(0.0)
    return jobs / (perf_counter() - began)


def main() -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("url")
    parser.add_argument("--jobs", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    with closing(open_store(given.url)) as store:
        store.setup()
        for _ in range(given.rounds):
            finished = finish(store, given.jobs)
            purged = purge_by_upkeep(store, given.jobs)
            again = finish(store, given.jobs)
            counted = count(store, given.jobs)
            after = purge_by_hand(store)
            print(
                f"finished {finished:6.0f}/s, purged {purged:6.0f}/s: {purged / finished:.2f}; "
                f"finished {again:6.0f}/s, counted {counted:6.0f}/s, by hand {after:6.0f}/s: {after / again:.2f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
