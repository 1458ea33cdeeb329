"""Grants: freed slots go to their next waiters. `slots` documents the order of the locks."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

from sqlalchemy import text

from stanchion.stores.records.slots import ORDER, SEMAPHORE, Slot, slot_in
from stanchion.stores.rules.capacity.slots import HOLDER_BOOST, semaphore_slot
from stanchion.stores.sql.engine.database import Database
from stanchion.stores.sql.engine.dialect import Dialect
from stanchion.stores.sql.engine.runner import Asked, Row, Runner
from stanchion.stores.sql.rows.past_waits import with_wait
from stanchion.stores.sql.rows.slots import Head, SlotRow, SlotRows


class PassesOn(Protocol):
    """Grants the slots that a transaction has freed."""

    def pass_on(self, run: Runner) -> None:
        """Release the freed slots, and grant them to the next waiters; the last step of each transaction."""


class _Waiter(NamedTuple):
    """A locked job that may get the slot it waits for, which is set if the statement has read it again."""

    id: str
    queue: str
    waits_kind: str | None = None
    waits_queue: str | None = None
    waits_name: str | None = None

    @property
    def waits_for(self) -> Slot | None:
        """The slot that the job waits for."""
        return slot_in(*self[2:])


class GrantStatements:
    """The statements about jobs that wait for slots, for one dialect."""

    def __init__(self, dialect: Dialect) -> None:
        these = f"{dialect.among('id', 'ids', 'uuid')} AND {dialect.among('queue', 'queues')}"
        index, key = dialect.by("stanchion_jobs_waiting"), dialect.by("PRIMARY")
        an_id = "CAST(id AS CHAR(36))"
        self.waiters = text(f"""
            SELECT {an_id}, queue FROM stanchion_jobs {index}
            WHERE waits_kind = '{SEMAPHORE}' AND waits_queue = '' AND waits_name = :semaphore
            ORDER BY stanchion_jobs.waits_since, stanchion_jobs.id LIMIT :most {dialect.locking_free}
        """)
        self.waited_for = text(f"""
            SELECT given.value FROM {dialect.elements("semaphores")} WHERE EXISTS (
                SELECT 1 FROM stanchion_jobs {index}
                WHERE waits_kind = '{SEMAPHORE}' AND waits_queue = '' AND waits_name = given.value
            )
        """)
        self.waiting_of = text(f"""
            SELECT {an_id}, queue, waits_kind, waits_queue, waits_name FROM stanchion_jobs {key}
            WHERE {these} {dialect.locking_free}
        """)
        self.grant = text(f"""
            UPDATE stanchion_jobs {key}
            SET {with_wait(dialect, str(dialect.now))},
                state = 'queued', {dialect.rank} = priority + :boost, slots_held = slots_held + 1,
                waits_kind = NULL, waits_queue = NULL, waits_name = NULL, waits_since = NULL
            WHERE {these}
        """)


class Grants:
    """Releases freed slots, and grants them to waiters."""

    def __init__(self, db: Database, slots: SlotRows) -> None:
        self._dialect, self._slots = db.dialect, slots
        self._statements = db.dialect.once(GrantStatements)

    def pass_on(self, run: Runner) -> None:
        if not run.freed:
            return
        freed = run.freed
        locked, heads = self._slots.lock_with_heads(run, freed)
        self._grant(run, [row._replace(used=row.used - freed[slot]) for slot, row in locked.items()], freed, heads)

    def _grant(
        self, run: Runner, rows: Sequence[SlotRow], freed: Mapping[Slot, int], heads: Mapping[Slot, Head]
    ) -> None:
        """Grant the free slots among these locked ones; `freed`: the number just freed of each.

        A semaphore goes to its longest waiters, an order key to its head of line if that waits. Otherwise the order key
        stays free: a claim may have locked the head of line, and wait for this slot.
        """
        more = Counter({slot: -n for slot, n in freed.items()})
        free = [row for row in rows if row.free > 0]
        waited = [row for row in free if row.waited and row.kind == SEMAPHORE]
        keyed = {row.slot: row for row in free if row.kind == ORDER}
        known = {slot: heads[slot] for slot, row in keyed.items() if row.waited and slot in heads}
        next_of_key = {slot: head.id for slot, head in known.items() if head.waits_kind == ORDER}
        asked: list[Asked] = [(self._statements.waiters, {"semaphore": row.name, "most": row.free}) for row in waited]
        if next_of_key:
            listed = self._dialect.listed
            firsts = {"ids": listed(next_of_key.values()), "queues": listed({slot.queue for slot in next_of_key})}
            asked.append((self._statements.waiting_of, firsts))
        answers = run.all_rows(asked)
        more.update(self._grant_semaphores(run, dict(zip(waited, answers, strict=False))))
        if next_of_key:
            more.update(self._grant_keys(run, next_of_key, answers[-1]))
        # The row of an order key exists as long as a job holds the key, or may wait for it.
        if unused := keyed.keys() - known.keys():
            self._slots.drop(run, unused)
        self._slots.use(run, {slot: n for slot, n in more.items() if slot not in unused})

    def _grant_semaphores(self, run: Runner, waiters: Mapping[SlotRow, list[Row]]) -> Counter[Slot]:
        """Grant the free slots of semaphores to the longest waiters; return the number granted of each."""
        self._queue_granted(run, [_Waiter(*row) for rows in waiters.values() for row in rows], HOLDER_BOOST)
        left = {row.slot for row, granted in waiters.items() if len(granted) < row.free}
        if left and not run.joined:
            # The waiters that remain were locked by others.
            given = {"semaphores": json.dumps(sorted(slot.name for slot in left), ensure_ascii=False)}
            missed = {semaphore_slot(name) for (name,) in run.rows(self._statements.waited_for, given)}
            run.passed_over |= missed
            if left > missed:
                self._slots.mark(run, left - missed, waited=False)
        return Counter({row.slot: len(granted) for row, granted in waiters.items()})

    def _grant_keys(self, run: Runner, firsts: Mapping[Slot, str], unlocked: Sequence[Row]) -> Counter[Slot]:
        """Grant order keys to their heads of line, if these wait for them; return the granted keys."""
        waiting = {str(row[0]): _Waiter(*row) for row in unlocked}
        on = {slot: one for slot, id_ in firsts.items() if (one := waiting.get(id_)) and one.waits_for == slot}
        self._queue_granted(run, list(on.values()), 0)
        if locked := {id_: slot for slot, id_ in firsts.items() if id_ not in waiting}:
            found = self._slots.still_waiting(run, locked)
            run.passed_over.update(slot for one, slot in found.items() if locked[one] == slot)
        return Counter(on.keys())

    def _queue_granted(self, run: Runner, waiters: Sequence[_Waiter], boost: int) -> None:
        """Queue the jobs that were granted their slots."""
        if waiters:
            ids = self._dialect.listed(str(waiter.id) for waiter in waiters)
            queues = {waiter.queue for waiter in waiters}
            run.send(self._statements.grant, {"boost": boost, "ids": ids, "queues": self._dialect.listed(queues)})
            run.woken.update(queues)
