"""Upkeep: keeps the store small and fast."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable

from sqlalchemy import BigInteger, Executable, Integer, String, select, update

from stanchion.stores.rules.expiry import end_overdue
from stanchion.stores.rules.upkeep import MAINTAIN_SECONDS, Budget, remove_expired
from stanchion.stores.sql.engine.columns import param
from stanchion.stores.sql.engine.database import Database
from stanchion.stores.sql.engine.dialect import Dialect
from stanchion.stores.sql.engine.runner import Runner
from stanchion.stores.sql.engine.schema import counter_events, counts
from stanchion.stores.sql.jobs.operate import Operations
from stanchion.stores.sql.queues.expiry import REMOVE_EVENT, ExpiringQueues
from stanchion.stores.sql.queues.purge import Purges
from stanchion.stores.sql.queues.settings import Queues
from stanchion.stores.sql.queues.shapes import Shapes
from stanchion.stores.sql.rows.queues import QueueRows

_EVENTS = 5000
_QUEUE, _WHAT, _MORE = param("queue", String), param("what", String), param("more", BigInteger)
_SOME_EVENTS = (
    select(counter_events.c.id, counter_events.c.queue, counter_events.c.what, counter_events.c.n)
    .order_by(counter_events.c.id)
    .limit(param("most", Integer))
    .with_for_update(skip_locked=True)
)
_ADD_COUNT = update(counts).where(counts.c.queue == _QUEUE, counts.c.what == _WHAT).values(n=counts.c.n + _MORE)


def _first_count(dialect: Dialect) -> Executable:
    return dialect.insert_ignoring(counts, {"queue": _QUEUE, "what": _WHAT, "n": _MORE})


class CounterEvents:
    """Folds counter events into the counts of queues."""

    def __init__(self, db: Database, queues: QueueRows) -> None:
        self._db, self._queues = db, queues
        self._first_count = db.dialect.once(_first_count)

    def fold(self, budget: Budget) -> None:
        """Fold all counter events, as far as time allows."""
        while self._db.write(self._fold_some) == _EVENTS and budget.left:
            pass

    def _fold_some(self, run: Runner, _again: bool) -> int:
        rows = run.rows(_SOME_EVENTS, {"most": _EVENTS})
        totals: Counter[tuple[str, str]] = Counter()
        for _, queue, what, count in rows:
            totals[queue, what] += count
        run.change_each(REMOVE_EVENT, [{"event": row[0]} for row in rows])
        # A queue that was deleted while another process pushed to it has lost its row.
        self._queues.insert(run, {queue for queue, _ in totals})
        for (queue, what), more in sorted(totals.items()):
            added = {"queue": queue, "what": what, "more": more}
            if run.change(_ADD_COUNT, added) == 0 and run.change(self._first_count, added) == 0:
                run.change(_ADD_COUNT, added)  # another process inserted the row first
        return len(rows)


class Upkeep:
    """Folds counter events, ends expired jobs, deletes outdated rows, removes unused queues, ends frozen sessions."""

    def __init__(
        self,
        db: Database,
        counted: CounterEvents,
        queues: Queues,
        purges: Purges,
        expiring: ExpiringQueues,
        shapes: Shapes,
        operations: Operations,
        forget: Iterable[Callable[[], object]],
    ) -> None:
        """`forget`: each deletes one kind of outdated rows."""
        self._db, self._counted, self._queues, self._purges = db, counted, queues, purges
        self._expiring, self._shapes, self._operations, self._forget = expiring, shapes, operations, tuple(forget)

    def maintain(self, seconds: float = MAINTAIN_SECONDS) -> list[str]:
        """Work for about `seconds`; return the queues that still have history beyond their retention."""
        budget = Budget(seconds)
        self._db.read(self._db.dialect.end_frozen_sessions)
        self._counted.fold(budget)
        for forget in self._forget:
            forget()
        end_overdue(self._operations.end_overdue, budget)
        queues = self._queues.queues()
        behind = self._purges.purge_old(queues, budget)
        self._shapes.keep_up(queues)
        remove_expired(self._expiring, self._purges.purge)
        return behind
