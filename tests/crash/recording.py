"""A store that journals what it is asked and what it answers."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple, cast

from stanchion.errors import StoreUnavailable
from stanchion.stores.protocol import Store
from stanchion.stores.records.claims import Claim, Claimed
from stanchion.stores.records.flows import FlowChange
from stanchion.stores.records.jobs import JobRow, JobState, NewJob, Pushed
from stanchion.stores.records.outcomes import Bury, Commit, Outcome, Rollback
from stanchion.stores.rules.flows import jobs_in
from stanchion.stores.rules.leases.lost_leases import LostLeaseDelay
from tests.crash.journal import LOST, UNAVAILABLE, Event, Journal, What


class Recording:
    """Passes every call on; writes down pushes, claims, outcomes and recoveries, before and after."""

    def __init__(self, store: Store, journal: Journal) -> None:
        self._store, self._journal = store, journal

    @property
    def lost_lease_delay(self) -> LostLeaseDelay:
        return self._store.lost_lease_delay

    @lost_lease_delay.setter
    def lost_lease_delay(self, delay: LostLeaseDelay) -> None:
        self._store.lost_lease_delay = delay

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def push(self, jobs: Sequence[NewJob], tx: Any = None) -> list[Pushed]:
        with self._pushing(jobs):
            return self._store.push(jobs, tx)

    def change_flows(self, changes: Sequence[FlowChange], tx: Any = None) -> list[bool]:
        with self._pushing(jobs_in(changes)):
            return self._store.change_flows(changes, tx)

    @contextmanager
    def _pushing(self, jobs: Sequence[NewJob]) -> Iterator[None]:
        batch = jobs[0].id
        self._journal.write(_event("asked push", job.id, detail=str(job.payload), batch=batch) for job in jobs)
        try:
            yield
        except StoreUnavailable:
            self._journal.write(_event("told push", job.id, detail=UNAVAILABLE, batch=batch) for job in jobs)
            raise
        self._journal.write(_event("told push", job.id, detail="stored", batch=batch) for job in jobs)

    def recover(self, limit: int = 500, as_of: int | None = None) -> list[JobRow]:
        began = time.monotonic()
        rows = self._store.recover(limit, as_of)
        self._journal.write(_event("recovered", row.id)._replace(at=began) for row in rows)
        return rows

    def claim(self, claim: Claim) -> Claimed:
        began = time.monotonic()
        claimed = self._store.claim(claim)
        if claimed.rows:
            self._journal.write(
                _event("claimed", row.id, token=claim.token, attempt=row.attempts)._replace(at=began)
                for row in claimed.rows
            )
        return claimed

    def settle(self, outcomes: Sequence[Outcome], tx: Any = None, *, repeat: bool = False) -> list[JobState | None]:
        verbs = [_verb(outcome) for outcome in outcomes]
        self._journal.write(
            _event(verb.asked, one.lease.id, token=one.lease.token) for verb, one in zip(verbs, outcomes, strict=True)
        )
        answers: Sequence[str] = [UNAVAILABLE] * len(outcomes)
        try:
            states = self._store.settle(outcomes, tx, repeat=repeat)
            answers = [state or LOST for state in states]
        finally:
            self._journal.write(
                _event(verb.told, one.lease.id, token=one.lease.token, detail=answer)
                for verb, one, answer in zip(verbs, outcomes, answers, strict=True)
            )
        return states


def recorded(store: Store, journal: Journal) -> Store:
    """Return the store with a journal of its calls."""
    return cast(Store, Recording(store, journal))


class _Verb(NamedTuple):
    asked: What
    told: What


def _verb(outcome: Outcome) -> _Verb:
    match outcome:
        case Commit():
            return _Verb("asked commit", "told commit")
        case Rollback(refund=True):
            return _Verb("asked refund", "told refund")
        case Rollback():
            return _Verb("asked rollback", "told rollback")
        case Bury():
            return _Verb("asked bury", "told bury")
    raise AssertionError(f"the crash tests know no {outcome!r}")


def _event(what: What, job: str, *, token: str = "", attempt: int = 0, detail: str = "", batch: str = "") -> Event:
    return Event(time.monotonic(), os.getpid(), what, job, token, attempt, detail, batch)
