"""Pipelines for chunks whose workers are killed, and what must become of each item.

raw ─┬─► mid ─┬─► left ──┬─► end
     │        ├─► right ─┘        right holds a semaphore, so items are stored before and after it
     │        ├─► mid again, after a failure
     │        └─► a dead letter
     ├─► 3 items of one, to mid
     └─► dropped

The pipeline `ordered` is raw ─► mid ─┬─► left, and its items have order keys.
                                      └─► right
"""

from __future__ import annotations

import os
import time
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from stanchion import Job, Pipeline, Retry, Send, Stanchion
from stanchion.context import steadiness
from stanchion.pipelines.chunks import work
from stanchion.stores.registry import open_store
from tests.crash.doom import doomed

# The quick workers of these tests try again every second, and every five in life.
steadiness.RETURN = 3.0

SECONDS = 0.001
ATTEMPTS = 8
"""More than the deaths that one item can see: the end of its last attempt by a death would bury it."""
SLICE = 0.03
"""Seconds of items after which a worker settles what it has done: less than a chunk takes."""

Item = dict[str, Any]


class Pipelines(NamedTuple):
    """The same stations; `tables` calls a batch function at the station in the middle. And those of `ordered`."""

    items: Pipeline
    tables: Pipeline
    ordered: Pipeline


def pipelines(app: Stanchion) -> Pipelines:
    """Declare both pipelines on an app."""
    app.semaphore("narrow", 2)
    items, tables = app.pipeline("items"), app.pipeline("tables")
    for etl in (items, tables):
        etl.station("raw", to="mid")(_raw)
    middle: dict[str, Any] = {"to": ["left", "right"], "retry": Retry.constant(0.1, jitter=0), "max_attempts": ATTEMPTS}
    items.station("mid", **middle)(_mid)
    tables.station("mid", takes="arrow", **middle)(_mid_table)
    for etl in (items, tables):
        etl.station("left", to="end")(_same)
        etl.station("right", to="end", limits=["narrow"])(_same)
        etl.station("end")(_same)
    ordered = app.pipeline("ordered")
    ordered.station("raw", to="mid")(_same)
    ordered.station("mid", **middle)(_mid)
    ordered.station("left")(_same)
    ordered.station("right")(_same)
    return Pipelines(items, tables, ordered)


def _raw(item: Item) -> list[Send] | None:
    time.sleep(SECONDS)
    return [Send("mid", {**item, "part": part}) for part in parts_of(item["n"])] or None


def _mid(item: Item, job: Job) -> Send:
    time.sleep(SECONDS)
    if dies(item["n"]) or (item["n"] % 11 == 0 and job.attempt == 1):
        raise ValueError(f"{item['n']} can't pass")
    return Send(_side(item["n"]))


def _mid_table(items: pa.Table) -> list[Send]:
    numbers = items["n"].to_pylist()
    if any(number % 41 == 0 for number in numbers):
        raise ValueError("a number can't pass")
    failed = pa.array([f"{number} can't pass" if dies(number) else None for number in numbers], pa.string())
    items = items.append_column("error", failed)
    left = pa.array([_side(number) == "left" for number in numbers])
    return [Send("left", items.filter(left)), Send("right", items.filter(pc.invert(left)))]


def _same(item: Item) -> Item:
    time.sleep(SECONDS)
    return item


def parts_of(number: int) -> list[str]:
    """Return what becomes of an item: nothing, itself, or several."""
    if number % 7 == 0:
        return []
    return ["a", "b", "c"] if number % 5 == 0 else ["whole"]


def dies(number: int) -> bool:
    """Return whether an item becomes a dead letter in the middle."""
    return number % 41 == 0 or number % 97 == 0


def _side(number: int) -> str:
    return "left" if number % 2 else "right"


def ends_of(number: int) -> list[Item]:
    """Return what must come to the end of an item, or die, each once."""
    return [{"n": number, "part": part} for part in parts_of(number)]


if "CRASH_FATE" in os.environ:
    work.SLICE = SLICE  # type: ignore[misc]
    url = os.environ["STANCHION_URL"]
    items, tables, ordered = pipelines(Stanchion(url, store=doomed(open_store(url), os.environ["CRASH_FATE"])))
