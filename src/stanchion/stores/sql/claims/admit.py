"""Admission: decides which locked jobs get their slots, order keys and rate starts, and parks the others.

`rows.slots` documents the order of the locks.

Long runs of jobs that wait for the same slot are parked in bulk. A claim that has skipped jobs parks some of them last,
for half the time that skipping took. It parks jobs that are similar to one already parked: the same limits, or the
same order key. Every further claim does so too, until all of them are parked. A claim that finds no job that may run
parks as many as its time allows.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import partial
from operator import attrgetter
from typing import NamedTuple, Protocol

from sqlalchemy import text

from stanchion.stores.fields.jobs import HOLDS, LIMITS, WAITS
from stanchion.stores.fields.sql import assigned
from stanchion.stores.records.claims import Claim
from stanchion.stores.records.jobs import UNLANED, JobRow
from stanchion.stores.records.queues import QueueSettings
from stanchion.stores.records.slots import ORDER, Slot
from stanchion.stores.rules.capacity.limits import limits_in
from stanchion.stores.rules.capacity.slots import (
    HOLDS_NOTHING,
    Slots,
    Verdict,
    admit,
    held_slots,
    is_deferred,
    order_slot,
    parks_at,
    rate_slot,
    uses_slots,
    wanted_rates,
    wanted_slots,
)
from stanchion.stores.rules.lifecycle import claims as claim_rules
from stanchion.stores.sql.claims.pick import RUN, Alike, FindsDue, Search
from stanchion.stores.sql.claims.reserve import Asks, Reserves, reservation_at
from stanchion.stores.sql.engine.database import Database
from stanchion.stores.sql.engine.dialect import Dialect
from stanchion.stores.sql.engine.runner import Asked, Row, Runner
from stanchion.stores.sql.limits.rate_reads import RateReads
from stanchion.stores.sql.rows.jobs import Jobs, Step
from stanchion.stores.sql.rows.past_waits import with_line
from stanchion.stores.sql.rows.slots import SlotRow, SlotRows, record_freed
from stanchion.stores.sql.rows.transactions import Transactions

_ROW = attrgetter("row")  # called by built-ins, without a frame for each job

_ASKING_FOR = ("items", *LIMITS, *HOLDS, "promised")
ASKING = ("queue", "state", "priority", "rank", "run_at", *_ASKING_FOR)
"""The columns, in addition to the id, that are read for a job that asks for slots."""

_PARKED = tuple(dict.fromkeys((*WAITS, *HOLDS_NOTHING)))
"""The columns of a job that parking writes, its slot first."""


class Admission(NamedTuple):
    """Jobs that one transaction of a claim has reserved.

    `more`: it parked or deferred some, and further jobs may follow. `asked`: some of the jobs use slots. `retry_in`:
    seconds until a limit of the queue may allow more.
    """

    rows: list[JobRow]
    more: bool = False
    asked: bool = False
    retry_in: float | None = None


class SlotRequests(NamedTuple):
    """Locked jobs that ask for slots, the locked rows of those slots, and the head of line of each order key."""

    rows: list[JobRow]
    slots: Mapping[Slot, SlotRow]
    heads: Mapping[Slot, str]
    now: int


class Decision(NamedTuple):
    """The decision of a claim: admitted jobs, parked or deferred jobs (before and after), and the changes of slots."""

    admitted: list[Verdict]
    not_admitted: list[Step]
    slots: Slots
    now: int
    last: bool
    """Only the count of the jobs and the passing on of slots are left to do in the transaction."""


class CarriesOut(Protocol):
    """Writes the decision of a claim."""

    def carry_out(self, run: Runner, claim: Claim, settings: QueueSettings, decision: Decision) -> dict[str, JobRow]:
        """Write the decision about jobs and slots; return the reserved jobs by their ids."""


class AdmissionStatements:
    """The statements about jobs that ask for slots, for one dialect."""

    def __init__(self, dialect: Dialect) -> None:
        ids, key = dialect.among("id", "ids", "uuid"), dialect.by("PRIMARY")
        self.asking = text(f"""
            SELECT CAST(id AS CHAR(36)), {", ".join(f"stanchion_jobs.{name}" for name in ASKING)}
            FROM stanchion_jobs {key} WHERE queue = :queue AND {ids}
        """)
        self.park = text(f"""
            UPDATE stanchion_jobs {key}
            SET state = 'waiting', {dialect.rank} = priority, {assigned(_PARKED)}
            WHERE queue = :queue AND {ids}
        """)
        self.postpone = text(f"""
            UPDATE stanchion_jobs
            SET past_waits = {with_line(dialect, ":past_waits")}, run_at = :run_at, {dialect.rank} = priority,
                {assigned((*HOLDS, "promised"))}
            WHERE queue = :queue AND id = :id
        """)


class Decisions:
    """Writes a decision in several statements."""

    def __init__(self, db: Database, jobs: Jobs, slots: SlotRows, reserves: Reserves) -> None:
        self._dialect, self._jobs, self._slots, self._reserves = db.dialect, jobs, slots, reserves
        self._statements = db.dialect.once(AdmissionStatements)

    def carry_out(self, run: Runner, claim: Claim, settings: QueueSettings, decision: Decision) -> dict[str, JobRow]:
        self._slots.use(run, decision.slots.taken)
        self._slots.fill(run, decision.slots.buckets)
        self._write_not_admitted(run, claim.queue, decision.not_admitted)
        if decision.last and claim.counted:
            self._jobs.count_items(run, map(_ROW, decision.admitted), "reserved")
        asks = self._asks(claim, settings, decision)
        last = decision.last and not run.freed
        return {row.id: row for row in self._reserves.admitted(run, asks, last=last)} if asks else {}

    def _asks(self, claim: Claim, settings: QueueSettings, decision: Decision) -> list[Asks]:
        alike: defaultdict[int, list[str]] = defaultdict(list)
        for verdict in decision.admitted:
            alike[verdict.held].append(verdict.row.id)
        given = reservation_at(claim, settings, decision.now)
        return [({**given, "slots_held": held, "ids": self._dialect.listed(ids)}, ids) for held, ids in alike.items()]

    def _write_not_admitted(self, run: Runner, queue: str, steps: Sequence[Step]) -> None:
        """Write parked and deferred jobs, and mark the slots that parked jobs wait for."""
        not_admitted = [step.after for step in steps if step.after is not None]
        run.send_each(self._statements.postpone, [row._asdict() for row in not_admitted if row.waits_for is None])
        alike: defaultdict[Row, list[str]] = defaultdict(list)
        for row in not_admitted:
            if row.waits_for is not None:
                alike[tuple(getattr(row, name) for name in _PARKED)].append(row.id)
        for parked, ids in alike.items():
            given = dict(zip(_PARKED, parked, strict=True))
            run.send(self._statements.park, {**given, "queue": queue, "ids": self._dialect.listed(ids)})
        if alike:
            self._slots.mark(run, {Slot(*parked[:3]) for parked in alike}, waited=True)


class Admissions:
    """Reserves jobs as far as there are free slots."""

    def __init__(self, db: Database, slots: SlotRows, decisions: CarriesOut, rates: RateReads) -> None:
        self._db, self._slots, self._decisions, self._rates = db, slots, decisions, rates
        self._statements = db.dialect.once(AdmissionStatements)

    def admit(
        self,
        run: Runner,
        claim: Claim,
        search: Search,
        settings: QueueSettings,
        ids: Sequence[str],
        room: int,
        *,
        last: bool = False,
    ) -> Admission:
        """Reserve up to `room` of these locked, queued jobs, in order, as far as there are free slots.

        Jobs before them that get no slot are parked. `last`: see `admit_at`.
        """
        found = {one: asking(row) for one, row in search.asking.items()}
        if unread := [one for one in ids if one not in found]:
            given = {"queue": claim.queue, "ids": self._db.dialect.listed(unread)}
            found |= {str(row[0]): asking(row) for row in run.rows(self._statements.asking, given)}
        rows = [found[one] for one in ids if one in found]
        wanted = slots_to_lock(rows)
        keys = {row.order_key for row in rows if row.order_key is not None and not row.slots_held}
        under_lock: list[Asked] = [self._db.asks_clock()]
        if keys:
            under_lock.append(self._slots.asks_first(run, claim.queue, keys))
        slots, (((now,),), *firsts) = self._slots.lock(run, wanted, under_lock)
        heads = {
            order_slot(claim.queue, key): first
            for found_first in firsts
            for key, first in found_first
            if first is not None
        }
        return self.admit_at(run, claim, search, settings, SlotRequests(rows, slots, heads, now), room, last=last)

    def admit_at(
        self,
        run: Runner,
        claim: Claim,
        search: Search,
        settings: QueueSettings,
        found: SlotRequests,
        room: int,
        *,
        last: bool = False,
    ) -> Admission:
        """Reserve up to `room` of these jobs; park or defer the jobs before them that may not run yet.

        No `room`: jobs that their rate does not let start are deferred, and no others are touched.
        `last`: the transaction does nothing else, so the jobs are counted here, and it may be committed immediately.
        """
        if claim.is_late(found.now):  # it has waited for slots
            return Admission([])
        search.at = search.at or found.now
        rates = wanted_rates(found.rows)
        declared = self._rates.declared(run, rates) if rates else {}
        slots = Slots(
            free={slot: row.free for slot, row in found.slots.items()},
            heads=found.heads,
            buckets={
                name: found.slots[rate_slot(name)].bucket(declared.get(name, rate.per_second))
                for name, rate in rates.items()
            },
        )
        admitted: list[Verdict] = []
        not_admitted: list[Step] = []
        for row in found.rows:
            if not room and not is_deferred(row, slots.buckets, found.now):
                continue
            if room and len(admitted) == room:
                break
            (verdict,) = admit([row], slots, found.now)
            if verdict.admitted:
                admitted.append(verdict)
            else:
                not_admitted.append(Step(row, claim_rules.parked_or_deferred(row, verdict, claim.token, search.at)))
        if not_admitted:
            search.parked([(step.before, step.after) for step in not_admitted if step.after is not None])
        record_freed(run, not_admitted)  # the rows of these slots are locked already
        reserved = self._decisions.carry_out(
            run, claim, settings, Decision(admitted, not_admitted, slots, found.now, last)
        )
        in_order = [reserved[row.id] for row in found.rows if row.id in reserved]
        return Admission(
            in_order, bool(not_admitted) and (len(admitted) < room or not room), any(map(uses_slots, found.rows))
        )


def asking(row: Row) -> JobRow:
    """Return what admission needs to know of a queued job that asks for slots; its past waits are not read."""
    id_, queue, state, priority, rank, run_at, *others = row
    known = dict(zip(_ASKING_FOR, others, strict=True))
    return JobRow(str(id_), queue, UNLANED, state, priority, rank, run_at, 0, "", **known)


def slots_to_lock(rows: Sequence[JobRow]) -> list[Slot]:
    """Return the slots that a claim of these jobs may change."""
    # A job that its rate defers returns the slots that it was granted.
    held = [slot for row in rows if row.slots_held and limits_in(row.limits).rate for slot in held_slots(row)]
    return [*wanted_slots(rows), *held, *map(rate_slot, wanted_rates(rows))]


class Parking:
    """Parks runs of jobs that claims have skipped, each part in its own transaction."""

    def __init__(self, db: Database, transactions: Transactions, slots: SlotRows, due: FindsDue) -> None:
        self._dialect, self._transactions, self._slots, self._due = db.dialect, transactions, slots, due
        self._statements = db.dialect.once(AdmissionStatements)

    def park(self, claim: Claim, search: Search, seconds: float) -> bool:
        """Park jobs similar to the waiting ones, for `seconds`; False if the time ran out."""
        until = time.monotonic() + seconds
        for alike in search.runs:
            part = partial(self._part, claim, search, alike)
            while self._transactions.write(part, durable=False):
                if time.monotonic() >= until:
                    return False
            if time.monotonic() >= until:
                return alike == next(reversed(search.runs))
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
            parked = parks_at(slot, claim.token, search.at or 0)
            run.send(self._statements.park, {**parked, "queue": claim.queue, "ids": self._dialect.listed(waiting)})
            self._slots.mark(run, [slot], waited=True)
        return len(ids) == RUN and bool(waiting)
