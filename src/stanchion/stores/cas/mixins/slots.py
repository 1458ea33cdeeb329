"""Semaphores, order keys and rates in a store without transactions over several jobs.

A claim reserves jobs, then takes their gates, each in one operation on the gate, under the job's permit; where there
is no slot, the job is parked. So these hold but for moments, and `sweep` restores them:

    never more holders than capacity       taking a slot looks at the capacity in the same operation
    no slot held by a job that ended       its end notes what it held: (1) the end, (2) the slots are freed
    no waiter while a slot is free         (1) the job is parked, (2) the gate is looked at once more; who frees a slot
                                           looks for waiters afterwards: one of the two sees the other

A slot is given to a waiter in two operations: (1) at the gate, (2) in the job. After a death in between the gate names
a holder that still waits, and (2) is done by the next who looks. Where (2) finds that the job has left the line, the
slot is freed, unless the job has got it: its permit tells. A permit is that of one way through the gates; it is new
after each release, so that a late repeat never frees what was taken anew. An order key, which is kept between attempts,
has one of its own.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Sequence

from stanchion.stores.cas.mixins.jobs import Change, Optimistic, Seen, Swap
from stanchion.stores.cas.mixins.outbox import Hold, hold_of, holds_of
from stanchion.stores.records.jobs import JobRow
from stanchion.stores.rules import claims as claim_rules
from stanchion.stores.rules.limits import Rate, limits_in
from stanchion.stores.rules.slots import (
    Asking,
    Verdict,
    gated,
    gates_of,
    held_between,
    permits_of,
    promise_of,
    semaphore_of,
)


class Permits(Optimistic):
    """What claims have to do with gates, and how slots go from hand to hand."""

    # -- what a store provides: each item of a call is one atomic operation, and may be repeated

    @abstractmethod
    def take_each(self, wanted: Sequence[Hold]) -> list[bool]:
        """Take slots; True also where the permit holds it already. A gate that is not known has one slot."""

    @abstractmethod
    def free_each(self, held: Sequence[Hold]) -> None:
        """Free slots; a permit that holds none frees nothing."""

    @abstractmethod
    def first_live(self, queue: str, order_key: str) -> Seen | None:
        """Return the first live job of an order key, by (enqueued_at, id)."""

    def first_live_each(self, keys: Sequence[tuple[str, str]]) -> list[Seen | None]:
        """Return the first live job of each of these order keys; for a store that can ask for all at once."""
        return [self.first_live(queue, key) for queue, key in keys]

    def first_waiting_each(self, gates: Sequence[str]) -> list[Seen | None]:
        """Return who has waited longest at each of these gates; for a store that can ask for all at once."""
        return [self.first_waiting(gate) for gate in gates]

    @abstractmethod
    def first_waiting(self, gate: str) -> Seen | None:
        """Return the job that has waited longest at a gate, by (waits_since, id)."""

    @abstractmethod
    def waiting_at(self, gate: str, limit: int) -> list[Seen]:
        """Return up to `limit` of the jobs that wait at a gate."""

    @abstractmethod
    def spend(self, asking: Sequence[Asking]) -> list[int | None]:
        """Take a start from the bucket of each rate: None, or when to ask again; see `Bucket.asked`."""

    @abstractmethod
    def holds(self) -> Iterable[Hold]:
        """Return all slots that are held."""

    @abstractmethod
    def gates_waited_at(self) -> Iterable[str]:
        """Return the gates at which some job waits."""

    # -- claims

    def admit(
        self, rows: Sequence[JobRow], most: int, uncounted: str | None, began: int
    ) -> tuple[list[JobRow], list[Verdict]]:
        """Return up to `most` of these jobs, with all of their gates, and which have to wait; give back the others.

        All that one claim parks wait since it `began`, in however many rounds it does.
        The gates come first and the rate last, so that nobody spends a start and then waits at a gate.
        """
        verdicts = self._take_gates([row for row in rows if gated(row)])
        left, admitted = [row for row in rows if row.id not in verdicts], list[JobRow]()
        while left and len(admitted) < most:
            missing = most - len(admitted)
            part, left = left[:missing], left[missing:]
            postponed = self._spend_starts(part)
            # Where one was sent away, so are those who come later, unless they were promised more.
            empty: dict[Rate | None, int] = {}
            for verdict in postponed.values():
                empty[_rate(verdict.row)] = max(_promised(verdict.row), empty.get(_rate(verdict.row), 0))
            asked = [row for row in left if _promised(row) <= empty.get(limits_in(row.limits).rate, -1)]
            postponed |= self._spend_starts(asked)
            admitted += [row for row in part if row.id not in postponed]
            left = [row for row in left if row.id not in postponed]
            verdicts |= postponed
        # Nobody is parked who stands behind the last one that is handed out: it was not yet his turn to ask.
        turns = rows.index(admitted[-1]) + 1 if admitted and len(admitted) == most else len(rows)
        waiting = [verdicts[row.id] for row in rows[:turns] if row.id in verdicts]
        self._keep_back(waiting, uncounted, began)
        self._undo(rows[turns:], lambda row, _now: claim_rules.put_back(row), uncounted)
        return admitted, waiting

    def _spend_starts(self, rows: Sequence[JobRow]) -> dict[str, Verdict]:
        """Take the starts of those that have a rate; return what becomes of those for which there is none."""
        rated = [row for row in rows if limits_in(row.limits).rate is not None]
        dues = self.spend([Asking(_rate(row), promise_of(row)) for row in rated]) if rated else []
        return {
            row.id: Verdict(row, held_between(row), run_at=due)
            for row, due in zip(rated, dues, strict=True)
            if due is not None
        }

    def _take_gates(self, rows: Sequence[JobRow]) -> dict[str, Verdict]:
        """Take the gates of jobs; return what becomes of those that have to wait."""
        verdicts: dict[str, Verdict] = {}
        held = {row.id: row.held for row in rows}
        while left := [row for row in rows if row.id not in verdicts and held[row.id] < len(gates_of(row))]:
            wanted = _next_gates([(row, gates_of(row)[held[row.id] :]) for row in left])
            for (row, gate), taken in zip(wanted, self._take(wanted), strict=True):
                if taken:
                    held[row.id] += 1
                else:
                    verdicts[row.id] = Verdict(row, held[row.id], gate=gate)
        return verdicts

    def _take(self, wanted: Sequence[tuple[JobRow, str]]) -> list[bool]:
        keyed = {row.id: (row.queue, row.order_key) for row, gate in wanted if row.order_key and not semaphore_of(gate)}
        first = dict(zip(keyed, self.first_live_each(list(keyed.values())), strict=True))
        mine = [(found := first.get(row.id)) is None or found.row.id == row.id for row, _ in wanted]
        holds = [hold_of(row, gate) for (row, gate), turn in zip(wanted, mine, strict=True) if turn]
        taken = iter(self.take_each(holds))
        return [turn and next(taken) for turn in mine]

    def _keep_back(self, verdicts: Sequence[Verdict], uncounted: str | None, began: int) -> None:
        """Park and postpone jobs that were reserved, then look at their gates once more."""
        by_id = {verdict.row.id: verdict for verdict in verdicts}

        def kept(row: JobRow, _now: int) -> JobRow:
            verdict = by_id[row.id]
            after = claim_rules.kept_back(claim_rules.undelivered(row), verdict, row.token or "", began)
            if after.permit is None or row.order_key is None:
                return after
            permits = permits_of(row)  # who is postponed gives back its semaphores
            return after._replace(permit=permits.text if verdict.run_at is None else permits.order)

        parked = self._undo([verdict.row for verdict in verdicts], kept, uncounted)
        self.wake(*(row.waits_for for row in parked if row.waits_for is not None))

    def _undo(
        self, rows: Sequence[JobRow], undone: Callable[[JobRow, int], JobRow], uncounted: str | None
    ) -> list[JobRow]:
        """Take back reservations that are not handed out; return the jobs as they are then."""
        left, done = list(rows), list[JobRow]()
        while left:
            now, seen = self.look([row.id for row in left])
            changes = []
            for row in left:
                found = seen.get(row.id)
                if found is None or not claim_rules.holds(found.row, row.token or "", now):
                    continue  # its lease ran out meanwhile: what that entails is seen to
                after = undone(found.row, now)
                changes.append(Change(found, after, uncounted, self.duty_of(found.row, after, None, None, now)))
            made = list(zip(changes, self.swap(changes).swaps if changes else [], strict=True))
            self.follow_up([change.duty for change, swap in made if change.duty and swap is Swap.DONE])
            done += [change.row for change, swap in made if swap is Swap.DONE]
            # One that was asked to stop meanwhile would be left running in nobody's hands.
            changed = {change.row.id for change, swap in made if swap is Swap.CHANGED}
            left = [row for row in left if row.id in changed]
        if asked := [row.id for row in done if row.cancel_requested]:
            self.cancel(asked)
        return done

    # -- gates

    def _free(self, holds: Sequence[Hold]) -> None:
        """Free slots, and give them to the next in line."""
        if holds:
            self.free_each(holds)
            self.wake(*(hold.gate for hold in holds))

    def wake(self, *gates: str) -> None:
        """Give free slots to the first in line, as long as there are both."""
        left = list(dict.fromkeys(gates))
        while left:
            firsts = [(gate, first) for gate, first in zip(left, self._next_at(left), strict=True) if first is not None]
            holds = [hold_of(first.row, gate) for gate, first in firsts]
            given = zip(firsts, holds, self.take_each(holds), strict=True)
            granted = [(first, hold) for (_, first), hold, taken in given if taken]
            self._give_each(granted)
            left = [hold.gate for _, hold in granted]

    def _next_at(self, gates: Sequence[str]) -> list[Seen | None]:
        """Return for each gate whose turn it is; None where nobody waits, or not the one whose turn it is."""
        firsts = self.first_waiting_each(gates)
        keyed = {
            gate: (first.row.queue, first.row.order_key)
            for gate, first in zip(gates, firsts, strict=True)
            if first is not None and first.row.order_key is not None and semaphore_of(gate) is None
        }
        lives = dict(zip(keyed, self.first_live_each(list(keyed.values())), strict=True))
        turns = [lives.get(gate) if gate in keyed else first for gate, first in zip(gates, firsts, strict=True)]
        return [
            turn if turn is not None and turn.row.waits_for == gate else None
            for gate, turn in zip(gates, turns, strict=True)
        ]

    def _give_each(self, given: Sequence[tuple[Seen, Hold]]) -> None:
        """Tell waiting jobs of the slots that they hold by now; free the slots of jobs that have left the line."""
        left = list(given)
        while left:
            # Where another process has told a job, it waits elsewhere by now, or no more.
            waiting = [(seen, hold) for seen, hold in left if seen.row.waits_for == hold.gate]
            if not waiting:
                return
            swaps = self.swap([Change(seen, claim_rules.granted(seen.row)) for seen, _ in waiting]).swaps
            changed = [hold for (_, hold), swap in zip(waiting, swaps, strict=True) if swap is not Swap.DONE]
            if not changed:
                return
            seen = self.look([hold.job for hold in changed])[1]
            held = [hold for hold in changed if hold.job in seen and hold in holds_of(seen[hold.job].row)]
            if gone := [hold for hold in changed if hold not in held]:
                self.free_each(gone)
            left = [(seen[hold.job], hold) for hold in held]

    def _check(self, holds: Sequence[Hold]) -> None:
        """Free the slots of jobs that have no right to them, and tell those that wait for the one that they hold."""
        # The slots were read first: a job that has taken one since is seen as it is by now, with a right to it.
        seen = self._free_forfeited(holds)
        found = [(seen[hold.job], hold) for hold in holds if hold.job in seen]
        waiting = [(one, hold) for one, hold in found if one.row.waits_for == hold.gate and hold in holds_of(one.row)]
        self._give_each(waiting)

    def _free_forfeited(self, holds: Sequence[Hold]) -> dict[str, Seen]:
        """Free those of the slots to which their job has no right; return the jobs, as they were then.

        Also after a duty that says so: one claim may reserve a job that it has postponed again, under the same token.
        """
        seen = self.look([hold.job for hold in holds])[1] if holds else {}
        self._free([one for one in holds if (job := seen.get(one.job)) is None or one not in holds_of(job.row)])
        return seen


def _next_gates(wanted: Sequence[tuple[JobRow, Sequence[str]]]) -> list[tuple[JobRow, str]]:
    """Return the gates to take at once: of each job its next one, unless a job before it has still to come there."""
    coming: set[str] = set()
    taken: list[tuple[JobRow, str]] = []
    for row, gates in wanted:
        if gates[0] in coming:
            coming.update(gates)
        else:
            taken.append((row, gates[0]))
            coming.update(gates[1:])
    return taken


def _promised(row: JobRow) -> int:
    """Return how often a job was promised a start: 2 for more than once."""
    promise = promise_of(row)
    return 0 if promise is None else 1 + promise.again


def _rate(row: JobRow) -> Rate:
    rate = limits_in(row.limits).rate
    assert rate is not None  # noqa: S101 - only rows with one come here
    return rate
