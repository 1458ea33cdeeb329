"""Claims of jobs that may have to wait at gates, on MariaDB and MySQL: each step for all of them, in one round trip."""

from __future__ import annotations

from collections.abc import Sequence

from stanchion.stores.mariadb import statements as sql
from stanchion.stores.records.claims import Claim, Claimed
from stanchion.stores.records.jobs import JobRow
from stanchion.stores.records.queues import QueueSettings
from stanchion.stores.sql.admission import Admission
from stanchion.stores.sql.engine.runner import Asked, Params, Runner
from stanchion.stores.sql.parking import Alike, Search
from stanchion.stores.sql.store import SqlStore

_CANDIDATES = 100
"""So many due jobs are looked at, at least, as others may have locked the first of them."""

_AT_ONCE = 4
"""So many priorities are looked at together: two that jobs have, and two of such as hold a slot already."""


class MariaDBAdmitting(SqlStore):
    """Finds and locks jobs by their ids, and admits them at their gates."""

    def claim_at_gates(self, claim: Claim) -> Claimed:
        """Claim jobs of which some have to ask at gates."""
        return self.claim_by(self._claim_some_at_gates, claim, Search())

    def _claim_some_at_gates(self, claim: Claim, search: Search) -> Admission | None:
        if search.past is None and not claim.repeat:
            found = self.transactions.write(
                lambda run, again: self._claim_in_steps(run, claim, search, again), together=True
            )
            if found is not None:
                return found
        return self.claim_some(claim, search)

    def _claim_in_steps(self, run: Runner, claim: Claim, search: Search, again: bool) -> Admission | None:
        """Find due jobs, lock them, lock their gates, write; None where there are limits, or leases that ran out."""
        if again and (held := self.held(run, claim)):
            return Admission(held)
        picks = self.picks(claim, search, claim.limit)
        most = max(4 * picks, _CANDIDATES // 2)
        at = {"queue": claim.queue, "below": sql.ABOVE_ALL, "most": most}
        run.send(sql.ABOVE)
        asked: list[Asked] = [(sql.PROSPECT, at)]
        for _ in range(_AT_ONCE):
            asked += [(sql.NEXT_BELOW, at), (sql.DUE_THERE, at)]
        (prospect,), *answers, _, ((lower,),) = run.all_rows([*asked, (sql.NEXT_BELOW, at), (sql.PRIORITY, {})])
        _now, hindered, lease, *_head = prospect
        if hindered:
            return None
        due = [one for rows in answers[1::2] for (one,) in rows]
        ids = self._lock_asking(run, due, picks, search)
        if len(ids) < picks and lower is not None:
            return None  # there may be more at lower priorities
        settings = QueueSettings(claim.queue) if lease is None else QueueSettings(claim.queue, lease=lease)
        if claim.worker is None:
            search.seconds = min(search.seconds, (settings.lease if claim.lease is None else claim.lease) / 2)
        if not ids:
            self.gated_queues.discard(claim.queue)
            return Admission([])
        found = self.admit_in(run, claim, search, settings, ids, claim.limit, last=True)
        if not found.asked:
            self.gated_queues.discard(claim.queue)
        return found._replace(more=found.more and (len(ids) == picks or bool(run.freed)))

    def _lock_asking(self, run: Runner, due: Sequence[str], limit: int, search: Search) -> list[str]:
        """Lock up to `limit` of these jobs, past what others have locked, and read what they need at gates."""
        search.asking.clear()
        left = list(due)
        found: list[str] = []
        while left and len(found) < limit:
            some, left = left[: limit - len(found)], left[limit - len(found) :]
            locked = {str(row[0]): row for row in run.rows(sql.ASKING_OF_THESE, {"ids": some})}
            search.asking.update(locked)
            found += [one for one in some if one in locked]
        return found

    def due_at_gates(self, run: Runner, queue: str, limit: int, search: Search) -> list[str]:
        found: list[str] = []
        past = search.past
        for priority in self.priorities(run, queue):
            given = {"queue": queue, "at_priority": priority, "most": max(4 * limit, _CANDIDATES)}
            due = [one for (one,) in run.rows(sql.DUE if past is None else sql.DUE_PAST, {**given, **(past or {})})]
            while due and len(found) < limit:
                some, due = due[: limit - len(found)], due[limit - len(found) :]
                found += self.lock_queued(run, some)
            if len(found) >= limit:
                break
        return found

    def due_alike(self, run: Runner, queue: str, alike: Alike) -> list[str]:
        return self.lock_queued(run, super().due_alike(run, queue, alike))

    def lock_queued(self, run: Runner, ids: Sequence[str]) -> list[str]:
        """Return those of these jobs that are queued and locked by nobody else, locked, in this order."""
        locked = {one for (one,) in run.rows(sql.QUEUED_OF_THESE, {"ids": list(ids)})} if ids else set()
        return [one for one in ids if one in locked]

    def reserve_asked(
        self, run: Runner, alike: Sequence[tuple[Params, Sequence[str]]], *, last: bool = False
    ) -> list[JobRow]:
        for given, _ in alike:
            run.send(self._gates.reserve, given)
        asked = self.jobs.asks_locked(one for _, ids in alike for one in ids)
        return [JobRow(*row) for row in run.all_rows([asked], last=last)[0]]
