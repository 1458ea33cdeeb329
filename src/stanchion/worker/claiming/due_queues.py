"""Which queues of a worker to claim from next, and how long to wait when none has a job for it."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from stanchion.context.context import Context
from stanchion.stores.records.claims import LOWEST_RANK, Claimed
from stanchion.stores.records.jobs import SECOND
from stanchion.stores.records.queues import Head
from stanchion.stores.wakeup.signs import Signs
from stanchion.waits.poll import BACKUP_POLLS
from stanchion.worker.claiming.order import Order, Turn, turns_by_priority
from stanchion.worker.claiming.pace import poll_interval
from stanchion.worker.claiming.served_queues import REFRESH_SECONDS, ServedQueues

MANY = 100
"""Claims in a round beyond which the rest is kept: polling so many queues takes longer than some claims."""


class Rest:
    """Claims that a worker may still make without another look, for as long again as the last look took.

    So polls take half of a worker's time at most, however many queues have jobs, and a job of higher priority that
    arrives meanwhile waits as long as it would have during the poll.
    """

    def __init__(self) -> None:
        self.clear()

    def begin(self, turns: Sequence[Turn], looked_at: float) -> None:
        """Take in the claims of a round whose look began then, on the monotonic clock."""
        self.clear()
        if len(turns) > MANY:
            now = time.monotonic()
            self._turns.extend(turns)
            self._until = now + (now - looked_at)

    def clear(self) -> None:
        """Forget them, as something has changed."""
        self._turns: deque[Turn] = deque()
        self._until = 0.0

    def claimed(self, turn: Turn, *, found: bool) -> None:
        """Take in that a claim was made, and whether it found a job: the next one may find more there."""
        if turn in self._turns:
            while self._turns[0] != turn:
                self._turns.popleft()
            if not found:
                self._turns.popleft()

    def turns(self) -> list[Turn]:
        """Return the claims that may still be made."""
        return list(self._turns) if time.monotonic() < self._until else []


SHORTEST_NAP = 0.001


Place = tuple[int, int, int]
"""A head: its lane, its rank, and when it is due."""


class Seen(NamedTuple):
    """One poll of the queues: when the first job of each is due and, for some polls, all heads and the clock."""

    dues: Mapping[str, int]
    heads: Mapping[str, Collection[Head]] = {}
    now: int | None = None


class Refusal(NamedTuple):
    """Due heads of a queue that no claim got, as a limit may hold them back: those from a rank upward.

    `until`: when to try again even if they are the same, on the monotonic clock. `by_rate`: not before.
    """

    min_rank: int
    heads: frozenset[Place]
    until: float
    by_rate: bool


class DueQueues:
    """The queues of a worker: a signal names some, or else one poll of all of them finds the ones with a due job.

    So an idle worker makes one call for each poll, however many queues it has. Except with the order `fair`, a busy one
    polls its queues before each round of claims, unless it has only one.
    """

    def __init__(self, context: Context, served: ServedQueues, poll: float, order: Order = "fair") -> None:
        self._context, self._served, self._poll, self._order = context, served, poll, order
        self._queues = list(served.names)
        """The queues, that first which has waited longest for its turn."""
        self._named: Collection[str] | None = None
        """Queues that may have jobs to claim; None: any; empty: look."""
        self._claimed_from: frozenset[str] = frozenset()
        self._seen: Seen | None = None
        """The poll since the last claim, if any."""
        self._heads: Mapping[str, Collection[Head]] = {}
        """The due heads of the queues in this round of claims."""
        self._rest = Rest()
        self._refusals: dict[str, Refusal] = {}
        self._ended: set[str] = set()
        self.held_back: dict[str, int] = {}
        """When the first job was due of each queue where no claim got it: a limit may hold it back."""
        self.fed = False
        """True while streams deliver jobs of all queues: claims get the delivered jobs without a poll."""
        self.came: Callable[[], Mapping[str, Collection[int]]] = dict
        """For each queue, the ranks of streamed jobs not yet claimed."""
        self.sharing = 1
        """Workers, including this one, that share the polling of the queue that has the fewest."""

    @property
    def ordered(self) -> bool:
        """True if the order of jobs among queues matters."""
        return self._order != "fair" and len(self._queues) > 1

    def served_changed(self) -> None:
        """Take over the queues that the worker serves now."""
        names = self._served.names
        self._queues = [one for one in self._queues if one in names] + [one for one in names if one not in self._queues]
        self._seen = None
        self._rest.clear()
        self.any()

    def next(self) -> list[Turn]:
        """Return the claims to make, in order; the queues that have waited longest for their turn are first."""
        named, looked, began = self._named, False, time.monotonic()
        unknown = named is not None and not named
        came = self.came() if self.ordered or unknown else {}
        if named is None and not came and (rest := self._rest.turns()):
            return rest
        if self.fed and self.ordered:
            # A claim from any queue says how many jobs this worker takes.
            return self._those_that_came(came) or [Turn(self._queues[-1])]
        if self.fed:
            named = named or None
        elif came or unknown or (self.ordered and (named is None or len(named) > 1)):
            self._seen = seen = self._seen or self.look()
            due = _due(seen.dues, self._now(seen))
            named = due.keys() & named if named and not came else due.keys()
            self._heads, looked = _due_heads(seen), self.ordered
            if not looked:
                named = {*named, *came}  # no look finds a job that a stream has brought
        chosen = [queue for queue in self._queues if named is None or queue in named]
        self._claimed_from = frozenset(chosen)
        if self._order == "fair" and self._queues:
            self._queues.append(self._queues.pop(0))
        if looked:
            turns = self._in_order(chosen, came)
            self._rest.begin(turns, began)
        else:
            self._heads, turns = {}, [Turn(queue) for queue in chosen]
        if turns:
            self._seen = None
        return turns

    def _those_that_came(self, came: Mapping[str, Collection[int]]) -> list[Turn]:
        """Return the claims that get jobs which have come, in order."""
        self._heads, self._seen, self._claimed_from = {}, None, frozenset(self._queues)
        return self._turns({queue: set(came[queue]) for queue in self._queues if queue in came})

    def claimed(self, turn: Turn, claimed: Claimed) -> bool:
        """Record a claim's jobs; return False if it got none, although a poll has found a job for it."""
        self._rest.claimed(turn, found=bool(claimed.rows))
        if claimed.rows:
            if turn.most is not None:
                self._refusals.pop(turn.queue, None)
            if self.ordered:
                self._queues.remove(turn.queue)
                self._queues.append(turn.queue)
            return True
        if turn.queue in self._heads and claimed.retry_in != 0:
            pause = poll_interval(self._poll, self.sharing) if claimed.retry_in is None else claimed.retry_in
            by_rate = claimed.retry_in is not None
            lowest = LOWEST_RANK if by_rate or self._order == "strict" else turn.min_rank
            heads = self._places(turn.queue, lowest)
            self._refusals[turn.queue] = Refusal(lowest, heads, time.monotonic() + pause, by_rate)
        return False

    def any(self) -> None:
        """Record that any queue may have jobs."""
        self._named = None

    def ended(self, queues: Iterable[str]) -> None:
        """Record that jobs of these queues have ended here, so that `max_running` may admit others. Any thread."""
        self._ended.update(queues)

    def woken(self, signs: Signs) -> None:
        """Record how a wait ended; without a queue in `signs`, a job of this worker has ended, or the time was over.

        A signal does not name lanes: for a queue divided by lanes, a poll finds out whether the job is for this worker.
        """
        self._seen = None
        self._rest.clear()
        if signs.queues is None:
            self._named = () if self._served.lanes else None
            self._refusals.clear()
            return
        named = signs.queues.intersection(self._queues)
        for queue in named:
            self._refusals.pop(queue, None)
        if named.isdisjoint(self._served.lanes):
            self._named = named or self._let_go_on().intersection(self.held_back)
        else:
            self._named = ()

    def look(self) -> Seen:
        """Return when the first job is due of each queue that has queued ones, and maybe more; by one call."""
        lanes = self._served.lanes
        if not (lanes or self.ordered):
            stats = self._context.store.stats(self._queues, ["next_due"])
            return Seen({queue: one.next_due for queue, one in stats.items() if one.next_due is not None})
        heads: dict[str, Collection[Head]] = {}
        for queue, one in self._context.store.stats(self._queues, ["heads"]).items():
            mine = lanes.get(queue)
            found = one.heads if mine is None else [head for head in one.heads if mine.first <= head.lane <= mine.last]
            if found:
                heads[queue] = found
        now = next((head.run_at - head.due_in for found in heads.values() for head in found), 0)
        return Seen({queue: min(head.run_at for head in found) for queue, found in heads.items()}, heads, now)

    def any_due(self) -> bool | None:
        """Return whether a job is due in a queue; None if none is queued."""
        seen = self.look()
        return bool(_due(seen.dues, self._now(seen))) if seen.dues else None

    def nap(self, retry_in: float | None, *, connected: bool) -> float:
        """Return the seconds to wait for a signal: until a job is due or a limit may allow more, at most one poll.

        0 if jobs have come due that no claim has met. `connected`: signals arrive, so that polls are only a backup.
        """
        if self.fed:
            self.held_back, self._seen = {}, None
            return self._longest_nap(retry_in, connected=connected)
        seen, self._seen = self._seen or self.look(), None
        now = self._now(seen)
        due = _due(seen.dues, now)
        fresh = {queue for queue, at in due.items() if self.held_back.get(queue) != at}
        if retry_in is not None:
            fresh -= self._claimed_from
        self.held_back = due
        if fresh:
            self._named, self._seen = fresh, seen
            return 0.0
        naps = [(at - now) / SECOND for at in seen.dues.values() if at > now]
        return max(SHORTEST_NAP, min([*naps, self._longest_nap(retry_in, connected=connected)]))

    def _longest_nap(self, retry_in: float | None, *, connected: bool) -> float:
        naps = [poll_interval(self._poll, self.sharing) * (BACKUP_POLLS if connected else 1)]
        if retry_in is not None:
            naps.append(retry_in)
        if (look_in := self._served.look_in) is not None:
            naps.append(look_in + REFRESH_SECONDS)  # so that mostly a poll ends the nap
        return max(SHORTEST_NAP, min(naps))

    def _now(self, seen: Seen) -> int:
        """Return the clock of the store, which is asked only if some job may be due."""
        if seen.now is not None:
            return seen.now
        return self._context.store.now() if seen.dues else 0

    def _places(self, queue: str, lowest: int) -> frozenset[Place]:
        return frozenset(head[:3] for head in self._heads[queue] if head.rank >= lowest)

    def _let_go_on(self) -> set[str]:
        """Return the queues with jobs that ended here since the last call; forget that these have refused claims.

        A slot, which may belong to another queue, is granted to a job, and that is signalled.
        """
        ended = set()
        while self._ended:
            ended.add(self._ended.pop())
        self._refusals = {queue: one for queue, one in self._refusals.items() if one.by_rate or queue not in ended}
        return ended

    def _in_order(self, queues: Collection[str], came: Mapping[str, Collection[int]]) -> list[Turn]:
        """Return the claims to make from queues whose due heads are known.

        A claim got no job of some ranks although some were due, the same as now, and no job of their queue has ended
        here since: these are left out for a while. Then one job is asked for, of any rank, in the place of the best.
        """
        self._let_go_on()
        ranks, again, now = {}, set(), time.monotonic()
        for queue in queues:
            ranks[queue] = {head.rank for head in self._heads[queue]}
            refusal = self._refusals.get(queue)
            if refusal and refusal.heads == self._places(queue, refusal.min_rank):
                if now < refusal.until:
                    ranks[queue] = {rank for rank in ranks[queue] if rank < refusal.min_rank}
                elif not refusal.by_rate:
                    again.add(queue)
                    ranks[queue] = {max(ranks[queue])}
        for queue in came.keys() & set(self._queues):
            ranks.setdefault(queue, set()).update(came[queue])
        turns = self._turns(ranks)
        return [Turn(turn.queue, most=1) if turn.queue in again else turn for turn in turns]

    def _turns(self, ranks: Mapping[str, Collection[int]]) -> list[Turn]:
        if self._order == "strict":
            return [Turn(queue) for queue in self._served.names if ranks.get(queue)]
        return turns_by_priority(ranks, self._queues)


def _due(dues: Mapping[str, int], now: int) -> dict[str, int]:
    return {queue: at for queue, at in dues.items() if at <= now}


def _due_heads(seen: Seen) -> dict[str, list[Head]]:
    due = {queue: [head for head in heads if head.due_in <= 0] for queue, heads in seen.heads.items()}
    return {queue: heads for queue, heads in due.items() if heads}
