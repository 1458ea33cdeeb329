"""Parking in bulk: long runs of jobs that wait for the same slot.

The next claim of this process first parks skipped jobs, for half the time that skipping them took. It parks jobs that
are similar to one already parked: the same limits, or the same order key. Every further claim does so too, until all of
them are parked. A claim that finds no job that may run parks as many as its time allows.
"""

from __future__ import annotations

import time
from functools import partial

from stanchion.stores.records.claims import Claim
from stanchion.stores.records.slots import ORDER
from stanchion.stores.rules.slots import waits_at
from stanchion.stores.sql.claims.admission import AdmissionStatements
from stanchion.stores.sql.claims.due import RUN, FindsDue
from stanchion.stores.sql.claims.search import Alike, Search
from stanchion.stores.sql.engine.database import Database
from stanchion.stores.sql.engine.runner import Runner
from stanchion.stores.sql.rows.slots import SlotRows
from stanchion.stores.sql.rows.transactions import Transactions


class Parking:
    """Parks runs of jobs that claims have skipped, each part in its own transaction."""

    def __init__(self, db: Database, transactions: Transactions, slots: SlotRows, due: FindsDue) -> None:
        self._dialect, self._transactions, self._slots, self._due = db.dialect, transactions, slots, due
        self._statements = db.dialect.once(AdmissionStatements)
        self.owed: dict[str, float] = {}
        """Seconds that the next claim of a queue is to spend on parking skipped jobs."""

    def owe(self, queue: str, search: Search) -> None:
        """Let the next claim of this queue park what this one has skipped."""
        self.owed[queue] = search.skipping / 2

    def seconds_owed(self, queue: str) -> float:
        """Return, and reset, the seconds that this claim is to spend on parking."""
        return self.owed.pop(queue, 0.0)

    def park(self, claim: Claim, search: Search, seconds: float) -> bool:
        """Park jobs similar to the waiting ones, for `seconds`; False if the time ran out."""
        until = time.monotonic() + seconds
        for alike in search.runs:
            part = partial(self._part, claim, search, alike)
            while self._transactions.write(part, durable=False):
                if time.monotonic() >= until:
                    return False
        return True

    def _part(self, claim: Claim, search: Search, alike: Alike, run: Runner, _again: bool) -> bool:
        """Park a part of a run, if its slot is still full; return whether there may be more to park."""
        ids = self._due.alike(run, claim.queue, alike)
        if not ids:
            return False
        slot = alike.slot
        row = self._slots.lock(run, [slot])[0][slot]
        if slot.kind == ORDER:
            first = self._slots.firsts(run, [slot]).get(slot)
            waiting = [one for one in ids if one != first]
        else:
            waiting = ids if row.free < 1 else []
        if waiting:
            given = {
                "queue": claim.queue,
                "slots_held": 0,
                "order_hold": claim.token if slot.kind == ORDER else None,
                "slots_hold": None if slot.kind == ORDER else claim.token,
                **waits_at(slot),
                "waits_since": search.at,
                "ids": self._dialect.listed(waiting),
            }
            run.send(self._statements.park, given)
            self._slots.mark(run, [slot], waited=True)
        return len(ids) == RUN and bool(waiting)
