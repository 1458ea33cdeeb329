"""Claims from a partitioned queue: its physical queues in turn.

A claim asks one of them in turn, and is done if it returns enough jobs. Otherwise one read of all finds the ones with
due jobs or expired leases. All claims of a call have the same token, so a repeat after a lost reply finds their jobs. A
worker with streams for all partitions needs no read.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import count

from stanchion.errors import StoreUnavailable
from stanchion.partitions.layouts import Layouts
from stanchion.stores.ports import BehindManagers
from stanchion.stores.protocol import Store, pages
from stanchion.stores.records.claims import Claim, Claimed
from stanchion.stores.records.query import Condition, Query
from stanchion.stores.rules.leases.lost_leases import is_alone, split_alone
from stanchion.stores.rules.lifecycle.claims import in_claim_order

_PAGE = 10_000


class PartitionClaims:
    """Claims from all partitions of a queue, each time beginning with another one."""

    def __init__(self, store: Store, layouts: Layouts) -> None:
        self._store, self._layouts = store, layouts
        self._managers = store.extension(BehindManagers)
        # A random start in each process spreads the consumers over the partitions.
        self._turns = count(random.randrange(1 << 20))  # noqa: S311 - spreading load

    def claim(self, claim: Claim) -> Claimed:
        """Reserve jobs of the queue that a claim names."""
        names = self._layouts.names(claim.queue)
        first = next(self._turns) % len(names)
        in_turn = [*names[first:], *names[:first]]
        if not claim.rows:
            return self._batch(claim, in_turn)
        if claim.repeat or claim.ids:
            claimed = self._from(claim, in_turn, Claimed([]))
            rows = in_claim_order(claimed.rows, claim) if claim.ids else claimed.rows
            return self._apart(claimed._replace(rows=rows))
        if self._come_by_streams(claim, names):
            return self._apart(self._from(claim, in_turn, Claimed([])))
        claimed = self._store.claim(claim._replace(queue=in_turn[0]))
        if len(claimed.rows) >= claim.limit or (claimed.rows and is_alone(claimed.rows[0])):
            return claimed
        try:
            others = self._due(in_turn[1:])
        except StoreUnavailable:
            if not claimed.rows:
                raise
            return claimed  # one server of several does not answer; these jobs are reserved already
        return self._apart(self._from(claim, others, claimed))

    def _come_by_streams(self, claim: Claim, names: Sequence[str]) -> bool:
        """Return whether streams deliver the jobs of all physical queues to the claiming worker, without reads."""
        return claim.worker is not None and self._managers is not None and self._managers.feeds(claim.worker, names)

    def _from(self, claim: Claim, queues: Sequence[str], claimed: Claimed) -> Claimed:
        """Add the jobs of these queues to those claimed already, up to the limit."""
        rows, retry_in = list(claimed.rows), claimed.retry_in
        for queue in queues:
            left = claim.limit - len(rows)
            if left <= 0 and not claim.repeat:
                break
            more = self._store.claim(claim._replace(queue=queue, limit=max(0, left)))
            rows += more.rows
            if more.retry_in is not None:
                retry_in = more.retry_in if retry_in is None else min(retry_in, more.retry_in)
        return Claimed(rows, retry_in)

    def _due(self, queues: Sequence[str]) -> list[str]:
        """Return the queues that have a due job, or one whose lease has expired."""
        stats = self._store.stats(queues, ["next_due"])
        dues = [(queue, due) for queue in queues if (due := stats[queue].next_due) is not None]
        now = self._store.now() if dues else 0
        return [queue for queue, due in dues if due <= now]

    def _apart(self, claimed: Claimed) -> Claimed:
        """Return jobs that were claimed together with a job that must run alone."""
        claimed, back = split_alone(claimed)
        if back:
            self._store.settle(back)
        return claimed

    def _batch(self, claim: Claim, in_turn: Sequence[str]) -> Claimed:
        """Reserve a batch whose rows are read later, by the token: all from one physical queue."""
        if claim.repeat and (held := self._held(claim, in_turn)):
            return Claimed([], reserved=held)
        claimed = Claimed([])
        for queue in self._due(in_turn):
            claimed = self._store.claim(claim._replace(queue=queue))
            if claimed.reserved:
                break
        return claimed

    def _held(self, claim: Claim, queues: Sequence[str]) -> int:
        """Return the number of jobs that an earlier try of the claim has reserved."""
        where = Condition("queue", "in", tuple(queues)), Condition("token", "=", claim.token)
        held = Query("live", where, order="id", columns=("id",), limit=_PAGE)
        return sum(len(page) for page in pages(self._store, held))
