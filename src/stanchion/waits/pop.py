"""Pop: deliver jobs at most once, by committing them before delivery."""

from __future__ import annotations

from collections.abc import Sequence

from stanchion.core.ids import new_token
from stanchion.stores.protocol import Store
from stanchion.stores.records.claims import POPPED, Claim, Claimed
from stanchion.stores.records.jobs import JobRow
from stanchion.stores.rules.capacity.slots import uses_slots
from stanchion.stores.rules.lifecycle.outcomes import commit_of, popped

POP_LEASE_SECONDS = 30.0


def pop(store: Store, request: Claim) -> Claimed:
    """Pop due jobs: (1) reserve them, (2) commit them, (3) return the committed ones, as done.

    A death after (1) leaves them reserved: they are ready again when the lease expires, and no attempt counts.
    A death after (2) leaves them done, though no caller has received them.
    """
    rows: list[JobRow] = []
    claim = request._replace(
        token=request.token or new_token(),
        worker=None,
        holder=request.held_by,
        lease=POP_LEASE_SECONDS,
        delivery=POPPED,
    )
    while True:
        claimed = store.claim(claim)
        done = _committed(store, claimed.rows)
        rows += done
        missing = request.limit - len(rows)
        broken_off = claimed.retry_in == 0 and not rows
        # The slots these held are free again, so jobs parked there may be claimable.
        if missing < 1 or not (broken_off or any(map(uses_slots, done))):
            return claimed._replace(rows=rows)
        claim = claim._replace(limit=missing, token=new_token(), repeat=False)


def _committed(store: Store, rows: Sequence[JobRow]) -> list[JobRow]:
    """Commit reserved jobs; return the ones whose lease had not expired, as done."""
    states = store.settle([commit_of(row) for row in rows]) if rows else []
    return [popped(row) for row, state in zip(rows, states, strict=True) if state is not None]
