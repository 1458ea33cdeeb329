"""Parking of jobs at full slots, many by one command.

A claim that has found slots full skips jobs that wait first for one of them, and parks some of these: (1) read the next
jobs in the queue, (2) one update for all jobs with the same limits parks each if it is unchanged, (3) check the slots
once more. After a death past (2) outbox recovery does (3).
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Sequence

from stanchion.stores.cas.claim import Parked
from stanchion.stores.cas.entries import key_of
from stanchion.stores.fields.jobs import HOLDS, LIMITS, WAITS
from stanchion.stores.mongo.claims.lanes import ClaimLocks, QueueState
from stanchion.stores.mongo.client.documents import NUMBER, Document, claim_order, queued
from stanchion.stores.mongo.client.place import Place
from stanchion.stores.mongo.client.server import Access
from stanchion.stores.records.claims import Claim
from stanchion.stores.records.jobs import UNLANED, JobRow, JobState
from stanchion.stores.records.slots import ORDER, Slot
from stanchion.stores.rules.capacity.limits import limits_in
from stanchion.stores.rules.capacity.slots import order_slot, parks_at, semaphore_slot

PARKED_AT_ONCE = 500
"""Jobs parked by one command."""
PARKED_FEW = 50
"""Jobs parked before others are skipped: skipping a job costs much less than parking it."""

_UNHELD: Document = {
    name: None if (none := JobRow._field_defaults[name]) is None else {"$in": [None, none]} for name in HOLDS
}
"""Filter for jobs that hold nothing yet, and thus wait first for their first slot."""
Waits = tuple[Slot, str | None, str | None]
"""The first slot that a job takes, its order key, and its limits."""


class Parking:
    """Parks jobs that would have to wait, many by one command."""

    def __init__(self, server: Access, locks: ClaimLocks, wake: Callable[..., None]) -> None:
        self._server, self._locks, self._wake = server, locks, wake

    def park(self, most: int, claim: Claim, began: int, *, alone: bool) -> Parked:
        """Park up to `most` next due jobs that wait first for a slot in `claim.full`, up to one that does not."""
        state = self._locks.state_of(claim.queue)
        if state.settings.ordered:
            return Parked(0, more=False)  # only its head asks for slots
        if not alone and (state.settings.uses_lanes or claim.lanes is not None):
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
        """Return the next due jobs; in any order if only jobs of full slots are due."""
        wanted = {**queued(claim.queue), "run_at": {"$lte": state.now}}
        if alone:
            wanted |= {**_UNHELD, "$or": [one for slot in claim.full for one in _at(slot)]}
        if claim.lanes is not None:
            wanted["lane"] = {"$gte": claim.lanes[0], "$lte": claim.lanes[1]}
        elif not state.settings.uses_lanes:
            wanted["lane"] = UNLANED  # the index of queued jobs is ordered within a lane
        fields = dict.fromkeys((*LIMITS, *HOLDS, "rank", "run_at"), 1)

        def work(on: Place, _again: bool) -> list[Document]:
            found = on.jobs.find(wanted, fields, batch_size=most + 1)
            if not alone:
                found = found.sort([("rank", -1), ("run_at", 1), ("_id", 1)])
            return list(found.limit(most))

        return sorted(self._server.call(work), key=claim_order)

    def _park(self, claim: Claim, state: QueueState, ids: list[str], as_read: Waits, began: int) -> None:
        """Park jobs as `rules.lifecycle.claims.parked_or_deferred` does, in one command."""
        slot, order_key, limits = as_read
        unchanged = {"order_key": order_key, "limits": limits, **_UNHELD}
        due = {
            "_id": {"$in": ids},
            **queued(claim.queue),
            "run_at": {"$lte": state.now},
            "version": NUMBER,
            **unchanged,
        }
        parked = parks_at(slot, claim.token, began).items()
        waits = {name: value for name, value in parked if value is not None and name not in WAITS}
        changes = {"state": JobState.WAITING.value, "waits_for": key_of(slot), **waits}
        update = {"$set": changes, "$inc": {"version": 1}}
        self._server.call(lambda on, _again: on.jobs.update_many(due, update))


def passing(full: Sequence[Slot]) -> Document:
    """Return the filter for jobs of a queue whose first missing slot is none of these."""
    return {"$nor": [one for slot in full for one in _at(slot)]} if full else {}


def _at(slot: Slot) -> list[Document]:
    """Return filters for jobs that wait first for this slot; their semaphores are matched by the start of their limits.

    Each condition adds cost for every skipped job, so they are few: a job without a hold token holds nothing.
    """
    if slot.kind == ORDER:
        return [{"order_key": slot.name, "order_hold": None, "slots_held": {"$in": [None, 0]}}]
    begin = '{"hold":[' + json.dumps(slot.name, ensure_ascii=False)
    return [
        {"limits": {"$gte": begin + end, "$lt": begin + chr(ord(end) + 1)}, "slots_hold": None, "order_key": None}
        for end in "],"
    ]


def _first_slot(queue: str, job: Document) -> Slot | None:
    """Return the first slot that a queued job takes; None if it needs none, or holds some."""
    if any(map(job.get, HOLDS)):
        return None
    if not all(isinstance(job.get(name, ""), str) for name in ("order_key", "limits")):
        return None  # from another program: a claim ends it
    if "order_key" in job:
        return order_slot(queue, job["order_key"])
    semaphores = limits_in(job.get("limits")).semaphores
    return semaphore_slot(semaphores[0]) if semaphores else None
