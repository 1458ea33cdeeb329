"""Finding, locking and reserving due jobs on MariaDB and MySQL.

Jobs that may use slots are locked by their ids, not by their index entries. To put such a job into the index, the
holder of a slot may need the lock of the entry that the job left behind: it would wait for a transaction that waits for
the slot.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from stanchion.stores.mariadb import statements as sql
from stanchion.stores.records.claims import Claim
from stanchion.stores.records.jobs import JobRow
from stanchion.stores.records.queues import QueueSettings
from stanchion.stores.rules.capacity.slots import uses_slots
from stanchion.stores.sql.claims.admit import Admission
from stanchion.stores.sql.claims.lanes import Head as LaneHead
from stanchion.stores.sql.claims.lanes import LanePicks, Pick
from stanchion.stores.sql.claims.order import NextJobs
from stanchion.stores.sql.claims.pick import Alike, DueJobs, Search
from stanchion.stores.sql.claims.reserve import Asks, Reservations, reservation
from stanchion.stores.sql.engine.database import Database
from stanchion.stores.sql.engine.runner import Params, Runner
from stanchion.stores.sql.rows.contents import row_from

_PAYLOAD = JobRow._fields.index("payload")
_CANDIDATES = 100
"""Number of due jobs read at least, as others may have locked the first of them."""


class Head(NamedTuple):
    """The start of the due jobs of a rank in use: that rank, and its first job."""

    rank: int
    run_at: int
    id: str


class MariaDBDue:
    """Finds due jobs without locks, then locks them by their ids."""

    def __init__(self, general: DueJobs) -> None:
        self._general = general

    def due(self, run: Runner, queue: str, limit: int, search: Search) -> list[str]:
        found: list[str] = []
        past = search.past
        skipping: Params = {} if past is None else {**past.patterns, "keys": past.keys}
        for rank in self._general.ranks(run, queue, search.min_rank):
            given = {"queue": queue, "at_rank": rank, "most": max(4 * limit, _CANDIDATES)}
            due = [one for (one,) in run.rows(sql.DUE if past is None else sql.DUE_PAST, {**given, **skipping})]
            while due and len(found) < limit:
                some, due = due[: limit - len(found)], due[limit - len(found) :]
                found += lock_queued(run, queue, some)
            if len(found) >= limit:
                break
        return found

    def alike(self, run: Runner, queue: str, alike: Alike) -> list[str]:
        return lock_queued(run, queue, self._general.alike(run, queue, alike))


class MariaDBLanePicks:
    """Picks jobs of lanes without locks, then locks them by their ids."""

    def __init__(self, db: Database) -> None:
        self._general = LanePicks(db, sql.MariaDBLaneStatements)

    def pick(self, run: Runner, queue: str, heads: Sequence[LaneHead], share: Mapping[int, int]) -> list[Pick]:
        picks = self._general.pick(run, queue, heads, share)
        locked = set(lock_queued(run, queue, [pick.id for pick in picks]))
        return [pick for pick in picks if pick.id in locked]


class MariaDBReservations:
    """Reads jobs when it locks them, as an UPDATE returns no rows."""

    def __init__(self, general: Reservations) -> None:
        self._general = general

    def plain(self, run: Runner, claim: Claim, settings: QueueSettings, ids: Sequence[str]) -> list[JobRow]:
        return reserved(run, whole(run.rows(sql.PICK_THESE, {"ids": list(ids), **reservation(claim, settings)})))

    def with_slots(self, run: Runner, claim: Claim, settings: QueueSettings, ids: Sequence[str]) -> list[JobRow]:
        return []

    def admitted(self, run: Runner, asks: Sequence[Asks], *, last: bool = False) -> list[JobRow]:
        self._general.send_admitted(run, asks)
        asked = sql.ADMITTED, {"ids": json.dumps(sorted(one for _, ids in asks for one in ids))}
        return [row_from(row) for row in run.all_rows([asked], last=last)[0]]


class MariaDBNextJobs:
    """Reserves plain jobs by ranges of their index; jobs that use slots as on other databases."""

    def __init__(self, general: NextJobs) -> None:
        self._general = general
        self.reserve_these, self.first = general.reserve_these, general.first

    def reserve(self, run: Runner, claim: Claim, search: Search, settings: QueueSettings, limit: int) -> Admission:
        if settings.uses_slots or search.met_slots:
            return self._general.reserve(run, claim, search, settings, limit)
        return self.reserve_from(run, claim, search, settings, limit, head_below(run, claim))

    def reserve_from(
        self, run: Runner, claim: Claim, search: Search, settings: QueueSettings, limit: int, head: Head | None
    ) -> Admission:
        """Reserve the next due jobs from this head on, up to the first job that uses slots."""
        rows: list[JobRow] = []
        given = reservation(claim, settings)
        while head is not None:
            at = {"queue": claim.queue, "at_rank": head.rank, "since": head.run_at, "first": head.id}
            picked = whole(run.rows(sql.PICK, {**at, **given, "most": limit - len(rows)}))
            if any(map(uses_slots, picked)):
                # Release the locks of index entries before asking for a slot: the holder of the slot may have to insert
                # a job into the index, next to an entry that this transaction has locked.
                search.met_slots = True
                return Admission(rows, more=True)
            rows += reserved(run, picked)
            if len(rows) >= limit:
                break
            head = head_below(run, claim, head.rank)
        return Admission(rows)


def head_below(run: Runner, claim: Claim, below: int = sql.ABOVE_ALL) -> Head | None:
    """Return the head of the next lower rank in use, None below the lowest that the claim wants."""
    found = run.rows(sql.HEAD, {"queue": claim.queue, "below": below, "min_rank": claim.min_rank})
    return Head(*found[0]) if found else None


def lock_queued(run: Runner, queue: str, ids: Sequence[str]) -> list[str]:
    """Lock and return, in order, the jobs that are queued and not locked by others."""
    given = {"queue": queue, "ids": list(ids)}
    locked = {one for (one,) in run.rows(sql.QUEUED_OF_THESE, given)} if ids else set()
    return [one for one in ids if one in locked]


_HELD = ("queue", "token", "worker", "delivery", "lease_until", "started_at")


def reserved(run: Runner, rows: list[JobRow]) -> list[JobRow]:
    """Reserve picked jobs, and return them."""
    if rows:
        run.send(sql.RESERVE, {"ids": [row.id for row in rows], **{name: getattr(rows[0], name) for name in _HELD}})
    return rows


def whole(picked: Sequence[tuple[str, str]]) -> list[JobRow]:
    """Return the rows with their payloads."""
    rows = json.loads(f"[{','.join(row for _, row in picked)}]")
    for (payload, _), row in zip(picked, rows, strict=True):
        row[_PAYLOAD] = payload
    return list(map(row_from, rows))
