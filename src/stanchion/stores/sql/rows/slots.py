"""The rows of slots: semaphores, order keys, keyed rates; how they are locked, and read under the locks.

A transaction that decides anything about a slot locks its row until its end, and writes it. So a transaction that parks
a job and one that frees the slot never miss each other, at any isolation level.

Transactions can't deadlock, as each locks in this order:

    1. jobs; a claim skips those that others have locked
    2. flow nodes
    3. slots, once: all together, in the order of `Slot`; missing rows of order keys and rates are made here
    4. jobs that wait for these slots, skipping jobs that others have locked

So a claim that has parked jobs continues in another transaction, and freed slots are passed on at the very end. Step 4
may skip a waiting job, for example because another transaction cancels it. If a slot stays free for that reason, it is
passed on again afterwards. Calls in a caller's transaction lock in the caller's order.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from sqlalchemy import text

from stanchion.stores.fields.sql import BUCKET, assigned
from stanchion.stores.records.jobs import SECOND
from stanchion.stores.records.slots import ORDER, RATE, Slot
from stanchion.stores.rules.capacity.rate_limit import Bucket
from stanchion.stores.rules.capacity.slots import freed_slots, order_slot, rate_slot
from stanchion.stores.sql.engine.database import Database
from stanchion.stores.sql.engine.dialect import Dialect
from stanchion.stores.sql.engine.runner import Asked, Params, Row, Runner
from stanchion.stores.sql.rows.jobs import Step

_RATE_TTL_MICROS = 30 * 86_400 * SECOND


class SlotRow(NamedTuple):
    """A row of stanchion_slots.

    `capacity` None: none was set, so it is 1. `waited`: jobs may be waiting for the slot; if not set, none are.
    """

    kind: str
    queue: str
    name: str
    capacity: int | None
    used: int
    waited: bool
    tokens: float | None
    filled_at: int | None
    promised: int | None
    promised_again: int | None

    @property
    def slot(self) -> Slot:
        """The name of the slot."""
        return Slot(*self[:3])

    @property
    def free(self) -> int:
        """Number of free slots; negative after the capacity was lowered."""
        return (1 if self.capacity is None else self.capacity) - self.used

    def bucket(self, rate: float) -> Bucket:
        """Return the state of a rate; a new bucket is full."""
        promised = self.promised or 0, self.promised_again or 0
        return Bucket(rate, self.tokens or 0.0, self.filled_at or 0, *promised)


SLOT_COLUMNS = ", ".join(SlotRow._fields)


class Head(NamedTuple):
    """The head of line of an order key, and the kind of the slot that it waits for: ORDER if it waits for the key."""

    id: str
    waits_kind: str | None


class SlotStatements:
    """The statements about slot rows, for one dialect."""

    def __init__(self, dialect: Dialect) -> None:
        among, ids = dialect.among_slots("slots"), dialect.among("id", "ids", "uuid")
        order, key = map(dialect.by, ("stanchion_jobs_order", "PRIMARY"))
        an_id = "CAST(id AS CHAR(36))"
        # Columns are qualified in ORDER BY: a bare id would be the selected text, which has no index.
        first_of_key = f"""
            FROM stanchion_jobs {order} WHERE queue = :queue AND order_key = given.value
            ORDER BY stanchion_jobs.enqueued_at, stanchion_jobs.id LIMIT 1
        """
        self.lock, self.read = (
            text(dialect.slot_rows(SLOT_COLUMNS, "slots", locking)) for locking in (dialect.locking, "")
        )
        # In the order of `lock`: two callers that make and lock the same slots can't deadlock.
        self.make = text(f"""
            INSERT INTO stanchion_slots (kind, queue, name, used)
            SELECT kind, queue, name, 0 FROM {dialect.slots("wanted")} WHERE 1 = 1
            ORDER BY {dialect.slot_order} {dialect.or_lock}
        """)
        self.use = text(f"UPDATE stanchion_slots {key} SET used = used + :more WHERE {among}")
        self.mark = text(f"UPDATE stanchion_slots {key} SET waited = :waited WHERE {among}")
        self.fill = text(f"""
            UPDATE stanchion_slots SET {assigned(BUCKET)} WHERE kind = :kind AND queue = :queue AND name = :name
        """)
        self.drop = text(f"DELETE FROM stanchion_slots WHERE {among}")
        self.drop_rates = text(f"DELETE FROM stanchion_slots WHERE kind = '{RATE}' AND filled_at < :oldest")
        # The head of line of each key; read again in a caller's transaction, whose snapshot is older than its locks.
        self.firsts, self.firsts_now = (
            text(f"""
                SELECT given.value, (SELECT {an_id} {first_of_key} {reading}) FROM {dialect.elements("keys")}
            """)
            for reading in ("", dialect.reading)
        )
        self.heads, self.heads_now = (
            text(f"""
                SELECT given.value, (SELECT {an_id} {first_of_key} {reading}),
                    (SELECT waits_kind {first_of_key} {reading})
                FROM {dialect.elements("keys")}
            """)
            for reading in ("", dialect.reading)
        )
        self.still_waiting = text(f"""
            SELECT {an_id}, waits_kind, waits_queue, waits_name FROM stanchion_jobs {key}
            WHERE {ids} AND waits_kind IS NOT NULL
        """)


class SlotRows:
    """Locks, reads and writes slot rows."""

    def __init__(self, db: Database) -> None:
        self._dialect = db.dialect
        self._statements = db.dialect.once(SlotStatements)
        self._lasting: set[Slot] = set()
        """Slots whose rows are permanent: semaphores."""

    def lock(
        self, run: Runner, slots: Iterable[Slot], asked: Sequence[Asked] = ()
    ) -> tuple[dict[Slot, SlotRow], list[list[Row]]]:
        """Lock these slots, making the missing rows; return them, and the answers to `asked` under the locks."""
        wanted = set(slots)
        if not wanted:
            return {}, run.all_rows(asked)
        lock = self._statements.lock, {"slots": self._dialect.listed_slots(wanted)}
        if not wanted <= self._lasting:
            self.make(run, wanted)
        found, *answers = run.all_rows([lock, *asked])
        if len(found) < len(wanted):  # the row of a semaphore was deleted
            self.make(run, wanted)
            found, *answers = run.all_rows([lock, *asked])
        rows = by_slot(found)
        self._lasting.update(slot for slot, row in rows.items() if row.capacity is not None)
        return rows, answers

    def make(self, run: Runner, slots: Iterable[Slot]) -> None:
        """Make the missing rows of these slots, and lock the existing ones."""
        run.send(self._statements.make, {"wanted": json.dumps(sorted(slots), ensure_ascii=False)})

    def read(self, run: Runner, slots: Iterable[Slot]) -> dict[Slot, SlotRow]:
        """Return the slots that have a row."""
        return by_slot(run.rows(self._statements.read, {"slots": self._dialect.listed_slots(slots)}))

    # -- write

    def use(self, run: Runner, more: Mapping[Slot, int]) -> None:
        """Add to the numbers of used slots; 0 writes a row that a decision was based on."""
        alike: defaultdict[int, list[Slot]] = defaultdict(list)
        for slot, n in more.items():
            alike[n].append(slot)
        for n, slots in alike.items():
            run.send(self._statements.use, {"more": n, "slots": self._dialect.listed_slots(slots)})

    def mark(self, run: Runner, slots: Iterable[Slot], *, waited: bool) -> None:
        """Write whether jobs may be waiting for these slots."""
        run.send(self._statements.mark, {"waited": waited, "slots": self._dialect.listed_slots(slots)})

    def fill(self, run: Runner, buckets: Mapping[str, Bucket]) -> None:
        """Write the state of rates, given by name."""
        run.send_each(self._statements.fill, [filled(name, bucket) for name, bucket in buckets.items()])

    def drop(self, run: Runner, slots: Iterable[Slot]) -> None:
        """Delete the rows of order keys without holder and waiter."""
        run.send(self._statements.drop, {"slots": self._dialect.listed_slots(slots)})

    def forget_rates(self, run: Runner, now: int) -> None:
        """Delete the rows of rates that were not used for a month."""
        run.change(self._statements.drop_rates, {"oldest": now - _RATE_TTL_MICROS})

    # -- the heads of order keys

    def asks_first(self, run: Runner, queue: str, keys: Iterable[str]) -> Asked:
        """Return the query for the head of line of each of these keys of a queue."""
        statement = self._statements.firsts_now if run.joined else self._statements.firsts
        return statement, _of_keys(queue, keys)

    def firsts(self, run: Runner, orders: Iterable[Slot]) -> dict[Slot, str]:
        """Return the id of the head of line of each of these order keys."""
        keys = _by_queue(orders)
        found = _of_orders(keys, run.all_rows([self.asks_first(run, *one) for one in keys.items()]))
        return {slot: first for slot, (first,) in found.items()}

    def lock_with_heads(self, run: Runner, slots: Iterable[Slot]) -> tuple[dict[Slot, SlotRow], dict[Slot, Head]]:
        """Lock and return these slots; also return the head of line of each order key among them."""
        wanted = list(slots)
        keys = _by_queue(slot for slot in wanted if slot.kind == ORDER)
        heads = self._statements.heads_now if run.joined else self._statements.heads
        rows, answers = self.lock(run, wanted, [(heads, _of_keys(*one)) for one in keys.items()])
        return rows, {slot: Head(*row) for slot, row in _of_orders(keys, answers).items()}

    def still_waiting(self, run: Runner, ids: Iterable[str]) -> dict[str, Slot]:
        """Return the jobs that wait for a slot, with that slot."""
        found = run.rows(self._statements.still_waiting, {"ids": self._dialect.listed(ids)})
        return {str(row[0]): Slot(*row[1:]) for row in found}


def record_freed(run: Runner, steps: Iterable[Step]) -> None:
    """Record the slots that these steps have freed; the last step of the transaction passes them on."""
    for before, after, _ in steps:
        for slot in freed_slots(before, after):
            run.freed[slot] += before.slots_held > 0  # without a slot, the job may still have been the head of line


def by_slot(rows: Iterable[Row]) -> dict[Slot, SlotRow]:
    """Return rows with the columns of SLOT_COLUMNS, by their slots."""
    return {Slot(*row[:3]): SlotRow(*row) for row in rows}


def filled(name: str, bucket: Bucket) -> Params:
    """Return the parameters that store a rate."""
    return {**rate_slot(name)._asdict(), **{name: getattr(bucket, name) for name in BUCKET}}


def _by_queue(orders: Iterable[Slot]) -> dict[str, list[str]]:
    """Return the order keys of these slots, by queue."""
    keys: defaultdict[str, list[str]] = defaultdict(list)
    for slot in orders:
        keys[slot.queue].append(slot.name)
    return keys


def _of_keys(queue: str, keys: Iterable[str]) -> Params:
    return {"queue": queue, "keys": json.dumps(sorted(keys), ensure_ascii=False)}


def _of_orders(queues: Iterable[str], answers: Sequence[Sequence[Row]]) -> dict[Slot, Row]:
    """Return the answers about heads of line, given by queue, by slot."""
    asked = zip(queues, answers, strict=True)
    return {order_slot(queue, row[0]): row[1:] for queue, rows in asked for row in rows if row[1] is not None}
