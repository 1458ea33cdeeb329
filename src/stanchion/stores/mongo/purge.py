"""Finished jobs deleted from history, once what happened to them is counted.

A portion takes these steps, one command each:

    (1) the counts of the queue are read
    (2) the next jobs are, with their events
    (3) the counts change, and list the events that they now hold, in one update
    (4) the jobs are deleted that are still as they were seen
    (5) the list is removed

After a death past (3) the next fold removes the listed events from the jobs that are left, and the next purge deletes
these. Where all events were counted before there is no (3) and (5). A job that went through several queues, or one that
might be stored again, leaves by more steps.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from stanchion.stores.mongo.client.documents import FINISHED, FREE, Document, is_wanted_once, up_to, wanted_once
from stanchion.stores.mongo.client.place import Place
from stanchion.stores.mongo.counting import Folded, begin_fold, end_fold, to_fold
from stanchion.stores.mongo.dropping import Dropping
from stanchion.stores.records.jobs import SECOND

_PORTION = 500


class Purging(Dropping):
    """Deletes what history keeps no longer."""

    def purge(self, queue: str, older_than: float | None = None, limit: int = 500) -> int:
        age = self.settings_of([queue])[queue].history_ttl if older_than is None else older_than
        now = self.now()
        ended: Document = {**FINISHED, "finished_at": up_to(now - int(age * SECOND))}
        such = {"queue": queue, **ended, **FREE}
        tried: set[str] = set()
        others: list[str] = []
        deleted, lost = 0, False

        def some(on: Place, again: bool, alone: bool) -> Folded:
            nonlocal deleted, lost
            lost = lost or again
            most = min(_PORTION, limit - len(tried) - len(others))
            if not most:
                return Folded.ALL
            found = to_fold(on, queue, alone)
            if isinstance(found, Folded):
                return found
            jobs = list(
                on.jobs.find(
                    {**such, **({"_id": {"$nin": others}} if others else {})}, _SEEN, batch_size=most + 1
                ).limit(most)
            )
            plain = [job for job in jobs if _is_plain(job, queue, now)]
            told = [job for job in plain if job.get("events")]
            folding = begin_fold(on, found, told) if told else None
            if told and folding is None:
                return Folded.BY_ANOTHER
            tried.update(job["_id"] for job in plain)
            others.extend(job["_id"] for job in jobs if job["_id"] not in tried)
            gone = _delete(on, plain, such)
            deleted += gone
            if folding is not None:
                end_fold(on, folding if gone < len(plain) else {**folding, "folding": []})
            return Folded.SOME if len(jobs) == most else Folded.ALL

        self.fold_by(some)
        if lost:
            wanted = {"_id": {"$in": list(tried)}}
            deleted = len(tried) - self.server.call(lambda on, _again: on.jobs.count_documents(wanted))
        # Asked again as they are deleted: one of them may have been retried meanwhile.
        return deleted + (self._hide(others, ended, now) + self.forget(others, ended) if others else 0)

    def _hide(self, ids: Sequence[str], ended: Document, now: int) -> int:
        """Leave no more than their ids of those jobs that might be stored again; return how many they were."""
        such = {"_id": {"$in": list(ids)}, **ended, **FREE, **wanted_once(now)}
        content = dict.fromkeys(("payload", "headers", "errors", "result"), "")
        hidden = {"$set": {"gone": True}, "$unset": content, "$inc": {"version": 1}}
        return self.server.call(lambda on, _again: on.jobs.update_many(such, hidden).matched_count)


_SEEN = {"version": 1, "once": 1, "events.id": 1, "events.queue": 1, "events.what": 1}


def _is_plain(job: Document, queue: str, now: int) -> bool:
    """Tell whether a job may be deleted with its events: they are of this queue, and it is not stored again."""
    return all(event["queue"] == queue for event in job.get("events", ())) and not is_wanted_once(job, now)


def _delete(on: Place, jobs: Sequence[Document], such: Document) -> int:
    """Delete jobs that have not changed since they were seen; return how many."""
    versions: defaultdict[int, list[str]] = defaultdict(list)
    for job in jobs:
        versions[job["version"]].append(job["_id"])
    wanted = ({**such, "_id": {"$in": ids}, "version": version} for version, ids in versions.items())
    return sum(on.jobs.delete_many(one).deleted_count for one in wanted)
