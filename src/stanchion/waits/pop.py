"""Jobs that are taken for good: at most once, by whoever commits them before anybody gets them."""

from __future__ import annotations

from collections.abc import Sequence

from stanchion.core.ids import new_token
from stanchion.stores.protocol import Store
from stanchion.stores.records.claims import POP, Claim, Claimed
from stanchion.stores.records.jobs import JobRow
from stanchion.stores.records.outcomes import Commit
from stanchion.stores.rules.outcomes import popped
from stanchion.stores.rules.slots import gated

POP_LEASE_SECONDS = 30.0


def pop(store: Store, wish: Claim) -> Claimed:
    """Pop due jobs: (1) they are reserved, (2) they are committed, (3) those that are committed are returned, as done.

    After a death past (1) they are ready again when their lease is over, and that was no attempt; past (2) they are
    done, and nobody has got them.
    """
    rows: list[JobRow] = []
    claim = wish._replace(token=(wish.token or new_token()) + POP, worker=None, lease=POP_LEASE_SECONDS)
    while True:
        claimed = store.claim(claim)
        done = _committed(store, claimed.rows)
        rows += done
        missing = wish.limit - len(rows)
        broken_off = claimed.retry_in == 0 and not rows
        # What these have held is free again: others that wait for it may have it.
        if missing < 1 or not (broken_off or any(map(gated, done))):
            return claimed._replace(rows=rows)
        claim = claim._replace(limit=missing, token=new_token() + POP, repeat=False)


def _committed(store: Store, rows: Sequence[JobRow]) -> list[JobRow]:
    """Commit reserved jobs; return those whose lease had not run out, as they are now."""
    states = store.settle([Commit(row.id, row.token or "") for row in rows]) if rows else []
    return [popped(row) for row, state in zip(rows, states, strict=True) if state is not None]
