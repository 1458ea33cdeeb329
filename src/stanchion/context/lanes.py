"""Lanes: which lanes belong to a tenant, and which one gets a new job.

A queue with n lanes gives each tenant m of them, its shuffle shard: always the same lanes, chosen so that two tenants
seldom share all of them. A tenant with many jobs delays only the tenants that share its lanes.

The shard is the same for every client in every language and release. In unsigned arithmetic modulo 2**64:

    seed    FNV-1a over the UTF-8 bytes of the tenant: h = 0xcbf29ce484222325, and for each byte
                h = (h xor byte) * 0x100000001b3
    next    splitmix64, from that seed:
                seed = seed + 0x9e3779b97f4a7c15
                z = seed
                z = (z xor (z >> 30)) * 0xbf58476d1ce4e5b9
                z = (z xor (z >> 27)) * 0x94d049bb133111eb
                next = z xor (z >> 31)
    shard   a partial Fisher-Yates shuffle of lane = [0, 1, ..., n - 1]: for i = 0, 1, ..., m - 1
                exchange lane[i] and lane[i + next mod (n - i)]
            The shard is lane[0], ..., lane[m - 1], in this order.

The remainder is taken as it comes, without rejection: with at most 1024 lanes its bias is below 2**-53.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from itertools import count
from operator import attrgetter

from stanchion.context.cached_settings import CachedSettings
from stanchion.context.shard import MAX_LANES, shuffle_shard
from stanchion.stores.protocol import Store
from stanchion.stores.records.jobs import UNLANED, NewJob
from stanchion.stores.records.outcomes import Commit, Continue, Move, Outcome
from stanchion.stores.records.queues import QueueSettings

COUNTED = 1000
"""Jobs counted per lane; longer lanes count as equally long."""


_QUEUE = attrgetter("queue")


class LaneChooser:
    """Chooses the lanes of new jobs, in one process."""

    def __init__(self, settings: CachedSettings) -> None:
        # A random start in each process spreads jobs evenly over the lanes.
        self._offsets = count(random.randrange(MAX_LANES))  # noqa: S311 - spreading load
        self._settings = settings

    def assign(self, store: Store, jobs: list[NewJob]) -> None:
        """Assign lanes to the jobs whose queues have lanes, changing the list in place."""
        for queue, settings in self._laned(store, set(map(_QUEUE, jobs))).items():
            places = [n for n, job in enumerate(jobs) if job.queue == queue]
            lanes = self._lanes(store, settings, [jobs[n].tenant for n in places])
            for n, lane in zip(places, lanes, strict=True):
                jobs[n] = jobs[n]._replace(lane=lane)

    def place(
        self, store: Store, outcomes: Sequence[Outcome], tenants: Callable[[], Mapping[str, str | None]]
    ) -> Sequence[Outcome]:
        """Return the outcomes, with lanes for jobs that go on to a queue with lanes and have none yet.

        `tenants()`: the tenants of the settled jobs, by id; called only if such a queue has lanes.
        """
        going_on = [outcome for outcome in outcomes if not isinstance(outcome, Commit) or outcome.jobs]
        queues = {job.queue for outcome in going_on for job in _going_on(outcome, None)}
        if not queues or not self._laned(store, queues):
            return outcomes
        of = tenants()
        moved = [job for outcome in outcomes for job in _going_on(outcome, of.get(outcome.lease.id))]
        self.assign(store, moved)
        lanes = {job.id: job.lane for job in moved}
        return [_placed(outcome, lanes) for outcome in outcomes]

    def lane_of(self, store: Store, queue: str, tenant: str | None) -> int:
        """Return the lane for one job that enters the queue."""
        settings = self._laned(store, {queue}).get(queue)
        return UNLANED if settings is None else self._lanes(store, settings, [tenant])[0]

    def _laned(self, store: Store, queues: Set[str]) -> dict[str, QueueSettings]:
        """Return the settings of those of these queues that have lanes."""
        found = self._settings.of(store, queues)
        return {queue: settings for queue, settings in found.items() if settings.lanes > 1} if found else found

    def _lanes(self, store: Store, settings: QueueSettings, tenants: list[str | None]) -> list[int]:
        size = min(settings.lanes_per_tenant, settings.lanes)
        shards = {
            tenant: list(shuffle_shard(tenant, settings.lanes, size)) for tenant in set(tenants) if tenant is not None
        }
        several = {lane for shard in shards.values() for lane in shard} if size > 1 else ()
        depths = self._depths(store, settings.name, several)
        chosen = []
        for tenant in tenants:
            lane = next(self._offsets) % settings.lanes if tenant is None else self._shortest(shards[tenant], depths)
            depths[lane] = depths.get(lane, 0) + 1
            chosen.append(lane)
        return chosen

    def _depths(self, store: Store, queue: str, lanes: Iterable[int]) -> dict[int, int]:
        return store.lane_depths(queue, sorted(lanes), COUNTED) if lanes else {}

    def _shortest(self, shard: list[int], depths: dict[int, int]) -> int:
        """Return the first empty lane, else the shortest, the first of them on a tie."""
        lane = min(shard, key=lambda lane: depths.get(lane, 0))
        if depths.get(lane, 0) < COUNTED:
            return lane
        # All are longer than COUNTED: round-robin keeps them even.
        return shard[next(self._offsets) % len(shard)]


def _going_on(outcome: Outcome, tenant: str | None) -> list[NewJob]:
    """Return the jobs without a lane that an outcome makes."""
    match outcome:
        case Move(lane=lane) if lane == UNLANED:
            return [NewJob(outcome.lease.id, outcome.queue, "", tenant=tenant)]
        case Continue(job=job) if job.lane == UNLANED:
            return [job]
        case Commit(jobs=jobs):
            return [job for job in jobs if job.lane == UNLANED]
    return []


def _placed(outcome: Outcome, lanes: Mapping[str, int]) -> Outcome:
    """Return an outcome whose jobs are in these lanes, by their ids."""

    def in_lane(job: NewJob) -> NewJob:
        return job._replace(lane=lanes.get(job.id, job.lane))

    match outcome:
        case Move():
            return outcome._replace(lane=lanes.get(outcome.lease.id, outcome.lane))
        case Continue(job=job):
            return outcome._replace(job=in_lane(job))
        case Commit(jobs=jobs) if jobs:
            return outcome._replace(jobs=tuple(map(in_lane, jobs)))
    return outcome
