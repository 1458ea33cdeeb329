"""Stanchion whose jobs have limits, or wait beside many that are parked."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import ClassVar

from benchmarks.contenders.base import batches
from benchmarks.contenders.stanchion_app import QUEUE, StanchionContender, StanchionPostgres, StanchionSqlite
from stanchion.core.ids import new_id
from stanchion.stores.protocol import Store
from stanchion.stores.records.claims import Claim
from stanchion.stores.records.jobs import NewJob
from stanchion.stores.registry import open_store
from stanchion.stores.rules.capacity.limits import Limits, limits_text

SEMAPHORES = 10_000
CAPACITY = 100
PARKED = 100_000


class _Limited(StanchionContender):
    """Every job needs a slot of one of many semaphores, which has room for it."""

    settings: ClassVar[str] = f"each job needs one of {SEMAPHORES:,} semaphores"

    def prepare(self) -> None:
        super().prepare()
        with _opened(self.url()) as store:
            for number in range(SEMAPHORES):
                store.set_semaphore(_semaphore(number), CAPACITY)

    def enqueue_bulk(self, first: int, count: int) -> None:
        with _opened(self.url()) as store:
            for jobs in batches(first, count):
                store.push([_job(job, _semaphore(job % SEMAPHORES)) for job in jobs])


class _Parked(StanchionContender):
    """Its jobs have no limits; another queue is full of jobs that wait at one full semaphore."""

    settings: ClassVar[str] = f"beside {PARKED:,} jobs that wait at a full semaphore"

    def prepare(self) -> None:
        super().prepare()
        with _opened(self.url()) as store:
            store.set_semaphore("full", 1)
            for jobs in batches(0, PARKED):
                store.push([_job(job, "full", "parked") for job in jobs])
            while store.stats(["parked"], ["states"])[
                "parked"
            ].states.ready:  # the first one takes the slot and keeps it
                store.claim(Claim("parked", 1, new_id(), lease=3600.0))


class LimitedPostgres(_Limited, StanchionPostgres):
    """On a server."""


class LimitedSqlite(_Limited, StanchionSqlite):
    """On a file."""


class ParkedPostgres(_Parked, StanchionPostgres):
    """On a server."""


class ParkedSqlite(_Parked, StanchionSqlite):
    """On a file."""


@contextmanager
def _opened(url: str) -> Iterator[Store]:
    with closing(open_store(url)) as store:
        yield store


def _semaphore(number: int) -> str:
    return f"key-{number}"


def _job(number: int, semaphore: str, queue: str = QUEUE) -> NewJob:
    limits = limits_text(Limits((semaphore,)))
    return NewJob(new_id(), queue, f'{{"args":[{number}]}}', "noop", limits=limits)
