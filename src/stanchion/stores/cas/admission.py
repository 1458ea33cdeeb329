"""Admission: decides which reserved jobs may run: the ones that get all their slots and a start of their rate."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from stanchion.stores.cas.entries import hold_of
from stanchion.stores.cas.jobs import Decision, Facts, JobLoop
from stanchion.stores.cas.slots import Slots, Taking
from stanchion.stores.records.jobs import JobRow, JobState
from stanchion.stores.records.slots import Slot
from stanchion.stores.rules.capacity.limits import Rate, limits_in
from stanchion.stores.rules.capacity.slots import Asking, Verdict, held_between, promise_of, slots_of, uses_slots
from stanchion.stores.rules.lifecycle import claims as claim_rules


class Admission:
    """Admits reserved jobs, parks those without a slot, and defers those without a start."""

    def __init__(
        self,
        loop: JobLoop,
        slots: Slots,
        cancel: Callable[[Sequence[str]], list[JobState | None]],
        declared_rates: Callable[[Iterable[str]], dict[str, float]],
    ) -> None:
        """`declared_rates`: returns the starts per second declared for any of these rates."""
        self.slots = slots
        self._loop, self._cancel, self._declared_rates = loop, cancel, declared_rates

    def admit(
        self, rows: Sequence[JobRow], most: int, uncounted: str | None, began: int
    ) -> tuple[list[JobRow], list[Verdict]]:
        """Return up to `most` jobs with all their slots, and the verdicts on waiting jobs; release the rest.

        All jobs that one claim parks wait since its start, `began`, in however many rounds. Slots are taken first and
        starts last, so that no job spends a start and then waits for a slot.
        """
        verdicts, taken = self._take_slots([row for row in rows if uses_slots(row)])
        left, admitted = [row for row in rows if row.id not in verdicts], list[JobRow]()
        while left and len(admitted) < most:
            missing = most - len(admitted)
            part, left = left[:missing], left[missing:]
            deferred = self._spend_starts(part)
            # Once a job is deferred, later jobs of the same rate are deferred too, unless they were promised more.
            empty: dict[str | None, int] = {}
            for verdict in deferred.values():
                name = _rate_name(verdict.row)
                empty[name] = max(_promised(verdict.row), empty.get(name, 0))
            asked = [row for row in left if _promised(row) <= empty.get(_rate_name(row), -1)]
            deferred |= self._spend_starts(asked)
            admitted += [row for row in part if row.id not in deferred]
            left = [row for row in left if row.id not in deferred]
            verdicts |= deferred
        # Jobs after the last one delivered are not parked: they had no claim to a slot yet.
        asked_rows = rows.index(admitted[-1]) + 1 if admitted and len(admitted) == most else len(rows)
        waiting = [verdicts[row.id] for row in rows[:asked_rows] if row.id in verdicts]
        self.park(waiting, uncounted, began)
        self._put_back(rows[asked_rows:], taken, uncounted)
        return admitted, waiting

    def _put_back(self, rows: Sequence[JobRow], taken: Mapping[str, int], uncounted: str | None) -> None:
        """Put back claimed jobs, with no more slots than they had before; `taken`: how many each of them has now."""
        # A hold token from before this claim stays, and with it the right to all slots. So those taken now are freed
        # by name, and first: after the undo another claim may have taken them again, by that token.
        self.slots.free(
            [
                hold_of(row, slot)
                for row in rows
                if row.slots_hold is not None
                for slot in slots_of(row)[row.slots_held : taken[row.id]]
            ]
        )
        self.undo(rows, lambda row, _now: claim_rules.put_back(row), uncounted)

    def _spend_starts(self, rows: Sequence[JobRow]) -> dict[str, Verdict]:
        """Take the starts of jobs that have a rate; return the verdicts on jobs without one."""
        rated = [(row, rate) for row in rows if (rate := limits_in(row.limits).rate) is not None]
        if not rated:
            return {}
        declared = self._declared_rates({rate.name for _, rate in rated})
        asking = [
            Asking(Rate(rate.name, declared.get(rate.name, rate.per_second)), promise_of(row)) for row, rate in rated
        ]
        return {
            row.id: Verdict(row, held_between(row), run_at=due)
            for (row, _), due in zip(rated, self.slots.rows.spend(asking), strict=True)
            if due is not None
        }

    def _take_slots(self, rows: Sequence[JobRow]) -> tuple[dict[str, Verdict], dict[str, int]]:
        """Take the slots of jobs; return the verdicts on waiting ones, and how many slots each job holds now."""
        verdicts: dict[str, Verdict] = {}
        held = {row.id: row.slots_held for row in rows}
        while left := [row for row in rows if row.id not in verdicts and held[row.id] < len(slots_of(row))]:
            wanted = _next_slots([(row, slots_of(row)[held[row.id] :]) for row in left])
            for (row, slot), taken in zip(wanted, self.slots.take(wanted), strict=True):
                if taken is Taking.TAKEN:
                    held[row.id] += 1
                else:
                    verdicts[row.id] = Verdict(row, held[row.id], slot=slot, full=taken is Taking.FULL)
        return verdicts, held

    def park(self, verdicts: Sequence[Verdict], uncounted: str | None, began: int) -> None:
        """Park and defer reserved jobs, then check their slots once more."""
        by_id = {verdict.row.id: verdict for verdict in verdicts}

        def kept(row: JobRow, _now: int) -> JobRow:
            verdict = by_id[row.id]
            return claim_rules.parked_or_deferred(claim_rules.undelivered(row), verdict, row.token or "", began)

        parked = self.undo([verdict.row for verdict in verdicts], kept, uncounted)
        self.slots.wake(*(slot for row in parked if (slot := row.waits_for) is not None))

    def undo(
        self, rows: Sequence[JobRow], undone: Callable[[JobRow, int], JobRow], uncounted: str | None
    ) -> list[JobRow]:
        """Undo reservations that are not delivered; return the resulting jobs."""

        def decide(index: int, row: JobRow | None, facts: Facts) -> Decision[JobRow | None]:
            if row is None or not claim_rules.holds(row, rows[index].lease, facts.now):
                return Decision(None)  # its lease ran out meanwhile, and recovery deals with it
            after = undone(row, facts.now)
            return Decision(after, after, uncounted)

        found = self._loop.decide_each([row.id for row in rows], decide, settings=False)
        done = [row for row in found if row is not None]
        # A job that was asked to stop meanwhile would be left running without a holder.
        if asked := [row.id for row in done if row.cancel_requested]:
            self._cancel(asked)
        return done


def _next_slots(wanted: Sequence[tuple[JobRow, Sequence[Slot]]]) -> list[tuple[JobRow, Slot]]:
    """Return the slots to take now: the next one of each job, unless an earlier job still has to take it."""
    reserved_for_earlier: set[Slot] = set()
    taken: list[tuple[JobRow, Slot]] = []
    for row, slots in wanted:
        if slots[0] in reserved_for_earlier:
            reserved_for_earlier.update(slots)
        else:
            taken.append((row, slots[0]))
            reserved_for_earlier.update(slots[1:])
    return taken


def _promised(row: JobRow) -> int:
    """Return how often a job was promised a start: 0, 1, or 2 for more than once."""
    promise = promise_of(row)
    return 0 if promise is None else 1 + promise.again


def _rate_name(row: JobRow) -> str | None:
    rate = limits_in(row.limits).rate
    return None if rate is None else rate.name
