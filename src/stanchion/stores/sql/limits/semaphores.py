"""Semaphores: set, resized, and read with their holders and waiters."""

from __future__ import annotations

import json
from collections.abc import Iterable

from sqlalchemy import text

from stanchion.stores.records.queues import SemaphoreRow
from stanchion.stores.records.slots import SEMAPHORE
from stanchion.stores.rules.capacity.slots import semaphore_slot
from stanchion.stores.sql.engine.database import Database
from stanchion.stores.sql.engine.dialect import Dialect
from stanchion.stores.sql.engine.runner import Runner
from stanchion.stores.sql.rows.slots import SlotRows
from stanchion.stores.sql.rows.transactions import Transactions

_THIS = f"kind = '{SEMAPHORE}' AND queue = '' AND name = :name"
_RESIZE = text(f"UPDATE stanchion_slots SET capacity = coalesce(:capacity, declared) WHERE {_THIS}")
_DECLARE = text(f"UPDATE stanchion_slots SET declared = :capacity WHERE {_THIS}")
_DECLARED = text(f"SELECT declared FROM stanchion_slots WHERE {_THIS}")


class SemaphoreStatements:
    """The statements that search semaphores and count their waiters, for one dialect."""

    def __init__(self, dialect: Dialect) -> None:
        index = dialect.by("stanchion_jobs_waiting")
        self.all, self.named = (
            text(f"""
                SELECT name, capacity, used, (
                    SELECT COUNT(*) FROM stanchion_jobs {index}
                    WHERE waits_kind = '{SEMAPHORE}' AND waits_queue = '' AND waits_name = name
                )
                FROM stanchion_slots WHERE kind = '{SEMAPHORE}' AND queue = '' AND {which} AND capacity IS NOT NULL
            """)
            for which in ("1 = 1", dialect.among("name", "names"))
        )


class Semaphores:
    """Sets, resizes and reads semaphores."""

    def __init__(self, db: Database, transactions: Transactions, slots: SlotRows) -> None:
        self._db, self._transactions, self._slots = db, transactions, slots
        self._statements = db.dialect.once(SemaphoreStatements)

    def set_semaphore(self, name: str, capacity: int | None, *, declared: bool = False, tx: object = None) -> bool:
        slot = semaphore_slot(name)

        def as_before(run: Runner) -> bool:
            ((last,),) = run.rows(_DECLARED, {"name": name}) or [(None,)]
            return capacity == last if declared else last is None

        def work(run: Runner, _again: bool) -> bool:
            if (declared or capacity is None) and as_before(run):
                return False
            self._slots.lock(run, [slot])
            run.change(_RESIZE, {"name": name, "capacity": capacity})
            if declared:
                run.change(_DECLARE, {"name": name, "capacity": capacity})
            run.freed[slot] += 0
            return True

        if declared and self._db.read(as_before):
            return False
        if tx is not None and self._db.dialect.single_writer:
            self._transactions.enter((), tx, work)
            return True  # an earlier identical change in this transaction may be rolled back
        return self._transactions.write(work)

    def semaphores(self, names: Iterable[str] | None = None) -> list[SemaphoreRow]:
        statement, given = self._statements.all, {}
        if names is not None:
            if not (wanted := set(names)):
                return []
            statement, given = self._statements.named, {"names": self._db.dialect.listed(wanted)}
        rows = self._db.read(lambda run: run.rows(statement, given))
        return sorted(SemaphoreRow(name, capacity, used, int(waiting)) for name, capacity, used, waiting in rows)


def quoted(name: str) -> str:
    """Return a semaphore's name as it appears in the limits of a job, escaped for LIKE with |."""
    text = json.dumps(name, ensure_ascii=False)
    for special in ("|", "%", "_"):
        text = text.replace(special, f"|{special}")
    return text
