"""Which of the jobs that a claim has reserved may run: those that get all of their slots, and a start of their rate."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from stanchion.stores.cas.jobs import Decision, Facts, JobLoop
from stanchion.stores.cas.slots import Slots
from stanchion.stores.records.jobs import JobRow, JobState
from stanchion.stores.rules import claims as claim_rules
from stanchion.stores.rules.limits import Rate, limits_in
from stanchion.stores.rules.slots import Asking, Verdict, gated, gates_of, held_between, permits_of, promise_of


class Admission:
    """Admits reserved jobs, parks those without a slot, and defers those without a start."""

    def __init__(self, loop: JobLoop, slots: Slots, cancel: Callable[[Sequence[str]], list[JobState | None]]) -> None:
        self.slots = slots
        self._loop, self._cancel = loop, cancel

    def admit(
        self, rows: Sequence[JobRow], most: int, uncounted: str | None, began: int
    ) -> tuple[list[JobRow], list[Verdict]]:
        """Return up to `most` of these jobs, with all of their slots, and which have to wait; give back the others.

        All that one claim parks wait since it `began`, in however many rounds it does.
        The slots come first and the rate last, so that nobody spends a start and then waits for a slot.
        """
        verdicts = self._take_slots([row for row in rows if gated(row)])
        left, admitted = [row for row in rows if row.id not in verdicts], list[JobRow]()
        while left and len(admitted) < most:
            missing = most - len(admitted)
            part, left = left[:missing], left[missing:]
            deferred = self._spend_starts(part)
            # Where one was sent away, so are those who come later, unless they were promised more.
            empty: dict[Rate | None, int] = {}
            for verdict in deferred.values():
                empty[_rate(verdict.row)] = max(_promised(verdict.row), empty.get(_rate(verdict.row), 0))
            asked = [row for row in left if _promised(row) <= empty.get(limits_in(row.limits).rate, -1)]
            deferred |= self._spend_starts(asked)
            admitted += [row for row in part if row.id not in deferred]
            left = [row for row in left if row.id not in deferred]
            verdicts |= deferred
        # Nobody is parked who stands behind the last one that is handed out: it was not yet his turn to ask.
        turns = rows.index(admitted[-1]) + 1 if admitted and len(admitted) == most else len(rows)
        waiting = [verdicts[row.id] for row in rows[:turns] if row.id in verdicts]
        self.park(waiting, uncounted, began)
        self.undo(rows[turns:], lambda row, _now: claim_rules.put_back(row), uncounted)
        return admitted, waiting

    def _spend_starts(self, rows: Sequence[JobRow]) -> dict[str, Verdict]:
        """Take the starts of those that have a rate; return what becomes of those for which there is none."""
        rated = [row for row in rows if limits_in(row.limits).rate is not None]
        dues = self.slots.rows.spend([Asking(_rate(row), promise_of(row)) for row in rated]) if rated else []
        return {
            row.id: Verdict(row, held_between(row), run_at=due)
            for row, due in zip(rated, dues, strict=True)
            if due is not None
        }

    def _take_slots(self, rows: Sequence[JobRow]) -> dict[str, Verdict]:
        """Take the slots of jobs; return what becomes of those that have to wait."""
        verdicts: dict[str, Verdict] = {}
        held = {row.id: row.held for row in rows}
        while left := [row for row in rows if row.id not in verdicts and held[row.id] < len(gates_of(row))]:
            wanted = _next_slots([(row, gates_of(row)[held[row.id] :]) for row in left])
            for (row, slot), taken in zip(wanted, self.slots.take(wanted), strict=True):
                if taken:
                    held[row.id] += 1
                else:
                    verdicts[row.id] = Verdict(row, held[row.id], gate=slot)
        return verdicts

    def park(self, verdicts: Sequence[Verdict], uncounted: str | None, began: int) -> None:
        """Park and defer jobs that were reserved, then look at their slots once more."""
        by_id = {verdict.row.id: verdict for verdict in verdicts}

        def kept(row: JobRow, _now: int) -> JobRow:
            verdict = by_id[row.id]
            after = claim_rules.parked_or_deferred(claim_rules.undelivered(row), verdict, row.token or "", began)
            if after.permit is None or row.order_key is None:
                return after
            tokens = permits_of(row)  # who is deferred gives back its semaphores
            return after._replace(permit=tokens.text if verdict.run_at is None else tokens.order)

        parked = self.undo([verdict.row for verdict in verdicts], kept, uncounted)
        self.slots.wake(*(row.waits_for for row in parked if row.waits_for is not None))

    def undo(
        self, rows: Sequence[JobRow], undone: Callable[[JobRow, int], JobRow], uncounted: str | None
    ) -> list[JobRow]:
        """Take back reservations that are not handed out; return the jobs as they are then."""

        def decide(index: int, row: JobRow | None, facts: Facts) -> Decision[JobRow | None]:
            if row is None or not claim_rules.holds(row, rows[index].token or "", facts.now):
                return Decision(None)  # its lease ran out meanwhile: what that entails is seen to
            after = undone(row, facts.now)
            return Decision(after, after, uncounted)

        found = self._loop.decide_each([row.id for row in rows], decide, settings=False)
        done = [row for row in found if row is not None]
        # One that was asked to stop meanwhile would be left running in nobody's hands.
        if asked := [row.id for row in done if row.cancel_requested]:
            self._cancel(asked)
        return done


def _next_slots(wanted: Sequence[tuple[JobRow, Sequence[str]]]) -> list[tuple[JobRow, str]]:
    """Return the slots to take at once: of each job its next one, unless a job before it has still to come there."""
    coming: set[str] = set()
    taken: list[tuple[JobRow, str]] = []
    for row, slots in wanted:
        if slots[0] in coming:
            coming.update(slots)
        else:
            taken.append((row, slots[0]))
            coming.update(slots[1:])
    return taken


def _promised(row: JobRow) -> int:
    """Return how often a job was promised a start: 2 for more than once."""
    promise = promise_of(row)
    return 0 if promise is None else 1 + promise.again


def _rate(row: JobRow) -> Rate:
    rate = limits_in(row.limits).rate
    assert rate is not None  # noqa: S101 - only rows with one come here
    return rate
