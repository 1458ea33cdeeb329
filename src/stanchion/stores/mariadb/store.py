"""The store on MariaDB and MySQL: few round trips, and whole sets in each."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from stanchion.stores.mariadb import statements as sql
from stanchion.stores.mariadb.claim import MariaDBAdmitting
from stanchion.stores.mariadb.push import MariaDBInserts, MariaDBInsertStatements
from stanchion.stores.mariadb.settle import MariaDBCommits, MariaDBHeldRows, MariaDBHeldStatements
from stanchion.stores.mariadb.stats import MariaDBStats
from stanchion.stores.records.claims import Claim, Claimed
from stanchion.stores.records.jobs import JobRow
from stanchion.stores.records.queues import QueueSettings
from stanchion.stores.rules.slots import gated
from stanchion.stores.sql.admission import Admission
from stanchion.stores.sql.claim import beside_the_lane, reservation
from stanchion.stores.sql.engine.database import Database
from stanchion.stores.sql.engine.runner import Row, Runner
from stanchion.stores.sql.engine.schema import FIELDS
from stanchion.stores.sql.lanes import Head as LaneHead
from stanchion.stores.sql.lanes import Turn
from stanchion.stores.sql.parking import Search
from stanchion.stores.sql.push import Inserts
from stanchion.stores.sql.settle import HeldJobs, TransactionCommits

_PAYLOAD = FIELDS.index("payload")
_MOMENT = 0.02

_DROPPED_AT_ONCE = 1000


class Head(NamedTuple):
    """Where a line begins: a priority in use, and its first job."""

    priority: int
    run_at: int
    id: str


class MariaDBStore(MariaDBAdmitting):
    """The SQL store with claims and outcomes by whole sets."""

    statements_of = sql.MariaDBStatements
    job_statements_of = sql.MariaDBJobStatements
    lane_statements_of = sql.MariaDBLaneStatements
    stats_of = MariaDBStats

    def __init__(self, database: Database) -> None:
        super().__init__(database)

    def make_inserts(self) -> MariaDBInserts:
        return MariaDBInserts(self.jobs, Inserts(self.database, self.jobs, MariaDBInsertStatements))

    # -- out

    def claim_together(self, claim: Claim) -> Claimed:
        if claim.repeat or beside_the_lane(claim):
            return super().claim_together(claim)
        if claim.queue in self.gated_queues:
            return self.claim_at_gates(claim)
        # Most looks of an idle worker find nothing: they need no transaction.
        hindered, lease, head = self.database.read(lambda run: self._look(run, claim.queue))
        if hindered:
            return super().claim_together(claim)
        if head is None:
            return Claimed([])
        settings = QueueSettings(claim.queue) if lease is None else QueueSettings(claim.queue, lease=lease)

        search = Search()

        def work(run: Runner, again: bool) -> Admission:
            if again and (held := self.held(run, claim)):
                return Admission(held)
            found = self.hold(run, claim, search, settings, claim.limit, head)
            if claim.counted:
                self.jobs.tally(run, [(claim.queue, "reserved")] * len(found.rows))
            return found

        found = self.transactions.write(work, together=True)
        if not found.more:
            return Claimed(found.rows)
        rest = self.claim_at_gates(claim._replace(limit=claim.limit - len(found.rows)))
        return rest._replace(rows=found.rows + rest.rows)

    def hold(
        self,
        run: Runner,
        claim: Claim,
        search: Search,
        settings: QueueSettings,
        limit: int,
        head: Head | None = None,
    ) -> Admission:
        if claim.queue in self.gated_queues:
            return super().hold(run, claim, search, settings, limit)
        rows: list[JobRow] = []
        reserved = reservation(claim, settings)
        head = head or self._head(run, claim.queue)
        while head is not None:
            at = {"queue": claim.queue, "at_priority": head.priority, "since": head.run_at, "first": head.id}
            picked = _whole(run.rows(sql.PICK, {**at, **reserved, "most": limit - len(rows)}))
            if any(map(gated, picked)):
                # What is locked by its place in the line must be let go of before a gate is asked for: who holds the
                # gate may have to put a job into the line, where this one has left its mark.
                self.gated_queues.add(claim.queue)
                return Admission(rows, more=True)
            rows += _reserved(run, picked)
            if len(rows) >= limit:
                break
            head = self._head(run, claim.queue, head.priority)
        return Admission(rows)

    def pick_in_lanes(self, run: Runner, queue: str, heads: Sequence[LaneHead], share: Mapping[int, int]) -> list[Turn]:
        turns = super().pick_in_lanes(run, queue, heads, share)
        locked = set(self.lock_queued(run, [turn.id for turn in turns]))
        return [turn for turn in turns if turn.id in locked]

    def reserve_plain(self, run: Runner, claim: Claim, settings: QueueSettings, ids: Sequence[str]) -> list[JobRow]:
        return _reserved(run, _whole(run.rows(sql.PICK_THESE, {"ids": list(ids), **reservation(claim, settings)})))

    def recover(self, limit: int = 500, as_of: int | None = None) -> list[JobRow]:
        freed = super().recover(limit, as_of)
        if len(freed) < limit and self.database.read(lambda run: run.rows(sql.ANY_EXPIRED))[0][0]:
            # A holder that comes late locks its job for the moment that it takes to be refused.
            time.sleep(_MOMENT)
            freed += super().recover(limit - len(freed), as_of)
        return freed

    def _look(self, run: Runner, queue: str) -> tuple[bool, float | None, Head | None]:
        """Tell whether a claim must free leases or keep to limits, the queue's lease, and where to begin."""
        now, hindered, lease, *first = run.rows(sql.PROSPECT, {"queue": queue, "below": sql.ABOVE_ALL})[0]
        head = None if first[0] is None else Head(*first)
        while head is not None and head.run_at > now:
            head = self._head(run, queue, head.priority)
        return bool(hindered), lease, head

    def _head(self, run: Runner, queue: str, below: int = sql.ABOVE_ALL) -> Head | None:
        found = run.rows(sql.HEAD, {"queue": queue, "below": below})
        return Head(*found[0]) if found else None

    def make_held_jobs(self) -> HeldJobs:
        return HeldJobs(self.database, self.queue_rows, MariaDBHeldStatements)

    def make_commits(self) -> MariaDBCommits:
        rows = MariaDBHeldRows(self.held_jobs)
        return MariaDBCommits(rows, self.jobs, TransactionCommits(rows, self.jobs, self.flows))

    def drop_live(self, run: Runner, queue: str) -> tuple[int, list[Row]]:
        # By their ids: what is locked by its place in the line is locked twice, in another order than by who ends it.
        ids = [one for (one,) in run.rows(sql.OF_QUEUE, {"queue": queue})]
        live, tied = 0, []
        for start in range(0, len(ids), _DROPPED_AT_ONCE):
            some = {"ids": ids[start : start + _DROPPED_AT_ONCE]}
            tied += [row for row in run.rows(sql.HELD_OF_THESE, some) if any(row[2:5])]
            live += run.change(sql.REMOVE, some)
        return live, tied


def _reserved(run: Runner, rows: list[JobRow]) -> list[JobRow]:
    """Mark picked jobs as reserved, as they are given."""
    if rows:
        held = {name: getattr(rows[0], name) for name in ("token", "worker", "lease_until", "started_at")}
        run.send(sql.RESERVE, {"ids": [row.id for row in rows], **held})
    return rows


def _whole(picked: Sequence[tuple[str, str]]) -> list[JobRow]:
    """Put the payloads into the rows."""
    rows = json.loads(f"[{','.join(row for _, row in picked)}]")
    for (payload, _), row in zip(picked, rows, strict=True):
        row[_PAYLOAD] = payload
    return [JobRow(*row) for row in rows]
