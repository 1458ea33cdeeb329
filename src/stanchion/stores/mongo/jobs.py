"""Jobs as documents: read, changed by compare-and-set, deleted; and the outbox within them."""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain
from operator import attrgetter

from bson import ObjectId
from pymongo import UpdateOne
from pymongo.errors import BulkWriteError

from stanchion.stores.cas.entries import STALE, Entry, is_stale
from stanchion.stores.cas.jobs import Change, Result, Results, Seen
from stanchion.stores.mongo.client.documents import KEPT, Document, difference, overdue, refuse_large, seen_in
from stanchion.stores.mongo.client.errors import duplicates
from stanchion.stores.mongo.client.place import Place
from stanchion.stores.mongo.client.queues import QueueDocuments
from stanchion.stores.mongo.client.server import Access
from stanchion.stores.mongo.wakeup import Announcer
from stanchion.stores.records.jobs import QUEUED, JobState
from stanchion.stores.records.queues import QueueSettings
from stanchion.stores.rules.capacity.shapes import needs
from stanchion.stores.rules.lifecycle.jobs import Transition

_PAGE = 200
_TOLD = attrgetter("told")


class _Noted(threading.local):
    stamps: list[ObjectId] | None = None


class Jobs:
    """Jobs, each changed by one update of its document, and their outbox entries.

    The update names the version that was read and includes the counter event, so it is applied once or not at all. The
    signal comes afterwards and may be lost with the process, which costs a poll.
    """

    def __init__(self, server: Access, queues: QueueDocuments, signals: Announcer) -> None:
        self._server, self._queues, self._signals = server, queues, signals
        self._noted = _Noted()

    def now(self) -> int:
        """Return the server's clock."""
        return self._server.now()

    def settings_of(self, queues: Iterable[str]) -> dict[str, QueueSettings]:
        """Return the settings of these queues; defaults for a queue that has none."""
        return self._queues.settings_of(queues)

    def read(self, ids: Sequence[str], queues: Sequence[str] | None = None) -> tuple[int, dict[str, Seen]]:
        """Return the server's clock, and the jobs that are live or in history, by id; see `cas.jobs.Jobs`."""
        within = {} if queues is None else {"queue": {"$in": list(dict.fromkeys(queues))}}
        wanted = {"_id": {"$in": list(dict.fromkeys(ids))}, **within, **KEPT}
        stages = {"$match": wanted}, {"$addFields": {"now": "$$NOW"}}
        found = self._server.call(lambda on, _again: on.documents(on.jobs, *stages)) if ids else []
        now = self._server.at(found[0]["now"]) if found else self.now()
        return now, {one["_id"]: seen_in(one, now) for one in found}

    def some(self, wanted: Document, limit: int) -> list[str]:
        """Return the ids of up to `limit` jobs that meet the filter."""

        def work(on: Place, _again: bool) -> list[str]:
            return [one["_id"] for one in on.jobs.find(wanted, {"_id": 1}).limit(limit)]

        return self._server.call(work) if limit else []

    # -- changes

    def compare_and_set(self, changes: Sequence[Change]) -> Results:
        """Apply each change whose job is unchanged; a finished job goes to history if its queue keeps one."""
        ended = {change.row.queue for change in changes if change.row.finished_at is not None}
        return self._write(changes, ended)

    def delete_live(self, changes: Sequence[Change], now: int) -> list[str]:
        """Delete live jobs but for their outbox entries; return the ids of those unchanged since they were read."""
        ended = JobState.CANCELLED.value
        gone = [change._replace(row=change.row._replace(state=ended, finished_at=now)) for change in changes]
        results = self._write(gone, set()).each if gone else []
        return [change.row.id for change, result in zip(gone, results, strict=True) if result is Result.DONE]

    def _write(self, changes: Sequence[Change], kept: set[str]) -> Results:
        """Apply changes; jobs that end in the queues `kept` go to history, of others only the id is left."""
        left = {change.seen.row.queue for change in changes if change.seen.row.state == JobState.RUNNING}
        settings = self.settings_of(left | kept)
        self._queues.make_for(change.row for change in changes if _comes(change))
        for queue, _, _ in chain.from_iterable(map(_TOLD, changes)):
            self._queues.make(queue)
        for change in changes:
            if change.row.payload != change.seen.row.payload:
                refuse_large(change.row)
        stamp = ObjectId()
        if self._noted.stamps is not None:
            self._noted.stamps.append(stamp)
        updates = [
            UpdateOne(
                {"_id": change.row.id, "queue": change.seen.row.queue, "version": change.seen.version},
                difference(change, stamp, settings[change.row.queue].history_ttl if change.row.queue in kept else 0),
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

        done, taken, again = self._server.call(work)
        self._tell([change for change in changes if change.row.id in done], settings)
        return Results([_result_of(one, done, taken) for one in ids], again)

    @contextmanager
    def noted(self) -> Iterator[list[ObjectId]]:
        """Note the stamps of the writes that this thread makes in the block, for `written_by` if one of them fails."""
        stamps: list[ObjectId] = []
        self._noted.stamps = stamps
        try:
            yield stamps
        finally:
            self._noted.stamps = None

    def written_by(self, stamps: Collection[ObjectId], ids: Collection[str]) -> set[str]:
        """Return the ids among these of jobs whose last write has one of these stamps."""
        wanted = {"_id": {"$in": list(ids)}, "stamp": {"$in": list(stamps)}}
        return set(self.some(wanted, len(ids)))

    def _tell(self, changes: Sequence[Change], settings: Mapping[str, QueueSettings]) -> None:
        """Announce queues with work, also those where a running place became free, and ended jobs."""
        queues = {change.row.queue for change in changes if change.row.state == QUEUED}
        for change in changes:
            was = change.seen.row
            if was.state == JobState.RUNNING and settings[was.queue].max_running is not None:
                queues.add(was.queue)
        ended = {change.row.id for change in changes if change.counted and _is_end(change)}
        self._signals.announce(queues, ended)

    # -- the outbox

    def entries(self, before: int) -> Iterator[Entry]:
        """Return the stale outbox entries."""
        last, stale = "", overdue("outbox.written_at", before + STALE, STALE)
        while page := self._with_entries({"_id": {"$gt": last}, **stale}):
            yield from (entry for job in page for entry in _entries_in(job) if is_stale(entry.written_at, before))
            last = page[-1]["_id"]

    def entries_of(self, jobs: Iterable[str]) -> list[Entry]:
        """Return the outbox entries of these jobs."""
        ids = sorted(jobs)
        pages = (ids[start : start + _PAGE] for start in range(0, len(ids), _PAGE))
        found = (self._with_entries({"_id": {"$in": page}, "outbox.key": {"$exists": True}}) for page in pages)
        return [entry for page in found for job in page for entry in _entries_in(job)]

    def delete_entries(self, entries: Sequence[Entry]) -> None:
        """Delete applied entries."""
        keys: dict[str, list[str]] = {}
        for entry in entries:
            keys.setdefault(entry.job, []).append(entry.key)
        writes = [
            UpdateOne({"_id": job}, {"$pull": {"outbox": {"key": {"$in": of_job}}}}) for job, of_job in keys.items()
        ]
        self._server.call(lambda on, _again: on.jobs.bulk_write(writes, ordered=False, session=on.session))

    def _with_entries(self, wanted: Document) -> list[Document]:
        def work(on: Place, _again: bool) -> list[Document]:
            return list(on.jobs.find(wanted, {"outbox": 1}).sort("_id", 1).limit(_PAGE))

        return self._server.call(work)


def _entries_in(job: Document) -> list[Entry]:
    return [Entry(one["key"], one["written_at"], one["queue"], job["_id"], one["text"]) for one in job["outbox"]]


def _comes(change: Change) -> bool:
    """Return True if this change gives a queue a job, or one that needs more of its shape."""
    before, after = change.seen.row, change.row
    return before.queue != after.queue or not needs(after) <= needs(before)


def _is_end(change: Change) -> bool:
    return Transition(change.row, change.counted or "").state(0).final


def _result_of(job_id: str, done: set[str], taken: set[str]) -> Result:
    if job_id in done:
        return Result.DONE
    return Result.KEY_TAKEN if job_id in taken else Result.CHANGED
