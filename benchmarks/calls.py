"""Count the Python calls, and the files of the package, of a push, a claim and a commit of a store and of an app.

    python -m benchmarks.calls sqlite:///calls.db [--rounds 20]

Counted by `sys.setprofile` in the calling thread; each figure is the median of the rounds, after some that don't count.
`files`: distinct modules of `stanchion`. `others`: calls of Python functions elsewhere, in SQLAlchemy or a driver say.
A resumed generator counts as a call. The database must be empty.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from statistics import median
from types import FrameType
from typing import Any, NamedTuple

import stanchion
from stanchion import Stanchion
from stanchion.core.ids import new_id, new_ids
from stanchion.stores.protocol import Store
from stanchion.stores.records.claims import Claim
from stanchion.stores.records.jobs import JobRow, NewJob
from stanchion.stores.records.outcomes import Commit
from stanchion.stores.registry import open_store

PACKAGE = str(Path(stanchion.__file__).parent)
PLAIN, LIMITED = "plain", "limited"
BATCH = 100
WARM_UP = 5


class Calls(NamedTuple):
    """Calls of functions of the package, its files that they are in, and calls of other Python functions."""

    own: int
    files: int
    others: int


def counted(work: Callable[[], Any]) -> tuple[Calls, Any]:
    """Return what it took to do this work, and its result."""
    own: list[str] = []
    others = 0

    def note(frame: FrameType, event: str, _argument: object) -> None:
        nonlocal others
        if event == "call":
            if frame.f_code.co_filename.startswith(PACKAGE):
                own.append(frame.f_code.co_filename)
            else:
                others += 1

    sys.setprofile(note)
    try:
        result = work()
    finally:
        sys.setprofile(None)
    return Calls(len(own), len(set(own)), others), result


def one_round(store: Store, queue: str, size: int) -> dict[str, Calls]:
    """Push, claim and commit so many jobs; return what each of these took."""
    new = [NewJob(one, queue, "1") for one in new_ids(size)]
    pushed, _ = counted(lambda: store.push(new))
    claim = Claim(queue, size, new_id(), "worker")
    claimed, found = counted(lambda: store.claim(claim))
    rows: list[JobRow] = found.rows
    assert len(rows) == size, f"{len(rows)} of {size} jobs were claimed"
    commits = [Commit(row.lease) for row in rows]
    committed, states = counted(lambda: store.settle(commits))
    assert None not in states
    return {"push": pushed, "claim": claimed, "commit": committed}


def one_round_of_app(app: Stanchion) -> dict[str, Calls]:
    """Push, enqueue, reserve and commit one job by way of an app; return what each of these took."""
    queue = app.queue(PLAIN)
    pushed, _ = counted(lambda: queue.push(1))
    reserved, (job,) = counted(queue.reserve)
    committed, _ = counted(job.commit)
    enqueued, _ = counted(lambda: app.tasks["nothing"].enqueue(1))
    app.drain()
    return {"Queue.push": pushed, "Queue.reserve": reserved, "Reservation.commit": committed, "Task.enqueue": enqueued}


def print_medians(rounds: list[dict[str, Calls]], what: str) -> None:
    """Print a line for each operation."""
    for step in rounds[0]:
        own, files, others = (round(median(values)) for values in zip(*(each[step] for each in rounds), strict=True))
        print(f"{f'{step}{what}':22} {own:5} {files:6} {others:7}")


def measure(store: Store, rounds: int) -> None:
    """Print a line for each operation."""
    store.setup()
    store.configure(PLAIN, {})
    store.configure(LIMITED, {"max_running": 10 * BATCH})
    print(f"{'':22} calls  files  others")
    for queue, size in ((PLAIN, 1), (PLAIN, BATCH), (LIMITED, 1)):
        found = [one_round(store, queue, size) for _ in range(WARM_UP + rounds)][WARM_UP:]
        print_medians(found, f" of {size}, {queue}")
    app = Stanchion(store=store)
    app.task(name="nothing", queue="tasks")(lambda _: None)
    print_medians([one_round_of_app(app) for _ in range(WARM_UP + rounds)][WARM_UP:], "")


def main() -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("url")
    parser.add_argument("--rounds", type=int, default=20)
    given = parser.parse_args()
    with closing(open_store(given.url)) as store:
        measure(store, given.rounds)


if __name__ == "__main__":
    main()
