"""Queues and workers as documents, whole jobs from store to store, and upkeep."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

from bson import ObjectId
from pymongo import ReturnDocument, UpdateOne
from pymongo.errors import BulkWriteError

from stanchion.stores.cas.mixins.jobs import Change
from stanchion.stores.mongo.client.documents import (
    FINISHED,
    FREE,
    GRACE_SECONDS,
    KEPT,
    LAST_MOMENT_MS,
    PLAIN,
    Document,
    document_of,
    entailing,
    expiry,
    unwanted,
    up_to,
)
from stanchion.stores.mongo.client.errors import duplicates
from stanchion.stores.mongo.client.place import Place
from stanchion.stores.mongo.client.server import BULK_SECONDS
from stanchion.stores.mongo.dropping import NO_USE
from stanchion.stores.mongo.jobs import settings_in
from stanchion.stores.mongo.purge import Purging
from stanchion.stores.records.jobs import JobRow, JobState
from stanchion.stores.records.queues import QueueSettings
from stanchion.stores.records.workers import Beat, WorkerRow
from stanchion.stores.rules.expiry import remove_expired
from stanchion.stores.rules.liveness import alive, beat_of
from stanchion.stores.rules.slots import gated
from stanchion.stores.rules.upkeep import MAINTAIN_SECONDS, Budget, purge_each

_GONE = 500
_FOLD_SECONDS = 5.0
_PURGED = 1000


class Operating(Purging):
    """What operators and maintenance do."""

    # -- queues

    def configure(self, queue: str, changes: Mapping[str, Any], tx: Any = None) -> QueueSettings:
        self._known.discard(queue)  # another process may have dropped it
        self.make_queues([queue])

        set_to = {name: value for name, value in changes.items() if name != "declared"}
        set_to |= {f"declared.{name}": value for name, value in changes.get("declared", {}).items()}

        def work(on: Place, _again: bool) -> QueueSettings:
            update: Document = {"$setOnInsert": {"folds": 0}, **({"$set": set_to} if set_to else {})}
            update |= {"$unset": NO_USE} if "expires" in changes else {}
            found: Any = on.queues.find_one_and_update(
                {"_id": queue}, update, upsert=True, return_document=ReturnDocument.AFTER
            )
            return settings_in(found)

        settings = self.server.call(work)
        if "history_ttl" in changes:
            self._keep_for(queue, settings.history_ttl)
        self.signals.announce([queue])
        return settings

    def _keep_for(self, queue: str, history_ttl: float) -> None:
        """Set anew when finished jobs expire: the TTL index goes by the date in the document."""
        last = min(int((history_ttl + GRACE_SECONDS) * 1000), LAST_MOMENT_MS)
        end: Document = {"$min": [{"$add": [{"$divide": ["$finished_at", 1000]}, last]}, LAST_MOMENT_MS]}
        update = [{"$set": {"expires_at": {"$toDate": {"$toLong": end}}}}]
        finished = {"queue": queue, **FINISHED, **PLAIN, **FREE}
        self.server.call(lambda on, _again: on.jobs.update_many(finished, update), BULK_SECONDS)

    def queues(self) -> list[QueueSettings]:
        return [settings_in(one) for one in self.server.call(lambda on, _again: list(on.queues.find().sort("_id", 1)))]

    # -- workers

    def beat(self, workers: Sequence[WorkerRow]) -> Beat:
        now = self.now()
        updates = [_seen(worker, now) for worker in workers]
        flagged = {"held_by": {"$in": [worker.id for worker in workers]}, "cancel_requested": True}

        def work(on: Place, _again: bool) -> list[str]:
            if updates:
                on.workers.bulk_write(updates, ordered=False)
            return [one["_id"] for one in on.jobs.find(flagged, {"_id": 1})]

        cancelled = self.server.call(work)
        return beat_of(workers, self.known_workers().values(), cancelled, now)

    def leave(self, worker: str) -> None:
        self.server.call(lambda on, _again: on.workers.delete_one({"_id": worker}))

    def workers(self) -> list[WorkerRow]:
        stages = {"$match": {"held_by": {"$exists": True}}}, {"$group": {"_id": "$held_by", "running": {"$sum": 1}}}
        found = self.server.call(lambda on, _again: on.documents(on.jobs, *stages))
        running = {one["_id"]: one["running"] for one in found}
        rows = sorted(self.known_workers().values(), key=lambda worker: (worker.started_at, worker.id))
        return [replace(worker, running=running.get(worker.id, 0)) for worker in rows]

    def suspects(self, workers: Mapping[str, WorkerRow], now: int, limit: int) -> Iterable[str]:
        dead = [name for name, worker in workers.items() if not alive(worker, now)]
        wanted: tuple[Document, ...] = (
            {"lease_until": up_to(now)},
            {"held_by": {"$in": dead}},
            {"held_by": {"$exists": True, "$nin": list(workers)}},
        )

        def work(on: Place, _again: bool) -> list[str]:
            return [one["_id"] for part in wanted for one in on.jobs.find(part, {"_id": 1}).limit(limit)]

        return self.server.call(work) if limit else []

    # -- from store to store

    def adopt(self, rows: Sequence[JobRow]) -> list[bool]:
        if not rows:
            return []
        queues = {row.queue for row in rows}
        self.make_queues(queues)
        settings, stamp = self.settings_of(queues), ObjectId()
        documents = [
            _adopted(row, settings[row.queue].history_ttl, stamp) for row in {row.id: row for row in rows}.values()
        ]

        def work(on: Place, _again: bool) -> set[str]:
            try:
                on.jobs.insert_many(documents, ordered=False)
            except BulkWriteError as error:
                refused = [documents[index]["_id"] for index in duplicates(error)]
                there = {one["_id"] for one in on.jobs.find({"_id": {"$in": refused}}, {"_id": 1})}
                return set(refused) - there
            return set()

        refused = self.server.call(work)
        self.signals.announce(queues)
        return [row.id not in refused for row in rows]

    def take(self, ids: Sequence[str]) -> list[str]:
        idle: Document = {"state": {"$ne": JobState.RUNNING.value}, **KEPT}
        wanted = {"_id": {"$in": list(dict.fromkeys(ids))}}
        before = self.some({**wanted, **idle}, len(ids))
        if before:
            self._uproot(before)
            self.forget(before, {"$or": [idle, {"gone": True}]})
        left = set(self.some(wanted, len(ids)))
        return [one for one in before if one not in left]

    def _uproot(self, ids: Sequence[str]) -> None:
        """Delete those of the jobs that have to do with gates, and free these; then do all their duties."""
        now, seen = self.look(ids)
        held = [
            one
            for one in seen.values()
            if gated(one.row) and one.row.finished_at is None and one.row.state != JobState.RUNNING
        ]
        # As members of a flow they have not ended: they go on elsewhere.
        rows = [one.row._replace(flow=None) for one in held]
        duties = [self.duty_of(row, None, None, None, now) for row in rows]
        self.delete_live([Change(one, one.row, None, duty) for one, duty in zip(held, duties, strict=True)], now)
        self.follow_up(self.duties_of(ids))

    # -- upkeep

    def maintain(self, seconds: float = MAINTAIN_SECONDS) -> list[str]:
        """Fold what happened into the counts, forget dead workers that hold nothing, purge what is kept no longer."""
        # What there is no time for is counted all the same, only not as quickly.
        self.fold_some(_FOLD_SECONDS)
        self.sweep()  # what is done late is known by what is left of jobs: it must not be forgotten before
        while gone := self.some({"gone": True, **FREE, **unwanted(self.now())}, _GONE):
            if not self.forget(gone, {"gone": True}):
                break
        self._forget_dead()
        self.forget_flows()
        self.forget_full()
        self.forget_stages()
        names = [settings.name for settings in self.queues()]
        behind = purge_each(lambda queue: self.purge(queue, limit=_PURGED), names, _PURGED, Budget(seconds))
        remove_expired(self)
        return behind

    def _forget_dead(self) -> None:
        now = self.now()
        late = {name: worker for name, worker in self.known_workers().items() if not alive(worker, now)}
        busy = {"held_by": {"$in": list(late)}}

        def work(on: Place, _again: bool) -> None:
            holders = set(on.jobs.distinct("held_by", busy))
            for name, worker in late.items():
                if name not in holders:
                    on.workers.delete_one({"_id": name, "last_seen_at": worker.last_seen_at})

        if late:
            self.server.call(work)


_NOT_STORED = frozenset({"id", "started_at", "running"})


def _seen(worker: WorkerRow, now: int) -> UpdateOne:
    """Return the update that records a heartbeat."""
    fields = {name: value for name, value in asdict(worker).items() if name not in _NOT_STORED}
    fields |= {"queues": list(worker.queues), "last_seen_at": now}
    return UpdateOne({"_id": worker.id}, {"$set": fields, "$setOnInsert": {"started_at": now}}, upsert=True)


def _adopted(row: JobRow, history_ttl: float, stamp: ObjectId) -> Document:
    """Return the document of a job of another store; no reservation of there holds here."""
    document = {**document_of(row), "version": 0, "stamp": stamp}
    if row.finished_at is not None and not entailing(row):
        document["expires_at"] = expiry(row.finished_at, history_ttl)
    return document
