"""The rows of slots: semaphores, order keys, keyed rates. How they are locked, and what is read under the locks.

Whoever decides anything about a slot has its row locked until the end of the transaction, and has written it: so the
one who parks a job there and the one who sets a slot free never miss each other, at any level of isolation.

No two transactions wait for each other in a circle, as each locks

    1. jobs, those of a claim past what others have locked
    2. nodes of flows
    3. slots, once: all of them together, in the order of their names; those of order keys and of rates are made there
    4. jobs that wait for these slots, past what others have locked

So a claim that has parked jobs goes on in another transaction, and the slots that steps set free are passed on at the
very end. A waiting job that another transaction has locked, to cancel it perhaps, is passed over in step 4; where a
slot stays free for that, it is looked at once more afterwards. Calls in a caller's transaction lock as they come.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from sqlalchemy import text

from stanchion.stores.records.jobs import SECOND
from stanchion.stores.rules.rate_limit import Bucket
from stanchion.stores.rules.slots import freed, order_gate, order_of
from stanchion.stores.sql.engine.database import Database
from stanchion.stores.sql.engine.dialect import Dialect
from stanchion.stores.sql.engine.runner import Asked, Params, Row, Runner
from stanchion.stores.sql.jobs import Step

_RATE_TTL_MICROS = 30 * 86_400 * SECOND


class SlotRow(NamedTuple):
    """A row of stanchion_gates.

    `capacity` None: nobody has set one, so it is 1. `waited`: somebody may wait there; nobody does where it is not set.
    """

    name: str
    capacity: int | None
    used: int
    waited: bool
    tokens: float | None
    filled_at: int | None
    promised: int | None
    promised_again: int | None

    @property
    def free(self) -> int:
        """Slots to be had; below 0 where the capacity was lowered."""
        return (1 if self.capacity is None else self.capacity) - self.used

    def bucket(self, rate: float) -> Bucket:
        """Return the state of a rate; a new one is full."""
        promised = self.promised or 0, self.promised_again or 0
        return Bucket(rate, self.tokens or 0.0, self.filled_at or 0, *promised)


SLOT_COLUMNS = ", ".join(SlotRow._fields)


class Head(NamedTuple):
    """The first live job of an order key, and what it waits for."""

    id: str
    waits_for: str | None


class SlotStatements:
    """The statements about rows of slots, for one dialect."""

    def __init__(self, dialect: Dialect) -> None:
        names, ids = dialect.among("name", "names"), dialect.among("id", "ids", "uuid")
        order, key = map(dialect.by, ("stanchion_jobs_order", "PRIMARY"))
        an_id = "CAST(id AS CHAR(36))"
        # The columns to order by are named in full: a bare id would be the text that is selected, which has no index.
        first_of_key = f"""
            FROM stanchion_jobs {order} WHERE queue = :queue AND order_key = given.value
            ORDER BY stanchion_jobs.enqueued_at, stanchion_jobs.id LIMIT 1
        """
        self.lock, self.read = (
            text(f"SELECT {SLOT_COLUMNS} FROM stanchion_gates {key} WHERE {names} ORDER BY name {locking}")
            for locking in (dialect.locking, "")
        )
        # In the order in which `lock` goes: two that make and lock the same ones never wait for each other in a circle.
        self.make = text(f"""
            INSERT INTO stanchion_gates (name, used)
            SELECT given.value, 0 FROM {dialect.elements("wanted")} WHERE 1 = 1 ORDER BY given.value {dialect.or_lock}
        """)
        self.use = text(f"UPDATE stanchion_gates {key} SET used = used + :more WHERE {names}")
        self.mark = text(f"UPDATE stanchion_gates {key} SET waited = :waited WHERE {names}")
        self.fill = text("""
            UPDATE stanchion_gates
            SET tokens = :tokens, filled_at = :filled_at, promised = :promised, promised_again = :promised_again
            WHERE name = :name
        """)
        self.drop = text(f"DELETE FROM stanchion_gates WHERE {names}")
        self.drop_rates = text(
            f"DELETE FROM stanchion_gates WHERE {dialect.begins('name', 'r:')} AND filled_at < :oldest"
        )
        # The first live job of each key; in a caller's transaction, whose snapshot is older than its locks, read anew.
        self.firsts, self.firsts_now = (
            text(f"""
                SELECT given.value, (SELECT {an_id} {first_of_key} {reading}) FROM {dialect.elements("keys")}
            """)
            for reading in ("", dialect.reading)
        )
        self.heads, self.heads_now = (
            text(f"""
                SELECT given.value, (SELECT {an_id} {first_of_key} {reading}),
                    (SELECT waits_for {first_of_key} {reading})
                FROM {dialect.elements("keys")}
            """)
            for reading in ("", dialect.reading)
        )
        self.still_waiting = text(f"""
            SELECT {an_id}, waits_for FROM stanchion_jobs {key} WHERE {ids} AND waits_for IS NOT NULL
        """)


class SlotRows:
    """Locks, reads and writes rows of slots."""

    def __init__(self, db: Database) -> None:
        self._dialect = db.dialect
        self._statements = db.dialect.once(SlotStatements)
        self._lasting: set[str] = set()
        """Slots whose rows are there for good: those of semaphores."""

    def lock(
        self, run: Runner, names: Iterable[str], asked: Sequence[Asked] = ()
    ) -> tuple[dict[str, SlotRow], list[list[Row]]]:
        """Return these slots, locked, and what is answered under the locks; those that are not there are made."""
        wanted = set(names)
        if not wanted:
            return {}, run.all_rows(asked)
        lock = self._statements.lock, {"names": self._dialect.listed(wanted)}
        if not wanted <= self._lasting:
            self.make(run, wanted)
        found, *answers = run.all_rows([lock, *asked])
        if len(found) < len(wanted):  # the row of a semaphore was taken away
            self.make(run, wanted)
            found, *answers = run.all_rows([lock, *asked])
        slots = {row[0]: SlotRow(*row) for row in found}
        self._lasting.update(name for name, slot in slots.items() if slot.capacity is not None)
        return slots, answers

    def make(self, run: Runner, names: Iterable[str]) -> None:
        """Make the rows of these slots, and lock those that are there."""
        run.send(self._statements.make, {"wanted": json.dumps(sorted(names), ensure_ascii=False)})

    def read(self, run: Runner, names: Iterable[str]) -> dict[str, SlotRow]:
        """Return those of these slots that have a row."""
        found = run.rows(self._statements.read, {"names": self._dialect.listed(names)})
        return {row[0]: SlotRow(*row) for row in found}

    # -- write

    def use(self, run: Runner, more: Mapping[str, int]) -> None:
        """Add to the number of slots that are used; also 0, to write a row that a decision was based on."""
        alike: defaultdict[int, list[str]] = defaultdict(list)
        for name, n in more.items():
            alike[n].append(name)
        for n, names in alike.items():
            run.send(self._statements.use, {"more": n, "names": self._dialect.listed(names)})

    def mark(self, run: Runner, names: Iterable[str], *, waited: bool) -> None:
        """Write whether somebody may wait for these slots."""
        run.send(self._statements.mark, {"waited": waited, "names": self._dialect.listed(names)})

    def fill(self, run: Runner, buckets: Mapping[str, Bucket]) -> None:
        """Write the state of rates, by their names."""
        run.send_each(self._statements.fill, [filled(name, bucket) for name, bucket in buckets.items()])

    def drop(self, run: Runner, names: Iterable[str]) -> None:
        """Delete the rows of order keys that nobody holds and nobody waits for."""
        run.send(self._statements.drop, {"names": self._dialect.listed(names)})

    def forget_rates(self, run: Runner, now: int) -> None:
        """Delete the rows of rates that nobody has asked for a month."""
        run.change(self._statements.drop_rates, {"oldest": now - _RATE_TTL_MICROS})

    # -- the jobs of order keys

    def asks_first(self, run: Runner, queue: str, keys: Iterable[str]) -> Asked:
        """Return the question for the first live job of each of these keys of a queue."""
        statement = self._statements.firsts_now if run.joined else self._statements.firsts
        return statement, _of_keys(queue, keys)

    def firsts(self, run: Runner, names: Iterable[str]) -> dict[str, str]:
        """Return the first live job of each order key, by its slot."""
        orders = _by_queue(names)
        found = _by_slot(orders, run.all_rows([self.asks_first(run, *one) for one in orders.items()]))
        return {name: first for name, (first,) in found.items()}

    def lock_with_heads(self, run: Runner, names: Iterable[str]) -> tuple[dict[str, SlotRow], dict[str, Head]]:
        """Return these slots, locked, and those of order keys with their first live job."""
        wanted = list(names)
        orders = _by_queue(name for name in wanted if name.startswith("o"))
        heads = self._statements.heads_now if run.joined else self._statements.heads
        slots, answers = self.lock(run, wanted, [(heads, _of_keys(*one)) for one in orders.items()])
        return slots, {name: Head(*row) for name, row in _by_slot(orders, answers).items()}

    def still_waiting(self, run: Runner, ids: Iterable[str]) -> dict[str, str]:
        """Return those of these jobs that wait for something, and for what."""
        found = run.rows(self._statements.still_waiting, {"ids": self._dialect.listed(ids)})
        return {str(row[0]): row[1] for row in found}


def note_freed(run: Runner, steps: Iterable[Step]) -> None:
    """Note the slots that these steps have set free, to be passed on as the last step of the transaction."""
    for before, after, _ in steps:
        for name in freed(before, after):
            run.freed[name] += before.held > 0  # where it held none, it may have stood before others of its key


def rate_slot(name: str) -> str:
    """Return the slot of a keyed rate."""
    return f"r:{name}"


def filled(name: str, bucket: Bucket) -> Params:
    """Return what is written of a rate."""
    state = {name: getattr(bucket, name) for name in ("tokens", "filled_at", "promised", "promised_again")}
    return {"name": rate_slot(name), **state}


def _by_queue(names: Iterable[str]) -> dict[str, list[str]]:
    """Return the order keys of these slots, by their queues."""
    keys: defaultdict[str, list[str]] = defaultdict(list)
    for name in names:
        queue, key = order_of(name)
        keys[queue].append(key)
    return keys


def _of_keys(queue: str, keys: Iterable[str]) -> Params:
    return {"queue": queue, "keys": json.dumps(sorted(keys), ensure_ascii=False)}


def _by_slot(queues: Iterable[str], answers: Sequence[Sequence[Row]]) -> dict[str, Row]:
    """Return what was asked for of the first live jobs, queue by queue, by their slots."""
    asked = zip(queues, answers, strict=True)
    return {order_gate(queue, row[0]): row[1:] for queue, rows in asked for row in rows if row[1] is not None}
