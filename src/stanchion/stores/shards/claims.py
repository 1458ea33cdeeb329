"""Claims from the physical queues of shards: one that is down has no jobs until it answers."""

from __future__ import annotations

import threading
from collections import defaultdict

from stanchion.core.concurrency.forks import reset_after_fork
from stanchion.errors import StoreUnavailable
from stanchion.stores.records.claims import Claim, Claimed
from stanchion.stores.records.outcomes import Rollback
from stanchion.stores.rules.leases.lost_replies import LostReplies
from stanchion.stores.shards.fleet import Fleet
from stanchion.stores.shards.shard import Shard


class ShardClaims:
    """Claims, each from one shard.

    A claim that a shard did not answer may have reserved jobs there. Its caller continues with the jobs of other
    shards, and may not ask for these again. So they are returned as soon as the shard answers.
    """

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet
        reset_after_fork(self)

    def begin(self) -> None:
        """Forget claims of the parent process."""
        self._lock = threading.Lock()
        self._lost: defaultdict[str, LostReplies] = defaultdict(LostReplies)

    def claim(self, claim: Claim) -> Claimed:
        """Reserve jobs of a physical queue; none if its shard is down, unless it is the default shard.

        The same holds for a partition that is moving, whose shards don't deliver jobs.
        """
        shard = self._fleet.of(claim.queue)
        if self._fleet.is_held(claim.queue) and not claim.repeat:
            return Claimed([])
        if shard.is_default or claim.ids:
            return shard.ask(shard.store.claim, claim)
        if shard.down:
            return self._unanswered(shard, claim) if claim.repeat else Claimed([])
        try:
            self._give_back(shard)
            claimed = shard.ask(shard.store.claim, claim)
        except StoreUnavailable:
            return self._unanswered(shard, claim)
        if claim.repeat:
            with self._lock:
                self._lost[shard.name].forget(claim)
        return claimed

    def _unanswered(self, shard: Shard, claim: Claim) -> Claimed:
        with self._lock:
            self._lost[shard.name].add(claim)
        return Claimed([])

    def _give_back(self, shard: Shard) -> None:
        """Return the jobs that unanswered claims have reserved."""
        with self._lock:
            lost = self._lost[shard.name]
            due = lost.due() if lost else []
        for claim in due:
            rows = shard.ask(shard.store.claim, claim).rows
            if rows:
                shard.ask(shard.store.settle, [Rollback(row.lease, 0.0, refund=True) for row in rows], repeat=True)
            with self._lock:
                lost.repeated(claim, found=bool(rows))
