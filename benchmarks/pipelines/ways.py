"""The ways through the pipeline that are compared, each in a process of its own.

`python -m benchmarks.pipelines.ways WAY URL ITEMS` works until no item is left, and prints what it took as JSON.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from contextlib import closing
from functools import partial
from time import perf_counter
from typing import NamedTuple

import psutil  # type: ignore[import-untyped]

from benchmarks.pipelines import by_hand
from benchmarks.pipelines.stations import KM, SHORT, declared, items
from stanchion import Stanchion
from stanchion.service.garbage import collect_less

SIZE = 10_000
"""Items of a chunk."""
SMALL = 20
"""Items of a chunk whose own costs are measured."""
THREADS = 2
THREADS_OF_SINGLES = 8


class Taken(NamedTuple):
    """What a process took: items that came to the end, seconds, and processor seconds of it and its children."""

    items: int
    seconds: float
    cpu: float


class Way(NamedTuple):
    """A way: how items are stored first, what brings them to the end, and in how many processes at once.

    `push` and `work` get the URL; `push` gets the number of items too, and `work` returns how many came to the end.
    """

    push: Callable[[str, int], object]
    work: Callable[[str], int]
    processes: int = 1
    singles: bool = False
    stored: bool = True


def _push_chunks(url: str, count: int, size: int = SIZE) -> None:
    with closing(Stanchion(url)) as app:
        app.setup()
        etl = declared(app, "arrow")
        for table in items(count):
            etl.push_chunks(table, size=size)


def _push_singles(url: str, count: int) -> None:
    with closing(Stanchion(url)) as app:
        app.setup()
        etl = declared(app, "item")
        for table in items(count):
            etl.push_many(table.to_pylist())


def _worker(kind: str, url: str, *, threads: int = THREADS, **options: object) -> int:
    with closing(Stanchion(url)) as app:
        etl = declared(app, kind, **options)
        collect_less()  # as `stanchion pipeline run` does
        etl.run(threads, until_empty=True)
        return _ended(app)


def _spark(kind: str, url: str) -> int:
    from benchmarks.spark.engine import started
    from stanchion.spark.stations import engine

    with closing(Stanchion(url)) as app, started(None) as spark:
        engine.run(declared(app, kind), spark=spark, available_now=True)
        _KEPT.append(_cpu())  # before the end of the JVM, which takes its children's figures along
        return _ended(app)


def _ended(app: Stanchion) -> int:
    return sum(app.queue(f"bench.{station}").counts().committed for station in ("short", "long"))


def _pandas(url: str, rows: list[dict[str, object]]) -> int:
    import pandas as pd

    frame = pd.DataFrame(rows)
    frame["km"] = frame["miles"] * KM
    short = frame["miles"] < SHORT
    return sum(len(part[["n", "km"]]) for part in (frame[short], frame[~short]))


def _always(kind: str, **options: object) -> Callable[[str], int]:
    return partial(_worker, kind, stored="always", **options)


def _by_hand(url: str, count: int) -> None:
    by_hand.push(url, items(count), SIZE)


_SINGLES = partial(_always, threads=THREADS_OF_SINGLES)
_PUSH_SMALL = partial(_push_chunks, size=SMALL)
_NOTHING = Way(lambda url, count: None, lambda url: 0, stored=False)

WAYS: dict[str, Way] = {
    "single items, stored at each station": Way(_push_singles, _SINGLES("item"), singles=True),
    "single items": Way(_push_singles, partial(_worker, "item", threads=THREADS_OF_SINGLES), singles=True),
    "single items on Spark": Way(_push_singles, partial(_spark, "item"), singles=True),
    "chunks, item functions, stored at each station": Way(_push_chunks, _always("item")),
    "chunks, pandas, stored at each station": Way(_push_chunks, _always("pandas")),
    "chunks, Arrow, stored at each station": Way(_push_chunks, _always("arrow")),
    "chunks, Arrow, stored at each station, no entry payloads": Way(_push_chunks, _always("arrow", keep_entry=False)),
    "chunks, item functions": Way(_push_chunks, partial(_worker, "item")),
    "chunks, pandas": Way(_push_chunks, partial(_worker, "pandas")),
    "chunks, Arrow": Way(_push_chunks, partial(_worker, "arrow")),
    "chunks, Arrow, two processes": Way(_push_chunks, partial(_worker, "arrow"), processes=2),
    "chunks, Arrow, undivided, stored at each station": Way(_push_chunks, _always("line")),
    "chunks, Arrow, undivided": Way(_push_chunks, partial(_worker, "line")),
    "chunks, item functions, one in 1,000 fails twice": Way(_push_chunks, partial(_worker, "failing item")),
    "chunks, Arrow, one in 1,000 fails twice by `error`": Way(_push_chunks, partial(_worker, "failing column")),
    "chunks, Arrow, one in 1,000 fails twice by raising": Way(_push_chunks, partial(_worker, "failing arrow")),
    "chunks, pandas, one in 1,000 fails twice by raising": Way(_push_chunks, partial(_worker, "failing pandas")),
    "chunks of 20, Arrow, undivided, stored at each station": Way(_PUSH_SMALL, _always("line"), singles=True),
    "chunks of 20, Arrow, undivided": Way(_PUSH_SMALL, partial(_worker, "line"), singles=True),
    "chunks, item functions on Spark": Way(_push_chunks, partial(_spark, "item")),
    "chunks, Arrow on Spark": Way(_push_chunks, partial(_spark, "arrow")),
    "by hand, Arrow": Way(_by_hand, by_hand.work),
    "pandas alone, from dicts": _NOTHING,
}
_KEPT: list[float] = []


def _cpu() -> float:
    """Return the processor seconds of this process and all that it has started, in user mode and in the kernel."""
    own = psutil.Process()
    return sum(sum(process.cpu_times()[:4]) for process in [own, *own.children(recursive=True)])


def taken(name: str, url: str, count: int) -> Taken:
    """Work on a way until no item is left."""
    way = WAYS[name]
    work = way.work if way.stored else partial(_pandas, rows=[row for some in items(count) for row in some.to_pylist()])
    before, began = _cpu(), perf_counter()
    ended = work(url)
    seconds = perf_counter() - began
    return Taken(ended, seconds, (_KEPT.pop() if _KEPT else _cpu()) - before)


if __name__ == "__main__":
    print(json.dumps(taken(sys.argv[1], sys.argv[2], int(sys.argv[3]))))
