"""Semaphores: made, resized, and who holds them or waits for them."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from sqlalchemy import text

from stanchion.stores.records.queues import SemaphoreRow
from stanchion.stores.rules.slots import semaphore_gate, semaphore_of
from stanchion.stores.sql.engine.database import Database
from stanchion.stores.sql.engine.dialect import Dialect
from stanchion.stores.sql.engine.runner import Runner
from stanchion.stores.sql.slots import SlotRows
from stanchion.stores.sql.transactions import Transactions

_RESIZE = text("UPDATE stanchion_gates SET capacity = coalesce(:capacity, declared) WHERE name = :name")
_DECLARE = text("UPDATE stanchion_gates SET declared = :capacity WHERE name = :name")
_DECLARED = text("SELECT declared FROM stanchion_gates WHERE name = :name")


class SemaphoreStatements:
    """The statements that go by who holds a semaphore or waits for it, for one dialect."""

    def __init__(self, dialect: Dialect) -> None:
        gate = dialect.by("stanchion_jobs_gate")
        self.all, self.named = (
            text(f"""
                SELECT name, capacity, used, (SELECT COUNT(*) FROM stanchion_jobs {gate} WHERE waits_for = name)
                FROM stanchion_gates WHERE {which} AND capacity IS NOT NULL
            """)
            for which in (dialect.begins("name", "s:"), dialect.among("name", "names"))
        )


class Semaphores:
    """Makes, resizes and reads semaphores."""

    def __init__(self, db: Database, transactions: Transactions, slots: SlotRows) -> None:
        self._db, self._transactions, self._slots = db, transactions, slots
        self._statements = db.dialect.once(SemaphoreStatements)

    def set_semaphore(self, name: str, capacity: int | None, *, declared: bool = False, tx: Any = None) -> bool:
        slot = semaphore_gate(name)

        def as_before(run: Runner) -> bool:
            ((last,),) = run.rows(_DECLARED, {"name": slot}) or [(None,)]
            return capacity == last if declared else last is None

        def work(run: Runner, _again: bool) -> bool:
            if (declared or capacity is None) and as_before(run):
                return False
            self._slots.lock(run, [slot])
            run.change(_RESIZE, {"name": slot, "capacity": capacity})
            if declared:
                run.change(_DECLARE, {"name": slot, "capacity": capacity})
            run.freed[slot] += 0
            return True

        if declared and self._db.read(as_before):
            return False
        if tx is not None and self._db.dialect.single_writer:
            self._transactions.enter((), tx, work)
            return True  # also where it was done before in this transaction, which may be rolled back
        return self._transactions.write(work)

    def semaphores(self, names: Iterable[str] | None = None) -> list[SemaphoreRow]:
        statement, given = self._statements.all, {}
        if names is not None:
            if not (slots := {semaphore_gate(name) for name in names}):
                return []
            statement, given = self._statements.named, {"names": self._db.dialect.listed(slots)}
        rows = self._db.read(lambda run: run.rows(statement, given))
        return sorted(
            SemaphoreRow(semaphore_of(slot) or "", capacity, used, int(waiting))
            for slot, capacity, used, waiting in rows
        )


def quoted(name: str) -> str:
    """Return the name of a semaphore as it stands in the limits of a job, for a pattern with | before its signs."""
    text = json.dumps(name, ensure_ascii=False)
    for special in ("|", "%", "_"):
        text = text.replace(special, f"|{special}")
    return text
