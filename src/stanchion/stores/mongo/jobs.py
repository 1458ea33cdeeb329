"""What every part of the MongoDB store works with: jobs seen and swapped, queues, what is counted and signalled."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, Self

from bson import ObjectId
from pymongo import UpdateOne
from pymongo.errors import BulkWriteError, DuplicateKeyError

from stanchion.stores.cas.mixins.jobs import Change, Duty, Seen, Swap, Swapped
from stanchion.stores.cas.mixins.staging import Publishing
from stanchion.stores.mongo.client.documents import KEPT, Document, difference, refuse_large, row_of
from stanchion.stores.mongo.client.errors import duplicates
from stanchion.stores.mongo.client.joining import join
from stanchion.stores.mongo.client.place import Place
from stanchion.stores.mongo.client.server import Access, Server
from stanchion.stores.mongo.values import Values
from stanchion.stores.mongo.wakeup import Announcer, Signals
from stanchion.stores.records.jobs import QUEUED, JobState
from stanchion.stores.records.queues import QueueSettings
from stanchion.stores.records.workers import WorkerRow
from stanchion.stores.rules.jobs import Transition

WORKER_FIELDS = ("host", "pid", "threads", "heartbeat", "state", "started_at", "last_seen_at")
ARMS = 40
"""So many aggregations go into one command."""
_SETTINGS = tuple(QueueSettings.__dataclass_fields__)[1:]

Stages = list[Document]


class MongoBase(Publishing):
    """Reads and writes that several parts share.

    A job is changed by one update of its document, which names the version that was seen and counts what it does:
    done or not done, and never twice. What follows it, the signal, may be lost with the process: it costs a poll.
    """

    def __init__(self, server: Server) -> None:
        self.server: Access = server
        self.tail = Signals(server)
        self.signals: Announcer = self.tail
        self._values = Values(server)
        self._known: set[str] = set()
        self._after_commit: set[str] | None = None

    def inside(self, tx: Any) -> Self:
        """Return this store as part of the caller's transaction."""
        joined = copy.copy(self)
        joined.server = join(self.server.outside, tx)
        held_back = self.tail.after(tx)
        joined.signals, joined._after_commit = held_back, held_back.jobs
        return joined

    def now(self) -> int:
        return self.server.outside.now()

    # -- jobs

    def look(self, ids: Sequence[str]) -> tuple[int, dict[str, Seen]]:
        stages = {"$match": {"_id": {"$in": list(dict.fromkeys(ids))}, **KEPT}}, {"$addFields": {"now": "$$NOW"}}
        found = self.server.call(lambda on, _again: on.documents(on.jobs, *stages)) if ids else []
        now = self.server.at(found[0]["now"]) if found else self.now()
        return now, {one["_id"]: seen_in(one) for one in found}

    def across(self, arms: Sequence[list[Document]]) -> Iterator[Document]:
        """Yield the jobs that these aggregations find, many of them in one command."""
        for start in range(0, len(arms), ARMS):
            first, *rest = arms[start : start + ARMS]

            def work(on: Place, _again: bool, first: Stages = first, rest: list[Stages] = rest) -> list[Document]:
                others = ({"$unionWith": {"coll": on.jobs.name, "pipeline": one}} for one in rest)
                return on.documents(on.jobs, *first, *others)

            yield from self.server.call(work)

    def follow_up(self, duties: Sequence[Duty]) -> None:
        # In a transaction they are only noted, and forgotten with it. What would be done within it, and there be in the
        # way of all others, is done after its commit: where that is ours by us, else by the next sweep.
        if self._after_commit is None:
            super().follow_up(duties)
        else:
            self._after_commit.update(duty.job for duty in duties)

    def swap(self, changes: Sequence[Change], *, deleted: bool = False) -> Swapped:
        """Make changes; those to jobs that are `deleted` leave nothing to be seen of them."""
        ended = [] if deleted else [change.row.queue for change in changes if change.row.finished_at is not None]
        left = {change.seen.row.queue for change in changes if change.seen.row.state == JobState.RUNNING}
        settings = self.settings_of(left.union(ended))
        self.make_queues({change.row.queue for change in changes if change.row.queue != change.seen.row.queue})
        for change in changes:
            if change.row.payload != change.seen.row.payload:
                refuse_large(change.row)
        stamp = ObjectId()
        updates = [
            UpdateOne(
                {"_id": change.row.id, "version": change.seen.version},
                difference(
                    change,
                    stamp,
                    settings[change.row.queue].history_ttl if change.row.queue in settings and not deleted else 0,
                ),
            )
            for change in changes
        ]
        ids = [change.row.id for change in changes]

        def work(on: Place, again: bool) -> tuple[set[str], set[str], bool]:
            taken: set[int] = set()
            try:
                matched = on.jobs.bulk_write(updates, ordered=False, session=on.session).matched_count
            except BulkWriteError as error:
                taken, matched = duplicates(error), error.details["nMatched"]
            refused = {ids[index] for index in taken}
            tried = [one for one in ids if one not in refused]
            if matched == len(tried):
                return set(tried), refused, again
            mine = on.jobs.find({"_id": {"$in": tried}, "stamp": stamp}, {"_id": 1}, session=on.session)
            return {one["_id"] for one in mine}, refused, again

        done, taken, again = self.server.call(work)
        self._tell([change for change in changes if change.row.id in done], settings)
        return Swapped([_swap_of(one, done, taken) for one in ids], again)

    def _tell(self, changes: Sequence[Change], settings: Mapping[str, QueueSettings]) -> None:
        """Announce what has work now, which includes queues where a place is free, and which jobs have ended."""
        queues = {change.row.queue for change in changes if change.row.state == QUEUED}
        for change in changes:
            was = change.seen.row
            if was.state == JobState.RUNNING and settings[was.queue].max_running is not None:
                queues.add(was.queue)
        ended = {change.row.id for change in changes if change.counted and _is_end(change)}
        self.signals.announce(queues, ended)

    # -- queues

    def make_queues(self, queues: Iterable[str]) -> None:
        """Make sure that these queues have their documents."""

        def work(on: Place, _again: bool) -> None:
            for queue in new:
                make_queue(on, queue)

        new = sorted(set(queues) - self._known)
        if new:
            self.server.outside.call(work)
            self._known.update(new)

    def settings_of(self, queues: Iterable[str]) -> dict[str, QueueSettings]:
        names = list(queues)
        wanted = {"_id": {"$in": names}}
        found = self.server.call(lambda on, _again: list(on.queues.find(wanted, session=on.session))) if names else []
        return {queue: QueueSettings(queue) for queue in names} | {one["_id"]: settings_in(one) for one in found}

    # -- workers

    def known_workers(self) -> dict[str, WorkerRow]:
        found = self.server.call(lambda on, _again: list(on.workers.find()))
        return {one["_id"]: worker_of(one) for one in found}


def seen_in(document: Document) -> Seen:
    """Return the job of a document, and its version."""
    return Seen(row_of(document), document["version"])


def make_queue(on: Place, queue: str) -> None:
    """Make the document of a queue unless it is there."""
    with suppress(DuplicateKeyError):  # another upsert came first
        on.queues.update_one({"_id": queue}, {"$setOnInsert": {"folds": 0}}, upsert=True)


def settings_in(document: Mapping[str, Any]) -> QueueSettings:
    """Return the settings in the document of a queue."""
    return QueueSettings(document["_id"], **{name: document[name] for name in _SETTINGS if name in document})


def worker_of(document: Document) -> WorkerRow:
    """Return the worker of a document."""
    fields = {name: document[name] for name in WORKER_FIELDS}
    began = document.get("began")
    return WorkerRow(
        id=document["_id"],
        queues=tuple(document["queues"]),
        began=None if began is None else tuple(began),
        **fields,
    )


def _is_end(change: Change) -> bool:
    return Transition(change.row, change.counted or "").state(0).final


def _swap_of(job_id: str, done: set[str], taken: set[str]) -> Swap:
    if job_id in done:
        return Swap.DONE
    return Swap.KEY_TAKEN if job_id in taken else Swap.CHANGED
