"""Count the Python calls, files of the package and statements of a push, a claim and a commit of a store and of an app.

    python -m benchmarks.calls sqlite:///calls.db [--rounds 20]

Counted by `sys.setprofile` in the calling thread; each figure is the median of the rounds, after some that don't count.
`files`: distinct modules of `stanchion`. `others`: calls of Python functions elsewhere, in SQLAlchemy or a driver say.
`statements`: statements or messages that the driver sends, COMMIT included where it is one; a batch counts once. A
resumed generator counts as a call. The database must be empty.
"""

from __future__ import annotations

import argparse
import sqlite3
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

SENDING = {
    ("psycopg/_cursor_base.py", "_convert_query"),
    ("psycopg/_connection_base.py", "_exec_command"),
    ("pymysql/connections.py", "_execute_command"),
    ("redis/connection.py", "send_packed_command"),
    ("pymongo/network_layer.py", "sendall"),
}
"""The functions of drivers that each send a statement or a message, by the ends of their files' names."""
EXECUTING = frozenset({"execute", "executemany", "executescript", "commit"})
"""The methods of `sqlite3` that run statements."""


class Calls(NamedTuple):
    """Calls of functions of the package, its files that they are in, calls of other Python functions, statements."""

    own: int
    files: int
    others: int
    statements: int


def counted(work: Callable[[], Any]) -> tuple[Calls, Any]:
    """Return what it took to do this work, and its result."""
    own: list[str] = []
    others = statements = 0

    def note(frame: FrameType, event: str, argument: Any) -> None:
        nonlocal others, statements
        if event == "call":
            file = frame.f_code.co_filename
            if file.startswith(PACKAGE):
                own.append(file)
            else:
                others += 1
                statements += ("/".join(Path(file).parts[-2:]), frame.f_code.co_name) in SENDING
        elif event == "c_call":
            owner = getattr(argument, "__self__", None)
            statements += isinstance(owner, sqlite3.Cursor | sqlite3.Connection) and argument.__name__ in EXECUTING

    sys.setprofile(note)
    try:
        result = work()
    finally:
        sys.setprofile(None)
    return Calls(len(own), len(set(own)), others, statements), result


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


def medians(rounds: list[Calls]) -> Calls:
    """Return the median of each figure."""
    return Calls(*(round(median(values)) for values in zip(*rounds, strict=True)))


def print_medians(rounds: list[dict[str, Calls]], what: str) -> None:
    """Print a line for each operation."""
    for step in rounds[0]:
        found = medians([each[step] for each in rounds])
        print(f"{f'{step}{what}':22} {found.own:5} {found.files:6} {found.others:7} {found.statements:11}")


def measure(store: Store, rounds: int) -> None:
    """Print a line for each operation."""
    store.setup()
    store.configure(PLAIN, {})
    store.configure(LIMITED, {"max_running": 10 * BATCH})
    print(f"{'':22} calls  files  others  statements")
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
