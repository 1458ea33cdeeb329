"""Reading all jobs of a MongoDB database."""

from __future__ import annotations

from collections.abc import Iterator

from stanchion.stores.cas.mixins.outbox import in_hand
from stanchion.stores.mongo.client.documents import FINISHED, KEPT, Document, row_of
from stanchion.stores.mongo.client.place import Place
from stanchion.stores.mongo.client.server import BULK_SECONDS
from stanchion.stores.mongo.jobs import MongoBase
from stanchion.stores.records.jobs import QUEUED, JobRow, JobState
from stanchion.stores.records.query import Condition, Scan
from stanchion.stores.rules.query import PAGE, checked, cut
from stanchion.stores.rules.slots import HOLDER_BOOST

_OPERATORS = {"=": "$eq", "<": "$lt", "<=": "$lte", ">": "$gt", ">=": "$gte", "in": "$in"}


class Scanning(MongoBase):
    """Gives the jobs of a scan in the order of their ids, each page by a call of its own."""

    def scan(self, scan: Scan) -> Iterator[list[JobRow]]:
        wanted = _filter(checked(scan), self.now())
        after: str | None = None
        while True:
            page = wanted if after is None else {"$and": [wanted, {"_id": {"$gt": after}}]}

            def work(on: Place, _again: bool, page: Document = page) -> list[Document]:
                return list(on.jobs.find(page).sort("_id", 1).limit(PAGE))

            rows = [in_hand(row_of(one)) for one in self.server.call(work, BULK_SECONDS)]
            if rows:
                yield rows
            if len(rows) < PAGE:
                return
            after = rows[-1].id

    def split(self, scan: Scan, parts: int) -> list[Scan]:
        stages = (
            {"$match": _filter(checked(scan), self.now())},
            {"$project": {"_id": 1}},
            {"$bucketAuto": {"groupBy": "$_id", "buckets": parts}},
        )
        found = self.server.call(lambda on, _again: on.documents(on.jobs, *stages), BULK_SECONDS) if parts > 1 else []
        return cut(scan, (one["_id"]["min"] for one in found)) if found else [scan]


def _filter(scan: Scan, now: int) -> Document:
    kept: Document = {"live": True, **KEPT} if scan.of == "jobs" else FINISHED
    return {"$and": [kept, *(_condition(condition, now) for condition in scan.where)]}


def _condition(condition: Condition, now: int) -> Document:
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
