"""Outcomes of reservations."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from enum import Enum, auto
from itertools import chain, groupby
from typing import Any, NamedTuple, Protocol

from sqlalchemy import (
    BigInteger,
    Executable,
    Float,
    String,
    Text,
    and_,
    case,
    func,
    insert,
    literal,
    null,
    or_,
    select,
    update,
)

from stanchion.stores.records.jobs import SECOND, JobRow, JobState, NewJob
from stanchion.stores.records.outcomes import Commit, Continue, Ending, Extend, Outcome, Progress, Renewal
from stanchion.stores.records.queues import QueueSettings
from stanchion.stores.rules import outcomes as outcome_rules
from stanchion.stores.rules.claims import holds, left_in
from stanchion.stores.rules.jobs import Transition
from stanchion.stores.rules.limits import limits_in
from stanchion.stores.rules.outcomes import counted_as, settled
from stanchion.stores.rules.slots import semaphore_gate
from stanchion.stores.sql.engine.columns import RUNS, held_row, param
from stanchion.stores.sql.engine.database import Database
from stanchion.stores.sql.engine.dialect import Dialect
from stanchion.stores.sql.engine.runner import Asked, Runner
from stanchion.stores.sql.engine.schema import HISTORY_COLUMNS, history, jobs
from stanchion.stores.sql.flows import Flows
from stanchion.stores.sql.jobs import Jobs, Step, outline
from stanchion.stores.sql.push import Pushes, push_all
from stanchion.stores.sql.queue_rows import QueueRows
from stanchion.stores.sql.transactions import Transactions


class HeldJob(NamedTuple):
    """A running job whose lease is good: what it holds, where it stands in a flow, and the token in force.

    `bounded`: its queue bounds what runs, where a statement has read that too.
    """

    id: str
    queue: str
    order_key: str | None
    limits: str | None
    flow: str | None
    held: int
    token: str
    bounded: bool = False

    @property
    def tied(self) -> bool:
        """True where its end has consequences for other jobs."""
        return self.order_key is not None or self.limits is not None or self.flow is not None

    @property
    def outline(self) -> JobRow:
        """What is to be known of it for what follows its end."""
        return outline(self.id, self.queue, self.order_key, self.limits, self.flow, self.held)


class Committed(NamedTuple):
    """The state that each commit led to, None for a lost lease; whether some of the jobs were tied to others."""

    states: list[JobState | None]
    tied: bool = False


class Commits(Protocol):
    """Carries out commits that store no jobs."""

    def commit_in(self, run: Runner, commits: Sequence[Commit]) -> Committed:
        """Commit jobs, and do what follows, in a transaction that is open."""


class HeldStatements:
    """The statements about held jobs, for one dialect."""

    def __init__(self, dialect: Dialect) -> None:
        now, an_id, token = dialect.now, param("job", jobs.c.id.type), param("token", String)
        in_time = or_(jobs.c.lease_until.is_(None), jobs.c.lease_until > now)
        mine = and_(jobs.c.id == an_id, jobs.c.token == token, RUNS, in_time)
        self.lock: Executable = (
            select(*held_row(), jobs.c.token)
            .where(jobs.c.id.in_(dialect.values("ids", jobs.c.id.type)), RUNS, in_time)
            .order_by(jobs.c.id)  # one order for all who lock several jobs
            .with_for_update()
        )
        as_done: dict[str, Any] = {
            "result": param("result", Text),
            "finished_at": now,
            "state": literal(JobState.DONE.value),
            "payload": func.coalesce(param("new_payload", Text), jobs.c.payload),
        }
        done = (as_done[name] if name in as_done else jobs.c[name] for name in HISTORY_COLUMNS)
        self.keep_done = insert(history).from_select(list(HISTORY_COLUMNS), select(*done).where(jobs.c.id == an_id))
        lease_until = case((jobs.c.worker.is_not(None), null()), else_=now + param("lease_micros", BigInteger))
        self.extend = update(jobs).where(mine).values(lease_until=lease_until)
        self.progress = update(jobs).where(mine).values(progress=param("share", Float))


class HeldJobs:
    """Locks held jobs, and copies them into history."""

    def __init__(self, db: Database, queues: QueueRows, statements: type[HeldStatements] = HeldStatements) -> None:
        self._queues = queues
        self._statements = db.dialect.once(statements)

    def lock(self, run: Runner, ids: Iterable[str]) -> list[HeldJob]:
        """Return those of these jobs that are held, locked."""
        return [HeldJob(*row) for row in run.rows(*self.asks(ids))]

    def asks(self, ids: Iterable[str]) -> Asked:
        """Return the question for those of these jobs that are held, which locks them."""
        return self._statements.lock, {"ids": json.dumps(sorted(ids))}

    def lock_with_settings(self, run: Runner, ids: Iterable[str]) -> tuple[list[HeldJob], dict[str, QueueSettings]]:
        """Return those of these jobs that are held, locked, and the settings of their queues."""
        held = self.lock(run, ids)
        return held, self._queues.settings_of(run, {job.queue for job in held})

    def keep_done(self, run: Runner, commits: Sequence[Commit]) -> None:
        """Copy live jobs into history, as done."""
        run.change_each(
            self._statements.keep_done,
            [{"job": one.id, "result": one.result, "new_payload": one.payload} for one in commits],
        )

    def renew(self, run: Runner, one: Renewal) -> JobState | None:
        """Renew the lease of a job, or record its progress; None where the lease is lost."""
        held = {"job": one.id, "token": one.token}
        if isinstance(one, Progress):
            found = run.change(self._statements.progress, {**held, "share": one.value})
        else:
            found = run.change(self._statements.extend, {**held, "lease_micros": int(one.seconds * SECOND)})
        return JobState.RUNNING if found else None


class HeldRows(Protocol):
    """What differs between databases in `HeldJobs`."""

    def lock_with_settings(self, run: Runner, ids: Iterable[str]) -> tuple[list[HeldJob], dict[str, QueueSettings]]:
        """Return those of these jobs that are held, locked, and the settings of their queues."""

    def keep_done(self, run: Runner, commits: Sequence[Commit]) -> None:
        """Copy live jobs into history, as done."""


class TransactionCommits:
    """Commits without reading whole jobs: they go to history inside the database."""

    def __init__(self, held: HeldRows, jobs: Jobs, flows: Flows) -> None:
        self._held, self._jobs, self._flows = held, jobs, flows

    def commit_in(self, run: Runner, commits: Sequence[Commit]) -> Committed:
        held, settings = self._held.lock_with_settings(run, [commit.id for commit in commits])
        holders = {job.id: job for job in held}
        done: list[tuple[Commit, HeldJob]] = []
        states: list[JobState | None] = []
        for commit in commits:
            job = holders.get(commit.id)
            if job is None or job.token != commit.token:
                states.append(None)
                continue
            del holders[commit.id]
            done.append((commit, job._replace(bounded=settings[job.queue].max_running is not None)))
            states.append(JobState.DONE)
        note_ended(run, (job for _, job in done))
        self._held.keep_done(run, [commit for commit, job in done if settings[job.queue].history_ttl > 0])
        self._jobs.remove(run, [commit.id for commit, _ in done])
        self._jobs.tally(run, [(job.queue, counted_as(commit)) for commit, job in done])
        return Committed(states, self.follow(run, done))

    def follow(self, run: Runner, done: Sequence[tuple[Commit, HeldJob]]) -> bool:
        """Do what follows from commits; tell whether some of the jobs were tied to others."""
        tied = [(commit, job) for commit, job in done if job.tied]
        if not any(job.order_key is not None or job.flow is not None for _, job in tied):
            held = (limits_in(job.limits).semaphores[: job.held] for _, job in tied)
            run.freed.update(map(semaphore_gate, chain.from_iterable(held)))
            return bool(tied)
        steps = [Step(job.outline, _DONE._replace(result=commit.result), "committed") for commit, job in tied]
        self._flows.follow(run, steps)
        return True


def note_ended(run: Runner, done: Iterable[HeldJob]) -> None:
    """Have it told that jobs have ended, and that a place is free in queues that bound what runs."""
    for job in done:
        run.ended.add(job.id)
        if job.bounded:
            run.woken.add(job.queue)


class Settles(Protocol):
    """Applies outcomes."""

    def settle(self, outcomes: Sequence[Outcome], tx: Any = None, *, repeat: bool = False) -> list[JobState | None]:
        """Apply outcomes, fenced by their tokens; None: the lease is lost."""


class Outcomes:
    """Commits, gives back, moves, buries and cancels running jobs, in batches."""

    def __init__(
        self,
        db: Database,
        transactions: Transactions,
        jobs: Jobs,
        queues: QueueRows,
        push: Pushes,
        flows: Flows,
        held: HeldJobs,
        commits: Commits,
    ) -> None:
        self._db, self._transactions, self._jobs, self._queues = db, transactions, jobs, queues
        self._push, self._flows, self._held, self._commits = push, flows, held, commits

    def settle(
        self, outcomes: Sequence[Outcome], tx: Any = None, *, repeat: bool = False, guarded: bool = False
    ) -> list[JobState | None]:
        """Apply outcomes, fenced by their tokens; `guarded`: see `joined`."""
        if not outcomes:
            return []
        jobs = [job for outcome in outcomes if type(outcome) is Commit for job in outcome.jobs]

        def work(run: Runner, again: bool) -> list[JobState | None]:
            return self.settle_in(run, outcomes, again=again or repeat)

        return self._transactions.enter({job.queue for job in jobs}, tx, work, guarded=guarded)

    def settle_in(self, run: Runner, outcomes: Sequence[Outcome], *, again: bool = False) -> list[JobState | None]:
        """Apply runs of plain commits and of renewals by short ways, and all else row by row, in their order."""
        runs = [(way, list(batch)) for way, batch in groupby(outcomes, key=lambda outcome: _way_of(outcome, again))]
        if len(runs) > 1:  # the jobs of all of them are locked before what follows from the first
            self._held.lock(run, [outcome.id for outcome in outcomes])
        states: list[JobState | None] = []
        for way, batch in runs:
            if way is _Way.COMMIT:
                states += self._commits.commit_in(run, [one for one in batch if isinstance(one, Commit)]).states
            elif way is _Way.RENEW:
                states += self._renew(run, [one for one in batch if isinstance(one, Extend | Progress)])
            else:
                states += self._apply(run, [one for one in batch if not isinstance(one, Extend | Progress)], again)
        return states

    def _renew(self, run: Runner, renewals: Sequence[Renewal]) -> list[JobState | None]:
        # One order for all who lock several jobs; those of one job stay in theirs.
        ordered = sorted(enumerate(renewals), key=lambda one: one[1].id)
        states = {place: self._held.renew(run, one) for place, one in ordered}
        return [states[place] for place in range(len(renewals))]

    def _apply(self, run: Runner, outcomes: Sequence[Ending], again: bool) -> list[JobState | None]:
        rows = self._jobs.lock(run, [outcome.id for outcome in outcomes])
        now = self._db.clock(run)
        settings = self._queues.settings_of(run, {row.queue for row in rows.values()})
        before: list[JobRow] = []
        after: list[Transition] = []
        states: list[JobState | None] = []
        continued: list[Continue] = []
        fanned_out: list[NewJob] = []
        for outcome in outcomes:
            row = rows.pop(outcome.id, None)
            if row is None or not holds(row, outcome.token, now):
                states.append(self._applied_before(run, row, outcome, now) if again else None)
                continue
            step = settled(row, outcome, settings[row.queue], now)
            before.append(row)
            after.append(step)
            states.append(step.state(now))
            if isinstance(outcome, Continue) and not step.final:
                continued.append(outcome)
            if isinstance(outcome, Commit) and step.row.state == JobState.DONE:
                fanned_out += outcome_rules.fanned_out(outcome)
            if not step.final and step.row.run_at <= now:
                run.woken.add(step.row.queue)
        self._flows.put(run, before, after)
        for one in continued:  # after it is stored: it may wait for a part of the flow that is done at once
            self._flows.open_in(run, one.nodes, one.jobs)
        push_all(self._push, run, fanned_out)
        run.woken.update(job.queue for job in fanned_out)
        return states

    def _applied_before(self, run: Runner, row: JobRow | None, outcome: Outcome, now: int) -> JobState | None:
        """Return the state that an earlier try, whose answer was lost, led to; None if there was none."""
        if row is None:
            row = self._jobs.finished(run, [outcome.id]).get(outcome.id)
        return left_in(row, outcome.token, now)


class _Way(Enum):
    """How an outcome is applied."""

    COMMIT = auto()
    RENEW = auto()
    ROW_BY_ROW = auto()


def _way_of(outcome: Outcome, again: bool) -> _Way:
    if isinstance(outcome, Extend | Progress):
        return _Way.RENEW
    return _Way.COMMIT if is_plain(outcome) and not again else _Way.ROW_BY_ROW


def is_plain(outcome: Outcome) -> bool:
    """Tell whether this is a commit that stores no jobs."""
    return type(outcome) is Commit and not outcome.jobs


_DONE = JobRow("", "", 0, JobState.DONE.value, 0, 0, 0, "", finished_at=0)
"""All that is to be known of a job that was committed, but for its result, for what follows."""
