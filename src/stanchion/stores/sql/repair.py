"""Slot repair: restores what should hold of slots, whatever has damaged it.

    a slot that is taken, and no live job holds it      its used slots are counted anew
    a waiter for a free slot                            the slot is granted
    a holder of, or a waiter for, a slot without a row  the row is made

A step and all that follows from it are one transaction, so this repairs what came from elsewhere: tables that were
restored or edited by hand, a fault of a release, waiters that a caller's transaction has passed over. A call reads so
many slots at most, and the next one goes on behind them. It reads without locks, and then once more, under the locks of
those slots that seem wrong: as long as jobs come and go, many of them only seem so.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from sqlalchemy import text

from stanchion.stores.rules.slots import held_gates, is_node_gate, semaphore_of
from stanchion.stores.sql.engine.database import Database
from stanchion.stores.sql.engine.dialect import Dialect
from stanchion.stores.sql.engine.runner import Runner
from stanchion.stores.sql.jobs import outline
from stanchion.stores.sql.slots import SLOT_COLUMNS, SlotRow, SlotRows
from stanchion.stores.sql.transactions import Transactions

_SLOTS_READ = 1000
"""So many rows of slots one call reads."""

_WAITED_FOR = 100
"""So many slots for which jobs wait one call finds by the jobs, each by a query."""

_HOLDERS = 5000
"""With more jobs that hold something, their slots are not counted."""

_REPAIRED_AT_ONCE = 100


class RepairStatements:
    """The statements that read slots one after the other, for one dialect."""

    def __init__(self, dialect: Dialect) -> None:
        waiting, held, key = map(dialect.by, ("stanchion_jobs_gate", "stanchion_jobs_held", "PRIMARY"))
        # In the order of the index, whose entries are few: without one, a planner may read the whole table instead.
        in_order = "held" if held else "id"
        self.next_slots = text(f"""
            SELECT {SLOT_COLUMNS} FROM stanchion_gates {key} WHERE name > :after ORDER BY name LIMIT :most
        """)
        self.next_waited = text(f"""
            SELECT waits_for FROM stanchion_jobs {waiting} WHERE waits_for > :after ORDER BY waits_for LIMIT 1
        """)
        self.holders = text(f"""
            SELECT CAST(id AS CHAR(36)), queue, order_key, limits, flow, held FROM stanchion_jobs {held}
            WHERE held > 0 ORDER BY {in_order} LIMIT :most
        """)


class SlotRepair:
    """Restores what should hold of slots."""

    def __init__(self, db: Database, transactions: Transactions, slots: SlotRows) -> None:
        self._db, self._transactions, self._slots = db, transactions, slots
        self._statements = db.dialect.once(RepairStatements)
        self._read_to = self._waited_to = ""

    def repair(self) -> None:
        """Read the next slots, and repair those that are wrong."""
        wrong = self._db.read(self._seeming_wrong)
        for start in range(0, len(wrong), _REPAIRED_AT_ONCE):
            some = wrong[start : start + _REPAIRED_AT_ONCE]
            self._transactions.write(lambda run, _again, some=some: self._repair(run, some))  # type: ignore[misc]

    def _seeming_wrong(self, run: Runner) -> list[str]:
        """Return those of the next slots that seem to be wrong."""
        waited, held = self._next_waited(run), self._held(run)
        slots = self._next_slots(run, waited | set(held or ()))
        waited |= {name for name, slot in slots.items() if slot.waited}
        free = {name for name in waited if name not in slots or slots[name].free > 0}
        wrong = {name for name in free if semaphore_of(name)} | self._forgotten(run, free)
        if held is not None:
            wrong |= {name for name, slot in slots.items() if slot.used != held[name]}
            wrong |= {name for name in held if name not in slots}
        return sorted(wrong)

    def _next_waited(self, run: Runner) -> set[str]:
        """Return the next slots for which jobs wait, each by a look at an index."""
        found: list[str] = []
        while len(found) < _WAITED_FOR:
            after = found[-1] if found else self._waited_to
            rows = run.rows(self._statements.next_waited, {"after": after})
            if not rows:
                break
            found.append(str(rows[0][0]))
        self._waited_to = found[-1] if len(found) == _WAITED_FOR else ""
        return {name for name in found if not is_node_gate(name)}

    def _next_slots(self, run: Runner, more: Iterable[str]) -> dict[str, SlotRow]:
        """Return the next slots of semaphores and order keys, and those of these that there are."""
        rows = run.rows(self._statements.next_slots, {"after": self._read_to, "most": _SLOTS_READ})
        self._read_to = str(rows[-1][0]) if len(rows) == _SLOTS_READ else ""
        found = {row[0]: SlotRow(*row) for row in rows}
        if others := set(more) - found.keys():
            found |= self._slots.read(run, others)
        return {name: slot for name, slot in found.items() if not name.startswith("r:")}

    def _forgotten(self, run: Runner, slots: Iterable[str]) -> set[str]:
        """Return those of these order-key slots for which the first live job of the key itself waits."""
        firsts = self._slots.firsts(run, [name for name in slots if not semaphore_of(name)])
        waiting = self._slots.still_waiting(run, firsts.values()) if firsts else {}
        return {slot for slot, first in firsts.items() if waiting.get(first) == slot}

    def _held(self, run: Runner) -> Counter[str] | None:
        """Count the slots that live jobs hold; None where these are too many."""
        rows = run.rows(self._statements.holders, {"most": _HOLDERS + 1})
        if len(rows) > _HOLDERS:
            return None
        return Counter(slot for row in rows for slot in held_gates(outline(*row)))

    def _repair(self, run: Runner, names: Sequence[str]) -> None:
        (locked, _), held = self._slots.lock(run, names), self._held(run)
        for slot in locked.values():
            if held is not None and slot.used != held[slot.name]:
                self._slots.use(run, {slot.name: held[slot.name] - slot.used})
            run.freed[slot.name] += 0
        self._slots.mark(run, names, waited=True)
