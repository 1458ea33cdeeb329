"""Claims of jobs that need slots, order keys and rates; semaphores. See `granting` for how their rows are locked."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from stanchion.stores.records.claims import Claim
from stanchion.stores.records.jobs import SECOND, JobRow
from stanchion.stores.records.queues import QueueSettings, SemaphoreRow
from stanchion.stores.rules import claims as claim_rules
from stanchion.stores.rules.limits import limits_in
from stanchion.stores.rules.rate_limit import Bucket
from stanchion.stores.rules.slots import (
    Slots,
    Verdict,
    admit,
    gated,
    held_gates,
    order_gate,
    semaphore_gate,
    semaphore_of,
    wanted_gates,
    wanted_rates,
)
from stanchion.stores.sql.engine.joining import joined
from stanchion.stores.sql.engine.runner import Asked, Params, Row, Runner
from stanchion.stores.sql.granting import Gate, light
from stanchion.stores.sql.jobs import Step
from stanchion.stores.sql.parking import Parking, Search, quoted

_PARKED = ("waits_for", "waits_since", "held", "permit", "priority")
_RATES_KEPT = 30 * 86_400 * SECOND


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
    gates: Mapping[str, Gate]
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
    """Semaphores, order keys, keyed rates."""

    # -- semaphores

    def set_semaphore(self, name: str, capacity: int | None, *, declared: bool = False, tx: Any = None) -> bool:
        gate = semaphore_gate(name)

        def as_before(run: Runner) -> bool:
            ((last,),) = run.rows(self._gates.declared, {"name": gate}) or [(None,)]
            return capacity == last if declared else last is None

        def work(run: Runner, _again: bool) -> bool:
            if (declared or capacity is None) and as_before(run):
                return False
            self.lock_and_ask(run, [gate])
            run.change(self._gates.resize, {"name": gate, "capacity": capacity})
            if declared:
                run.change(self._gates.declare, {"name": gate, "capacity": capacity})
            run.freed[gate] += 0
            return True

        if declared and self.database.read(as_before):
            return False
        if tx is not None and self.dialect.single_writer:
            with joined(self.database, tx) as run:
                work(run, False)
                self.pass_on_slots(run)
            return True  # also where it was done before in this transaction, which may be rolled back
        return self.write(work)

    def semaphores(self) -> list[SemaphoreRow]:
        rows = self.database.read(lambda run: run.rows(self._gates.semaphores))
        return sorted(
            SemaphoreRow(semaphore_of(gate) or "", capacity, used, int(waiting))
            for gate, capacity, used, waiting in rows
        )

    def permits(self, name: str) -> tuple[list[str], list[str]]:
        gate = semaphore_gate(name)

        def work(run: Runner) -> tuple[list[str], list[str]]:
            found = [light(*row) for row in run.rows(self._gates.holding, {"pattern": f"%{quoted(name)}%"})]
            waiting = run.rows(self._gates.waiting, {"gate": gate})
            return sorted(row.id for row in found if gate in held_gates(row)), [str(row[0]) for row in waiting]

        return self.database.read(work)

    # -- claims

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
        under_lock: list[Asked] = [(self.statements.now, {})]
        if keys:
            under_lock.append(self.asks_first(run, claim.queue, keys))
        gates, (((now,),), *firsts) = self.lock_and_ask(run, wanted, under_lock)
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
            buckets={name: found.gates[_rate_gate(name)].bucket(rate.per_second) for name, rate in rates.items()},
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
                kept.append(Step(row, claim_rules.kept_back(row, verdict, claim.token, search.at)))
        if kept:
            search.parked([(step.before, step.after) for step in kept if step.after is not None])
        self.free_gates(run, kept)  # they are locked already
        reserved = self.carry_out(run, claim, settings, Decision(admitted, kept, slots, found.now, last))
        in_turn = [reserved[row.id] for row in found.rows if row.id in reserved]
        return Admission(in_turn, bool(kept) and len(admitted) < room, any(map(gated, found.rows)))

    def carry_out(self, run: Runner, claim: Claim, settings: QueueSettings, decision: Decision) -> dict[str, JobRow]:
        """Write what a claim has decided about jobs and their gates; return those that it has reserved."""
        self._use(run, decision.slots.taken)
        run.send_each(self._gates.fill, [filled(name, bucket) for name, bucket in decision.slots.buckets.items()])
        self._keep_back(run, decision.kept)
        if decision.last:
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
            run.send(self._gates.mark, {"waited": True, "names": self.dialect.listed(gates)})

    def forget_rates(self, run: Runner) -> None:
        """Forget the rates that nobody has asked for a month."""
        run.change(self._gates.idle_rates, {"oldest": self.clock(run) - _RATES_KEPT})


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
    return [*wanted_gates(rows), *held, *map(_rate_gate, wanted_rates(rows))]


def _rate_gate(name: str) -> str:
    return f"r:{name}"


def filled(name: str, bucket: Bucket) -> Params:
    state = {name: getattr(bucket, name) for name in ("tokens", "filled_at", "promised", "promised_again")}
    return {"name": _rate_gate(name), **state}
