"""Slots as documents: semaphores, order keys and keyed rates.

    semaphore    {_id: s:name, capacity, free, holders: [...]}   without `capacity`: unknown, so it has one slot
    order key    {_id: o5:queue:key, holders: [...]}             present while it is held
    rate         {_id: t:name, tokens, filled_at, promised, ...} present while it is not full

A holder is a text of job and hold token. One update takes a slot; it requires a `free` one, and that the token holds
none yet. Inserting its document takes an order key. All of this may be repeated. Several slots of a semaphore are taken
or freed in one update, all or none, and then fewer. Waiters are found among the jobs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import NamedTuple

from bson import ObjectId
from pymongo import DeleteOne, InsertOne, UpdateOne
from pymongo.errors import BulkWriteError, DuplicateKeyError

from stanchion.stores.cas.entries import Hold, key_of, slot_of
from stanchion.stores.cas.jobs import Seen
from stanchion.stores.mongo.client.documents import Document, seen_in
from stanchion.stores.mongo.client.errors import duplicates
from stanchion.stores.mongo.client.place import Place
from stanchion.stores.mongo.client.server import Access, across
from stanchion.stores.records.jobs import SECOND
from stanchion.stores.records.queues import SemaphoreRow
from stanchion.stores.records.slots import ORDER, SEMAPHORE, Slot
from stanchion.stores.rules.capacity.rate_limit import Bucket
from stanchion.stores.rules.capacity.slots import Asking, semaphore_slot

_PAGE = 200
_HELD: Document = {"$gte": "o", "$lt": "t"}
"""The ids of slots that can be held; ids of rates sort after them."""
_RATES: Document = {"$gte": "t:", "$lt": "t;"}
_UNKNOWN_CAPACITY = 1
_BUCKET = ("tokens", "filled_at", "promised", "promised_again")


class SlotDocuments:
    """Takes and frees slots, and finds their holders and waiters."""

    def __init__(self, server: Access) -> None:
        self._server = server

    def take_each(self, wanted: Sequence[Hold]) -> list[bool]:
        """Take slots; True also if the hold token holds it already. An unknown semaphore has one slot."""

        def work(on: Place, _again: bool) -> list[bool]:
            trying = asked
            while trying:
                writes = [write for slot, mine in trying.items() for write in _take(slot, mine)]
                try:
                    done = on.slots.bulk_write(writes, ordered=False)
                    if done.inserted_count + done.matched_count == len(writes) and trying is asked:
                        return [True] * len(wanted)
                except BulkWriteError as error:
                    duplicates(error)  # order keys that are held
                found = _found(on, asked)
                _make(on, {slot for slot in asked if slot not in found and slot.kind == SEMAPHORE})
                trying = {slot: missing for slot, mine in asked.items() if (missing := _missing(mine, found.get(slot)))}
            return [_holder(hold) in found[hold.slot].held for hold in wanted]

        asked = _by_slot(wanted)
        return self._server.call(work) if wanted else []

    def free_each(self, held: Sequence[Hold]) -> None:
        """Free slots; a hold token that holds none frees nothing."""

        def work(on: Place, _again: bool) -> None:
            left = _by_slot(held)
            while left:
                writes = [write for slot, mine in left.items() for write in _free(slot, mine)]
                done = on.slots.bulk_write(writes, ordered=False)
                if done.deleted_count + done.matched_count == len(writes):
                    return
                found = _found(on, left)  # some were not held; they must not block the others
                left = {slot: sorted(one.held) for slot, one in found.items() if one.held}

        if held:
            self._server.call(work)

    def holds(self) -> Iterator[Hold]:
        """Return all slots that are held."""
        last = ""
        while page := self._held_after(last):
            for slot in page:
                yield from (_hold_in(slot_of(slot["_id"]), holder) for holder in slot["holders"])
            last = page[-1]["_id"]

    def _held_after(self, after: str) -> list[Document]:
        wanted = {"_id": {**_HELD, "$gt": after}, "holders.0": {"$exists": True}}
        return self._server.call(
            lambda on, _again: list(on.slots.find(wanted, {"holders": 1}).sort("_id", 1).limit(_PAGE))
        )

    def first_live_each(self, keys: Sequence[tuple[str, str]]) -> list[Seen | None]:
        """Return the first live job of each of these queues and order keys, by (enqueued_at, id)."""
        live = [{"live": True, "queue": queue, "order_key": key} for queue, key in dict.fromkeys(keys)]
        found = {(one.row.queue, one.row.order_key): one for one in self._earliest(live, "enqueued_at")}
        return [found.get(key) for key in keys]

    def first_waiting_each(self, slots: Sequence[Slot]) -> list[Seen | None]:
        """Return the job that has waited longest for each of these slots, by (waits_since, id)."""
        waiting = [{"waits_for": key_of(slot)} for slot in dict.fromkeys(slots)]
        found = {one.row.waits_for: one for one in self._earliest(waiting, "waits_since")}
        return [found.get(slot) for slot in slots]

    def _earliest(self, wanted: Sequence[Document], by: str) -> list[Seen]:
        """Return the first job for each filter, if any."""
        first = {"$sort": {by: 1, "_id": 1}}, {"$limit": 1}, {"$addFields": {"now": "$$NOW"}}
        found = across(self._server, [[{"$match": each}, *first] for each in wanted])
        return [seen_in(one, self._server.at(one["now"])) for one in found]

    def slots_waited_at(self) -> list[Slot]:
        """Return the slots that jobs wait for."""
        stages = {"$match": {"waits_for": _HELD}}, {"$group": {"_id": "$waits_for"}}
        return [slot_of(one["_id"]) for one in self._server.call(lambda on, _again: on.documents(on.jobs, *stages))]

    def spend(self, asking: Sequence[Asking]) -> list[int | None]:
        """Take a start from the bucket of each rate: return None, or the time to ask again; see `Bucket.asked`."""
        answers: dict[int, int | None] = {}
        for name in dict.fromkeys(one.rate.name for one in asking):
            places = [place for place, one in enumerate(asking) if one.rate.name == name]
            answers |= zip(places, self._spend(name, [asking[place] for place in places]), strict=True)
        return [answers[place] for place in range(len(asking))]

    def _spend(self, name: str, asking: Sequence[Asking]) -> list[int | None]:
        call_id, answers = ObjectId(), list[int | None]()

        def work(on: Place, again: bool) -> list[int | None]:
            nonlocal answers
            while True:
                found = on.documents(on.slots, {"$match": {"_id": f"t:{name}"}}, {"$addFields": {"now": "$$NOW"}})
                known = found[0] if found else None
                if again and known is not None and known["call"] == call_id:
                    return answers
                now = self._server.now() if known is None else self._server.at(known["now"])
                answers, bucket = _spent(known, asking, now)
                fields = {**_stored(bucket), "call": call_id}
                if known is None:
                    with suppress(DuplicateKeyError):  # another update came first
                        on.slots.insert_one({"_id": f"t:{name}", **fields})
                        return answers
                elif on.slots.update_one({"_id": known["_id"], "call": known["call"]}, {"$set": fields}).matched_count:
                    return answers

        return self._server.call(work)

    def forget_full(self) -> None:
        """Delete rates whose buckets are full."""
        now = self._server.now()
        full = {"_id": _RATES, "full_at": {"$lt": now}, "promised": {"$lt": now}}
        self._server.call(lambda on, _again: on.slots.delete_many(full))


class Semaphores:
    """Sets and reads semaphores."""

    def __init__(self, server: Access, wake: Callable[[Slot], None]) -> None:
        self._server, self._wake = server, wake

    def set_semaphore(self, name: str, capacity: int | None, *, declared: bool = False) -> bool:
        """Make a semaphore, or change its capacity; None: to the declared one. False: no change was made."""
        slot = semaphore_slot(name)
        key = key_of(slot)

        def work(on: Place, _again: bool) -> bool:
            while True:
                found = on.slots.find_one({"_id": key}, {"capacity": 1, "declared": 1}) or {}
                last, known = found.get("declared"), found.get("capacity")
                wanted = last if capacity is None else capacity
                if wanted is None or (declared and wanted == last):
                    return False
                _make(on, {slot})
                declaration = {"declared": wanted} if declared else {}
                more = wanted - (_UNKNOWN_CAPACITY if known is None else known)
                change = {"$set": {"capacity": wanted, **declaration}, "$inc": {"free": more}}
                if on.slots.update_one({"_id": key, "capacity": known}, change).matched_count:
                    return True

        changed = self._server.call(work)
        if changed:
            self._wake(slot)
        return changed

    def semaphores(self, names: Iterable[str] | None = None) -> list[SemaphoreRow]:
        """Return semaphores, by name: all, or the known ones among `names`."""
        which = _HELD if names is None else {"$in": [key_of(semaphore_slot(name)) for name in names]}
        fields = {"capacity": 1, "held": {"$size": "$holders"}}
        known = {"$match": {"_id": which, "capacity": {"$exists": True}}}, {"$project": fields}, {"$sort": {"_id": 1}}
        waiting = {"$match": {"waits_for": which}}, {"$group": {"_id": "$waits_for", "count": {"$sum": 1}}}

        def work(on: Place, _again: bool) -> tuple[list[Document], list[Document]]:
            return on.documents(on.slots, *known), on.documents(on.jobs, *waiting)

        found, waits = self._server.call(work)
        waits_at = {one["_id"]: one["count"] for one in waits}
        return [
            SemaphoreRow(slot_of(one["_id"]).name, one["capacity"], one["held"], waits_at.get(one["_id"], 0))
            for one in found
        ]

    def holders(self, slot: Slot) -> list[str]:
        """Return the ids of the jobs that hold a slot."""
        found = self._server.call(lambda on, _again: on.slots.find_one({"_id": key_of(slot)}, {"holders": 1})) or {}
        return sorted(_hold_in(slot, holder).job for holder in found.get("holders", ()))


def _holder(hold: Hold) -> str:
    return f"{hold.job} {hold.token}"


def _hold_in(slot: Slot, holder: str) -> Hold:
    job, _, token = holder.partition(" ")
    return Hold(slot, job, token)


class Found(NamedTuple):
    """A slot document: its free slots, and which of the given holders it has."""

    held: set[str]
    free: int


def _by_slot(holds: Sequence[Hold]) -> dict[Slot, list[str]]:
    """Return the distinct holders of these slots, by slot."""
    slots: dict[Slot, dict[str, None]] = {}
    for hold in holds:
        slots.setdefault(hold.slot, {})[_holder(hold)] = None
    return {slot: list(mine) for slot, mine in slots.items()}


def _take(slot: Slot, mine: list[str]) -> list[InsertOne[Document] | UpdateOne]:
    """Return the writes that take slots: one per semaphore, because its document is rewritten each time."""
    if slot.kind == ORDER:
        return [InsertOne({"_id": key_of(slot), "holders": [holder]}) for holder in mine]
    wanted = {"_id": key_of(slot), "free": {"$gte": len(mine)}, "holders": {"$nin": mine}}
    return [UpdateOne(wanted, {"$push": {"holders": {"$each": mine}}, "$inc": {"free": -len(mine)}})]


def _free(slot: Slot, mine: list[str]) -> list[DeleteOne | UpdateOne]:
    """Return the writes that free slots: one per semaphore."""
    if slot.kind == ORDER:
        return [DeleteOne({"_id": key_of(slot), "holders": holder}) for holder in mine]
    held = {"_id": key_of(slot), "holders": {"$all": mine}}
    return [UpdateOne(held, {"$pullAll": {"holders": mine}, "$inc": {"free": len(mine)}})]


def _found(on: Place, asked: Mapping[Slot, list[str]]) -> dict[Slot, Found]:
    """Return the existing slot documents, each with which of these holders it has."""
    holders = sorted({holder for mine in asked.values() for holder in mine})
    fields = {"held": {"$setIntersection": ["$holders", {"$literal": holders}]}, "free": 1}
    found = on.documents(on.slots, {"$match": {"_id": {"$in": list(map(key_of, asked))}}}, {"$project": fields})
    return {slot_of(one["_id"]): Found(set(one["held"]), one.get("free", 0)) for one in found}


def _missing(mine: list[str], found: Found | None) -> list[str]:
    """Return the holders that may still get a slot: all if the document is missing or was just deleted."""
    if found is None:
        return mine
    return [holder for holder in mine if holder not in found.held][: max(0, found.free)]


def _make(on: Place, semaphores: set[Slot]) -> None:
    """Make sure that these semaphores are there."""
    for slot in semaphores:
        with suppress(DuplicateKeyError):  # another upsert came first
            on.slots.update_one(
                {"_id": key_of(slot)}, {"$setOnInsert": {"free": _UNKNOWN_CAPACITY, "holders": []}}, upsert=True
            )


def _spent(known: Document | None, asking: Sequence[Asking], now: int) -> tuple[list[int | None], Bucket]:
    """Take a start for each of these jobs; return the answers, and the bucket afterwards."""
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
