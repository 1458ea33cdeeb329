"""The next jobs of a queue: outside of lanes by rank, in lanes round-robin."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from stanchion.stores.records.claims import Claim
from stanchion.stores.records.jobs import UNLANED, JobRow
from stanchion.stores.records.queues import QueueSettings
from stanchion.stores.sql.claims.admission import Admission, Admissions
from stanchion.stores.sql.claims.due import FindsDue
from stanchion.stores.sql.claims.lanes import Lanes
from stanchion.stores.sql.claims.reservations import Reserves
from stanchion.stores.sql.claims.search import Search
from stanchion.stores.sql.engine.runner import Runner
from stanchion.stores.sql.rows.jobs import ID_OF
from stanchion.stores.sql.rows.queue_row import QueueRow


class ReservesNext(Protocol):
    """Reserves the next due jobs outside of lanes."""

    def reserve(self, run: Runner, claim: Claim, search: Search, settings: QueueSettings, limit: int) -> Admission:
        """Reserve up to `limit` of them; return their rows after the change, in order."""

    def reserve_these(
        self, run: Runner, claim: Claim, search: Search, settings: QueueSettings, ids: Sequence[str], room: int
    ) -> Admission:
        """Reserve up to `room` of these locked jobs, in order, as far as there are free slots."""

    def first(self, run: Runner, claim: Claim, search: Search) -> list[str]:
        """Return the id of the next due job, locked, if there is one."""


class NextJobs:
    """Finds the next due jobs, locks them, and reserves the ones that may run."""

    def __init__(self, due: FindsDue, reserves: Reserves, admissions: Admissions) -> None:
        self._due, self._reserves, self._admissions = due, reserves, admissions

    def reserve(self, run: Runner, claim: Claim, search: Search, settings: QueueSettings, limit: int) -> Admission:
        picks = search.picks(limit, uses_slots=settings.uses_slots)
        search.asking.clear()
        ids = self._due.due(run, claim.queue, picks, search)
        found = self.reserve_these(run, claim, search, settings, ids, limit)
        # If these were all due jobs, there are no more, unless a slot has become free.
        return found._replace(more=found.more and (len(ids) == picks or bool(run.freed)))

    def first(self, run: Runner, claim: Claim, search: Search) -> list[str]:
        return self._due.due(run, claim.queue, 1, search)

    def reserve_these(
        self, run: Runner, claim: Claim, search: Search, settings: QueueSettings, ids: Sequence[str], room: int
    ) -> Admission:
        """Reserve up to `room` of these locked jobs, in order, as far as there are free slots."""
        if not ids:
            return Admission([])
        plain: dict[str, JobRow] = {}
        if len(ids) <= room and not settings.uses_slots:
            rows = self._reserves.plain(run, claim, settings, ids)
            plain = dict(zip(map(ID_OF, rows), rows, strict=True))
            if len(plain) == len(ids):
                return Admission(list(map(plain.__getitem__, ids)))
        elif len(ids) <= room and (rows := self._reserves.with_slots(run, claim, settings, ids)):
            taken = {row.id: row for row in rows}
            return Admission([taken[one] for one in ids], asked=True)
        left = [one for one in ids if one not in plain]
        found = self._admissions.admit(run, claim, search, settings, left, room - len(plain))
        reserved = plain | {row.id: row for row in found.rows}
        return found._replace(rows=[reserved[one] for one in ids if one in reserved])


class NextInLanes:
    """Reserves jobs of the next lanes, and stores the lane that was served last."""

    def __init__(self, lanes: Lanes, jobs: NextJobs) -> None:
        self._lanes, self._jobs = lanes, jobs

    def reserve(
        self, run: Runner, claim: Claim, search: Search, settings: QueueSettings, limit: int, queue: QueueRow
    ) -> Admission:
        """Reserve up to `limit` jobs, round-robin over the lanes; `queue`: its row, locked."""
        before = served = self._lanes.served(run, claim, queue)
        held: list[JobRow] = []
        found = Admission([])
        while len(held) < limit and not found.asked:
            room = limit - len(held)
            picks = self._lanes.next_picks(run, claim, max(room, search.least), served)
            found = self._jobs.reserve_these(run, claim, search, settings, [pick.id for pick in picks], room)
            if not found.rows:
                break
            held += found.rows
            served = held[-1].lane
        if served != before:
            self._lanes.serve(run, claim, served)
        return found._replace(rows=held, more=found.asked and len(held) < limit)

    def first(self, run: Runner, claim: Claim, queue: QueueRow) -> list[str]:
        """Return the id of the next due job, locked, if there is one; `queue`: its row, locked."""
        picks = self._lanes.next_picks(run, claim, 1, self._lanes.served(run, claim, queue))
        for pick in picks:
            self._lanes.serve(run, claim, pick.lane)
        return [pick.id for pick in picks]


def excludes_unlaned(claim: Claim) -> bool:
    """Return whether the claim excludes the jobs without a lane."""
    return claim.lanes is not None and claim.lanes[0] > UNLANED
