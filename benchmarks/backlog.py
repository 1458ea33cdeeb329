"""What claiming costs beside many jobs that are ready, scheduled or finished. Stanchion only."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import Literal, cast, get_args

from benchmarks.contenders import Place, load
from benchmarks.contenders.base import batches
from benchmarks.contenders.stanchion_app import QUEUE, StanchionContender
from stanchion.core.ids import new_ids
from stanchion.stores.protocol import Store
from stanchion.stores.records.claims import Claim
from stanchion.stores.records.jobs import JobRow, NewJob
from stanchion.stores.records.outcomes import Commit
from stanchion.stores.registry import open_store

Kind = Literal["ready", "scheduled", "finished"]
KINDS: tuple[Kind, ...] = get_args(Kind)

SMALL = 10_000
BATCH = 100
ROUNDS = 60
"""Claims of BATCH jobs that are timed; fewer jobs altogether than SMALL."""

FAR = 30 * 86_400.0
WARM_UP = 5


@dataclass(frozen=True)
class ClaimCost:
    """Milliseconds for one claim of BATCH jobs, and for committing them."""

    claim: float
    finish: float


class Backlog:
    """A store with a backlog, and enough ready jobs to claim."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._claims = 0

    def push(self, count: int, delay: float | None = None) -> None:
        """Store jobs, due in `delay` seconds or now."""
        for jobs in batches(0, count):
            ids = new_ids(len(jobs))
            self._store.push([NewJob(job_id, QUEUE, "{}", delay=delay) for job_id in ids])

    def finish_all(self) -> None:
        """Finish all ready jobs."""
        while rows := self._claim(1000):
            self._finish(rows)

    def claim_cost(self) -> ClaimCost:
        """Claim and commit one batch."""
        began = perf_counter()
        rows = self._claim(BATCH)
        claimed = perf_counter()
        self._finish(rows)
        ended = perf_counter()
        if len(rows) != BATCH:
            raise RuntimeError(f"claimed {len(rows)} jobs, not {BATCH}")
        return ClaimCost(1000 * (claimed - began), 1000 * (ended - claimed))

    def close(self) -> None:
        """Disconnect."""
        self._store.close()

    def _claim(self, limit: int) -> Sequence[JobRow]:
        self._claims += 1
        return self._store.claim(Claim(QUEUE, limit, f"claim-{self._claims}")).rows

    def _finish(self, rows: Sequence[JobRow]) -> None:
        self._store.settle([Commit(row.lease) for row in rows])


def filled(reference: str, place: Place, kind: str, size: int) -> Backlog:
    """Return a store with `size` jobs of that kind, and ready jobs to claim beside them."""
    store = open_store(cast(type[StanchionContender], load(reference))(place).url())
    store.setup()
    backlog = Backlog(store)
    if kind == "ready":
        backlog.push(size)
        return backlog
    backlog.push(size, delay=FAR if kind == "scheduled" else None)
    if kind == "finished":
        backlog.finish_all()
    backlog.push(BATCH * (ROUNDS + WARM_UP))
    return backlog
