"""Publication of staged jobs, in a store without transactions over several jobs.

With staged jobs: (1) the pieces are counted, (2) the value is written by compare-and-set, together with a record that
the publication has begun, (3) the pieces are pushed one after the other, each under an idempotency key, and dropped,
(4) the rest of the stage is deleted, (5) the record is deleted. After a death past (2), outbox recovery or a repeat
continues with (3). A piece that was pushed is not pushed again, even if its jobs are done and forgotten.

With jobs to finish: (1) the value is read, (2) the reserved jobs are counted and ended, (3) the value is written.
After a death in (2) the batch has fewer reserved jobs, and must run again with those.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple, Protocol

from stanchion.core.spark_errors import LeasesLost, StagedJobsLost
from stanchion.core.values.framing import as_text
from stanchion.errors import CannotJoin
from stanchion.stores.cas.entries import STALE, new_job_in
from stanchion.stores.cas.outbox import PushOnce
from stanchion.stores.records.jobs import JobState, Lease, NewJob
from stanchion.stores.records.outcomes import Commit, Ending
from stanchion.stores.records.prepared import Prepared
from stanchion.stores.records.staging import Finish, Publication
from stanchion.stores.records.values import ValueChange
from stanchion.stores.rules.lifecycle.jobs import due_at
from stanchion.stores.rules.staging import value_of_write

_COMMITS_MAX = 1000
_PIECE_JOBS = 500
_PIECE_CHARS_MAX = 1 << 20
"""Number of characters from which a piece takes no further job."""


class Piece(NamedTuple):
    """Some of the jobs that an attempt has staged; `key` is unique within the attempt."""

    key: str
    jobs: list[NewJob]


class Staged(NamedTuple):
    """The number of jobs that an attempt has staged; `strict`: some of them raise DuplicateKey for a taken key."""

    jobs: int
    strict: bool


class Begun(NamedTuple):
    """A publication whose value is written and whose jobs are being pushed; `kind` and `name` name that value."""

    write: str
    attempts: tuple[str, ...]
    kind: str
    name: str
    begun_at: int


class StageRows(Protocol):
    """Primitives on staged jobs and begun publications; each is atomic."""

    def now(self) -> int:
        """Return the store's clock."""

    def staged(self, write: str) -> dict[str, Staged]:
        """Return what each attempt has staged, and keep it for another day."""

    def pieces(self, write: str, attempt: str) -> Iterator[Piece]:
        """Yield the pieces of an attempt; each read is bounded in characters."""

    def drop_piece(self, begun: Begun, attempt: str, piece: Piece) -> None:
        """Delete a pushed piece, and record that the publication continues."""

    def stage_prepared(self, write: str, attempt: str, prepared: Sequence[Prepared]) -> None:
        """Store prepared jobs under a write and an attempt; add none twice."""

    def prepared(self, write: str, attempt: str) -> Iterator[Prepared]:
        """Yield the prepared jobs of an attempt."""

    def drop_prepared(self, begun: Begun, attempt: str, prepared: Prepared) -> None:
        """Delete pushed prepared jobs, and record that the publication continues."""

    def unstage(self, write: str) -> None:
        """Delete the staged jobs of a write."""

    def begin(self, begun: Begun, value: ValueChange) -> bool:
        """Write a value by compare-and-set, with a record of the begun publication; False: another was faster."""

    def begun(self, before: int) -> Iterable[Begun]:
        """Return the publications that have begun and had no progress since this time."""

    def begun_with(self, value: ValueChange, write: str) -> Begun | None:
        """Return the unfinished publication of a write that has begun with this value."""

    def delete_begun(self, begun: Begun) -> None:
        """Delete the record of a finished publication."""

    def version(self, kind: str, name: str) -> int:
        """Return the version of a value, 0 if it is absent."""

    def refuse_duplicates(self, jobs: Sequence[NewJob]) -> None:
        """Raise DuplicateKey for a job that asks for it."""

    def ids_reserved(self, queue: str, token: str) -> list[str]:
        """Return the ids of the running jobs of a queue that are held under a token, sorted."""


class PushPrepared(Protocol):
    """Stores prepared jobs."""

    def push_prepared(self, key: str, prepared: Prepared, run_at: int) -> None:
        """Store jobs, due since `run_at`, under an idempotency key: see `PushOnce`."""


class Staging:
    """Publishes staged jobs."""

    def __init__(
        self,
        rows: StageRows,
        pushes: PushOnce,
        prepared: PushPrepared,
        compare_and_set: Callable[[str, str, str | None, int], bool],
        settle: Callable[[Sequence[Ending]], list[JobState | None]],
    ) -> None:
        self._rows, self._pushes, self._prepared = rows, pushes, prepared
        self._compare_and_set, self._settle = compare_and_set, settle

    def publish(self, publication: Publication) -> bool:
        """Store staged jobs, or finish reserved jobs, once; then clear the stage."""
        return self.publish_prepared(publication, ())

    def publish_prepared(self, publication: Publication, prepared: Sequence[Prepared]) -> bool:
        """Publish as `publish` does, and store these jobs too.

        They are staged first, so that others can store the rest of them after a death.
        """
        write, attempts, _, finish = publication
        jobs = sum(number for _, number in attempts) + sum(one.jobs for one in prepared)
        if finish is not None and jobs:
            raise CannotJoin(
                f"this store can't enqueue staged jobs and finish jobs of queue {finish.queue!r} in one step, so a "
                f"failure in between would repeat or lose some; let each row carry its job_id and use "
                f"mode=move, or a store with transactions"
            )
        now = self._rows.now()
        value = publication.value or value_of_write(write, now)
        if self._rows.version(value.kind, value.name) != value.version:
            return self._published_before(value, write)
        if prepared:
            attempts = (*attempts, self._stage(write, prepared))
        staged = self._rows.staged(write) if attempts else {}
        for attempt, number in attempts:
            if (found := staged.get(attempt, _NOTHING).jobs) != number:
                if self._rows.version(value.kind, value.name) != value.version:  # another publisher cleared the stage
                    return self._published_before(value, write)
                raise StagedJobsLost(write, number, found)
        if any(one.strict for one in staged.values()):
            pieces = (piece for attempt, _ in attempts for piece in self._rows.pieces(write, attempt))
            self._rows.refuse_duplicates([job for piece in pieces for job in piece.jobs if job.key is not None])
        if jobs:
            begun = Begun(write, tuple(attempt for attempt, _ in attempts), value.kind, value.name, now)
            if not self._rows.begin(begun, value):
                return self._published_before(value, write)
            self.go_on(begun)
            return True
        if finish is not None:
            self._finish(finish)
        written = self._compare_and_set(*value)
        self._rows.unstage(write)
        return written

    def unstage(self, write: str) -> None:
        """Delete the staged jobs of a write, unless its publication has begun: then they are needed to complete it.

        A publisher may die, and its caller then abort the write, as Spark does after a failed commit.
        """
        if all(begun.write != write for begun in self._rows.begun(_EVER)):
            self._rows.unstage(write)

    def _stage(self, write: str, prepared: Sequence[Prepared]) -> tuple[str, int]:
        """Stage jobs under an attempt of this publisher alone; return it, with their number."""
        attempt = f"publisher {secrets.token_hex(8)}"
        self._rows.stage_prepared(write, attempt, prepared)
        return attempt, sum(one.jobs for one in prepared)

    def _published_before(self, value: ValueChange, write: str) -> bool:
        begun = self._rows.begun_with(value, write)
        if begun is None:
            self._rows.unstage(write)
        else:
            self.go_on(begun)
        return False

    def go_on(self, begun: Begun) -> None:
        """Push the remaining pieces of a begun publication, and end it."""
        for attempt in begun.attempts:
            for piece in self._rows.pieces(begun.write, attempt):
                jobs = [_anchored(job, begun.begun_at) for job in piece.jobs]
                self._pushes.push_once([(f"{begun.write}:{attempt}:{piece.key}", jobs)])
                self._rows.drop_piece(begun, attempt, piece)
            for prepared in self._rows.prepared(begun.write, attempt):
                self._prepared.push_prepared(f"{begun.write}:{attempt}:{prepared.first}", prepared, begun.begun_at)
                self._rows.drop_prepared(begun, attempt, prepared)
        self._rows.unstage(begun.write)
        self._rows.delete_begun(begun)

    def _finish(self, finish: Finish) -> None:
        ids = self._rows.ids_reserved(finish.queue, finish.token)
        ends = {end.lease.id: end for end in finish.ends}
        if len(ids) != finish.jobs or not ends.keys() <= set(ids):
            raise LeasesLost(finish.queue, finish.jobs, len(ids))
        lost = 0
        for start in range(0, len(ids), _COMMITS_MAX):
            some = ids[start : start + _COMMITS_MAX]
            states = self._settle([ends.get(job) or Commit(Lease(finish.queue, job, finish.token)) for job in some])
            lost += states.count(None)
        if lost:
            raise LeasesLost(finish.queue, finish.jobs, finish.jobs - lost)

    def recover(self) -> None:
        """Continue the publications of dead processes."""
        for begun in self._rows.begun(self._rows.now() - STALE):
            self.go_on(begun)


_EVER = 1 << 52
"""A time after any other."""
_NOTHING = Staged(0, strict=False)


def _anchored(job: NewJob, now: int) -> NewJob:
    """Return a staged job to be pushed: due at the same time as all others, so that they sort by their ids."""
    on_duplicate = "return" if job.on_duplicate == "raise" else job.on_duplicate  # it is too late to refuse a job
    return job._replace(run_at=due_at(job, now), delay=None, on_duplicate=on_duplicate)


def in_pieces(jobs: Sequence[NewJob]) -> Iterator[list[NewJob]]:
    """Yield the jobs of each piece; at least one list."""
    piece, size = list[NewJob](), 0
    for job in jobs:
        if size > _PIECE_CHARS_MAX or len(piece) == _PIECE_JOBS:
            yield piece
            piece, size = [], 0
        piece.append(job)
        size += len(job.payload) + len(job.headers or "")
    yield piece


def is_strict(job: NewJob) -> bool:
    """Return True if a job raises DuplicateKey for a taken key."""
    return job.key is not None and job.on_duplicate == "raise"


def job_text(job: NewJob) -> str:
    """Return the stored text of a staged job."""
    return json.dumps(job, ensure_ascii=False, separators=(",", ":"), default=as_text)


def job_in(text: str) -> NewJob:
    """Return a job from its text."""
    return new_job_in(json.loads(text))
