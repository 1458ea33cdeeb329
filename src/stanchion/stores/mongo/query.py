"""Reading jobs."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from stanchion.stores.cas.entries import as_reserved, key_of
from stanchion.stores.mongo.client.documents import FINISHED, KEPT, LETTER, NO_LETTER, Document, row_of
from stanchion.stores.mongo.client.place import Place
from stanchion.stores.mongo.client.server import BULK_SECONDS, Access
from stanchion.stores.records import calls
from stanchion.stores.records.jobs import QUEUED, JobRow, JobState
from stanchion.stores.records.query import Condition, Horizon, Of, Page, Query
from stanchion.stores.records.slots import Slot
from stanchion.stores.rules.lifecycle.trail import entry_in_trail
from stanchion.stores.rules.query import (
    ORDERED,
    behind,
    checked,
    cut,
    cut_off,
    states_in,
    value_of,
)

_OPERATORS = {"=": "$eq", "<": "$lt", "<=": "$lte", ">": "$gt", ">=": "$gte", "in": "$in"}


class Queries:
    """Reads jobs, and changes nothing. `holders` returns the ids of the jobs that hold a slot."""

    def __init__(self, server: Access, holders: Callable[[Slot], list[str]]) -> None:
        self._server, self._holders = server, holders

    def fetch(self, ids: Sequence[str]) -> dict[str, JobRow]:
        """Return the jobs that are live or in history, by id."""
        wanted = {"_id": {"$in": list(dict.fromkeys(ids))}, **KEPT}
        found = self._server.call(lambda on, _again: list(on.jobs.find(wanted))) if ids else []
        return {one["_id"]: as_reserved(row_of(one, whole=True)) for one in found}

    def select(self, query: Query) -> Page:
        """Return a page of the jobs that meet the conditions."""
        wanted = {"$and": [*self._met(checked(query)), *_behind(query)]}
        sort = _SORTS.get(query.order) or [(name, 1) for name in map(_named, ORDERED[query.order])]
        # The slots of a running job are stored with the slots; `as_reserved` derives them from other columns. The slot
        # that a job waits for is one field.
        whole = not query.columns or not _TOLD_BY_OTHERS.isdisjoint(query.columns)
        fields = None if whole else dict.fromkeys(map(_named, (*query.columns, *ORDERED[query.order])), 1)

        horizon = Horizon(self._server.now()) if query.horizon else None

        def work(on: Place, _again: bool) -> list[Document]:
            return list(on.jobs.find(wanted, fields).sort(sort).limit(query.limit))

        walks = query.order == "id" and value_of(query, "token") is None
        found = self._server.call(work, BULK_SECONDS if walks else calls.CALL_SECONDS)
        return cut_off([as_reserved(row_of(one, whole=whole)) for one in found], query)._replace(horizon=horizon)

    def partition(self, query: Query, parts: int) -> list[Query]:
        """Split a query into up to `parts` disjoint queries of about equal size."""
        stages = (
            {"$match": {"$and": self._met(checked(query))}},
            {"$project": {"_id": 1}},
            {"$bucketAuto": {"groupBy": "$_id", "buckets": parts}},
        )
        found = self._server.call(lambda on, _again: on.documents(on.jobs, *stages), BULK_SECONDS) if parts > 1 else []
        return cut(query, (one["_id"]["min"] for one in found)) if found else [query]

    def _met(self, query: Query) -> list[Document]:
        """Return the filters for all conditions of a query."""
        states, now = states_in(query), self._server.now()
        parts = [_KEPT[query.of], *(self._filter(one, now) for one in query.where if one.field != "state")]
        if states is not None:
            seen = [_seen_in(state, query.of, now) for state in sorted(states)] or [_NONE]
            parts.append(seen[0] if len(seen) == 1 else {"$or": seen})
        if query.order == "due":
            parts.append({"state": QUEUED})
        if query.text is not None:
            parts.append({"$or": [{"$expr": _holds(field, query.text)} for field in ("payload", "errors")]})
        return parts

    def _filter(self, condition: Condition, now: int) -> Document:
        field, op, value = condition
        match field:
            case "token":
                in_force = {"$or": [{"lease_until": None}, {"lease_until": {"$gt": now}}]}
                return {"token": value, "$or": [{**_RESERVED, **in_force}, FINISHED]}
            case "holds":
                return {"live": True, "_id": {"$in": self._holders(value)}}
            case "passed":
                stopped = {"$expr": _holds("trail", entry_in_trail(value))}
                return {"$or": [{"queue": value}, {"trail": {"$exists": True}, **stopped}]}
            case "waits_for":
                return {"waits_for": key_of(value)}
            case "rank":
                return {"live": True, "rank": {_OPERATORS[op]: list(value) if op == "in" else value}}
        return {_named(field): {_OPERATORS[op]: list(value) if op == "in" else value}}


_KEPT: dict[Of, Document] = {"live": {"live": True, **KEPT}, "history": FINISHED, "all": KEPT}
_NONE: Document = {"_id": {"$in": []}}
_RESERVED: Document = {"live": True, "state": JobState.RUNNING.value}
_SORTS = {"newest": [("_id", -1)], "due": [("rank", -1), ("run_at", 1), ("_id", 1)]}
_TOLD_BY_OTHERS = frozenset({"slots_held", "waits_kind", "waits_queue", "waits_name"})


def _named(field: str) -> str:
    return "_id" if field == "id" else field


def _behind(query: Query) -> list[Document]:
    """Return the filter for the jobs after the cursor."""
    if not (values := behind(query)):
        return []
    first, *rest = zip(map(_named, ORDERED[query.order]), values, strict=True)
    name, value = first
    arms: list[Document] = [{name: {"$lt" if query.order in ("newest", "due") else "$gt": value}}]
    same: Document = {name: value}
    for name, value in rest:
        arms.append({**same, name: {"$gt": value}})
        same[name] = value
    return [{"$or": arms}] if rest else arms


def _holds(field: str, text: str) -> Document:
    """Return an expression that tests whether a field contains a text; a regular expression is limited in length.

    A chunk contains none.
    """
    is_text = {"$eq": [{"$type": f"${field}"}, "string"]}
    return {"$cond": [is_text, {"$gte": [{"$indexOfBytes": [f"${field}", {"$literal": text}]}, 0]}, False]}


def _seen_in(state: JobState, of: Of, now: int) -> Document:
    """Return the filter for jobs in a state as callers see it."""
    stored = _stored_in(state, now)
    if state is JobState.DEAD:
        return LETTER if of == "live" else {"$or": [stored, LETTER]}
    return stored if state.final or state is JobState.RUNNING else {"$and": [stored, NO_LETTER]}


def _stored_in(state: JobState, now: int) -> Document:
    if state is JobState.SCHEDULED:
        return {"state": QUEUED, "run_at": {"$gt": now}}
    if state is JobState.READY:
        return {"state": QUEUED, "run_at": {"$lte": now}}
    return {"state": state.value}
