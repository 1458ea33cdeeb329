"""What happened in a queue, exactly.

A step adds its event to the job's document, in the update that is the step: `{id, queue, what}`, with an id for the
step. So nothing happens uncounted, and nothing is counted that did not happen. Maintenance folds the events into the
counts in their queue's document.
"""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import Enum, auto
from typing import Any

from pymongo import UpdateOne

from stanchion.stores.mongo.client.documents import COUNTED, FREE, Document
from stanchion.stores.mongo.client.place import Place
from stanchion.stores.mongo.jobs import MongoBase, make_queue
from stanchion.stores.records.queues import Counts

_FOLDED = 200
_LOOKED_AT = 500
_PATIENCE = 1.0
_PAUSE = 0.02


class Counting(MongoBase):
    """Counts what happened."""

    def counts(self, queue: str) -> Counts:
        def work(on: Place, _again: bool) -> Counter[str]:
            while True:
                found = _counted(on, queue)
                totals = Counter(found.get("counts", {}))
                totals.update(_net(_events(on, queue, found.get("folding", ()))))
                if _counted(on, queue).get("folds") == found.get("folds"):  # else maintenance has moved some meanwhile
                    return totals

        return Counts(**self.server.call(work))

    def fold(self, queues: Iterable[str], among: Document | None = None, seconds: float = math.inf) -> None:
        """Add the events of these queues to their counts: those of jobs that are `among` such, for so many seconds."""
        end = time.monotonic() + seconds
        for queue in queues:
            self._fold_all(queue, among or {}, end)

    def fold_some(self, seconds: float) -> None:
        """Add events to their counts, for so many seconds at most; those of dropped queues too."""
        end = time.monotonic() + seconds
        while time.monotonic() < end and (queues := self._with_events()):
            for queue in queues:
                self._fold_all(queue, {}, end)

    def _with_events(self) -> set[str]:
        """Return the queues of some events: a list of all would cost as much as there are events."""
        some = {"events.queue": {"$gt": ""}}  # which an index answers that leaves out jobs without any

        def work(on: Place, _again: bool) -> list[Document]:
            return list(on.jobs.find(some, {"events.queue": 1}).limit(_LOOKED_AT))

        return {event["queue"] for job in self.server.call(work) for event in job["events"]}

    def _fold_all(self, queue: str, among: Document, end: float) -> None:
        self.fold_by(lambda on, _again, alone: _fold(on, queue, among, alone), end)

    def fold_by(self, some: Callable[[Place, bool, bool], Folded], end: float = math.inf) -> None:
        """Fold some events after the other until all are, or the time is over.

        `some` is told whether it is a repeat after a lost answer, and whether who is at it has died.
        """
        waits_until = time.monotonic() + _PATIENCE
        while (now := time.monotonic()) < end:
            alone = now >= waits_until
            match self.server.call(lambda on, again: some(on, again, alone)):  # noqa: B023
                case Folded.ALL:
                    return
                case Folded.SOME:
                    waits_until = time.monotonic() + _PATIENCE
                case Folded.BY_ANOTHER:
                    time.sleep(_PAUSE)

    def forget(self, ids: Sequence[str], also: Document) -> int:
        """Delete those of the jobs that are `also` so, once their events are counted; return how many that were.

        Those that have duties stay.
        """
        wanted = {"_id": {"$in": list(ids)}}
        self.fold(self.server.call(lambda on, _again: on.jobs.distinct("events.queue", wanted)), wanted)
        gone = {**wanted, **also, **COUNTED, **FREE}

        def work(on: Place, again: bool) -> int:
            deleted = on.jobs.delete_many(gone).deleted_count
            return len(ids) - on.jobs.count_documents(wanted) if again else deleted

        return self.server.call(work)


def _counted(on: Place, queue: str) -> dict[str, Any]:
    return on.queues.find_one({"_id": queue}, {"counts": 1, "folds": 1, "folding": 1}) or {}


def _events(on: Place, queue: str, folding: Iterable[Document]) -> Counter[str]:
    """Count the events of a queue by what happened, but for those that its counts hold already."""
    mine = {"$match": {"events.queue": queue}}
    listed = {(one["job"], event) for one in folding for event in one["events"]}
    if not listed:
        each = {"$group": {"_id": "$events.what", "count": {"$sum": 1}}}
        found = on.documents(on.jobs, mine, {"$project": {"events": 1}}, {"$unwind": "$events"}, mine, each)
        return Counter({one["_id"]: one["count"] for one in found})
    return Counter(
        event["what"]
        for job in on.jobs.find({"events.queue": queue}, {"events": 1})
        for event in job["events"]
        if event["queue"] == queue and (job["_id"], event["id"]) not in listed
    )


def _net(events: Mapping[str, int]) -> Counter[str]:
    """Return how much each count changes by events; those with a minus before them count down."""
    net: Counter[str] = Counter()
    for what, count in events.items():
        net[what.removeprefix("-")] += -count if what.startswith("-") else count
    return net


class Folded(Enum):
    """What became of a fold."""

    ALL = auto()
    SOME = auto()
    BY_ANOTHER = auto()
    """Another process is at it; or was, when it died."""


def _fold(on: Place, queue: str, among: Document, alone: bool) -> Folded:
    """Move some events to the counts of their queue.

    (1) The counts and the list of the events that they now hold change in one update, (2) these events are removed from
    the jobs, (3) the list is. `alone`: whose list is there has died, so (2) and (3) are done for it, and nothing is
    counted twice. `folds` moves with (1) and (3): a reader, and a second folder, tell by it.
    """
    found = to_fold(on, queue, alone)
    if isinstance(found, Folded):
        return found
    jobs = list(on.jobs.find({"events.queue": queue, **among}, {"events": 1}).limit(_FOLDED))
    if not jobs:
        return Folded.ALL
    folding = begin_fold(on, found, jobs)
    if folding is None:
        return Folded.BY_ANOTHER
    end_fold(on, folding)
    return Folded.SOME


def to_fold(on: Place, queue: str, alone: bool) -> Document | Folded:
    """Return the counts of a queue to which events may be added now, or why they may not."""
    found = _counted(on, queue)
    if not found:  # dropped, while another process went on pushing to it
        if on.jobs.find_one({"events.queue": queue}, {"_id": 1}) is None:
            return Folded.ALL
        make_queue(on, queue)
        return Folded.SOME
    if "folding" in found:
        if alone:
            end_fold(on, found)
        return Folded.SOME if alone else Folded.BY_ANOTHER
    return found


def begin_fold(on: Place, found: Document, jobs: Iterable[Document]) -> Document | None:
    """Add the events of these jobs to the counts, and list them; None when another process came first.

    The jobs must have been read after the counts that were `found`.
    """
    queue, folds = found["_id"], found["folds"]
    folding: list[Document] = []
    totals: Counter[str] = Counter()
    for job in jobs:
        mine = [event for event in job["events"] if event["queue"] == queue]
        totals.update(event["what"] for event in mine)
        folding.append({"job": job["_id"], "events": [event["id"] for event in mine]})
    more = {f"counts.{what}": count for what, count in _net(totals).items()}
    begin = {"$set": {"folding": folding}, "$inc": {**more, "folds": 1}}
    if not on.queues.update_one({"_id": queue, "folds": folds, "folding": None}, begin).matched_count:
        return None
    return {"_id": queue, "folds": folds + 1, "folding": folding}


def end_fold(on: Place, found: Document) -> None:
    """Remove the listed events, and the list."""
    queue, folding = found["_id"], found["folding"]
    if folding:
        on.jobs.bulk_write(
            [
                UpdateOne({"_id": one["job"]}, {"$pull": {"events": {"id": {"$in": one["events"]}, "queue": queue}}})
                for one in folding
            ],
            ordered=False,
        )
    ended = {"$unset": {"folding": ""}, "$inc": {"folds": 1}}
    on.queues.update_one({"_id": queue, "folds": found["folds"]}, ended)
