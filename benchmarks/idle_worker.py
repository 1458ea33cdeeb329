"""A worker of `benchmarks.idle` in a process of its own; prints as JSON what it did between two times.

python -m benchmarks.idle_worker URL FIRST LAST HEARTBEAT
"""

from __future__ import annotations

import json
import sqlite3
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import closing
from typing import Any

from stanchion import Stanchion, Worker
from stanchion.stores.records.workers import Beat, WorkerRow
from stanchion.stores.registry import open_store

Count = Callable[[], float]


def statements() -> Count:
    """Count the statements on SQLite files in this process.

    Left out: `PRAGMA data_version`, by which each process sees changes of others, in memory that it shares with them.
    """
    counted = Counter[str]()

    def count(statement: str) -> None:
        counted["looks" if statement == "PRAGMA data_version" else "statements"] += 1

    class Traced(sqlite3.Connection):
        def __init__(self, *args: Any, **options: Any) -> None:
            super().__init__(*args, **options)
            self.set_trace_callback(count)

    connect = sqlite3.connect
    sqlite3.connect = sqlite3.dbapi2.connect = lambda *args, **options: connect(*args, **{"factory": Traced, **options})
    return lambda: float(counted["statements"])


def commands() -> Count:
    """Count the commands that this process sends to MongoDB."""
    from pymongo import monitoring

    counted = Counter[str]()

    class Commands(monitoring.CommandListener):
        def started(self, event: monitoring.CommandStartedEvent) -> None:
            counted["commands"] += 1

        def succeeded(self, event: monitoring.CommandSucceededEvent) -> None: ...

        def failed(self, event: monitoring.CommandFailedEvent) -> None: ...

    monitoring.register(Commands())
    return lambda: float(counted["commands"])


def driver_count(url: str) -> Count | None:
    """Begin to count what the driver of a store sends; None if its server counts."""
    kinds = {"sqlite": statements, "mongodb": commands}
    counting = kinds.get(url.partition(":")[0])
    return counting() if counting else None


class Observed:
    """A store that counts the calls of its verbs."""

    def __init__(self, store: Any, calls: Counter[str]) -> None:
        self._store, self._calls = store, calls

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._store, name)
        if callable(found):
            self._calls[name] += 1
        return found

    def beat(self, workers: Sequence[WorkerRow]) -> Beat:
        """Count this one, too: it is no attribute that is looked up."""
        self._calls["beat"] += 1
        return self._store.beat(workers)  # type: ignore[no-any-return]


def main(url: str, first: str, last: str, heartbeat: str) -> None:
    """Run until the parent closes standard input; print `[sent, calls, late]`: seconds that the start came too late."""
    count, calls = driver_count(url), Counter[str]()
    with closing(open_store(url)) as store:
        app = Stanchion(store=Observed(store, calls))
        app.task(name="nothing", queue="mail")(print)
        worker = Worker(app, threads=2, heartbeat=float(heartbeat))
        worker.start()
        late = time.time() - float(first)
        time.sleep(max(0.0, -late))
        before = count() if count else 0.0
        calls.clear()
        time.sleep(max(0.0, float(last) - time.time()))
        print(json.dumps([count() - before if count else 0.0, calls, max(0.0, late)]), flush=True)
        sys.stdin.read()
        worker.stop(0)


if __name__ == "__main__":
    main(*sys.argv[1:])
