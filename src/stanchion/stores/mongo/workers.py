"""Workers as documents, and the running jobs of dead ones."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace

from pymongo import UpdateOne

from stanchion.stores.mongo.client.documents import Document, up_to
from stanchion.stores.mongo.client.place import Place
from stanchion.stores.mongo.client.server import Access
from stanchion.stores.records.workers import LEASES_SEARCHED_MAX, Beat, WorkerRow
from stanchion.stores.rules.leases.liveness import Leased, alive, beat_of, holders_of, orphaned_since
from stanchion.stores.rules.leases.serving import lanes_in
from stanchion.stores.rules.set_back import AHEAD
from stanchion.stores.rules.times import times_in, times_text

_FIELDS = ("host", "pid", "threads", "heartbeat", "state", "started_at", "last_seen_at")
_NOT_STORED = frozenset({"id", "started_at", "running"})


class Workers:
    """Records heartbeats, and finds live and dead workers."""

    def __init__(self, server: Access) -> None:
        self._server = server

    def beat(self, workers: Sequence[WorkerRow]) -> Beat:
        """Record that these workers are alive; return the number of live workers, and the callers' jobs to cancel."""
        now = self._server.now()
        updates = [_seen(worker, now) for worker in workers]
        flagged = {"held_by": {"$in": [worker.id for worker in workers]}, "cancel_requested": True}

        def work(on: Place, _again: bool) -> list[str]:
            if updates:
                on.workers.bulk_write(updates, ordered=False)
            return [one["_id"] for one in on.jobs.find(flagged, {"_id": 1})]

        cancelled = self._server.call(work)
        return beat_of(workers, self.known_workers().values(), cancelled, now)

    def leave(self, worker: str) -> None:
        """Forget a worker that holds no jobs any more."""
        self._server.call(lambda on, _again: on.workers.delete_one({"_id": worker}))

    def workers(self, *, holders: bool = False) -> list[WorkerRow]:
        """Return all known workers, the oldest first, with their numbers of running jobs; then holders of leases."""
        stages = {"$match": {"held_by": {"$exists": True}}}, {"$group": {"_id": "$held_by", "running": {"$sum": 1}}}
        found = self._server.call(lambda on, _again: on.documents(on.jobs, *stages))
        running = {one["_id"]: one["running"] for one in found}
        rows = sorted(self._known({}).values(), key=lambda worker: (worker.started_at, worker.id))
        known = [replace(worker, running=running.get(worker.id, 0)) for worker in rows]
        return known + holders_of(self._leased()) if holders else known

    def _leased(self) -> Iterator[Leased]:
        """Yield the jobs that are held by leases under a name, by queue."""
        leased: Document = {"$match": {"lease_until": {"$exists": True}}}
        stages = (
            leased,
            {"$sort": {"lease_until": 1}},
            {"$limit": LEASES_SEARCHED_MAX},
            {"$match": {"worker": {"$exists": True}}},
        )
        by = {"_id": {"worker": "$worker", "queue": "$queue"}, "jobs": {"$sum": 1}}
        by |= {"first": {"$min": "$started_at"}, "last": {"$max": "$started_at"}}
        for one in self._server.call(lambda on, _again: on.documents(on.jobs, *stages, {"$group": by})):
            yield Leased(one["_id"]["worker"], one["_id"]["queue"], one["jobs"], one["first"], one["last"])

    def known_workers(self) -> dict[str, WorkerRow]:
        """Return all workers that have a document, without their numbers of running jobs and their times."""
        return self._known({"times": False})

    def _known(self, fields: Document) -> dict[str, WorkerRow]:
        found = self._server.call(lambda on, _again: list(on.workers.find({}, fields)))
        return {one["_id"]: _worker_of(one) for one in found}

    def seen_now(self, workers: Sequence[WorkerRow]) -> None:
        """Record a heartbeat of these workers, in the same state."""
        now = self._server.now()
        for worker in workers:
            seen = {"_id": worker.id, "last_seen_at": {"$gt": now}}
            self._server.call(lambda on, _again: on.workers.update_one(seen, {"$set": {"last_seen_at": now}}))  # noqa: B023

    def leased(self, now: int) -> list[str]:
        """Return the ids of running jobs whose lease is from the future, up to LEASES_SEARCHED_MAX."""
        wanted: Document = {"lease_until": {"$gt": now}, "started_at": {"$gt": now + AHEAD}}
        found = self._server.call(lambda on, _again: list(on.jobs.find(wanted, {"_id": 1}).limit(LEASES_SEARCHED_MAX)))
        return [one["_id"] for one in found]

    def suspects(self, workers: Mapping[str, WorkerRow], now: int, limit: int) -> Iterable[str]:
        """Return the ids of running jobs whose holder may be gone; false positives are harmless."""
        dead = [name for name, worker in workers.items() if not alive(worker, now)]
        wanted: list[Document] = [{"lease_until": up_to(now)}, {"held_by": {"$in": dead}}]
        if (since := orphaned_since(workers.values(), now)) is not None:
            wanted.append({"held_by": {"$exists": True, "$nin": list(workers)}, "started_at": up_to(since)})

        def work(on: Place, _again: bool) -> list[str]:
            return [one["_id"] for part in wanted for one in on.jobs.find(part, {"_id": 1}).limit(limit)]

        return self._server.call(work) if limit else []

    def forget_dead(self) -> None:
        """Forget dead workers without jobs."""
        now = self._server.now()
        late = {name: worker for name, worker in self.known_workers().items() if not alive(worker, now)}
        busy = {"held_by": {"$in": list(late)}}

        def work(on: Place, _again: bool) -> None:
            holders = set(on.jobs.distinct("held_by", busy))
            for name, worker in late.items():
                if name not in holders:
                    on.workers.delete_one({"_id": name, "last_seen_at": worker.last_seen_at})

        if late:
            self._server.call(work)


def _seen(worker: WorkerRow, now: int) -> UpdateOne:
    """Return the update that records a heartbeat."""
    fields = {name: value for name, value in asdict(worker).items() if name not in _NOT_STORED}
    fields |= {"queues": list(worker.queues), "lanes": list(map(list, worker.lanes)), "last_seen_at": now}
    fields |= {"times": times_text(worker.times)}
    return UpdateOne({"_id": worker.id}, {"$set": fields, "$setOnInsert": {"started_at": now}}, upsert=True)


def _worker_of(document: Document) -> WorkerRow:
    fields = {name: document[name] for name in _FIELDS}
    began = document.get("began")
    return WorkerRow(
        id=document["_id"],
        queues=tuple(document["queues"]),
        began=None if began is None else tuple(began),
        lanes=lanes_in(document.get("lanes")),
        order=document.get("order"),
        times=times_in(document.get("times")),
        **fields,
    )
