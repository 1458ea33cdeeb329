"""The stored state of a stream, and what derives from it: tokens, workers, writes."""

from __future__ import annotations

import json
from dataclasses import dataclass, fields, replace
from typing import NamedTuple, Self
from uuid import UUID, uuid5

from stanchion.core.names.fitted_names import fitted
from stanchion.errors import InvalidInput
from stanchion.stores.paging import pages_by_size
from stanchion.stores.ports import ArrowReads
from stanchion.stores.protocol import Store, pages
from stanchion.stores.records.jobs import JobRow, Lease
from stanchion.stores.records.outcomes import Outcome, Rollback
from stanchion.stores.records.query import Condition, Op, Query
from stanchion.stores.records.values import ValueChange, VersionedValue
from stanchion.stores.rules.query import PAGE
from stanchion.streams.sizing import Reserved, items_of

KIND = "stream"
PORTION = 1000
"""Outcomes per call of settle."""

MORE = 20_000
"""Number of jobs per read, after the first ones."""


class Position(NamedTuple):
    """A position in a stream: after batch number `seq`. A driver's log needs to keep nothing else."""

    stream: str
    seq: int


class Part(NamedTuple):
    """The jobs of a batch with ids from `first` to `last` (None: no bound), for one reader.

    `size`: the number of jobs in the whole batch when it was divided; `span`: their first and last id. `finished`:
    the batch is acknowledged, and its jobs are read from history. `items`: the number of items of its jobs.
    """

    name: str
    stream: str
    queue: str
    seq: int
    token: str
    epoch: int
    size: int
    first: str | None = None
    last: str | None = None
    span: tuple[str | None, str | None] = (None, None)
    finished: bool = False
    items: int = 0


class Run(NamedTuple):
    """The reader of a batch: the `name` of one attempt of one query to process it.

    `size`: the number of jobs read; `first`, `last`: their first and last id; `items`: the number of their items.
    """

    name: str
    seq: int
    size: int
    first: str | None = None
    last: str | None = None
    items: int = 0


@dataclass(frozen=True, slots=True)
class StreamState:
    """The state of a stream, stored as a versioned value.

    `epoch`: counts its drivers; `driver`: the id of the last one. `holder`: the epoch that reserved the last batch.
    `published`: the last batch whose new jobs were stored before its end. `outside`: the last batch whose rows a sink
    may have stored outside of this store. `version`: of the value, not part of it.

    `run`: the current driver's run that reads the last batch; `past`: the last runs of earlier drivers. `begun`: the
    run, of any driver, that last read rows of the last batch. `again`: the number of jobs of that batch in history, if
    it has to be read again.

    `failure`: why the run in `begun` failed, if its sink recorded it. `replays`: how often the last batch was retried
    after a failure of the query; `alone`: how often it was a single job then. `error`: the last of these failures;
    `buried`: the failure for which a job was buried, until another job is finished; `stopped`: the next job failed
    in the same way. `ui`: the address of the current driver's web UI, if known.

    `seen`: the highest time in the jobs of all acknowledged batches, for a query with a watermark; `seeing`: the
    highest time of the last batch, while it is not acknowledged.

    `jobs`, `seconds`: of the last batch completed by a driver, from its claim to the driver's next poll; 0
    before the first.
    """

    id: str
    queue: str
    driver: str
    epoch: int = 0
    acked: int = 0
    reserved: int = 0
    holder: int = 0
    replays: int = 0
    published: int = 0
    outside: int = 0
    run: Run | None = None
    past: tuple[str, ...] = ()
    begun: Run | None = None
    again: int = 0
    failure: str | None = None
    alone: int = 0
    error: str | None = None
    buried: str | None = None
    stopped: bool = False
    ui: str = ""
    jobs: int = 0
    seconds: float = 0.0
    seen: int | None = None
    seeing: int | None = None
    version: int = 0

    @classmethod
    def of(cls, stored: VersionedValue) -> Self:
        """Return the state in a stored value; fields of newer releases are ignored."""
        known = {name: value for name, value in json.loads(stored.text).items() if name in _FIELDS}
        for name in ("run", "begun"):
            known[name] = Run(*known[name]) if known.get(name) else None
        known["past"] = tuple(known.get("past", ()))
        return cls(**known, version=stored.version)

    @property
    def text(self) -> str:
        """The text of the value."""
        told = {name: getattr(self, name) for name in _FIELDS}
        return json.dumps(told, separators=(",", ":"), sort_keys=True)

    # -- transitions

    def taken_over(self, driver: str, ui: str = "") -> Self:
        """Return the state with a new driver; the previous one is refused."""
        past = self.past if self.run is None else (*self.past, self.run.name)[-_PAST:]
        return replace(self, driver=driver, epoch=self.epoch + 1, run=None, past=past, ui=ui)

    def with_batch(self) -> Self:
        """Return the state with one more batch, reserved by the current driver."""
        fresh = replace(self, reserved=self.reserved + 1, holder=self.epoch, run=None, begun=None, again=0)
        return fresh._without_trouble()

    def acknowledged(self, jobs: int, again: int = 0) -> Self:
        """Return the state with its last batch finished. `jobs`: their number; `again`: see the class."""
        seen = max((at for at in (self.seen, self.seeing) if at is not None), default=None)
        done = replace(self, acked=self.reserved, again=again, seen=seen, seeing=None)._without_trouble()
        return replace(done, error=None, buried=None, stopped=False) if jobs else done

    def without_times(self) -> Self:
        """Return the state without the times of its jobs, as before the first batch."""
        return replace(self, seen=None, seeing=None)

    def _without_trouble(self) -> Self:
        return replace(self, replays=0, failure=None, alone=0)

    @property
    def token(self) -> str:
        """The token of the last batch."""
        return self._token(self.reserved, self.holder)

    def lease(self, job_id: str) -> Lease:
        """Return the lease of a job of the last batch."""
        return Lease(self.queue, job_id, self.token)

    @property
    def next_token(self) -> str:
        """The token under which the current driver claims the next batch."""
        return self._token(self.reserved + 1, self.epoch)

    @property
    def pending(self) -> bool:
        """True while the last batch is not acknowledged."""
        return self.reserved > self.acked

    @property
    def held(self) -> bool:
        """True while the rows of the last batch may be stored elsewhere, and it is not acknowledged."""
        return self.pending and self.outside == self.reserved

    def _token(self, seq: int, epoch: int) -> str:
        return str(uuid5(UUID(self.id), f"{seq}:{epoch}"))

    def write(self, seq: int) -> str:
        """Return the name under which the outputs of a batch are staged."""
        return f"{KIND}:{self.id}:{seq}"

    def change(self, name: str) -> ValueChange:
        """Return the change from the version that was read to this state."""
        return ValueChange(KIND, name, self.text, self.version)


_FIELDS = tuple(field.name for field in fields(StreamState) if field.name != "version")
_PAST = 16
"""Runs of earlier drivers that are remembered, so that they can be refused."""


def worker_id(name: str, epoch: int) -> str:
    """Return the id of the worker that holds the jobs of the driver of this epoch."""
    return fitted(f"{KIND}:{name}", f":{epoch}")


def load(store: Store, name: str) -> StreamState | None:
    """Return the state of a stream, or None."""
    return next(map(StreamState.of, store.values(KIND, [name])), None)


def known(store: Store, name: str) -> StreamState:
    """Return the state of a stream. Raises InvalidInput if the name is unknown."""
    state = load(store, name)
    if state is None:
        names = ", ".join(value.name for value in store.values(KIND)) or "none"
        raise InvalidInput(f"no stream {name!r} (known: {names}); the first query that reads it creates it")
    return state


def compare_and_set(store: Store, name: str, state: StreamState) -> StreamState | None:
    """Write a changed state; return it with its new version, or None if another process was faster.

    If the reply to an applied change was lost, the repeated call fails; comparing the stored text detects that.
    """
    if store.compare_and_set(*state.change(name)):
        return replace(state, version=state.version + 1)
    found = load(store, name)
    return found if found is not None and found.text == state.text else None


def reserved_ids(store: Store, queue: str, token: str) -> list[str]:
    """Return the ids of the jobs of a queue that are reserved under a token, in order."""
    return [job.id for job in reserved_jobs(store, queue, token)]


def reserved_jobs(store: Store, queue: str, token: str) -> list[Reserved]:
    """Return these jobs with the numbers of their items, in order of their ids."""
    query = Query("live", _under(queue, token), order="id", columns=("id", "items"), limit=PAGE)
    first = store.select(query)
    if first.next is None:
        found = first.rows
    elif (arrow := store.extension(ArrowReads)) is not None:
        batches = ([one.to_pylist() for one in batch.columns] for batch in arrow.select_arrow(query))
        found = [row for ids, items in batches for row in zip(ids, items, strict=True)]
    else:
        later = pages(store, replace(query, limit=MORE, after=first.next))
        found = [row for page in ([first.rows], later) for rows in page for row in rows]
    return [Reserved(job_id, items_of(items)) for job_id, items in found]


def has_unnumbered(store: Store, state: StreamState) -> bool:
    """Return whether jobs are claimed for the next batch, which has no number yet."""
    query = Query("live", _under(state.queue, state.next_token), order="id", columns=("id",), limit=1)
    return bool(store.select(query).rows)


def reserved_rows(store: Store, queue: str, token: str, first: str | None, last: str | None) -> list[JobRow]:
    """Return the jobs of a queue that are reserved under a token, with ids from `first` to `last`, in id order."""
    # Databases look through all jobs of the token for each page, so there should be few pages.
    read = pages_by_size(store, reserved(queue, token, first, last), MORE)
    return [row for page in read for row in page]


def reserved(queue: str, token: str, first: str | None, last: str | None) -> Query:
    """Return the query for these jobs."""
    return Query("live", (*_under(queue, token), *between(first, last)), order="id", limit=PAGE)


def _under(queue: str, token: str) -> tuple[Condition, ...]:
    return Condition("queue", "=", queue), Condition("token", "=", token)


def between(first: str | None, last: str | None) -> tuple[Condition, ...]:
    """Return the conditions that an id is within these bounds; None: no bound."""
    bounds: list[tuple[Op, str | None]] = [(">=", first), ("<=", last)]
    return tuple(Condition("id", op, bound) for op, bound in bounds if bound is not None)


def give_back(store: Store, queue: str, token: str, ids: list[str]) -> None:
    """Give reserved jobs back without counting an attempt; those no longer reserved are back already."""
    settle(store, [Rollback(Lease(queue, job_id, token), 0.0, refund=True) for job_id in ids])


def settle(store: Store, outcomes: list[Outcome]) -> int:
    """Settle outcomes in portions; return the number applied."""
    portions = (outcomes[first : first + PORTION] for first in range(0, len(outcomes), PORTION))
    return sum(state is not None for portion in portions for state in store.settle(portion))
