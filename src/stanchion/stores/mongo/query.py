"""Reading jobs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from stanchion.stores.cas.entries import as_reserved
from stanchion.stores.mongo.client.documents import FINISHED, KEPT, LETTER, Document, row_of
from stanchion.stores.mongo.client.place import Place
from stanchion.stores.mongo.client.server import BULK_SECONDS, Access
from stanchion.stores.records.jobs import QUEUED, JobRow, JobState
from stanchion.stores.records.query import Condition, Find, Scan
from stanchion.stores.rules.query import PAGE, checked, cut
from stanchion.stores.rules.slots import HOLDER_BOOST

_OPERATORS = {"=": "$eq", "<": "$lt", "<=": "$lte", ">": "$gt", ">=": "$gte", "in": "$in"}


class Query:
    """Finds jobs."""

    def __init__(self, server: Access) -> None:
        self._server = server

    def fetch(self, ids: Sequence[str]) -> dict[str, JobRow]:
        """Return those of the jobs that are live or in history."""
        wanted = {"_id": {"$in": list(dict.fromkeys(ids))}, **KEPT}
        found = self._server.call(lambda on, _again: list(on.jobs.find(wanted))) if ids else []
        return {one["_id"]: as_reserved(row_of(one)) for one in found}

    def find(self, query: Find) -> list[JobRow]:
        """Search live jobs and history, newest id first."""
        wanted = _found_by(query, self._server.now())

        def work(on: Place, _again: bool) -> list[Document]:
            return list(on.jobs.find(wanted).sort("_id", -1).limit(query.limit))

        return [as_reserved(row_of(one)) for one in self._server.call(work)] if query.limit else []

    # -- scans

    def scan(self, scan: Scan) -> Iterator[list[JobRow]]:
        """Give the jobs of a scan in the order of their ids, each page by a call of its own."""
        wanted = _filter(checked(scan), self._server.now())
        after: str | None = None
        while True:
            page = wanted if after is None else {"$and": [wanted, {"_id": {"$gt": after}}]}

            def work(on: Place, _again: bool, page: Document = page) -> list[Document]:
                return list(on.jobs.find(page).sort("_id", 1).limit(PAGE))

            rows = [as_reserved(row_of(one)) for one in self._server.call(work, BULK_SECONDS)]
            if rows:
                yield rows
            if len(rows) < PAGE:
                return
            after = rows[-1].id

    def split(self, scan: Scan, parts: int) -> list[Scan]:
        """Cut a scan into up to `parts` scans that share no job and give about as many each."""
        stages = (
            {"$match": _filter(checked(scan), self._server.now())},
            {"$project": {"_id": 1}},
            {"$bucketAuto": {"groupBy": "$_id", "buckets": parts}},
        )
        found = self._server.call(lambda on, _again: on.documents(on.jobs, *stages), BULK_SECONDS) if parts > 1 else []
        return cut(scan, (one["_id"]["min"] for one in found)) if found else [scan]


def _found_by(query: Find, now: int) -> Document:
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


def _filter(scan: Scan, now: int) -> Document:
    kept: Document = {"live": True, **KEPT} if scan.of == "jobs" else FINISHED
    return {"$and": [kept, *(_meets(condition, now) for condition in scan.where)]}


def _meets(condition: Condition, now: int) -> Document:
    field, op, value = condition
    operator, other = _OPERATORS[op], list(value) if op == "in" else value
    if field in ("state", "priority"):  # which are others outside than in the document
        return {"$expr": {operator: [_shown_state(now) if field == "state" else _OWN_PRIORITY, other]}}
    return {"_id" if field == "id" else field: {operator: other}}


_OWN_PRIORITY: Document = {
    "$cond": [
        {"$gt": ["$priority", HOLDER_BOOST // 2]},
        {"$subtract": ["$priority", HOLDER_BOOST]},
        "$priority",
    ]
}


def _shown_state(now: int) -> Document:
    due = {"$cond": [{"$lte": ["$run_at", now]}, JobState.READY.value, JobState.SCHEDULED.value]}
    stored = {"$cond": [{"$eq": ["$state", QUEUED]}, due, "$state"]}
    in_queue = {"$in": ["$state", [QUEUED, JobState.WAITING.value]]}
    return {"$cond": [{"$and": [{"$eq": ["$letter", True]}, in_queue]}, JobState.DEAD.value, stored]}
