"""Staged jobs made real, in a store without transactions over several jobs.

A publication of staged jobs: (1) the pieces are counted, (2) its value is written by compare-and-set, and in the same
operation that the publication has begun, (3) the pieces are pushed one after the other, each under an idempotency key
of its own, and dropped, (4) what else is staged goes, (5) that it has begun is deleted. After a death past (2), outbox
recovery or a repeat goes on with (3): a piece that was pushed already is not pushed again, be its jobs done and
forgotten by then.

One that finishes jobs: (1) the value is read, (2) the reserved jobs are counted and committed, (3) the value is
written. After a death in (2) the batch is left with fewer reserved jobs, and to be run again with those.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple, Protocol

from stanchion.errors import CannotJoin, LeasesLost, StagedJobsLost
from stanchion.stores.cas.entries import STALE
from stanchion.stores.cas.outbox import PushOnce
from stanchion.stores.records.jobs import JobState, NewJob
from stanchion.stores.records.outcomes import Commit
from stanchion.stores.records.staging import Finish, Publication
from stanchion.stores.records.values import ValueChange
from stanchion.stores.rules.jobs import due_at
from stanchion.stores.rules.staging import value_of_write

_AT_ONCE = 1000
_PIECE_JOBS = 500
_PIECE = 1 << 20
"""Characters after which a piece takes no further job."""


class Piece(NamedTuple):
    """Some of the jobs that an attempt has staged; `key` tells it from all others of the attempt."""

    key: str
    jobs: list[NewJob]


class Staged(NamedTuple):
    """What an attempt has staged: so many jobs; `strict`: some of them must not meet their key."""

    jobs: int
    strict: bool


class Begun(NamedTuple):
    """A publication whose value is written, and whose jobs are being pushed; the kind and the name of that value."""

    write: str
    attempts: tuple[str, ...]
    kind: str
    name: str
    noted_at: int


class StageRows(Protocol):
    """What is staged in a store, and the publications that have begun: primitives, each one atomic operation."""

    def now(self) -> int:
        """Return the store's clock."""

    def staged(self, write: str) -> dict[str, Staged]:
        """Return what each attempt has staged, and keep it for another day."""

    def pieces(self, write: str, attempt: str) -> Iterator[Piece]:
        """Return what an attempt has staged, a bounded number of characters at a time."""

    def drop_piece(self, begun: Begun, attempt: str, piece: Piece) -> None:
        """Forget a piece that was pushed, and note that the publication goes on."""

    def unstage(self, write: str) -> None:
        """Forget what is staged under a write."""

    def begin(self, begun: Begun, value: ValueChange) -> bool:
        """Write a value by compare-and-set, and with it that the publication has begun; False: another was quicker."""

    def begun(self, before: int) -> Iterable[Begun]:
        """Return the publications that have begun, and not gone on since this moment."""

    def begun_with(self, value: ValueChange, write: str) -> Begun | None:
        """Return the publication of a write if it has begun, with this value, and not come to its end."""

    def delete_begun(self, begun: Begun) -> None:
        """Forget a publication that has come to its end."""

    def version(self, kind: str, name: str) -> int:
        """Return the version of a value, 0 for one that is absent."""

    def refuse_duplicates(self, jobs: Sequence[NewJob]) -> None:
        """Raise DuplicateKey for a job that asks for it."""

    def ids_reserved(self, queue: str, token: str) -> list[str]:
        """Return the ids of the running jobs of a queue that are held under a token, in their order."""


class Staging:
    """Publishes what writers elsewhere have staged."""

    def __init__(
        self,
        rows: StageRows,
        pushes: PushOnce,
        compare_and_set: Callable[[str, str, str | None, int], bool],
        settle: Callable[[Sequence[Commit]], list[JobState | None]],
    ) -> None:
        self._rows, self._pushes, self._compare_and_set, self._settle = rows, pushes, compare_and_set, settle

    def publish(self, publication: Publication) -> bool:
        """Store staged jobs, or finish reserved jobs, once; then clear the stage."""
        write, attempts, _, finish = publication
        jobs = sum(number for _, number in attempts)
        if finish is not None and jobs:
            raise CannotJoin(
                f"this store can't enqueue staged jobs and finish those of queue {finish.queue!r} in one step, so a "
                f"failure in between would repeat or lose some; let each row carry its job_id and go on with "
                f"mode=move, or use a store with transactions"
            )
        now = self._rows.now()
        value = publication.value or value_of_write(write, now)
        if self._rows.version(value.kind, value.name) != value.version:
            return self._published_before(value, write)
        staged = self._rows.staged(write) if attempts else {}
        for attempt, number in attempts:
            if (found := staged.get(attempt, _NOTHING).jobs) != number:
                if self._rows.version(value.kind, value.name) != value.version:  # by one who has cleared the stage
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

    def _published_before(self, value: ValueChange, write: str) -> bool:
        begun = self._rows.begun_with(value, write)
        if begun is None:
            self._rows.unstage(write)
        else:
            self.go_on(begun)
        return False

    def go_on(self, begun: Begun) -> None:
        """Push what is left of a publication that has begun, and end it."""
        for attempt in begun.attempts:
            for piece in self._rows.pieces(begun.write, attempt):
                jobs = [_anchored(job, begun.noted_at) for job in piece.jobs]
                self._pushes.push_once([(f"{begun.write}:{attempt}:{piece.key}", jobs)])
                self._rows.drop_piece(begun, attempt, piece)
        self._rows.unstage(begun.write)
        self._rows.delete_begun(begun)

    def _finish(self, finish: Finish) -> None:
        ids = self._rows.ids_reserved(finish.queue, finish.token)
        if len(ids) != finish.jobs:
            raise LeasesLost(finish.queue, finish.jobs, len(ids))
        lost = 0
        for start in range(0, len(ids), _AT_ONCE):
            states = self._settle([Commit(job, finish.token) for job in ids[start : start + _AT_ONCE]])
            lost += states.count(None)
        if lost:
            raise LeasesLost(finish.queue, finish.jobs, finish.jobs - lost)

    def recover(self) -> None:
        """Go on with the publications of processes that have died."""
        for begun in self._rows.begun(self._rows.now() - STALE):
            self.go_on(begun)


_NOTHING = Staged(0, strict=False)


def _anchored(job: NewJob, now: int) -> NewJob:
    """Return a job as it is stored: due as all others at one moment, so that they stand in the line by their ids."""
    on_duplicate = "return" if job.on_duplicate == "raise" else job.on_duplicate  # nothing can be taken back by now
    return job._replace(run_at=due_at(job, now), delay=None, on_duplicate=on_duplicate)


def in_pieces(jobs: Sequence[NewJob]) -> Iterator[list[NewJob]]:
    """Yield jobs, at least one, as they are staged together."""
    piece, size = list[NewJob](), 0
    for job in jobs:
        if size > _PIECE or len(piece) == _PIECE_JOBS:
            yield piece
            piece, size = [], 0
        piece.append(job)
        size += len(job.payload) + len(job.headers or "")
    yield piece


def is_strict(job: NewJob) -> bool:
    """Tell whether a job must not meet its key."""
    return job.key is not None and job.on_duplicate == "raise"


def job_text(job: NewJob) -> str:
    """Return a job as it is staged."""
    return json.dumps(job, ensure_ascii=False, separators=(",", ":"))


def job_in(text: str) -> NewJob:
    """Return a job from its text."""
    return NewJob(*json.loads(text))
