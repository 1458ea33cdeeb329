"""Transactions that end by passing on the slots they have freed; listeners are woken after the commit."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence, Set
from functools import partial
from typing import TypeVar

from stanchion.stores.records import calls
from stanchion.stores.records.jobs import NewJob
from stanchion.stores.records.slots import Slot
from stanchion.stores.sql.engine.database import Database
from stanchion.stores.sql.engine.joining import joined
from stanchion.stores.sql.engine.runner import CursorRunner, Runner
from stanchion.stores.sql.rows.grants import PassesOn
from stanchion.stores.sql.rows.queues import QueueRows

T = TypeVar("T")

_RETRY_PAUSES = (0.005, 0.02, 0.1)
"""Seconds before each retry to grant a slot whose waiters others had locked; slot repair handles the rest."""


class Transactions:
    """Runs work in a new transaction, or in the caller's."""

    def __init__(self, db: Database, queues: QueueRows, grants: PassesOn) -> None:
        self._db, self._queues, self._grants = db, queues, grants

    def write(
        self,
        work: Callable[[CursorRunner, bool], T],
        seconds: float | None = None,
        *,
        durable: bool = True,
        together: bool = False,
    ) -> T:
        """Run `work` in one transaction, then wake the listeners; `work` is called with True if it is a repeat."""
        done, passed_over = self._write_once(work, seconds, durable=durable, together=together)
        if passed_over:
            self._retry_grants(passed_over)
        return done

    def enter(
        self, jobs: Sequence[NewJob], tx: object, work: Callable[[Runner, bool], T], *, guarded: bool = False
    ) -> T:
        """Run `work`, which stores these jobs, in a new transaction or in `tx`; `guarded`: see `joined`."""
        if tx is None:
            self._queues.make_for(jobs)
            return self.write(work, calls.seconds_for(len(jobs)), together=True)
        with joined(self._db, tx, guarded=guarded) as run:
            self._queues.make_joined(run, jobs)
            done = work(run, False)
            self._grants.pass_on(run)
        return done

    def pass_on(self, run: Runner) -> None:
        """Pass on the slots freed by a transaction that was begun elsewhere."""
        self._grants.pass_on(run)

    def wake(self, run: Runner) -> None:
        """Wake the listeners of committed work."""
        if run.woken or run.ended:
            self._db.dialect.announce(run.woken, run.ended)

    def _write_once(
        self,
        work: Callable[[CursorRunner, bool], T],
        seconds: float | None = None,
        *,
        durable: bool = True,
        together: bool = False,
    ) -> tuple[T, set[Slot]]:
        """Do what `write` does, without retries; also return the free slots whose waiters were passed over."""
        runs: list[Runner] = []

        def recorded(run: CursorRunner, again: bool) -> T:
            runs[:] = [run]
            done = work(run, again)
            self._grants.pass_on(run)
            return done

        done = self._db.write(recorded, seconds, durable=durable, together=together)
        (run,) = runs
        self.wake(run)
        return done, run.passed_over

    def _retry_grants(self, slots: set[Slot]) -> None:
        """Retry to grant these free slots, whose waiters others had locked."""
        for pause in _RETRY_PAUSES:
            time.sleep(pause * random.uniform(0.5, 1.5))  # noqa: S311 - spreading load
            if not (slots := self._write_once(partial(_has_freed, slots))[1]):
                return


def _has_freed(slots: Set[Slot], run: Runner, _again: bool) -> None:
    """Record that slots may have new heads of line."""
    run.freed.update(dict.fromkeys(slots, 0))
