"""Which queues of a worker to claim from next, and how long to wait when none has a job for it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from stanchion.context.context import Context
from stanchion.stores.records.jobs import SECOND
from stanchion.stores.wakeup.signs import Signs
from stanchion.waits.poll import BACKUP_POLLS
from stanchion.worker.pace import poll_interval

SHORTEST_NAP = 0.001


class DueQueues:
    """The queues of a worker: a signal names some, or else one look at all of them tells which have a due job.

    So an idle worker makes one call for each poll, however many queues it has.
    """

    def __init__(self, context: Context, queues: Sequence[str], poll: float) -> None:
        self._context, self._queues, self._poll = context, list(queues), poll
        self._named: Collection[str] | None = None
        """Queues that may have jobs to claim; None: any; empty: look."""
        self._claimed_from: frozenset[str] = frozenset()
        self._dues: Mapping[str, int] | None = None
        """When the first job of each queue is due, as seen since the last claim."""
        self.held_back: dict[str, int] = {}
        """When the first job was due of each queue where no claim got it: a limit may hold it back."""
        self.sharing = 1
        """Workers, including this one, that share the polling of the queue that has the fewest."""

    def next(self) -> list[str]:
        """Return the queues to claim from, each time beginning with another one."""
        named = self._named
        if named is not None and not named:
            self._dues = self.look()
            named = _due(self._dues, self._now(self._dues))
        chosen = [queue for queue in self._queues if named is None or queue in named]
        self._claimed_from = frozenset(chosen)
        if chosen:
            self._dues = None
        self._queues.append(self._queues.pop(0))
        return chosen

    def any(self) -> None:
        """Record that any queue may have jobs."""
        self._named = None

    def woken(self, signs: Signs, *, by_sign: bool) -> None:
        """Record how a wait ended; without a queue in `signs`, a limit may allow more, or the time was over."""
        if signs.queues is None:
            self._named = None
        else:
            self._named = signs.queues.intersection(self._queues) or (frozenset(self.held_back) if by_sign else ())

    def look(self) -> dict[str, int]:
        """Return when the first job is due of each queue that has queued ones."""
        stats = self._context.store.stats(self._queues, ["next_due"])
        return {queue: one.next_due for queue, one in stats.items() if one.next_due is not None}

    def nap(self, retry_in: float | None, *, connected: bool) -> float:
        """Return the seconds to wait for a signal: until a job is due or a limit may allow more, at most one poll.

        0 if jobs have come due that no claim has met. `connected`: signals arrive, so that polls are only a backup.
        """
        dues = self.look() if self._dues is None else self._dues
        now = self._now(dues)
        due = _due(dues, now)
        fresh = {queue for queue, at in due.items() if self.held_back.get(queue) != at}
        if retry_in is not None:
            fresh -= self._claimed_from
        self.held_back = due
        if fresh:
            self._named = fresh
            return 0.0
        naps = [poll_interval(self._poll, self.sharing) * (BACKUP_POLLS if connected else 1)]
        if retry_in is not None:
            naps.append(retry_in)
        naps += [(at - now) / SECOND for at in dues.values() if at > now]
        return max(SHORTEST_NAP, min(naps))

    def _now(self, dues: Mapping[str, int]) -> int:
        """Return the clock of the store, which is asked only if some job may be due."""
        return self._context.store.now() if dues else 0


def _due(dues: Mapping[str, int], now: int) -> dict[str, int]:
    return {queue: at for queue, at in dues.items() if at <= now}
