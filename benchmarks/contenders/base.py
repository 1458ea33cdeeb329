"""What every contender offers, so that one harness measures them all the same way."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass
from typing import ClassVar, Protocol

from benchmarks.probe import Probe

BULK_BATCH = 1000
"""Jobs per call of a bulk enqueue, for every contender."""


@dataclass(frozen=True)
class Place:
    """Where a contender keeps its jobs, and how safely.

    ``url`` is that of a server's database, or the path of an SQLite file. ``durable`` counts for SQLite
    only: a commit is on disk when it returns, or may be lost in a power cut.
    """

    url: str
    durable: bool = True

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Place:
        return cls(**json.loads(text))


class Contender(Protocol):
    """One queue on one database, used as its documentation recommends for speed.

    A producer process calls ``prepare`` once on an empty database, then ``open``, the enqueue
    methods and ``close``; a worker process calls ``work`` only. Jobs are no-ops numbered by the
    caller; each handler calls ``probe.hit(number)`` and nothing else.
    """

    name: ClassVar[str]
    settings: ClassVar[str]
    """The settings in use, in words, for the report."""
    drain_limit: ClassVar[int | None]
    """Drain at most so many jobs: for one too slow for the size the others need."""
    bulk_limit: ClassVar[int | None]
    """Enqueue at most so many in bulk, for the same reason."""

    def __init__(self, place: Place) -> None: ...

    def prepare(self) -> None:
        """Make the schema."""

    def open(self) -> None:
        """Connect the producer."""

    def enqueue_one(self, first: int, count: int) -> None:
        """Enqueue jobs ``first .. first + count - 1``, one call and one commit each."""

    def enqueue_bulk(self, first: int, count: int) -> None:
        """Enqueue the same jobs by the bulk interface, ``BULK_BATCH`` per call."""

    def close(self) -> None:
        """Disconnect the producer."""

    def unfinished(self) -> int:
        """How many jobs the store has that are not finished; on a connection of its own."""

    def work(self, probe: Probe) -> None:
        """Run jobs until the process is told to terminate."""


class ConcurrentContender(Contender, Protocol):
    """A contender on a database server, which many producers write to at once."""

    wakeups: ClassVar[tuple[bool, ...]]
    """Whether its enqueue can run with the wake-up of workers, without it, or both."""

    def committers(self, count: int, wakeup: bool) -> AbstractContextManager[list[Callable[[int], object]]]:
        """So many functions that enqueue and commit one job; each is for one thread of this process."""


def batches(first: int, count: int, size: int = BULK_BATCH) -> list[range]:
    """Return the job numbers ``first .. first + count - 1`` in pieces of at most ``size``."""
    end = first + count
    return [range(start, min(start + size, end)) for start in range(first, end, size)]
