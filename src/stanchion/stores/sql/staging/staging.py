"""Staging: jobs are stored, but invisible until their write is published.

A publication is one transaction, which locks the row of its value first, then jobs. Staged jobs are stored by ranges of
ids, so that no single statement takes long, regardless of their number.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple, Protocol

from stanchion.core.spark_errors import LeasesLost, StagedJobsLost
from stanchion.core.values.framing import as_content, as_text
from stanchion.stores.records import calls
from stanchion.stores.records.jobs import UNLANED, JobState, Lease, NewJob
from stanchion.stores.records.outcomes import Commit, Outcome
from stanchion.stores.records.prepared import Prepared
from stanchion.stores.records.staging import Finish, Publication
from stanchion.stores.records.values import ValueChange
from stanchion.stores.rules.lifecycle.jobs import due_at
from stanchion.stores.rules.lifecycle.outcomes import jobs_with
from stanchion.stores.rules.staging import KEPT_STAGED, WRITE_KIND, WRITES_KEPT, published_at, value_of_write
from stanchion.stores.sql.engine.database import Database
from stanchion.stores.sql.engine.runner import CursorRunner, Params, Runner
from stanchion.stores.sql.jobs.push import Pushes, push_all
from stanchion.stores.sql.jobs.settle import Commits
from stanchion.stores.sql.rows.jobs import Jobs
from stanchion.stores.sql.rows.queues import QueueRows
from stanchion.stores.sql.rows.tables import Tables
from stanchion.stores.sql.staging.prepared import PreparedJobs
from stanchion.stores.sql.staging.statements import FinishStatements, StageStatements
from stanchion.stores.sql.values import Values

_FIRST = "00000000-0000-0000-0000-000000000000"
_AT_ONCE = 20_000
"""Number of staged jobs that one statement stores at most."""

_COMMITTED_AT_ONCE = 5000


class _Share(NamedTuple):
    """The jobs that an attempt has staged for one queue: number, number with a key, last lane, number using slots.

    A job with both an order key and limits counts twice in `using_slots`. `prepared`: they are prepared jobs.
    """

    attempt: str
    queue: str
    jobs: int
    keyed: int
    last_lane: int
    using_slots: int
    prepared: int


class SettlesIn(Protocol):
    """Applies any outcomes."""

    def settle_in(self, run: Runner, outcomes: Sequence[Outcome]) -> list[JobState | None]:
        """Apply outcomes in an open transaction; return the states, None: the lease is lost."""


class KeepsStaged(Protocol):
    """Stages jobs, and publishes those without a key."""

    def add(self, write: str, attempt: str, jobs: Sequence[NewJob]) -> None:
        """Stage jobs, skipping those already staged."""

    def begin(self, run: Runner) -> None:
        """Prepare a transaction for `store`, if needed."""

    def store(self, run: Runner, given: Params) -> int:
        """Store a range of staged jobs, except jobs with a key or already stored; return the number stored."""


class FinishesPlain(Protocol):
    """Commits the plain jobs reserved under a token, without reading them."""

    def finish(self, run: Runner, finish: Finish) -> int:
        """Commit them; return their number."""


class StagedJobs:
    """Keeps staged jobs as rows."""

    def __init__(self, db: Database) -> None:
        self._db = db
        self._statements = db.dialect.once(StageStatements)

    def add(self, write: str, attempt: str, jobs: Sequence[NewJob]) -> None:
        def work(run: Runner, _again: bool) -> None:
            place = {"write": write, "attempt": attempt, "staged_at": self._db.clock(run)}
            run.change_each(self._statements.insert, [{**place, **staged(job)} for job in jobs])

        self._db.write(work, calls.seconds_for(len(jobs)))

    def begin(self, run: Runner) -> None:
        """Do nothing."""

    def store(self, run: Runner, given: Params) -> int:
        return run.change(self._statements.publish, given)


class PlainFinish:
    """Commits plain jobs by two statements: copy to history, delete."""

    def __init__(self, db: Database, jobs: Jobs, queues: QueueRows) -> None:
        self._db, self._jobs, self._queues = db, jobs, queues
        self._statements = db.dialect.once(FinishStatements)

    def finish(self, run: Runner, finish: Finish) -> int:
        given = {"queue": finish.queue, "token": finish.token, "moment": self._db.clock(run)}
        settings = self._queues.settings(run, finish.queue)
        kept = run.change(self._statements.keep_plain, given) if settings.history_ttl > 0 else None
        done = run.change(self._statements.remove_plain, given)
        if kept not in (None, done):  # some leases have just ended
            raise LeasesLost(finish.queue, finish.jobs, done)
        if done:
            self._jobs.count(run, Counter({(finish.queue, "committed"): done}))
        return done


class Staging:
    """Stages jobs, and publishes them."""

    def __init__(
        self,
        tables: Tables,
        pushes: Pushes,
        commits: Commits,
        outcomes: SettlesIn,
        values: Values,
        staged_jobs: KeepsStaged,
        plain: FinishesPlain,
        prepared: PreparedJobs,
    ) -> None:
        self._db, self._transactions, self._jobs, self._queues = tables
        self._pushes, self._commits, self._outcomes, self._values = pushes, commits, outcomes, values
        self._staged, self._plain, self._prepared = staged_jobs, plain, prepared
        self.prepare, self.stage_prepared = prepared.prepare, prepared.stage
        self._statements = tables.db.dialect.once(StageStatements)
        self._finish_statements = tables.db.dialect.once(FinishStatements)

    def stage(self, write: str, attempt: str, jobs: Sequence[NewJob]) -> None:
        if jobs:
            self._staged.add(write, attempt, jobs)

    def publish(self, publication: Publication) -> bool:
        return self.publish_prepared(publication, ())

    def publish_prepared(self, publication: Publication, prepared: Sequence[Prepared]) -> bool:
        shares = self._shares(publication.write)
        attempts = dict(publication.attempts)
        wanted = {share.queue for share in shares if share.attempt in attempts} | {one.queue for one in prepared}
        if publication.finish is not None:
            self._queues.make_for([job for end in publication.finish.ends for job in jobs_with(end)])
        self._queues.make(wanted)
        value = publication.value or value_of_write(publication.write, self._db.now())
        jobs = sum(share.jobs for share in shares) + sum(one.jobs for one in prepared)
        jobs += publication.finish.jobs if publication.finish else 0

        def work(run: CursorRunner, again: bool) -> bool:
            return self._publish_in(run, publication, value, shares, prepared, again=again)

        done = self._transactions.write(work, calls.seconds_for(jobs))
        if done:
            self._db.dialect.announce(wanted)
        return done

    def unstage(self, write: str) -> None:
        shares = self._shares(write)
        for attempt in {share.attempt for share in shares}:
            jobs = sum(share.jobs for share in shares if share.attempt == attempt)
            self._clear_attempt(write, attempt, calls.seconds_for(jobs))

    def _clear_attempt(self, write: str, attempt: str, seconds: float) -> None:
        self._db.write(lambda run, _again: self._clear(run, write, attempt), seconds)

    def _last_staged(self, write: str) -> int | None:
        found: int | None
        ((found,),) = self._db.read(lambda run: run.rows(self._statements.last_staged, {"of_write": write}))
        return found

    def forget_old(self) -> None:
        """Delete staged jobs that were never published in time, and values of writes too old to be repeated."""
        oldest = self._db.now() - KEPT_STAGED
        for write in self._writes():
            last = self._last_staged(write)
            if last is not None and last <= oldest:
                self.unstage(write)
        for value in self._values.values(WRITE_KIND):
            if published_at(value) <= oldest + KEPT_STAGED - WRITES_KEPT:
                self._values.compare_and_set(WRITE_KIND, value.name, None, value.version)

    def _writes(self) -> Iterator[str]:
        """Yield the writes that have staged jobs, by one index probe each."""
        after = ""
        while True:
            (found,) = self._db.read(lambda run: run.rows(self._statements.next_write, {"after": after}))[0]  # noqa: B023
            if found is None:
                return
            yield found
            after = found

    def _shares(self, write: str) -> list[_Share]:
        found = self._db.read(lambda run: run.rows(self._statements.shares, {"of_write": write}))
        return [_Share(*row) for row in found]

    def _publish_in(
        self,
        run: CursorRunner,
        publication: Publication,
        value: ValueChange,
        shares: Sequence[_Share],
        prepared: Sequence[Prepared],
        *,
        again: bool,
    ) -> bool:
        self._staged.begin(run)
        if again and self._values.is_written(run, value):
            return True
        mine = self._values.write(run, value)
        attempts = dict(publication.attempts)
        if mine and publication.finish is not None:
            self._finish(run, publication.finish)
        moment = self._db.clock(run)
        if mine:
            self._prepared.publish(run, prepared, moment)
            self._count(run, prepared)
            for attempt, expected in attempts.items():
                own = [share for share in shares if share.attempt == attempt]
                found = sum(share.jobs for share in own)
                if found == expected:
                    found = self._publish_attempt(run, publication.write, attempt, own, moment)
                if found != expected:
                    raise StagedJobsLost(publication.write, expected, found)
        for attempt in {share.attempt for share in shares} - (attempts.keys() if mine else set()):
            self._clear(run, publication.write, attempt)
        return mine

    def _publish_attempt(
        self, run: CursorRunner, write: str, attempt: str, shares: Sequence[_Share], moment: int
    ) -> int:
        """Store the staged jobs of an attempt, and delete them from the stage; return their number."""
        ready = [share for share in shares if share.prepared]
        found = self._prepared.publish_staged(run, write, attempt, moment) if ready else 0
        self._count(run, ready)
        if len(ready) < len(shares):
            found += self._publish_rows(run, write, attempt, [one for one in shares if not one.prepared], moment)
        return found

    def _publish_rows(self, run: Runner, write: str, attempt: str, shares: Sequence[_Share], moment: int) -> int:
        self._queues.use_lanes(run, {share.queue for share in shares if share.last_lane != UNLANED})
        self._queues.use_slots(run, {share.queue for share in shares if share.using_slots})
        pushed: Counter[str] = Counter()
        found = 0
        for span in self._spans(run, write, attempt):
            for share in shares:
                if share.jobs > share.keyed:
                    given = {**span, "of_queue": share.queue, "moment": moment}
                    pushed[share.queue] += self._staged.store(run, given)
            if any(share.keyed for share in shares):
                rows = run.rows(self._statements.apart, {**span, "moment": moment})
                push_all(self._pushes, run, [_as_given(NewJob(*row)) for row in rows])
            found += run.change(self._statements.clear, span)
        self._jobs.count(run, Counter({(queue, "pushed"): n for queue, n in pushed.items() if n}))
        return found

    def _count(self, run: Runner, stored: Iterable[_Share | Prepared]) -> None:
        pushed: Counter[tuple[str, str]] = Counter()
        for one in stored:
            pushed[one.queue, "pushed"] += one.jobs
        self._jobs.count(run, pushed)

    def _clear(self, run: Runner, write: str, attempt: str) -> None:
        self._prepared.clear(run, write, attempt)
        for span in self._spans(run, write, attempt):
            run.change(self._statements.clear, span)

    def _spans(self, run: Runner, write: str, attempt: str) -> Iterator[Params]:
        """Yield the ranges of ids of an attempt's staged jobs, each with its first and last id."""
        place = {"of_write": write, "of_attempt": attempt}
        last: str | None = _FIRST
        while last is not None:
            ((first, last),) = run.rows(self._statements.span, {**place, "after": last, "most": _AT_ONCE})
            if last is not None:
                yield {**place, "first": first, "last": last}

    def _finish(self, run: Runner, finish: Finish) -> None:
        """End the jobs reserved under a token: plain jobs as a set, jobs tied to others one by one."""
        given = {"queue": finish.queue, "token": finish.token}
        apart = sum(state is not None for state in self._outcomes.settle_in(run, finish.ends)) if finish.ends else 0
        plain = self._plain.finish(run, finish)
        ids = [row[0] for row in run.rows(self._finish_statements.reserved_locked, given)]
        if (found := apart + plain + len(ids)) != finish.jobs or apart < len(finish.ends):
            raise LeasesLost(finish.queue, finish.jobs, found)
        for start in range(0, len(ids), _COMMITTED_AT_ONCE):
            some = ids[start : start + _COMMITTED_AT_ONCE]
            self._commits.commit_in(run, [Commit(Lease(finish.queue, one, finish.token)) for one in some])


def staged(job: NewJob) -> dict[str, object]:
    """Return the parameters that stage a job."""
    return {**job._asdict(), "payload": as_text(job.payload), "delay": due_at(job._replace(run_at=None), 0)}


def _as_given(job: NewJob) -> NewJob:
    """Return a job that was staged as it was given."""
    return job._replace(payload=as_content(job.payload)) if isinstance(job.payload, str) else job
