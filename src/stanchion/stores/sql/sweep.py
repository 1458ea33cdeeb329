"""Sweeping: what should never be at gates, and yet is, whatever has caused it.

    a slot that is taken, and no live job holds it      the count of a gate's holders is made anew
    a waiter at a gate with a free slot                 the slot is granted
    a holder or a waiter whose gate has no row          the row is made

A step and all that follows from it are one transaction, so this heals what came from elsewhere: tables that were
restored or edited by hand, a fault of a release, waiters that a caller's transaction has passed over. A call looks at
so many gates at most, and the next one goes on behind them. It looks without locks, and then once more, under the locks
of those gates that seem wrong: as long as jobs come and go, many of them only seem so.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from stanchion.stores.rules.slots import held_gates, is_node_gate, semaphore_of
from stanchion.stores.sql.base import SqlBase
from stanchion.stores.sql.engine.database import Database
from stanchion.stores.sql.engine.runner import Runner
from stanchion.stores.sql.jobs import outline
from stanchion.stores.sql.slots import SlotRow

_GATES = 1000
"""So many rows of gates one call looks at."""

_WAITED_AT = 100
"""So many gates at which jobs wait one call finds by the jobs, each by a query."""

_HOLDERS = 5000
"""With more jobs that hold something, their slots are not counted."""

_HEALED_AT_ONCE = 100


class Sweeping(SqlBase):
    """Restores what should hold at gates."""

    def __init__(self, database: Database) -> None:
        super().__init__(database)
        self._swept = self._swept_waiters = ""

    def sweep(self) -> None:
        wrong = self.database.read(self._seeming_wrong)
        for start in range(0, len(wrong), _HEALED_AT_ONCE):
            some = wrong[start : start + _HEALED_AT_ONCE]
            self.transactions.write(lambda run, _again, some=some: self._heal(run, some))  # type: ignore[misc]

    def _seeming_wrong(self, run: Runner) -> list[str]:
        """Return the next gates that seem to be wrong."""
        waited, held = self._next_waited(run), self._held(run)
        gates = self._next_gates(run, waited | set(held or ()))
        waited |= {name for name, gate in gates.items() if gate.waited}
        free = {name for name in waited if name not in gates or gates[name].free > 0}
        wrong = {name for name in free if semaphore_of(name)} | self._forgotten(run, free)
        if held is not None:
            wrong |= {name for name, gate in gates.items() if gate.used != held[name]}
            wrong |= {name for name in held if name not in gates}
        return sorted(wrong)

    def _next_waited(self, run: Runner) -> set[str]:
        """Return the next gates at which jobs wait, each by a look at an index."""
        found: list[str] = []
        while len(found) < _WAITED_AT:
            after = found[-1] if found else self._swept_waiters
            rows = run.rows(self._gates.next_waited, {"after": after})
            if not rows:
                break
            found.append(str(rows[0][0]))
        self._swept_waiters = found[-1] if len(found) == _WAITED_AT else ""
        return {name for name in found if not is_node_gate(name)}

    def _next_gates(self, run: Runner, more: Iterable[str]) -> dict[str, SlotRow]:
        """Return the next gates of semaphores and order keys, and those of these that there are."""
        rows = run.rows(self._gates.next_gates, {"after": self._swept, "most": _GATES})
        self._swept = str(rows[-1][0]) if len(rows) == _GATES else ""
        found = {row[0]: SlotRow(*row) for row in rows}
        if others := set(more) - found.keys():
            found |= self.slots.read(run, others)
        return {name: gate for name, gate in found.items() if not name.startswith("r:")}

    def _forgotten(self, run: Runner, gates: Iterable[str]) -> set[str]:
        """Return those of these order gates at which the first live job of the key itself waits."""
        firsts = self.slots.firsts(run, [name for name in gates if not semaphore_of(name)])
        waiting = self.slots.still_waiting(run, firsts.values()) if firsts else {}
        return {gate for gate, first in firsts.items() if waiting.get(first) == gate}

    def _held(self, run: Runner) -> Counter[str] | None:
        """Count the slots that live jobs hold; None where these are too many."""
        rows = run.rows(self._gates.holders, {"most": _HOLDERS + 1})
        if len(rows) > _HOLDERS:
            return None
        return Counter(gate for row in rows for gate in held_gates(outline(*row)))

    def _heal(self, run: Runner, names: Sequence[str]) -> None:
        (locked, _), held = self.slots.lock(run, names), self._held(run)
        for gate in locked.values():
            if held is not None and gate.used != held[gate.name]:
                self.slots.use(run, {gate.name: held[gate.name] - gate.used})
            run.freed[gate.name] += 0
        self.slots.mark(run, names, waited=True)
