"""Deletion of jobs; their events are counted and their outbox entries applied first."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from stanchion.stores.cas.entries import FollowUp, entry_of
from stanchion.stores.cas.jobs import Change
from stanchion.stores.mongo.client.documents import (
    COUNTED,
    FREE,
    KEPT,
    Document,
    is_wanted_once,
    unwanted,
    wanted_once,
)
from stanchion.stores.mongo.client.place import Place
from stanchion.stores.mongo.client.server import Access
from stanchion.stores.mongo.jobs import Jobs
from stanchion.stores.mongo.queues import Counters
from stanchion.stores.records.jobs import JobRef, JobState
from stanchion.stores.rules.capacity.slots import uses_slots

_GONE_AT_ONCE = 500
_CONTENT = ("payload", "headers", "errors", "result")


class Deletion:
    """Deletes jobs; the id of a job that may be stored again stays until that is ruled out."""

    def __init__(self, server: Access, jobs: Jobs, counters: Counters, follow_up: FollowUp) -> None:
        self._server, self._jobs = server, jobs
        self._counters, self._follow_up = counters, follow_up

    def delete(self, refs: Sequence[JobRef]) -> list[bool]:
        """Delete jobs that are unchanged since they were read, finished or queued; return which. Nothing is counted."""
        queued = {ref for ref in refs if ref.finished_at is None}
        deleted = self._delete_queued({ref.id for ref in queued}) | self._delete_ended(set(refs) - queued)
        return [ref in deleted for ref in refs]

    def _delete_queued(self, ids: Collection[str]) -> set[JobRef]:
        idle: Document = {"live": True, "state": {"$ne": JobState.RUNNING.value}}
        found = self._jobs.some({"_id": {"$in": list(ids)}, **idle}, len(ids))
        if not found:
            return set()
        deleted = self._detach(found)
        self.forget(found, {"$or": [idle, {"gone": True}]})
        left = self._jobs.some({"_id": {"$in": found}}, len(found))
        return {JobRef(one) for one in deleted.union(set(found).difference(left))}

    def _detach(self, ids: Sequence[str]) -> set[str]:
        """Delete the queued jobs that use slots, and return their ids; then apply their outbox entries."""
        now, seen = self._jobs.read(ids)
        held = [
            one
            for one in seen.values()
            if uses_slots(one.row) and one.row.finished_at is None and one.row.state != JobState.RUNNING
        ]
        # As members of a flow they have not ended: they continue in another store.
        rows = [one.row._replace(flow_node=None) for one in held]
        entries = [entry_of(row, None, None, None, now) for row in rows]
        changes = [Change(one, one.row, None, entry) for one, entry in zip(held, entries, strict=True)]
        deleted = self._jobs.delete_live(changes, now)
        self._follow_up(self._jobs.entries_of(ids))
        return set(deleted)

    def _delete_ended(self, refs: Collection[JobRef]) -> set[JobRef]:
        if not refs:
            return set()
        ended: Document = {"$or": [{"_id": ref.id, "finished_at": ref.finished_at} for ref in refs], **KEPT}
        fields = {"finished_at": 1, "once": 1, "outbox.key": 1}
        found = self._server.call(lambda on, _again: list(on.jobs.find(ended, fields)))
        ids, now = [one["_id"] for one in found], self._server.now()
        if with_entries := [one["_id"] for one in found if one.get("outbox")]:
            self._follow_up(self._jobs.entries_of(with_entries))
        once = any(is_wanted_once(one, now) for one in found)
        gone = self.hide_and_forget(ids, ended, now) if once else self.forget(ids, ended) if found else 0
        left: set[str] = set()
        if gone < len(found):
            left = set(self._jobs.some({"_id": {"$in": ids}, **KEPT}, len(ids)))
        return {JobRef(one["_id"], one["finished_at"]) for one in found if one["_id"] not in left}

    def hide_and_forget(self, ids: Sequence[str], ended: Document, now: int) -> int:
        """Delete the finished jobs that meet the filter `ended`; return their number.

        Of jobs that might be stored again, the id stays.
        """
        such = {"_id": {"$in": list(ids)}, **ended, **FREE, **wanted_once(now)}
        hidden = {"$set": {"gone": True}, "$unset": dict.fromkeys(_CONTENT, ""), "$inc": {"version": 1}}
        gone = self._server.call(lambda on, _again: on.jobs.update_many(such, hidden).matched_count)
        return gone + self.forget(ids, ended)

    def forget(self, ids: Sequence[str], also: Document) -> int:
        """Delete the jobs that meet the filter `also`, once their events are counted; return their number.

        Jobs with outbox entries stay.
        """
        wanted = {"_id": {"$in": list(ids)}}
        self._counters.fold(self._server.call(lambda on, _again: on.jobs.distinct("events.queue", wanted)), wanted)
        gone = {**wanted, **also, **COUNTED, **FREE}

        def work(on: Place, again: bool) -> int:
            deleted = on.jobs.delete_many(gone).deleted_count
            return len(ids) - on.jobs.count_documents(wanted) if again else deleted

        return self._server.call(work)

    def forget_gone(self) -> None:
        """Delete the remainders of deleted jobs whose ids are not needed any more."""
        while gone := self._jobs.some({"gone": True, **FREE, **unwanted(self._server.now())}, _GONE_AT_ONCE):
            if not self.forget(gone, {"gone": True}):
                break
