"""Jobs behind full gates: passed over by a claim, and parked many by one command.

A claim that has found gates full looks for jobs that don't wait first for one of them, and parks those that do:
(1) which are next in the queue, (2) one update for all with the same limits, each on its own if it is still as it was
seen, (3) the gates are looked at once more. After a death past (2) the sweep does (3).
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Sequence

from stanchion.stores.cas.mixins.claim import Parked
from stanchion.stores.mongo.client.documents import Document
from stanchion.stores.mongo.client.place import Place
from stanchion.stores.mongo.lanes import place_in_line, queued
from stanchion.stores.mongo.turns import Line, Turning
from stanchion.stores.records.claims import Claim
from stanchion.stores.records.jobs import UNLANED, JobState
from stanchion.stores.rules.limits import limits_in
from stanchion.stores.rules.slots import HOLDER_BOOST, order_gate, semaphore_gate, semaphore_of

AT_ONCE = 500
"""So many jobs are parked by one command."""

FEW = 50
"""So many are parked before others are passed over: to read past a job costs much less than to park it."""

Seen = tuple[str, str | None, str | None]
"""The gate that a job takes first, its order key, and its limits."""
_UNHELD: Document = {"held": {"$in": [None, 0]}, "permit": None, "priority": {"$lte": HOLDER_BOOST // 2}}
"""The filter for jobs that hold nothing yet, so that they wait first for the first of their gates."""


class Parking(Turning):
    """Parks jobs that would have to wait."""

    def park_run(self, claim: Claim, began: int, *, alone: bool) -> Parked:
        return self._park_up_to(AT_ONCE, claim, began, alone=alone)

    def park_few(self, claim: Claim, began: int) -> Parked:
        return self._park_up_to(FEW, claim, began, alone=False)

    def _park_up_to(self, most: int, claim: Claim, began: int, *, alone: bool) -> Parked:
        line = self.line(claim.queue)
        if not alone and (line.settings.laned or claim.lanes is not None):
            return Parked(0, more=True)  # it may be the turn of others
        found = self._waiting_next(most, claim, line, alone=alone)
        full = set(claim.full)
        alike: defaultdict[Seen, list[str]] = defaultdict(list)
        for job in found:
            gate = _first_gate(claim.queue, job)
            if gate is None or gate not in full:
                break
            alike[gate, job.get("order_key"), job.get("limits")].append(job["_id"])
        for seen, ids in alike.items():
            self._park(claim, line, ids, seen, began)
        self.wake(*dict.fromkeys(gate for gate, _, _ in alike))
        parked = sum(map(len, alike.values()))
        return Parked(parked, more=parked == most)

    def _waiting_next(self, most: int, claim: Claim, line: Line, *, alone: bool) -> list[Document]:
        """Return the next due jobs; where none but those at full gates are due, in any order."""
        wanted = {**queued(claim.queue), "run_at": {"$lte": line.now}}
        if alone:
            wanted |= {**_UNHELD, "$or": [one for gate in claim.full for one in _at(claim.queue, gate)]}
        if claim.lanes is not None:
            wanted["lane"] = {"$gte": claim.lanes[0], "$lte": claim.lanes[1]}
        elif not line.settings.laned:
            wanted["lane"] = UNLANED  # the index of the line gives those of one lane in order
        fields = dict.fromkeys(("limits", "order_key", "held", "permit", "priority", "run_at"), 1)

        def work(on: Place, _again: bool) -> list[Document]:
            found = on.jobs.find(wanted, fields, batch_size=most + 1)
            if not alone:
                found = found.sort([("priority", -1), ("run_at", 1), ("_id", 1)])
            return list(found.limit(most))

        return sorted(self.server.call(work), key=place_in_line)

    def _park(self, claim: Claim, line: Line, ids: list[str], seen: Seen, began: int) -> None:
        """Park jobs as `transitions.kept_back` does, all at once."""
        gate, order_key, limits = seen
        as_seen = {"order_key": order_key, "limits": limits, **_UNHELD}
        due = {"_id": {"$in": ids}, **queued(claim.queue), "run_at": {"$lte": line.now}, **as_seen}
        parked = {"state": JobState.WAITING.value, "waits_for": gate, "waits_since": began, "permit": claim.token}
        update = {"$set": parked, "$inc": {"version": 1}}
        self.server.call(lambda on, _again: on.jobs.update_many(due, update))


def passing(queue: str, full: Sequence[str]) -> Document:
    """Return the filter for jobs of a queue that wait first for none of these gates."""
    return {"$nor": [one for gate in full for one in _at(queue, gate)]} if full else {}


def _at(queue: str, gate: str) -> list[Document]:
    """Return filters for jobs that wait first for this gate; their semaphores are read off how their limits begin.

    Each condition costs with every job that is passed over, so there are few: who has no permit yet holds nothing.
    """
    name = semaphore_of(gate)
    if name is None:
        return [{"order_key": gate.removeprefix(order_gate(queue, "")), "permit": None, "held": {"$in": [None, 0]}}]
    begin = '{"hold":[' + json.dumps(name, ensure_ascii=False)
    return [
        {"limits": {"$gte": begin + end, "$lt": begin + chr(ord(end) + 1)}, "permit": None, "order_key": None}
        for end in "],"
    ]


def _first_gate(queue: str, job: Document) -> str | None:
    """Return the gate that a queued job takes first; None where it needs none, or holds some."""
    if job.get("held") or job.get("permit") is not None or job["priority"] > HOLDER_BOOST // 2:
        return None
    if "order_key" in job:
        return order_gate(queue, job["order_key"])
    semaphores = limits_in(job.get("limits")).semaphores
    return semaphore_gate(semaphores[0]) if semaphores else None
