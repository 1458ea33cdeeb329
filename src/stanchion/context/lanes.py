"""Lanes: which lanes belong to a tenant, and which one gets a new job; and the order key that a job gets with it.

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
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import count
from operator import attrgetter
from typing import TYPE_CHECKING

from stanchion.context.queues.settings import has_defaults, with_defaults
from stanchion.context.shard import MAX_LANES, shuffle_shard
from stanchion.stores.records.jobs import UNLANED, NewJob
from stanchion.stores.records.outcomes import Commit, Continue, Extend, Move, OneStop, Outcome, Pass, Progress
from stanchion.stores.records.queues import QueueSettings

if TYPE_CHECKING:
    from stanchion.context.queues.cached_settings import CachedSettings
    from stanchion.stores.protocol import Store

COUNTED = 1000
"""Jobs counted per lane; longer lanes count as equally long."""


_QUEUE = attrgetter("queue")


class LaneChooser:
    """Chooses the lanes of new jobs, and their default order keys, in one process."""

    def __init__(self, settings: CachedSettings) -> None:
        # A random start in each process spreads jobs evenly over the lanes.
        self._offsets = count(random.randrange(MAX_LANES))  # noqa: S311 - spreading load
        self._settings = settings

    def assign(self, store: Store, jobs: list[NewJob], concerned: Mapping[str, QueueSettings] | None = None) -> None:
        """Assign lanes and default order keys to the jobs whose queues have them, changing the list in place.

        `concerned`: the settings of their queues that are cached, if the caller has read them.
        """
        if concerned is None:
            concerned = self._settings.of(store, set(map(_QUEUE, jobs)))
        for queue, settings in concerned.items():
            places = [n for n, job in enumerate(jobs) if job.queue == queue]
            for n in places if has_defaults(settings) else ():
                jobs[n] = with_defaults(jobs[n], settings)
            if settings.lanes == 1:
                continue
            lanes = self._lanes(store, settings, [jobs[n].tenant for n in places])
            for n, lane in zip(places, lanes, strict=True):
                jobs[n] = jobs[n]._replace(lane=lane)

    def place(
        self, store: Store, outcomes: Sequence[Outcome], tenants: Callable[[], Mapping[str, str | None]]
    ) -> Sequence[Outcome]:
        """Return the outcomes, with lanes and default order keys for jobs that move to a queue and have none yet.

        `tenants()`: the tenants of the settled jobs, by id; called only if such a queue has lanes or order keys.
        """
        going_on = [outcome for outcome in outcomes if not isinstance(outcome, Commit) or outcome.jobs]
        queues = {job.queue for outcome in going_on for job in _going_on(outcome, None)}
        if not queues or not self._settings.of(store, queues):
            return outcomes
        of = tenants()
        moved = [job for outcome in outcomes for job in _going_on(outcome, of.get(outcome.lease.id))]
        self.assign(store, moved)
        placed = {job.id: job for job in moved}
        return [_placed(outcome, placed) for outcome in outcomes]

    def placed(self, store: Store, job: NewJob) -> NewJob:
        """Return one job that enters its queue, with its lane and order key."""
        jobs = [job]
        self.assign(store, jobs)
        return jobs[0]

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
        case Pass(then=then):
            return _going_on(then, tenant)
        case Move(lane=lane) if lane == UNLANED:
            return [NewJob(outcome.lease.id, outcome.queue, "", tenant=tenant, order_key=outcome.order_key)]
        case Continue(job=job) if job.lane == UNLANED:
            return [job]
        case Commit(jobs=jobs):
            return [job for job in jobs if job.lane == UNLANED]
    return []


def _placed(outcome: Outcome, placed: Mapping[str, NewJob]) -> Outcome:
    """Return an outcome whose jobs have the lanes and order keys of these, by their ids."""
    match outcome:
        case Pass(then=then):
            return outcome._replace(then=_end_placed(then, placed))
        case Extend() | Progress():
            return outcome
    return _end_placed(outcome, placed)


def _end_placed(outcome: OneStop, placed: Mapping[str, NewJob]) -> OneStop:

    def at(job: NewJob) -> NewJob:
        found = placed.get(job.id, job)
        return job._replace(lane=found.lane, order_key=found.order_key)

    match outcome:
        case Move() if outcome.lease.id in placed:
            job = placed[outcome.lease.id]
            return outcome._replace(lane=job.lane, order_key=job.order_key)
        case Continue(job=job):
            return outcome._replace(job=at(job))
        case Commit(jobs=jobs) if jobs:
            return outcome._replace(jobs=tuple(map(at, jobs)))
    return outcome
