"""The pipeline of the worker processes, and what must become of each item.

raw ─┬─► mid ─┬─► mid again, three times, for some
     │        └─► end   holding a semaphore
     ├─► 3 items of one, to mid
     └─► dropped
"""

from __future__ import annotations

import os
import time
from typing import Any

from stanchion import Job, Retry, Send, Stanchion
from stanchion.context import steadiness
from stanchion.stores.registry import open_store
from tests.crash.doom import doomed

# The quick workers of these tests try again every second, and every five in life.
steadiness.RETURN = 3.0

ROUNDS = 3
SECONDS = 0.002

Item = dict[str, Any]


def pipeline(app: Stanchion) -> Any:
    """Declare the pipeline on an app."""
    app.semaphore("narrow", 3)
    etl = app.pipeline("crash")

    @etl.station("raw", to="mid")
    def raw(item: Item) -> Any:
        time.sleep(SECONDS)
        parts = parts_of(item["n"])
        return None if not parts else [Send("mid", {**item, "part": part, "rounds": 0}) for part in parts]

    @etl.station("mid", to=["mid", "end"], retry=Retry.constant(0.2, jitter=0))
    def mid(item: Item, job: Job) -> Any:
        time.sleep(SECONDS)
        if item["n"] % 11 == 0 and job.attempt == 1:
            raise ValueError("at the first attempt")
        if item["rounds"] < rounds_of(item["n"]):
            return Send("mid", {**item, "rounds": item["rounds"] + 1})
        return Send("end")

    @etl.station("end", limits=["narrow"])
    def end(item: Item) -> Item:
        time.sleep(SECONDS)
        return item

    return etl


def parts_of(number: int) -> list[str]:
    """Return what becomes of an item: nothing, itself, or several."""
    if number % 7 == 0:
        return []
    return ["a", "b", "c"] if number % 5 == 0 else ["whole"]


def rounds_of(number: int) -> int:
    """Return how often an item comes back to the station in the middle."""
    return ROUNDS if number % 13 == 0 else 0


def ends_of(number: int) -> list[Item]:
    """Return what must come to the end of an item, each once."""
    return [{"n": number, "part": part, "rounds": rounds_of(number)} for part in parts_of(number)]


if "CRASH_FATE" in os.environ:
    url = os.environ["STANCHION_URL"]
    etl = pipeline(Stanchion(url, store=doomed(open_store(url), os.environ["CRASH_FATE"])))
