"""Moving partitions from one shard to another, while jobs flow: none is lost, and none runs twice.

    1. T, the destination, gets the queue with its settings, paused. Phase *leaving*: every program learns within the
       lease of its map that the partition is on its way. Pushes go to S, the source
    2. S pauses the queue; its running jobs end there. If they take too long, the partition goes back to *planned*
    3. queued jobs are handed over, page by page: adopted in T, then deleted in S
    4. phase *moved*: pushes go to T
    5. what came to S meanwhile is handed over, until S has none
    6. the map says that the partition is in T, and T resumes it

Each step may be repeated, and a mover that finds a partition in a phase continues from there. A death leaves after

    1, 2  a queue paused in S; pushes are stored there
    3     jobs in both, or either; S and T deliver none. One that S has delivered after all, by a claim that began
          before the pause, is deleted in T before anything else
    4, 5  the same, with pushes to T. Pushes with keys wait, as either may have a job of the key
    6     the queue paused in T: the upkeep of any worker resumes it, as the queue itself is not paused

One mover of a partition at a time, see `stanchion.copying.guard`. See `stores.shards.known_map` for late pushes.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace

from stanchion.copying.guard import HEARTBEAT, Guard
from stanchion.copying.transfer import SETTLE, Watcher
from stanchion.core.names.partition_names import logical_name
from stanchion.stores.hand_over import QUEUED, hand_over, queued_portions
from stanchion.stores.ports import OverShards
from stanchion.stores.protocol import Store, pages
from stanchion.stores.records.jobs import JobRow, JobState
from stanchion.stores.records.query import Condition, Query
from stanchion.stores.records.queues import STORED_SETTINGS, QueueSettings, Sizes
from stanchion.stores.rules.shard_map import Phase, ShardMap

AT_ONCE = 8
"""Partitions that move together, and wait for one another."""

_LIVE = Query("live", order="id", columns=("id", "limits", "flow_root", "flow_after"), limit=2000)
_FEW, _PASSES_MAX = 100, 10
"""Jobs of a pass after which pushes go to the destination, as the rest is soon done; passes before it at most."""
_POLL_SECONDS = 0.5


@dataclass(slots=True)
class Moved:
    """The result for one partition. `note`: why it has not moved, and what to do."""

    partition: str
    source: str
    to: str
    jobs: int = 0
    note: str = ""


class PartitionMover:
    """Carries out the moves that the map has on record.

    `wait`: seconds that running jobs of the source may take; `settle`: seconds after which every program knows
    of an announcement, and calls that began before it have ended. Less than SETTLE is safe only if no program runs.
    """

    def __init__(
        self,
        store: OverShards,
        *,
        wait: float = 60.0,
        settle: float = SETTLE,
        at_once: int = AT_ONCE,
        heartbeat: float = HEARTBEAT,
        watcher: Watcher | None = None,
    ) -> None:
        self._store, self._wait, self._settle = store, wait, settle
        self._at_once, self._heartbeat = at_once, heartbeat
        self._watcher = watcher or Watcher()

    def run(self) -> list[Moved]:
        """Move all partitions that are planned or under way; return the result of each.

        CopyRefused while another mover has them. Run it again after any error, and for partitions with a note.
        """
        shard_map = self._store.shard_map()
        routes: dict[tuple[str, str], list[str]] = {}
        for queue, move in shard_map.moving.items():
            routes.setdefault((shard_map.source(queue), move.to), []).append(queue)
        done: list[Moved] = []
        for (source, to), queues in routes.items():
            for start in range(0, len(queues), self._at_once):
                some = queues[start : start + self._at_once]
                guard = Guard(self._store.shard(source), self._store.shard(to), some, self._heartbeat)
                with guard.hold(self._watcher.standing_by):
                    done += _Group(self._store, source, to, some, guard, self._watcher).run(self._wait, self._settle)
        return done


class _Group:
    """Partitions that move together."""

    def __init__(
        self, store: OverShards, source: str, to: str, queues: Sequence[str], guard: Guard, watcher: Watcher
    ) -> None:
        self._store, self._guard, self._watcher = store, guard, watcher
        self._source, self._there = store.shard(source), store.shard(to)
        self._moved = {queue: Moved(queue, source, to) for queue in queues}

    def run(self, wait: float, settle: float) -> list[Moved]:
        shard_map = self._store.shard_map()
        moving = [queue for queue in self._moved if queue in shard_map.moving]  # another mover may have been here
        begun = [queue for queue in moving if shard_map.moving[queue].phase != "planned"]
        leaving = [queue for queue in moving if shard_map.moving[queue].phase != "moved"]
        self._prepare(leaving)
        leaving = self._without_ties(shard_map, leaving, settle)
        self._change(lambda shard_map: shard_map.in_phase(leaving, "leaving"))
        self._pause(leaving, settle)
        self._correct(begun)
        ready = self._quiet(leaving, wait)
        for queue in list(ready):
            if not self._empty_but_for_few(queue):
                ready.remove(queue)
                self._turn_back(queue, "it has jobs of flows, semaphores or rates: let workers finish them first")
        self._change(lambda shard_map: shard_map.in_phase(ready, "moved"))
        arrived = [queue for queue in moving if self._phase(queue) == "moved" and self._emptied(queue, wait)]
        now = self._store.shard(shard_map.default).now()
        self._change(lambda shard_map: shard_map.arrived(arrived, now))
        for queue in arrived:
            self._there.configure(queue, {"paused": self._paused(queue)})
        return list(self._moved.values())

    # -- 1: the destination has the queue, and all know

    def _prepare(self, queues: Sequence[str]) -> None:
        settings = {one.name: one for one in self._source.queues(queues)}
        for queue in queues:
            given = asdict(settings.get(queue, QueueSettings(queue)))
            stored = {name: given[name] for name in STORED_SETTINGS if name != "name"}
            self._guard.stand()
            self._there.configure(queue, {**stored, "paused": True})

    def _without_ties(self, shard_map: ShardMap, queues: list[str], settle: float) -> list[str]:
        """Return the partitions whose jobs have no ties to other shards. A divided queue's jobs have none."""
        divided = {logical_name(queue) for queue in shard_map.places}
        planned = [queue for queue in queues if shard_map.moving[queue].phase == "planned"]
        new = [queue for queue in planned if logical_name(queue) not in divided]
        if new:
            self._wait_for_others(settle)  # programs that know of the plan store no such jobs
        for queue in new:
            for page in pages(self._source, _LIVE.also(Condition("queue", "=", queue))):
                if any(tie is not None for _, *ties in page for tie in ties):
                    self._moved[queue].note = "it has jobs of flows, semaphores or rates: let workers finish them first"
                    break
        return [queue for queue in queues if not self._moved[queue].note]

    # -- 2: the source delivers no jobs

    def _pause(self, queues: Sequence[str], settle: float) -> None:
        """Pause the queues in the source, again if a program that did not know of the move has resumed one.

        It waits in any case: a former mover may have paused them, and announced the move, just before its death.
        """
        late = list(queues)
        while late:
            for queue in late:
                self._guard.stand()
                self._source.configure(queue, {"paused": True})
            self._wait_for_others(settle)
            late = [one.name for one in self._source.queues(queues) if not one.paused]

    def _quiet(self, queues: Sequence[str], wait: float) -> list[str]:
        """Return the partitions without running jobs, and turn the others back, `wait` seconds later."""
        deadline = time.monotonic() + wait
        while running := {queue: sizes.running for queue, sizes in self._sizes(queues).items() if sizes.running}:
            left = deadline - time.monotonic()
            if left <= 0:
                break
            self._watcher.waiting(sum(running.values()), left)
            self._guard.sleep(min(left, _POLL_SECONDS))
            self._source.recover()  # there may be no workers left to do it
        for queue, count in running.items():
            self._turn_back(queue, f"{count} of its jobs still run: run `stanchion shards resume` later")
        return [queue for queue in queues if queue not in running]

    def _turn_back(self, queue: str, note: str) -> None:
        """Let the source continue with a partition."""
        self._moved[queue].note = note
        self._pass(queue, self._there, self._source)
        self._change(lambda shard_map: shard_map.in_phase([queue], "planned"))
        self._source.configure(queue, {"paused": self._paused(queue)})

    # -- 3, 5: jobs are handed over

    def _correct(self, queues: Sequence[str]) -> None:
        """Delete jobs in the destination that a former mover adopted, and the source delivered after all."""
        for queue in queues:
            for page in pages(self._there, replace(_LIVE.also(Condition("queue", "=", queue)), columns=("id",))):
                known = self._source.fetch([row[0] for row in page])
                gone = [row for row in known.values() if row.finished_at is not None or row.state == JobState.RUNNING]
                if gone:
                    self._guard.stand()
                    self._there.delete([row.ref._replace(finished_at=None) for row in gone])

    def _empty_but_for_few(self, queue: str) -> bool:
        """Hand over the jobs of a partition until few come meanwhile; False if some can't be."""
        for _ in range(_PASSES_MAX):
            if self._pass(queue, self._source, self._there) <= _FEW:
                break
        return not any(_tied(row) for row in self._page(queue, self._source))

    def _emptied(self, queue: str, wait: float) -> bool:
        """Hand over the rest; False if the source still has jobs `wait` seconds later."""
        deadline, fruitless = time.monotonic() + wait, 0
        while True:
            fruitless = 0 if self._pass(queue, self._source, self._there) else fruitless + 1
            left = self._sizes([queue])[queue]
            if not left.total:
                return True
            if left.running or fruitless > 1:
                if time.monotonic() > deadline:
                    self._moved[queue].note = f"{left.total} of its jobs do not leave: run `stanchion shards resume`"
                    return False
                self._guard.sleep(_POLL_SECONDS)
                self._source.recover()

    def _pass(self, queue: str, source: Store, there: Store) -> int:
        """Hand over the queued jobs of one store; return their number."""
        moved = 0
        for portion in queued_portions(source, queue, lambda row: not _tied(row)):
            handed = hand_over(source, there, portion, self._guard.stand)
            self._watcher.jobs_moved(queue, handed.moved)
            moved += handed.moved
        if there is self._there:
            self._moved[queue].jobs += moved
        return moved

    # -- shared

    def _change(self, change: Callable[[ShardMap], ShardMap]) -> None:
        self._guard.stand()
        self._store.change_shard_map(change)

    def _phase(self, queue: str) -> Phase | None:
        move = self._store.shard_map().moving.get(queue)
        return None if move is None else move.phase

    def _wait_for_others(self, seconds: float) -> None:
        if seconds:
            self._watcher.settling(seconds)
            self._guard.sleep(seconds)

    def _sizes(self, queues: Sequence[str]) -> dict[str, Sizes]:
        return {queue: one.states for queue, one in self._source.stats(queues, ["states"]).items()}

    def _page(self, queue: str, source: Store) -> list[JobRow]:
        return source.select(QUEUED.also(Condition("queue", "=", queue))).rows

    def _paused(self, queue: str) -> bool:
        """Return whether the queue itself is paused."""
        settings = self._store.shard(self._store.shard_map().default).queues([logical_name(queue)])
        return bool(settings) and settings[0].paused


def _tied(row: JobRow) -> bool:
    """Return True for a job that other jobs or slots of its database depend on, or it on them."""
    return row.limits is not None or row.flow_root is not None or row.flow_after is not None
