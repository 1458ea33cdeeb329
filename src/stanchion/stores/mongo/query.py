"""Reading jobs."""

from __future__ import annotations

from collections.abc import Sequence

from stanchion.stores.cas.mixins.outbox import in_hand
from stanchion.stores.mongo.client.documents import KEPT, LETTER, Document, row_of
from stanchion.stores.mongo.client.place import Place
from stanchion.stores.mongo.jobs import MongoBase
from stanchion.stores.records.jobs import QUEUED, JobRow, JobState
from stanchion.stores.records.query import Find


class Looking(MongoBase):
    """Finds jobs."""

    def fetch(self, ids: Sequence[str]) -> dict[str, JobRow]:
        wanted = {"_id": {"$in": list(dict.fromkeys(ids))}, **KEPT}
        found = self.server.call(lambda on, _again: list(on.jobs.find(wanted))) if ids else []
        return {one["_id"]: in_hand(row_of(one)) for one in found}

    def find(self, query: Find) -> list[JobRow]:
        wanted = _condition(query, self.now())

        def work(on: Place, _again: bool) -> list[Document]:
            return list(on.jobs.find(wanted).sort("_id", -1).limit(query.limit))

        return [in_hand(row_of(one)) for one in self.server.call(work)] if query.limit else []


def _condition(query: Find, now: int) -> Document:
    """Return the filter of a search."""
    parts: list[Document] = [KEPT] + [
        {name: value}
        for name, value in (("queue", query.queue), ("task", query.task), ("tenant", query.tenant))
        if value is not None
    ]
    if query.flow is not None:
        parts.append({"flow": {"$gte": f"{query.flow}:", "$lt": f"{query.flow};"}})
    if query.after is not None:
        parts.append({"_id": {"$lt": query.after}})
    if query.since is not None:
        parts.append({"enqueued_at": {"$gte": query.since}})
    if query.until is not None:
        parts.append({"enqueued_at": {"$lt": query.until}})
    if query.text is not None:
        parts.append({"$or": [{"$expr": _holds(field, query.text)} for field in ("payload", "errors")]})
    if query.states:
        in_state = _stored_in if query.stored else _seen_in
        parts.append({"$or": [in_state(state, now) for state in query.states]})
        if not any(state.final for state in query.states):
            parts.append({"live": True})
    return {"$and": parts}


def _holds(field: str, text: str) -> Document:
    """Return the expression that a text is in a field; a regular expression would have a limit of its own."""
    return {"$gte": [{"$indexOfBytes": [f"${field}", {"$literal": text}]}, 0]}


def _seen_in(state: JobState, now: int) -> Document:
    """Return the filter for jobs in a state, as the outside sees it."""
    stored = _stored_in(state, now)
    if state is JobState.DEAD:
        return {"$or": [stored, LETTER]}
    return stored if state.final or state is JobState.RUNNING else {"$and": [stored, {"letter": None}]}


def _stored_in(state: JobState, now: int) -> Document:
    if state is JobState.SCHEDULED:
        return {"state": QUEUED, "run_at": {"$gt": now}}
    if state is JobState.READY:
        return {"state": QUEUED, "run_at": {"$lte": now}}
    return {"state": state.value}
