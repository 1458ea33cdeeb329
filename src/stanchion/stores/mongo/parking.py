"""Jobs parked at full slots, many by one command.

A claim that has found slots full looks for jobs that don't wait first for one of them, and parks those that do:
(1) it reads which are next in the queue, (2) one update for all with the same limits parks each if it is still as it
was read, (3) the slots are checked once more. After a death past (2) outbox recovery does (3).
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Sequence

from stanchion.stores.cas.claim import Parked
from stanchion.stores.mongo.client.documents import Document, claim_order, queued
from stanchion.stores.mongo.client.place import Place
from stanchion.stores.mongo.client.server import Access
from stanchion.stores.mongo.lanes import ClaimLocks, QueueState
from stanchion.stores.records.claims import Claim
from stanchion.stores.records.jobs import UNLANED, JobState
from stanchion.stores.rules.limits import limits_in
from stanchion.stores.rules.slots import HOLDER_BOOST, order_gate, semaphore_gate, semaphore_of

PARKED_AT_ONCE = 500
"""So many jobs are parked by one command."""
PARKED_FEW = 50
"""So many are parked before others are passed over: to read past a job costs much less than to park it."""

_UNHELD: Document = {"held": {"$in": [None, 0]}, "permit": None, "priority": {"$lte": HOLDER_BOOST // 2}}
"""The filter for jobs that hold nothing yet, so that they wait first for the first of their slots."""
Waits = tuple[str, str | None, str | None]
"""The slot that a job takes first, its order key, and its limits."""


class Parking:
    """Parks jobs that would have to wait, many by one command."""

    def __init__(self, server: Access, locks: ClaimLocks, wake: Callable[..., None]) -> None:
        self._server, self._locks, self._wake = server, locks, wake

    def park(self, most: int, claim: Claim, began: int, *, alone: bool) -> Parked:
        """Park the next due jobs that wait first for one of `claim.full`, up to one that does not, and up to `most`."""
        state = self._locks.state_of(claim.queue)
        if not alone and (state.settings.laned or claim.lanes is not None):
            return Parked(0, more=True)  # another lane may be next
        found = self._waiting_next(most, claim, state, alone=alone)
        full = set(claim.full)
        alike: defaultdict[Waits, list[str]] = defaultdict(list)
        for job in found:
            slot = _first_slot(claim.queue, job)
            if slot is None or slot not in full:
                break
            alike[slot, job.get("order_key"), job.get("limits")].append(job["_id"])
        for as_read, ids in alike.items():
            self._park(claim, state, ids, as_read, began)
        self._wake(*dict.fromkeys(slot for slot, _, _ in alike))
        parked = sum(map(len, alike.values()))
        return Parked(parked, more=parked == most)

    def _waiting_next(self, most: int, claim: Claim, state: QueueState, *, alone: bool) -> list[Document]:
        """Return the next due jobs; where none but those at full slots are due, in any order."""
        wanted = {**queued(claim.queue), "run_at": {"$lte": state.now}}
        if alone:
            wanted |= {**_UNHELD, "$or": [one for slot in claim.full for one in _at(claim.queue, slot)]}
        if claim.lanes is not None:
            wanted["lane"] = {"$gte": claim.lanes[0], "$lte": claim.lanes[1]}
        elif not state.settings.laned:
            wanted["lane"] = UNLANED  # the index of queued jobs gives those of one lane in order
        fields = dict.fromkeys(("limits", "order_key", "held", "permit", "priority", "run_at"), 1)

        def work(on: Place, _again: bool) -> list[Document]:
            found = on.jobs.find(wanted, fields, batch_size=most + 1)
            if not alone:
                found = found.sort([("priority", -1), ("run_at", 1), ("_id", 1)])
            return list(found.limit(most))

        return sorted(self._server.call(work), key=claim_order)

    def _park(self, claim: Claim, state: QueueState, ids: list[str], as_read: Waits, began: int) -> None:
        """Park jobs as `rules.claims.parked_or_deferred` does, all at once."""
        slot, order_key, limits = as_read
        unchanged = {"order_key": order_key, "limits": limits, **_UNHELD}
        due = {"_id": {"$in": ids}, **queued(claim.queue), "run_at": {"$lte": state.now}, **unchanged}
        parked = {"state": JobState.WAITING.value, "waits_for": slot, "waits_since": began, "permit": claim.token}
        update = {"$set": parked, "$inc": {"version": 1}}
        self._server.call(lambda on, _again: on.jobs.update_many(due, update))


def passing(queue: str, full: Sequence[str]) -> Document:
    """Return the filter for jobs of a queue that wait first for none of these slots."""
    return {"$nor": [one for slot in full for one in _at(queue, slot)]} if full else {}


def _at(queue: str, slot: str) -> list[Document]:
    """Return filters for jobs that wait first for this slot; their semaphores are read off how their limits begin.

    Each condition costs with every job that is passed over, so there are few: who has no hold token yet holds nothing.
    """
    name = semaphore_of(slot)
    if name is None:
        return [{"order_key": slot.removeprefix(order_gate(queue, "")), "permit": None, "held": {"$in": [None, 0]}}]
    begin = '{"hold":[' + json.dumps(name, ensure_ascii=False)
    return [
        {"limits": {"$gte": begin + end, "$lt": begin + chr(ord(end) + 1)}, "permit": None, "order_key": None}
        for end in "],"
    ]


def _first_slot(queue: str, job: Document) -> str | None:
    """Return the slot that a queued job takes first; None where it needs none, or holds some."""
    if job.get("held") or job.get("permit") is not None or job["priority"] > HOLDER_BOOST // 2:
        return None
    if "order_key" in job:
        return order_gate(queue, job["order_key"])
    semaphores = limits_in(job.get("limits")).semaphores
    return semaphore_gate(semaphores[0]) if semaphores else None
