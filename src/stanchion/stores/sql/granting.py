"""Slots that come free: who has them next. See `slots` for the order of the locks."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

from sqlalchemy import text

from stanchion.stores.rules.slots import HOLDER_BOOST, semaphore_of
from stanchion.stores.sql.engine.database import Database
from stanchion.stores.sql.engine.dialect import Dialect
from stanchion.stores.sql.engine.runner import Asked, Row, Runner
from stanchion.stores.sql.slots import Head, SlotRow, SlotRows


class PassesOn(Protocol):
    """Grants what a transaction has set free."""

    def pass_on(self, run: Runner) -> None:
        """Give back the slots that were set free, and grant them to the next: the last step of each transaction."""


class _Waiter(NamedTuple):
    """A job that gets what it waits for, locked; `waits_for` is read where it may have changed."""

    id: str
    queue: str
    waits_for: str = ""


class GrantStatements:
    """The statements about jobs that wait for slots, for one dialect."""

    def __init__(self, dialect: Dialect) -> None:
        ids, gate, key = dialect.among("id", "ids", "uuid"), dialect.by("stanchion_jobs_gate"), dialect.by("PRIMARY")
        an_id = "CAST(id AS CHAR(36))"
        self.in_line = text(f"""
            SELECT {an_id}, queue FROM stanchion_jobs {gate} WHERE waits_for = :gate
            ORDER BY stanchion_jobs.waits_since, stanchion_jobs.id LIMIT :most {dialect.locking_free}
        """)
        self.waited_at = text(f"""
            SELECT given.value FROM {dialect.elements("gates")} WHERE EXISTS (
                SELECT 1 FROM stanchion_jobs {gate} WHERE waits_for = given.value
            )
        """)
        self.waiting_of = text(f"""
            SELECT {an_id}, queue, waits_for FROM stanchion_jobs {key} WHERE {ids} {dialect.locking_free}
        """)
        self.grant = text(f"""
            UPDATE stanchion_jobs {key}
            SET state = 'queued', held = held + 1, priority = priority + :boost, waits_for = NULL, waits_since = NULL
            WHERE {ids}
        """)


class Grants:
    """Gives slots back, and grants them to those who wait."""

    def __init__(self, db: Database, slots: SlotRows) -> None:
        self._dialect, self._slots = db.dialect, slots
        self._statements = db.dialect.once(GrantStatements)

    def pass_on(self, run: Runner) -> None:
        if not run.freed:
            return
        freed = run.freed
        locked, heads = self._slots.lock_with_heads(run, freed)
        self._grant(run, [slot._replace(used=slot.used - freed[slot.name]) for slot in locked.values()], freed, heads)

    def _grant(
        self, run: Runner, slots: Sequence[SlotRow], freed: Mapping[str, int], heads: Mapping[str, Head]
    ) -> None:
        """Give what is free of these locked slots to the next; `freed`: what was set free of each just now.

        Those are the first in line at a semaphore, and the first live job of an order key, if it waits there. One that
        does not is left alone: a claim has locked it, perhaps, and waits for this slot.
        """
        more = Counter({name: -n for name, n in freed.items()})
        free = [slot for slot in slots if slot.free > 0]
        lined = [slot for slot in free if slot.waited and semaphore_of(slot.name)]
        keyed = [slot for slot in free if semaphore_of(slot.name) is None]
        known = {slot.name: heads[slot.name] for slot in keyed if slot.waited and slot.name in heads}
        next_of_key = {name: head.id for name, head in known.items() if head.waits_for == name}
        asked: list[Asked] = [(self._statements.in_line, {"gate": slot.name, "most": slot.free}) for slot in lined]
        if next_of_key:
            asked.append((self._statements.waiting_of, {"ids": self._dialect.listed(next_of_key.values())}))
        answers = run.all_rows(asked)
        more.update(self._grant_semaphores(run, dict(zip(lined, answers, strict=False))))
        if next_of_key:
            more.update(self._grant_keys(run, next_of_key, answers[-1]))
        # The row of an order key is there for as long as somebody holds the key, or may wait for it.
        if unused := {slot.name for slot in keyed if slot.name not in known}:
            self._slots.drop(run, unused)
        self._slots.use(run, {name: n for name, n in more.items() if name not in unused})

    def _grant_semaphores(self, run: Runner, lines: Mapping[SlotRow, list[Row]]) -> Counter[str]:
        """Give the free slots of semaphores to those who wait longest; return how many of each."""
        self._let_on(run, [_Waiter(*row) for line in lines.values() for row in line], HOLDER_BOOST)
        left = {slot.name for slot, line in lines.items() if len(line) < slot.free}
        if left and not run.joined:
            # Those who are still there were locked by others.
            given = {"gates": json.dumps(sorted(left), ensure_ascii=False)}
            missed = {name for (name,) in run.rows(self._statements.waited_at, given)}
            run.passed_over |= missed
            if left > missed:
                self._slots.mark(run, left - missed, waited=False)
        return Counter({slot.name: len(line) for slot, line in lines.items()})

    def _grant_keys(self, run: Runner, firsts: Mapping[str, str], unlocked: Sequence[Row]) -> Counter[str]:
        """Let on the first live jobs of order keys, where they wait there; return of which."""
        waiting = {str(row[0]): _Waiter(*row) for row in unlocked}
        on = {name: one for name, id_ in firsts.items() if (one := waiting.get(id_)) and one.waits_for == name}
        self._let_on(run, list(on.values()), 0)
        if locked := {id_: name for name, id_ in firsts.items() if id_ not in waiting}:
            found = self._slots.still_waiting(run, locked)
            run.passed_over.update(locked[one] for one, name in found.items() if locked[one] == name)
        return Counter(on.keys())

    def _let_on(self, run: Runner, waiters: Sequence[_Waiter], boost: int) -> None:
        """Queue jobs again that have got what they waited for."""
        if waiters:
            ids = self._dialect.listed(str(waiter.id) for waiter in waiters)
            run.send(self._statements.grant, {"boost": boost, "ids": ids})
            run.woken.update(waiter.queue for waiter in waiters)
