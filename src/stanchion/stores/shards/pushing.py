"""Pushes to shards whose partitions may change their shard meanwhile.

1. of a partition that came from another shard: what that shard has already, by id or by key, is answered
2. each job is stored in the shard that the map names
3. a map that was proved afterwards says whether it belongs there; else it is brought to where it does
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from operator import attrgetter

from stanchion.core.ids import first_id_at
from stanchion.errors import StoreUnavailable
from stanchion.stores.hand_over import hand_over
from stanchion.stores.records import calls
from stanchion.stores.records.claims import Claim
from stanchion.stores.records.jobs import SECOND, JobRef, JobState, NewJob, Pushed
from stanchion.stores.rules.lifecycle.jobs import arriving
from stanchion.stores.rules.shard_map import ShardMap
from stanchion.stores.shards.fleet import Fleet
from stanchion.stores.shards.known_map import KnownMap
from stanchion.stores.shards.shard import Shard

_QUEUE = attrgetter("queue")
_CLOCKS = 60 * SECOND
"""Maximum microseconds between the clocks of a client and a shard."""
_LOOK_SECONDS = 0.05


class ShardPushes:
    """Stores new jobs, each in one shard."""

    def __init__(self, fleet: Fleet, known_map: KnownMap) -> None:
        self._fleet, self._known_map = fleet, known_map

    def push(self, jobs: Sequence[NewJob], claim: Claim | None, *, repeat: bool) -> list[Pushed]:
        """Store jobs. Each answer is from the shard to which the job belongs when this call returns."""
        shard_map = self._after_keys_moved(jobs, self._known_map.current())
        known = self._known_elsewhere(jobs, shard_map, repeat=repeat) if shard_map.moving or shard_map.former else {}
        # A shard that may refuse its part goes first: then no other one has stored its own.
        may_refuse = {shard_map.of(job.queue) for job in jobs if job.on_duplicate == "raise"}
        unknown = (place for place in range(len(jobs)) if place not in known)
        places = sorted(unknown, key=lambda place: shard_map.of(jobs[place].queue) not in may_refuse)
        new = [jobs[place] for place in places]
        claims_in = None if claim is None else self._fleet.of(claim.queue)

        def push(shard: Shard, some: list[NewJob]) -> list[Pushed]:
            return shard.ask(shard.store.push, some, claim=claim if shard is claims_in else None, repeat=repeat)

        pushed = self._fleet.each(new, _QUEUE, push, shard_map)
        self._bring(new, pushed, shard_map)
        answers = known | dict(zip(places, pushed, strict=True))
        return [answers[place] for place in range(len(jobs))]

    # -- before

    def _after_keys_moved(self, jobs: Sequence[NewJob], shard_map: ShardMap) -> ShardMap:
        """Wait while a partition of a job with a key is between two shards: either may have a job with the key."""
        deadline = time.monotonic() + calls.CALL_SECONDS
        while shard_map.moving:
            moves = ((job.queue, shard_map.moving.get(job.queue)) for job in jobs if job.key is not None)
            between = next((queue for queue, move in moves if move is not None and move.phase == "moved"), None)
            if between is None:
                break
            if time.monotonic() > deadline:
                raise StoreUnavailable(
                    f"{between!r} is between shard {shard_map.others(between)[0]!r} and {shard_map.of(between)!r}, "
                    f"where a key can't be checked, and its move has stopped: run `stanchion shards resume`"
                )
            time.sleep(_LOOK_SECONDS)
            shard_map = self._known_map.read()
        return shard_map

    def _known_elsewhere(self, jobs: Sequence[NewJob], shard_map: ShardMap, *, repeat: bool) -> dict[int, Pushed]:
        """Return the answers for jobs that another shard had before their partition moved, by their places."""
        by_id: defaultdict[str, list[int]] = defaultdict(list)
        by_key: defaultdict[str, list[int]] = defaultdict(list)
        untils = {queue: {one.shard: one.until for one in shards} for queue, shards in shard_map.former.items()}
        for place, job in enumerate(jobs):
            for name in shard_map.others(job.queue):
                until = untils.get(job.queue, {}).get(name)  # None: the partition is on its way
                if name == _to(shard_map, job.queue):
                    continue
                if repeat or until is None or job.id < first_id_at(until + _CLOCKS):
                    by_id[name].append(place)
                if job.key_ttl is not None and until is not None and _holds_until(until, job.key_ttl):
                    by_key[name].append(place)
        found: dict[int, Pushed] = {}
        for name, places in by_id.items():
            shard = self._fleet.named(name)
            rows = shard.ask(shard.store.fetch, [jobs[place].id for place in places])
            for place in places:
                if (row := rows.get(jobs[place].id)) is not None:
                    found[place] = Pushed(row.id, row.run_at, row.enqueued_at)
        for name, places in by_key.items():
            found |= self._held_keys(
                self._fleet.named(name), {place: jobs[place] for place in places if place not in found}
            )
        return found

    def _held_keys(self, shard: Shard, jobs: Mapping[int, NewJob]) -> dict[int, Pushed]:
        """Return the answers for jobs whose key a finished job of a shard still holds.

        Only a push finds such a job. If there is none, the new one is stored there, not delivered, and deleted.
        """
        if not jobs:
            return {}
        answers = shard.ask(shard.store.push, list(jobs.values()))
        held = {place: one for place, one in zip(jobs, answers, strict=True) if one.duplicate}
        shard.ask(shard.store.delete, [JobRef(job.id) for place, job in jobs.items() if place not in held])
        return held

    # -- after

    def _bring(self, jobs: Sequence[NewJob], pushed: list[Pushed], shard_map: ShardMap) -> None:
        """Bring jobs to where they belong by a map that was proved after they were stored; correct their answers."""
        queues = set(map(_QUEUE, jobs))
        while True:
            latest = self._known_map.proved(queues)
            gone = {queue for queue in queues if latest.of(queue) != shard_map.of(queue)}
            if not gone:
                return
            for queue in sorted(gone):
                places = [
                    place
                    for place, (job, one) in enumerate(zip(jobs, pushed, strict=True))
                    if job.queue == queue and not one.duplicate and one.token is None
                ]
                here, there = self._fleet.named(shard_map.of(queue)), self._fleet.named(latest.of(queue))
                for place, answer in self._handed({place: jobs[place] for place in places}, here, there).items():
                    pushed[place] = answer
            shard_map = latest

    def _handed(self, jobs: Mapping[int, NewJob], here: Shard, there: Shard) -> dict[int, Pushed]:
        """Move jobs that are still queued in a shard; return other answers for jobs whose key is taken now."""
        found = here.ask(here.store.fetch, [job.id for job in jobs.values()])
        now = here.ask(here.store.now)
        queued = (row for row in found.values() if row.finished_at is None and row.state != JobState.RUNNING)
        rows = [arriving(row, now) for row in queued]
        refused = set(hand_over(here.named, there.named, rows).refused)
        again = {place: job for place, job in jobs.items() if job.id in refused}
        if not again:
            return {}
        here.ask(here.store.delete, [JobRef(job.id) for job in again.values()])
        return dict(zip(again, there.ask(there.store.push, list(again.values())), strict=True))


def _to(shard_map: ShardMap, queue: str) -> str | None:
    """Return the shard to which a partition is moving."""
    move = shard_map.moving.get(queue)
    return None if move is None else move.to


def _holds_until(until: int, key_ttl: float) -> bool:
    """Return True if a job that ended before a time may still hold its key for so many seconds."""
    return time.time() * SECOND < until + key_ttl * SECOND + _CLOCKS
