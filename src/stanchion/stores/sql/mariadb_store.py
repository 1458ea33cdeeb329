"""The store on MariaDB and MySQL: few round trips, and whole sets in each."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from stanchion.stores.gates import gated
from stanchion.stores.records import Claim, Claimed, Commit, JobRow, JobState, NewJob, Pushed, QueueSettings
from stanchion.stores.sql import mariadb_statements as sql
from stanchion.stores.sql.base import live_values
from stanchion.stores.sql.claiming import beside_the_lane, reservation
from stanchion.stores.sql.connection import BACK, MARK, Params, Runner
from stanchion.stores.sql.gating import Admission
from stanchion.stores.sql.laning import Head as LaneHead
from stanchion.stores.sql.laning import Turn
from stanchion.stores.sql.parking import Alike, Search
from stanchion.stores.sql.schema import FIELDS
from stanchion.stores.sql.store import SqlStore

_PAYLOAD = FIELDS.index("payload")
_CANDIDATES = 100
"""So many due jobs are looked at, at least, as others may have locked the first of them."""

_MOMENT = 0.02
_PACKET = 1_000_000
"""As many characters as the driver puts into one bulk insert; a server takes 16 MiB, escaped, if not told otherwise."""


class Head(NamedTuple):
    """Where a line begins: a priority in use, and its first job."""

    priority: int
    run_at: int
    id: str


class MariaDBStore(SqlStore):
    """The SQL store with claims and outcomes by whole sets."""

    statements_of = sql.MariaDBStatements
    lane_statements_of = sql.MariaDBLaneStatements

    # -- in

    def _insert(self, run: Runner, rows: Sequence[JobRow], *, singly: bool) -> list[JobRow]:
        # An insert that meets a key locks it and the gap before it, in a caller's transaction until its end: so none
        # is tried where the key is known to be taken.
        keys = {(row.key, row.queue): row for row in reversed(rows) if row.key is not None}
        if keys:
            taken = set(run.rows(sql.TAKEN, {"keys": sorted(keys)}))
            free = {row.id for key, row in keys.items() if key not in taken}
            rows = [row for row in rows if row.key is None or row.id in free]
        return self._insert_free(run, rows, singly)

    def _insert_free(self, run: Runner, rows: Sequence[JobRow], singly: bool) -> list[JobRow]:
        if singly or len(rows) < 2:
            return [row for row in rows if run.change(self.statements.insert_new, live_values(row)) == 1]
        # One order for all: two batches that share keys or ids wait for each other, and not in a circle.
        ordered = sorted(rows, key=lambda row: (row.queue, row.key or "", row.id))
        run.change(MARK)
        if run.change_each(self.statements.insert_new, [live_values(row) for row in ordered]) == len(rows):
            return list(rows)
        run.change(BACK)  # some were left out; one by one tells which
        return self._insert_free(run, ordered, singly=True)

    def met(self, run: Runner, job: NewJob, row: JobRow) -> Pushed:
        if job.key is None:  # a caller's transaction may read as of its beginning, and not see what it met
            for known in self.live(run, [job.id]).values():
                return Pushed(known.id, known.run_at, known.enqueued_at)
        return super().met(run, job, row)

    # -- out

    def claim_together(self, claim: Claim) -> Claimed:
        if claim.repeat or beside_the_lane(claim):
            return super().claim_together(claim)
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
            self.tally(run, [(claim.queue, "reserved")] * len(found.rows))
            return found

        found = self.write(work)
        if not found.more:
            return Claimed(found.rows)
        rest = self.search(claim._replace(limit=claim.limit - len(found.rows)), search)
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

    def due_at_gates(self, run: Runner, queue: str, limit: int, search: Search) -> list[str]:
        found: list[str] = []
        past = search.past
        for priority in self.priorities(run, queue):
            given = {"queue": queue, "at_priority": priority, "most": max(4 * limit, _CANDIDATES)}
            due = [one for (one,) in run.rows(sql.DUE if past is None else sql.DUE_PAST, {**given, **(past or {})})]
            while due and len(found) < limit:
                some, due = due[: limit - len(found)], due[limit - len(found) :]
                found += self._lock_queued(run, some)
            if len(found) >= limit:
                break
        return found

    def due_alike(self, run: Runner, queue: str, alike: Alike) -> list[str]:
        return self._lock_queued(run, super().due_alike(run, queue, alike))

    def pick_in_lanes(self, run: Runner, queue: str, heads: Sequence[LaneHead], share: Mapping[int, int]) -> list[Turn]:
        turns = super().pick_in_lanes(run, queue, heads, share)
        locked = set(self._lock_queued(run, [turn.id for turn in turns]))
        return [turn for turn in turns if turn.id in locked]

    def _lock_queued(self, run: Runner, ids: Sequence[str]) -> list[str]:
        """Return those of these jobs that are queued and locked by nobody else, locked, in this order."""
        locked = {one for (one,) in run.rows(sql.QUEUED_OF_THESE, {"ids": list(ids)})} if ids else set()
        return [one for one in ids if one in locked]

    def reserve_plain(self, run: Runner, claim: Claim, settings: QueueSettings, ids: Sequence[str]) -> list[JobRow]:
        return _reserved(run, _whole(run.rows(sql.PICK_THESE, {"ids": list(ids), **reservation(claim, settings)})))

    def reserve_asked(self, run: Runner, alike: Sequence[tuple[Params, Sequence[str]]]) -> list[JobRow]:
        for given, _ in alike:
            run.change(self._gates.reserve, given)
        return list(self.live(run, [one for _, ids in alike for one in ids]).values())

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

    # -- outcomes

    def commit_in(self, run: Runner, commits: Sequence[Commit]) -> list[JobState | None]:
        ids, tokens = [one.id for one in commits], {one.token for one in commits}
        if len(set(ids)) < len(ids) or len(tokens) > 1:
            return super().commit_in(run, commits)
        held = run.rows(sql.HELD, {"ids": sorted(ids), "token": tokens.pop()})
        kept = {bool(keeps) for _, _, keeps, _ in held}
        if sum(count for _, count, _, _ in held) < len(ids) or len(kept) > 1:
            return super().commit_in(run, commits)  # some are lost, or not like the others
        run.ended.update(ids)
        run.woken.update(queue for queue, _, _, bounded in held if bounded)  # a place is free
        if kept == {True}:
            self.keep_done(run, commits)
        self.remove(run, ids)
        self.tally(run, [(queue, "committed") for queue, count, _, _ in held for _ in range(count)])
        return [JobState.DONE] * len(ids)

    def keep_done(self, run: Runner, commits: Sequence[Commit]) -> None:
        bare = [one.id for one in commits if one.result is None and one.payload is None]
        if bare:
            run.change(sql.KEEP, {"ids": bare})
        for given in _packets(one for one in commits if one.result is not None or one.payload is not None):
            run.change(sql.KEEP_RESULTS, {"commits": json.dumps(given, ensure_ascii=False)})

    def remove(self, run: Runner, ids: Sequence[str]) -> None:
        if ids:
            run.change(sql.REMOVE, {"ids": list(ids)})


def _packets(commits: Iterable[Commit]) -> Iterator[list[tuple[str, str | None, str | None]]]:
    """Yield the commits in batches that fit into a packet."""
    batch: list[tuple[str, str | None, str | None]] = []
    size = 0
    for one in commits:
        length = len(one.result or "") + len(one.payload or "")
        if batch and size + length > _PACKET:
            yield batch
            batch, size = [], 0
        batch.append((one.id, one.result, one.payload))
        size += length
    if batch:
        yield batch


def _reserved(run: Runner, rows: list[JobRow]) -> list[JobRow]:
    """Mark picked jobs as reserved, as they are given."""
    if rows:
        held = {name: getattr(rows[0], name) for name in ("token", "worker", "lease_until", "started_at")}
        run.change(sql.RESERVE, {"ids": [row.id for row in rows], **held})
    return rows


def _whole(picked: Sequence[tuple[str, str]]) -> list[JobRow]:
    """Put the payloads into the rows."""
    rows = json.loads(f"[{','.join(row for _, row in picked)}]")
    for (payload, _), row in zip(picked, rows, strict=True):
        row[_PAYLOAD] = payload
    return [JobRow(*row) for row in rows]
