"""Claims of jobs that need slots, order keys and rates. See `slots` for how their rows are locked."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from stanchion.stores.records.claims import Claim
from stanchion.stores.records.jobs import SECOND, JobRow
from stanchion.stores.records.queues import QueueSettings
from stanchion.stores.rules import claims as claim_rules
from stanchion.stores.rules.limits import limits_in
from stanchion.stores.rules.slots import (
    Slots,
    Verdict,
    admit,
    gated,
    held_gates,
    order_gate,
    wanted_gates,
    wanted_rates,
)
from stanchion.stores.sql.engine.runner import Asked, Params, Row, Runner
from stanchion.stores.sql.jobs import Step
from stanchion.stores.sql.parking import Parking, Search
from stanchion.stores.sql.slots import SlotRow, note_freed, rate_slot

_PARKED = ("waits_for", "waits_since", "held", "permit", "priority")


class Admission(NamedTuple):
    """Jobs that a transaction of a claim has reserved.

    `more`: it had to park some, and there may be more behind them. `asked`: some had to ask at gates. `retry_in`:
    seconds until a limit of the queue may allow more.
    """

    rows: list[JobRow]
    more: bool = False
    asked: bool = False
    retry_in: float | None = None


class AtGates(NamedTuple):
    """Locked jobs that ask at gates, those gates, locked too, and the first live job of each order gate."""

    rows: list[JobRow]
    gates: Mapping[str, SlotRow]
    turns: Mapping[str, str]
    now: int


class Decision(NamedTuple):
    """What a claim has decided: the jobs that may run, those that may not yet, as they were and are, and the slots."""

    admitted: list[Verdict]
    kept: list[Step]
    slots: Slots
    now: int
    last: bool
    """Nothing else is left to be done in the transaction but to count the jobs, and to pass on slots."""


class Gating(Parking):
    """Admits jobs as far as there are slots."""

    def admit_in(
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
        """Reserve up to `room` of these queued jobs, which are locked, in their order, as far as their gates allow.

        Those before them that may not run yet wait at their gates by then. `last`: see `admit_at`.
        """
        found = {one: asking(row) for one, row in search.asking.items()}
        if unread := [one for one in ids if one not in found]:
            given = {"ids": self.dialect.listed(unread)}
            found |= {str(row[0]): asking(row) for row in run.rows(self._gates.asking, given)}
        rows = [found[one] for one in ids if one in found]
        wanted = gates_to_lock(rows)
        keys = {row.order_key for row in rows if row.order_key is not None and not row.held}
        under_lock: list[Asked] = [self.database.asks_clock()]
        if keys:
            under_lock.append(self.slots.asks_first(run, claim.queue, keys))
        gates, (((now,),), *firsts) = self.slots.lock(run, wanted, under_lock)
        turns = {
            order_gate(claim.queue, key): first
            for found_first in firsts
            for key, first in found_first
            if first is not None
        }
        return self.admit_at(run, claim, search, settings, AtGates(rows, gates, turns, now), room, last=last)

    def admit_at(
        self,
        run: Runner,
        claim: Claim,
        search: Search,
        settings: QueueSettings,
        found: AtGates,
        room: int,
        *,
        last: bool = False,
    ) -> Admission:
        """Reserve up to `room` of these jobs, and put off those before them that may not run yet.

        `last`: that is all of the transaction, so the jobs are counted, and it may be committed at once.
        """
        search.at = search.at or found.now
        rates = wanted_rates(found.rows)
        slots = Slots(
            free={name: gate.free for name, gate in found.gates.items()},
            turns=found.turns,
            buckets={name: found.gates[rate_slot(name)].bucket(rate.per_second) for name, rate in rates.items()},
        )
        admitted: list[Verdict] = []
        kept: list[Step] = []
        for row in found.rows:
            if len(admitted) == room:
                break
            (verdict,) = admit([row], slots, found.now)
            if verdict.admitted:
                admitted.append(verdict)
            else:
                kept.append(Step(row, claim_rules.parked_or_deferred(row, verdict, claim.token, search.at)))
        if kept:
            search.parked([(step.before, step.after) for step in kept if step.after is not None])
        note_freed(run, kept)  # they are locked already
        reserved = self.carry_out(run, claim, settings, Decision(admitted, kept, slots, found.now, last))
        in_turn = [reserved[row.id] for row in found.rows if row.id in reserved]
        return Admission(in_turn, bool(kept) and len(admitted) < room, any(map(gated, found.rows)))

    def carry_out(self, run: Runner, claim: Claim, settings: QueueSettings, decision: Decision) -> dict[str, JobRow]:
        """Write what a claim has decided about jobs and their gates; return those that it has reserved."""
        self.slots.use(run, decision.slots.taken)
        self.slots.fill(run, decision.slots.buckets)
        self._keep_back(run, decision.kept)
        if decision.last and claim.counted:
            self.jobs.tally(run, [(claim.queue, "reserved")] * len(decision.admitted))
        return self._reserve_admitted(run, claim, settings, decision)

    def reserve_with_slots(
        self,
        run: Runner,
        claim: Claim,
        settings: QueueSettings,
        ids: Sequence[str],
    ) -> list[JobRow]:
        """Reserve locked jobs that need nothing but semaphores, all or none, for a store with a short way."""
        return []

    def _reserve_admitted(
        self, run: Runner, claim: Claim, settings: QueueSettings, decision: Decision
    ) -> dict[str, JobRow]:
        alike: defaultdict[tuple[int, bool], list[str]] = defaultdict(list)
        for verdict in decision.admitted:
            alike[verdict.held, gated(verdict.row)].append(verdict.row.id)
        params = {
            "token": claim.token,
            "worker": claim.worker,
            "started_at": decision.now,
            "lease_until": lease_until(claim, settings, decision.now),
        }
        asked = [
            ({**params, "held": held, "gated": int(at_gates), "ids": self.dialect.listed(ids)}, ids)
            for (held, at_gates), ids in alike.items()
        ]
        last = decision.last and not run.freed
        return {row.id: row for row in self.reserve_asked(run, asked, last=last)} if asked else {}

    def reserve_asked(
        self, run: Runner, alike: Sequence[tuple[Params, Sequence[str]]], *, last: bool = False
    ) -> list[JobRow]:
        """Mark jobs as reserved, as parameters and ids of those that hold as much; return them as they are now."""
        answers = run.all_rows([(self._gates.reserve, given) for given, _ in alike], last=last)
        return [JobRow(*row) for rows in answers for row in rows]

    def _keep_back(self, run: Runner, steps: Sequence[Step]) -> None:
        """Write jobs that may not run yet, and mark the gates at which they wait."""
        kept = [step.after for step in steps if step.after is not None]
        run.send_each(self._gates.postpone, [row._asdict() for row in kept if row.waits_for is None])
        alike: defaultdict[tuple[Any, ...], list[str]] = defaultdict(list)
        for row in kept:
            if row.waits_for is not None:
                alike[tuple(getattr(row, name) for name in _PARKED)].append(row.id)
        for place, ids in alike.items():
            given = dict(zip(_PARKED, place, strict=True))
            run.send(self._gates.park, {**given, "ids": self.dialect.listed(ids)})
        if alike:
            gates = {place[0] for place in alike}
            self.slots.mark(run, gates, waited=True)


def asking(row: Row) -> JobRow:
    """Return what is to be known of a queued job that asks at gates."""
    id_, queue, state, priority, run_at, order_key, limits, flow, held, permit, since = row
    known = {
        "order_key": order_key,
        "limits": limits,
        "flow": flow,
        "held": held,
        "permit": permit,
        "waits_since": since,
    }
    return JobRow(str(id_), queue, 0, state, priority, run_at, 0, "", **known)


def lease_until(claim: Claim, settings: QueueSettings, now: int) -> int | None:
    """Return when the lease of a job ends that is reserved now; None where a worker holds it."""
    lease = settings.lease if claim.lease is None else claim.lease
    return None if claim.worker else now + int(lease * SECOND)


def gates_to_lock(rows: Sequence[JobRow]) -> list[str]:
    """Return the gates at which something may change by a claim of these jobs."""
    # One that its rate puts off lets go of the slot that it was granted.
    held = [gate for row in rows if row.held and limits_in(row.limits).rate for gate in held_gates(row)]
    return [*wanted_gates(rows), *held, *map(rate_slot, wanted_rates(rows))]
