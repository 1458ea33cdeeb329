"""The public names of the objects that a program gets: what completion offers.

`python -m tests.public_names` writes the list, which a change of the API changes.
"""

from __future__ import annotations

import builtins
from collections.abc import Iterator, Sequence
from dataclasses import fields, is_dataclass
from datetime import UTC, datetime
from enum import Enum
from pathlib import Path
from textwrap import wrap
from typing import Any

import stanchion
from stanchion import (
    Push,
    Retry,
    Send,
    Stanchion,
    Table,
    TaskInterrupted,
    Tasks,
    Worker,
    chain,
    group,
    middleware,
    spark,
)
from tests.manager.wire.test_errors import EXAMPLES

LIST = Path(__file__).with_suffix(".txt")

OF_PYTHON = (*(one for one in vars(builtins).values() if isinstance(one, type)), Enum, Sequence)
"""Classes whose names are not ours."""


def names_of(one: Any) -> list[str]:
    """Return the names of an object or a class that don't begin with an underscore, without Python's own, in order."""
    kind = one if isinstance(one, type) else type(one)
    known = {name for base in kind.__mro__ if base in OF_PYTHON and base is not object for name in dir(base)}
    declared = {field.name for field in fields(kind)} if is_dataclass(kind) else set()
    return sorted(name for name in {*dir(one), *declared} if not name.startswith("_") and name not in known)


def objects() -> Iterator[Any]:
    """Yield an object of each class that a program gets, and the classes that it has no object of."""
    app = Stanchion("memory://")
    app.setup()
    queue, topic, etl = app.queue("orders"), app.topic("sales"), app.pipeline("etl")
    etl.station("raw")(lambda item: item)
    task = app.task(name="send")(lambda number: number)
    app.cron("0 3 * * *", args=[1])(task)
    flow = chain(task.s(1), group(task.si(2), task.si(3))).enqueue()
    subscription = topic.subscribe("audit")
    handle, pushed = task.enqueue(1), queue.push(1)
    (held,) = queue.reserve()
    yield from (app, queue, queue.batch(), app.semaphore("smtp", 2), app.consumer("billing"), app.watch(), Tasks())
    yield from (task, task.using(priority=1), task.s(1), chain(task.s(1)), group(task.s(1)), handle, handle.job())
    yield from (pushed, held, held.committed(), flow, flow.graph(), app.event_group("order-17"), app.schedule("send"))
    yield from (topic, subscription, topic.push(1), topic.lag()["audit"], etl, etl.status(), etl.status().stations[0])
    yield from (Push(1), Send("raw"), Table("days"), Retry(), Worker(app), TaskInterrupted(), *EXAMPLES)
    yield from (stanchion.Bury("no"), stanchion.Cancel("no"), stanchion.Snooze(1), stanchion.RetryAfter(1))
    yield from (stanchion.Attempt, stanchion.FeedEvent, stanchion.FlowFailure, stanchion.JobState, stanchion.FlowState)
    yield from (stanchion.Task, *(getattr(middleware, name) for name in middleware.__all__))
    yield from (spark.Archive, spark.Replay, spark.Report)
    with Stanchion("memory://").testing(at=datetime(2031, 5, 1, tzinfo=UTC)) as clock:
        yield clock


def listed() -> dict[str, list[str]]:
    """Return the names of each class, by its name."""
    found = {(one if isinstance(one, type) else type(one)).__name__: names_of(one) for one in objects()}
    return dict(sorted(found.items()))


def kept() -> dict[str, list[str]]:
    """Return the names in the list, by class."""
    found = dict[str, list[str]]()
    for line in LIST.read_text().splitlines():
        if not line.startswith(" "):
            found[line.rstrip(":")] = own = []
        else:
            own += line.split()
    return found


if __name__ == "__main__":
    lines = []
    for name, own in listed().items():
        lines += [f"{name}:", *wrap(" ".join(own), 110, initial_indent="    ", subsequent_indent="    ")]
    LIST.write_text("\n".join(lines) + "\n")
