"""Claims of jobs that use slots: a short transaction where it fits, and else one that fits every queue."""

from __future__ import annotations

from collections.abc import Callable

from stanchion.stores.records.claims import Claim, Claimed
from stanchion.stores.sql.claims.admission import Admission
from stanchion.stores.sql.claims.claim import ClaimRounds, TransactionClaims
from stanchion.stores.sql.claims.reservations import Reservations
from stanchion.stores.sql.claims.search import Search
from stanchion.stores.sql.engine.runner import Runner
from stanchion.stores.sql.rows.transactions import Transactions

ShortWork = Callable[[Runner, Claim, Search], Admission | None]
"""Claims in few round trips; None if the queue has limits, leases have expired, or too much has to be read."""


class ShortClaims:
    """Claims by `work` in an open transaction, as long as few of the jobs have to wait."""

    def __init__(
        self,
        transactions: Transactions,
        reservations: Reservations,
        rounds: ClaimRounds,
        general: TransactionClaims,
        work: ShortWork,
    ) -> None:
        self._transactions, self._reservations = transactions, reservations
        self._rounds, self._general, self._work = rounds, general, work

    def claim(self, claim: Claim, search: Search) -> Claimed:
        """Claim jobs, some of which may have to wait."""
        return self._rounds.claim(claim, self._claim_some, search)

    def _claim_some(self, claim: Claim, search: Search) -> Admission | None:
        def work(run: Runner, again: bool) -> Admission | None:
            if again and (held := self._reservations.held(run, claim)):
                return Admission(held)
            return self._work(run, claim, search)

        if search.past is None and not claim.repeat:
            found = self._transactions.write(work, durable=False, together=True)  # as any claim
            if found is not None:
                return found
        return self._general.claim_some(claim, search)
