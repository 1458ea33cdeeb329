"""Transactions that end by passing on the slots which they have set free, and then wake those concerned."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Collection
from typing import Any, TypeVar

from stanchion.stores.sql.engine.database import CALL_SECONDS, Database
from stanchion.stores.sql.engine.joining import joined
from stanchion.stores.sql.engine.runner import Runner
from stanchion.stores.sql.granting import PassesOn
from stanchion.stores.sql.queue_rows import QueueRows

T = TypeVar("T")

_LOOKS = (0.005, 0.02, 0.1)
"""Seconds before each further look at a slot whose waiters others had locked; what is left then is for slot repair."""


class Transactions:
    """Runs work in a transaction of its own, or in the caller's."""

    def __init__(self, db: Database, queues: QueueRows, grants: PassesOn) -> None:
        self._db, self._queues, self._grants = db, queues, grants

    def write(
        self,
        work: Callable[[Runner, bool], T],
        seconds: float = CALL_SECONDS,
        *,
        durable: bool = True,
        together: bool = False,
    ) -> T:
        """Run `work` in one transaction; then wake those whom it has let go on. It is told when it is a repeat."""
        done, passed_over = self._write_once(work, seconds, durable=durable, together=together)
        if passed_over:
            self._look_again(passed_over)
        return done

    def enter(self, queues: Collection[str], tx: Any, work: Callable[[Runner, bool], T], *, guarded: bool = False) -> T:
        """Do what stores jobs in these queues, in a transaction of its own or in `tx`; `guarded`: see `joined`."""
        if tx is None:
            self._queues.make(queues)
            return self.write(work, together=True)
        with joined(self._db, tx, guarded=guarded) as run:
            self._queues.make_for(run, queues)
            done = work(run, False)
            self._grants.pass_on(run)
            if run.woken or run.ended:
                self._db.dialect.announce_in(tx, run.woken, run.ended)
        return done

    def pass_on(self, run: Runner) -> None:
        """Pass on what a transaction that was begun elsewhere has set free."""
        self._grants.pass_on(run)

    def tell(self, run: Runner) -> None:
        """Wake those for whom there is news in what was committed."""
        if run.woken or run.ended:
            self._db.dialect.announce(run.woken, run.ended)

    def _write_once(
        self,
        work: Callable[[Runner, bool], T],
        seconds: float = CALL_SECONDS,
        *,
        durable: bool = True,
        together: bool = False,
    ) -> tuple[T, set[str]]:
        """Do what `write` does but a further look at the slots where it passed waiters over; return these as well."""
        runs: list[Runner] = []

        def noted(run: Runner, again: bool) -> T:
            runs[:] = [run]
            done = work(run, again)
            self._grants.pass_on(run)
            return done

        done = self._db.write(noted, seconds, durable=durable, together=together)
        (run,) = runs
        self.tell(run)
        return done, run.passed_over

    def _look_again(self, slots: set[str]) -> None:
        """Grant these free slots to waiters that others had locked."""
        for pause in _LOOKS:
            time.sleep(pause * random.uniform(0.5, 1.5))  # noqa: S311 - spreading load
            slots = self._write_once(lambda run, _again, left=slots: run.freed.update(dict.fromkeys(left, 0)))[1]  # type: ignore[misc]
            if not slots:
                return
