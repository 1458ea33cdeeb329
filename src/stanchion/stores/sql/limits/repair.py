"""Slot repair: restores the invariants of slots.

    a used slot that no live job holds              its used slots are counted again
    a waiter for a free slot                        the slot is granted
    a holder or waiter of a slot without a row      the row is made

A step and its consequences are one transaction. So this repairs damage from elsewhere: tables restored or edited by
hand, a bug in a release, waiters that a caller's transaction has passed over. A call reads a limited number of slots,
and the next call continues after them. It reads without locks first, then again under the locks of the slots that seem
wrong: while jobs come and go, many slots only seem wrong.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from sqlalchemy import text

from stanchion.stores.records.slots import NODE, ORDER, RATE, SEMAPHORE, Slot
from stanchion.stores.rules.capacity.slots import held_slots
from stanchion.stores.sql.engine.database import Database
from stanchion.stores.sql.engine.dialect import Dialect
from stanchion.stores.sql.engine.runner import Runner
from stanchion.stores.sql.engine.schema import HELD_COLUMNS, ID_COLUMNS
from stanchion.stores.sql.rows.jobs import outline
from stanchion.stores.sql.rows.slots import SLOT_COLUMNS, SlotRow, SlotRows, by_slot
from stanchion.stores.sql.rows.transactions import Transactions

_SLOTS_READ = 1000
"""Number of slot rows that one call reads."""

_WAITED_FOR = 100
"""Number of slots with waiters that one call finds by the index of waiting jobs, one query each."""

_HOLDERS = 5000
"""Slots are not counted if more jobs than this hold something."""

_REPAIRED_AT_ONCE = 100

_HELD = ", ".join(f"CAST({name} AS CHAR(36))" if name in ID_COLUMNS else name for name in HELD_COLUMNS)


_BEFORE_ALL = Slot("", "", "")
_WAITS = ("waits_kind", "waits_queue", "waits_name")


class RepairStatements:
    """The statements that walk through the slots, for one dialect."""

    def __init__(self, dialect: Dialect) -> None:
        waiting, held, key = map(dialect.by, ("stanchion_jobs_waiting", "stanchion_jobs_held", "PRIMARY"))
        # The order of the index, which has few entries: with another order, a planner may read the whole table.
        in_order = "slots_held" if held else "id"
        waits = ", ".join(_WAITS)
        self.next_slots = text(f"""
            SELECT {SLOT_COLUMNS} FROM stanchion_slots {key} WHERE {dialect.behind_slot("kind", "queue", "name")}
            ORDER BY kind, queue, name LIMIT :most
        """)
        self.next_waited = text(f"""
            SELECT {waits} FROM stanchion_jobs {waiting}
            WHERE waits_kind IS NOT NULL AND {dialect.behind_slot(*_WAITS, "waits_since")}
            ORDER BY {waits} LIMIT 1
        """)
        self.holders = text(f"""
            SELECT {_HELD} FROM stanchion_jobs {held}
            WHERE slots_held > 0 ORDER BY {in_order} LIMIT :most
        """)


class SlotRepair:
    """Restores the invariants of slots."""

    def __init__(self, db: Database, transactions: Transactions, slots: SlotRows) -> None:
        self._db, self._transactions, self._slots = db, transactions, slots
        self._statements = db.dialect.once(RepairStatements)
        self._read_to = self._waited_to = _BEFORE_ALL

    def repair(self) -> None:
        """Read the next slots, and repair the wrong ones."""
        wrong = self._db.read(self._seeming_wrong)
        for start in range(0, len(wrong), _REPAIRED_AT_ONCE):
            self._repair_some(wrong[start : start + _REPAIRED_AT_ONCE])

    def _repair_some(self, slots: list[Slot]) -> None:
        self._transactions.write(lambda run, _again: self._repair(run, slots))

    def _seeming_wrong(self, run: Runner) -> list[Slot]:
        """Return the next slots that seem wrong."""
        waited, held = self._next_waited(run), self._held(run)
        slots = self._next_slots(run, waited | set(held or ()))
        waited |= {slot for slot, row in slots.items() if row.waited}
        free = {slot for slot in waited if slot not in slots or slots[slot].free > 0}
        wrong = {slot for slot in free if slot.kind == SEMAPHORE} | self._forgotten(run, free)
        if held is not None:
            wrong |= {slot for slot, row in slots.items() if row.used != held[slot]}
            wrong |= {slot for slot in held if slot not in slots}
        return sorted(wrong)

    def _next_waited(self, run: Runner) -> set[Slot]:
        """Return the next slots with waiters, by one index probe each."""
        found: list[Slot] = []
        while len(found) < _WAITED_FOR:
            after = found[-1] if found else self._waited_to
            rows = run.rows(self._statements.next_waited, after._asdict())
            if not rows:
                break
            found.append(Slot(*rows[0]))
        self._waited_to = found[-1] if len(found) == _WAITED_FOR else _BEFORE_ALL
        return {slot for slot in found if slot.kind != NODE}

    def _next_slots(self, run: Runner, more: Iterable[Slot]) -> dict[Slot, SlotRow]:
        """Return the next slots of semaphores and order keys, and the existing slots of `more`."""
        rows = run.rows(self._statements.next_slots, {**self._read_to._asdict(), "most": _SLOTS_READ})
        found = by_slot(rows)
        self._read_to = list(found)[-1] if len(rows) == _SLOTS_READ else _BEFORE_ALL
        if others := set(more) - found.keys():
            found |= self._slots.read(run, others)
        return {slot: row for slot, row in found.items() if slot.kind != RATE}

    def _forgotten(self, run: Runner, slots: Iterable[Slot]) -> set[Slot]:
        """Return the order-key slots whose head of line is waiting."""
        firsts = self._slots.firsts(run, [slot for slot in slots if slot.kind == ORDER])
        waiting = self._slots.still_waiting(run, firsts.values()) if firsts else {}
        return {slot for slot, first in firsts.items() if waiting.get(first) == slot}

    def _held(self, run: Runner) -> Counter[Slot] | None:
        """Count the slots that live jobs hold; None if there are too many such jobs."""
        rows = run.rows(self._statements.holders, {"most": _HOLDERS + 1})
        if len(rows) > _HOLDERS:
            return None
        return Counter(slot for row in rows for slot in held_slots(outline(*row)))

    def _repair(self, run: Runner, slots: Sequence[Slot]) -> None:
        (locked, _), held = self._slots.lock(run, slots), self._held(run)
        for slot, row in locked.items():
            if held is not None and row.used != held[slot]:
                self._slots.use(run, {slot: held[slot] - row.used})
            run.freed[slot] += 0
        self._slots.mark(run, slots, waited=True)
