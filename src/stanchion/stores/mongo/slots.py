"""Gates as documents.

    semaphore    {_id: s:name, capacity, free, holders: [...]}   without `capacity`: unknown, so it has one slot
    order key    {_id: o5:queue:key, holders: [...]}             there while somebody holds it
    rate         {_id: t:name, tokens, filled_at, promised, ...} there while it is not full

A holder is a text, the job and its permit. A slot is taken by one update, which asks that one is `free` and that the
permit holds none yet; that of an order key by the insertion of its document. So all may be repeated. Several slots of a
semaphore are taken, or freed, in one update, all or none, and then fewer. The line at a gate is the jobs themselves.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, NamedTuple

from bson import ObjectId
from pymongo import DeleteOne, InsertOne, UpdateOne
from pymongo.errors import BulkWriteError, DuplicateKeyError

from stanchion.stores.cas.mixins.jobs import Seen
from stanchion.stores.cas.mixins.outbox import Hold
from stanchion.stores.mongo.client.documents import Document
from stanchion.stores.mongo.client.errors import duplicates
from stanchion.stores.mongo.client.place import Place
from stanchion.stores.mongo.jobs import MongoBase, seen_in
from stanchion.stores.records.jobs import SECOND
from stanchion.stores.records.queues import SemaphoreRow
from stanchion.stores.rules.rate_limit import Bucket
from stanchion.stores.rules.slots import Asking, semaphore_gate, semaphore_of

_PAGE = 200
_HELD: Document = {"$gte": "o", "$lt": "t"}
"""The ids of gates that are held; those of rates come behind them."""
_RATES: Document = {"$gte": "t:", "$lt": "t;"}
_UNKNOWN = 1
_BUCKET = ("tokens", "filled_at", "promised", "promised_again")


class Gating(MongoBase):
    """Semaphores, order keys and keyed rates."""

    # -- slots

    def take_each(self, wanted: Sequence[Hold]) -> list[bool]:
        def work(on: Place, _again: bool) -> list[bool]:
            trying = asked
            while trying:
                writes = [write for gate, mine in trying.items() for write in _take(gate, mine)]
                try:
                    done = on.gates.bulk_write(writes, ordered=False)
                    if done.inserted_count + done.matched_count == len(writes) and trying is asked:
                        return [True] * len(wanted)
                except BulkWriteError as error:
                    duplicates(error)  # order keys that are held
                found = _found(on, asked)
                _make(on, {gate for gate in asked if gate not in found and semaphore_of(gate) is not None})
                trying = {gate: missing for gate, mine in asked.items() if (missing := _missing(mine, found.get(gate)))}
            return [_holder(hold) in found[hold.gate].held for hold in wanted]

        asked = _by_gate(wanted)
        return self.server.call(work) if wanted else []

    def free_each(self, held: Sequence[Hold]) -> None:
        def work(on: Place, _again: bool) -> None:
            left = _by_gate(held)
            while left:
                writes = [write for gate, mine in left.items() for write in _free(gate, mine)]
                done = on.gates.bulk_write(writes, ordered=False)
                if done.deleted_count + done.matched_count == len(writes):
                    return
                found = _found(on, left)  # some were not held: each by itself is not to be in the way of the others
                left = {gate: sorted(one.held) for gate, one in found.items() if one.held}

        if held:
            self.server.call(work)

    def holds(self) -> Iterator[Hold]:
        last = ""
        while page := self._held_gates(last):
            for gate in page:
                yield from (_hold_in(gate["_id"], holder) for holder in gate["holders"])
            last = page[-1]["_id"]

    def _held_gates(self, after: str) -> list[Document]:
        wanted = {"_id": {**_HELD, "$gt": after}, "holders.0": {"$exists": True}}
        return self.server.call(
            lambda on, _again: list(on.gates.find(wanted, {"holders": 1}).sort("_id", 1).limit(_PAGE))
        )

    # -- lines

    def first_live(self, queue: str, order_key: str) -> Seen | None:
        return self.first_live_each([(queue, order_key)])[0]

    def first_live_each(self, keys: Sequence[tuple[str, str]]) -> list[Seen | None]:
        live = [{"live": True, "queue": queue, "order_key": key} for queue, key in dict.fromkeys(keys)]
        found = {(one.row.queue, one.row.order_key): one for one in self._earliest(live, "enqueued_at")}
        return [found.get(key) for key in keys]

    def first_waiting(self, gate: str) -> Seen | None:
        return self.first_waiting_each([gate])[0]

    def first_waiting_each(self, gates: Sequence[str]) -> list[Seen | None]:
        waiting = [{"waits_for": gate} for gate in dict.fromkeys(gates)]
        found = {one.row.waits_for: one for one in self._earliest(waiting, "waits_since")}
        return [found.get(gate) for gate in gates]

    def _earliest(self, wanted: Sequence[Document], by: str) -> list[Seen]:
        """Return the first of each kind of jobs, as far as there is one."""
        return [seen_in(one) for one in self.across([[{"$match": each}, *_first(by)] for each in wanted])]

    def waiting_at(self, gate: str, limit: int) -> list[Seen]:
        def work(on: Place, _again: bool) -> list[Document]:
            return list(on.jobs.find({"waits_for": gate}, session=on.session).limit(limit))

        return [seen_in(one) for one in self.server.call(work)]

    def gates_waited_at(self) -> list[str]:
        stages = {"$match": {"waits_for": _HELD}}, {"$group": {"_id": "$waits_for"}}
        return [one["_id"] for one in self.server.call(lambda on, _again: on.documents(on.jobs, *stages))]

    # -- semaphores

    def set_semaphore(self, name: str, capacity: int | None, *, declared: bool = False, tx: Any = None) -> bool:
        gate = semaphore_gate(name)

        def work(on: Place, _again: bool) -> bool:
            while True:
                found = on.gates.find_one({"_id": gate}, {"capacity": 1, "declared": 1}) or {}
                last, known = found.get("declared"), found.get("capacity")
                wanted = last if capacity is None else capacity
                if wanted is None or (declared and wanted == last):
                    return False
                _make(on, {gate})
                told = {"declared": wanted} if declared else {}
                more = wanted - (_UNKNOWN if known is None else known)
                change = {"$set": {"capacity": wanted, **told}, "$inc": {"free": more}}
                if on.gates.update_one({"_id": gate, "capacity": known}, change).matched_count:
                    return True

        changed = self.server.call(work)
        if changed:
            self.wake(gate)
        return changed

    def semaphores(self) -> list[SemaphoreRow]:
        fields = {"capacity": 1, "held": {"$size": "$holders"}}
        known = {"$match": {"capacity": {"$exists": True}}}, {"$project": fields}, {"$sort": {"_id": 1}}
        waiting = {"$match": {"waits_for": _HELD}}, {"$group": {"_id": "$waits_for", "count": {"$sum": 1}}}

        def work(on: Place, _again: bool) -> tuple[list[Document], list[Document]]:
            return on.documents(on.gates, *known), on.documents(on.jobs, *waiting)

        gates, lines = self.server.call(work)
        line = {one["_id"]: one["count"] for one in lines}
        return [
            SemaphoreRow(semaphore_of(one["_id"]) or "", one["capacity"], one["held"], line.get(one["_id"], 0))
            for one in gates
        ]

    def permits(self, name: str) -> tuple[list[str], list[str]]:
        gate = semaphore_gate(name)

        def work(on: Place, _again: bool) -> tuple[list[str], list[str]]:
            holders = (on.gates.find_one({"_id": gate}) or {}).get("holders", ())
            line = on.jobs.find({"waits_for": gate}, {"_id": 1}).sort([("waits_since", 1), ("_id", 1)])
            return sorted(_hold_in(gate, holder).job for holder in holders), [one["_id"] for one in line]

        return self.server.call(work)

    # -- rates

    def spend(self, asking: Sequence[Asking]) -> list[int | None]:
        answers: dict[int, int | None] = {}
        for name in dict.fromkeys(one.rate.name for one in asking):
            places = [place for place, one in enumerate(asking) if one.rate.name == name]
            answers |= zip(places, self._spend(name, [asking[place] for place in places]), strict=True)
        return [answers[place] for place in range(len(asking))]

    def _spend(self, name: str, asking: Sequence[Asking]) -> list[int | None]:
        mark, answers = ObjectId(), list[int | None]()

        def work(on: Place, again: bool) -> list[int | None]:
            nonlocal answers
            while True:
                found = on.documents(on.gates, {"$match": {"_id": f"t:{name}"}}, {"$addFields": {"now": "$$NOW"}})
                known = found[0] if found else None
                if again and known is not None and known["mark"] == mark:
                    return answers
                now = self.now() if known is None else self.server.at(known["now"])
                answers, bucket = _spent(known, asking, now)
                fields = {**_stored(bucket), "mark": mark}
                if known is None:
                    with suppress(DuplicateKeyError):  # another came first
                        on.gates.insert_one({"_id": f"t:{name}", **fields})
                        return answers
                elif on.gates.update_one({"_id": known["_id"], "mark": known["mark"]}, {"$set": fields}).matched_count:
                    return answers

        return self.server.call(work)

    def forget_full(self) -> None:
        """Forget the rates that are as if they had never been spent from."""
        now = self.now()
        full = {"_id": _RATES, "full_at": {"$lt": now}, "promised": {"$lt": now}}
        self.server.call(lambda on, _again: on.gates.delete_many(full))


def _first(by: str) -> list[Document]:
    return [{"$sort": {by: 1, "_id": 1}}, {"$limit": 1}]


def _holder(hold: Hold) -> str:
    return f"{hold.job} {hold.permit}"


def _hold_in(gate: str, holder: str) -> Hold:
    job, _, permit = holder.partition(" ")
    return Hold(gate, job, permit)


class Found(NamedTuple):
    """A gate: those of some holders that it has, and its free slots."""

    held: set[str]
    free: int


def _by_gate(holds: Sequence[Hold]) -> dict[str, list[str]]:
    """Return the holders of these slots, each once, by gate."""
    gates: dict[str, dict[str, None]] = {}
    for hold in holds:
        gates.setdefault(hold.gate, {})[_holder(hold)] = None
    return {gate: list(mine) for gate, mine in gates.items()}


def _take(gate: str, mine: list[str]) -> list[InsertOne[Document] | UpdateOne]:
    """Return the writes that take slots: all of a semaphore at once, as its document is written anew each time."""
    if semaphore_of(gate) is None:
        return [InsertOne({"_id": gate, "holders": [holder]}) for holder in mine]
    slots = {"_id": gate, "free": {"$gte": len(mine)}, "holders": {"$nin": mine}}
    return [UpdateOne(slots, {"$push": {"holders": {"$each": mine}}, "$inc": {"free": -len(mine)}})]


def _free(gate: str, mine: list[str]) -> list[DeleteOne | UpdateOne]:
    """Return the writes that free slots: all of a semaphore at once."""
    if semaphore_of(gate) is None:
        return [DeleteOne({"_id": gate, "holders": holder}) for holder in mine]
    held = {"_id": gate, "holders": {"$all": mine}}
    return [UpdateOne(held, {"$pullAll": {"holders": mine}, "$inc": {"free": len(mine)}})]


def _found(on: Place, asked: Mapping[str, list[str]]) -> dict[str, Found]:
    """Return those of the gates that are there, each with those of these holders that it has."""
    holders = sorted({holder for mine in asked.values() for holder in mine})
    fields = {"held": {"$setIntersection": ["$holders", {"$literal": holders}]}, "free": 1}
    gates = on.documents(on.gates, {"$match": {"_id": {"$in": list(asked)}}}, {"$project": fields})
    return {one["_id"]: Found(set(one["held"]), one.get("free", 0)) for one in gates}


def _missing(mine: list[str], found: Found | None) -> list[str]:
    """Return for whom there may be a slot still: for all where the gate is not there, or has just gone."""
    if found is None:
        return mine
    return [holder for holder in mine if holder not in found.held][: max(0, found.free)]


def _make(on: Place, semaphores: set[str]) -> None:
    """Make sure that these semaphores are there."""
    for gate in semaphores:
        with suppress(DuplicateKeyError):  # another upsert came first
            on.gates.update_one({"_id": gate}, {"$setOnInsert": {"free": _UNKNOWN, "holders": []}}, upsert=True)


def _spent(known: Document | None, asking: Sequence[Asking], now: int) -> tuple[list[int | None], Bucket]:
    """Take a start for each of these; return what to answer, and the bucket after it."""
    bucket = Bucket(1.0, 0.0, 0)
    if known is not None:
        bucket = replace(bucket, **{name: known[name] for name in _BUCKET if name in known})
    answers: list[int | None] = []
    for rate, promise in asking:
        bucket, due = replace(bucket, rate=rate.per_second).asked(now, promise)
        answers.append(due)
    return answers, bucket


def _stored(bucket: Bucket) -> Document:
    full_at = bucket.filled_at + int((bucket.capacity - bucket.tokens) / bucket.rate * SECOND)
    fields = {name: getattr(bucket, name) for name in _BUCKET}
    return {**fields, "full_at": max(full_at, bucket.promised_again)}
