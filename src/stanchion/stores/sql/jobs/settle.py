"""Settling: applies the outcomes of reservations."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from enum import Enum, auto
from itertools import chain, groupby
from operator import attrgetter
from typing import Protocol, cast

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
    select,
    text,
    update,
)

from stanchion.stores.records.jobs import SECOND, UNLANED, JobRow, JobState, Lease, NewJob
from stanchion.stores.records.outcomes import (
    Commit,
    Continue,
    Ending,
    Extend,
    Move,
    Outcome,
    Pass,
    Progress,
    Renewal,
    TableRows,
)
from stanchion.stores.records.queues import QueueSettings
from stanchion.stores.rules.capacity.limits import limits_in
from stanchion.stores.rules.capacity.slots import semaphore_slot
from stanchion.stores.rules.lifecycle import outcomes as outcome_rules
from stanchion.stores.rules.lifecycle.claims import holds, left_in
from stanchion.stores.rules.lifecycle.jobs import Transition
from stanchion.stores.rules.lifecycle.outcomes import counted_as, settled
from stanchion.stores.sql.elements import AnyElement
from stanchion.stores.sql.engine.columns import RUNS, held_row, in_time, param
from stanchion.stores.sql.engine.database import Database
from stanchion.stores.sql.engine.dialect import Dialect
from stanchion.stores.sql.engine.runner import Asked, Runner
from stanchion.stores.sql.engine.schema import HISTORY_COLUMNS, history, jobs
from stanchion.stores.sql.jobs.flows import Flows
from stanchion.stores.sql.jobs.moves import Moves, Passes, is_plain_move, is_plain_pass
from stanchion.stores.sql.jobs.push import Pushes, push_all
from stanchion.stores.sql.rows.contents import as_stored
from stanchion.stores.sql.rows.held_job import AFFECTS_NONE, UNTIED, HeldJob, affects_others, ties_of
from stanchion.stores.sql.rows.jobs import QUEUE_OF, Jobs, Step, leased
from stanchion.stores.sql.rows.queues import QueueRows
from stanchion.stores.sql.rows.tables import Tables
from stanchion.stores.sql.tables.write import WritesRows

# Called by built-ins, without a frame for each job.
_JOBS, _ROWS, _PAYLOAD, _ID = map(attrgetter, ("jobs", "rows", "payload", "id"))
_LEASE, _CLAIM = attrgetter(*Lease._fields), attrgetter("queue", "token", "delivery")


class Commits(Protocol):
    """Applies commits that store no jobs."""

    def commit_in(self, run: Runner, commits: Sequence[Commit]) -> list[JobState | None]:
        """Commit jobs in an open transaction, with all consequences; return their states, None: the lease is lost."""


class HeldStatements:
    """The statements about held jobs, for one dialect."""

    def __init__(self, dialect: Dialect) -> None:
        now = dialect.now
        held = and_(RUNS, in_time(now))
        one = and_(jobs.c.id == param("job", jobs.c.id.type), jobs.c.queue == param("queue", String))
        mine = and_(one, jobs.c.token == param("token", String), held)
        of_these = jobs.c.id.in_(dialect.values("ids", jobs.c.id.type)), text(dialect.among("queue", "queues"))
        locked = select(*held_row(), jobs.c.token, jobs.c.delivery).where(held).with_for_update()
        # All callers lock jobs in this order.
        self.lock: Executable = locked.where(*of_these).order_by(jobs.c.id)
        self.lock_one: Executable = locked.where(one)
        as_done: dict[str, AnyElement] = {
            "result": param("result", Text),
            "finished_at": now,
            "state": literal(JobState.DONE.value),
            "payload": func.coalesce(param("new_payload", Text), jobs.c.payload),
            "arrival_payload": case(
                (param("new_payload", Text).is_(None), jobs.c.arrival_payload),
                else_=func.coalesce(jobs.c.arrival_payload, jobs.c.payload),
            ),
            "items": case((param("new_payload", Text).is_(None), jobs.c["items"])),
        }
        done = (as_done[name] if name in as_done else jobs.c[name] for name in HISTORY_COLUMNS)
        self.keep_done = insert(history).from_select(list(HISTORY_COLUMNS), select(*done).where(one))
        lease_until = case((jobs.c.lease_until.is_(None), null()), else_=now + param("lease_micros", BigInteger))
        self.extend = update(jobs).where(mine).values(lease_until=lease_until)
        self.progress = update(jobs).where(mine).values(progress=param("share", Float))


class HeldJobs:
    """Locks held jobs, and copies them into history."""

    def __init__(self, db: Database, queues: QueueRows, statements: type[HeldStatements] = HeldStatements) -> None:
        self._dialect, self._queues = db.dialect, queues
        self._statements = db.dialect.once(statements)

    def lock(self, run: Runner, leases: Collection[Lease]) -> list[HeldJob]:
        """Lock and return the jobs that are held, in one of these queues, under any token."""
        return [HeldJob(*row) for row in run.rows(*self.asks(leases))]

    def asks(self, leases: Collection[Lease]) -> Asked:
        """Return the query of `lock`, to be sent together with others."""
        if len(leases) == 1:
            (lease,) = leases
            return self._statements.lock_one, {"job": lease.id, "queue": lease.queue}
        return self._statements.lock, leased(self._dialect, leases)

    def lock_with_settings(
        self, run: Runner, leases: Collection[Lease]
    ) -> tuple[list[HeldJob], dict[str, QueueSettings]]:
        """Lock and return what `lock` does, and the settings of their queues."""
        held = self.lock(run, leases)
        return held, self._queues.settings_of(run, {job.queue for job in held})

    def keep_done(self, run: Runner, commits: Sequence[Commit]) -> None:
        """Copy live jobs to history, in the state done."""
        run.change_each(
            self._statements.keep_done,
            [
                {"queue": lease.queue, "job": lease.id, "result": as_stored(result), "new_payload": payload}
                for lease, result, payload, *_ in commits
            ],
        )

    def renew(self, run: Runner, one: Renewal) -> JobState | None:
        """Renew the lease of a job, or record its progress; return None if the lease is lost."""
        held = {"queue": one.lease.queue, "job": one.lease.id, "token": one.lease.token}
        if isinstance(one, Progress):
            found = run.change(self._statements.progress, {**held, "share": one.value})
        else:
            found = run.change(self._statements.extend, {**held, "lease_micros": int(one.seconds * SECOND)})
        return JobState.RUNNING if found else None


class HeldRows(Protocol):
    """The part of `HeldJobs` that differs between databases."""

    def lock_with_settings(
        self, run: Runner, leases: Collection[Lease]
    ) -> tuple[list[HeldJob], dict[str, QueueSettings]]:
        """Lock and return the jobs that are held, in one of these queues, with the settings of these."""

    def keep_done(self, run: Runner, commits: Sequence[Commit]) -> None:
        """Copy live jobs to history, in the state done."""


class TransactionCommits:
    """Commits without reading whole jobs: the database copies them to history."""

    def __init__(self, held: HeldRows, jobs: Jobs, flows: Flows) -> None:
        self._held, self._jobs, self._flows = held, jobs, flows

    def commit_in(self, run: Runner, commits: Sequence[Commit]) -> list[JobState | None]:
        held, settings = self._held.lock_with_settings(run, [commit.lease for commit in commits])
        holders = {_LEASE(job): job for job in held}
        done: list[tuple[Commit, HeldJob]] = []
        states: list[JobState | None] = []
        for commit in commits:
            job = holders.pop(commit.lease, None)
            if job is None:
                states.append(None)
                continue
            done.append((commit, job))
            states.append(JobState.DONE)
        ended = [job for _, job in done]
        run.ended.update(map(_ID, ended))
        run.woken.update(queue for queue in set(map(QUEUE_OF, ended)) if settings[queue].max_running is not None)
        self._held.keep_done(run, [commit for commit, job in done if settings[job.queue].history_ttl > 0])
        self._jobs.remove(run, [job.id for job in ended], map(QUEUE_OF, ended))
        one_of_each = {commit.lease.token: commit for commit, _ in done}
        counted: Counter[tuple[str, str]] = Counter()
        for (queue, token, delivery), jobs_done in Counter(map(_CLAIM, ended)).items():
            counted[queue, counted_as(one_of_each[token], delivery)] += jobs_done
        for job in ended:
            if job.items is not None:
                counted[job.queue, counted_as(one_of_each[job.token], job.delivery)] += job.items - 1
        self._jobs.count(run, counted)
        self.follow(run, done)
        return states

    def follow(self, run: Runner, done: Sequence[tuple[Commit, HeldJob]]) -> None:
        """Apply the consequences of commits."""
        tied = [one for one in done if ties_of(one[1]) != UNTIED]
        if all(affects_others(job) == AFFECTS_NONE for _, job in tied):
            held = (limits_in(job.limits).semaphores[: job.slots_held] for _, job in tied)
            run.freed.update(map(semaphore_slot, chain.from_iterable(held)))
            return
        steps = [Step(job.outline, _DONE._replace(result=commit.result), "committed") for commit, job in tied]
        self._flows.follow(run, steps)


class Settles(Protocol):
    """Applies outcomes."""

    def settle(self, outcomes: Sequence[Outcome], tx: object = None, *, repeat: bool = False) -> list[JobState | None]:
        """Apply outcomes, fenced by their leases; return the states, None: the lease is lost."""


class Outcomes:
    """Commits, returns, moves, buries and cancels running jobs, in batches."""

    def __init__(
        self,
        tables: Tables,
        push: Pushes,
        flows: Flows,
        held: HeldJobs,
        commits: Commits,
        moves: Moves | None,
        passes: Passes | None,
        writes_rows: WritesRows,
    ) -> None:
        self._db, self._transactions, self._jobs, self._queues = tables
        self._push, self._flows, self._held, self._commits, self._moves = push, flows, held, commits, moves
        self._passes, self._writes_rows = passes, writes_rows

    def settle(
        self, outcomes: Sequence[Outcome], tx: object = None, *, repeat: bool = False, guarded: bool = False
    ) -> list[JobState | None]:
        """Apply outcomes, fenced by their leases; `guarded`: see `joined`."""
        if not outcomes:
            return []
        jobs = [
            job
            for one in outcomes
            for job in (one.jobs if type(one) is Commit else outcome_rules.jobs_with(one) if type(one) is Pass else ())
        ]

        def work(run: Runner, again: bool) -> list[JobState | None]:
            return self.settle_in(run, outcomes, again=again or repeat)

        return self._transactions.enter(jobs, tx, work, guarded=guarded)

    def settle_in(self, run: Runner, outcomes: Sequence[Outcome], *, again: bool = False) -> list[JobState | None]:
        """Apply outcomes in order: plain ones and renewals by special statements, all others row by row."""
        if not again and (commits := plain_commits(outcomes)) is not None:
            return self._commits.commit_in(run, commits)
        by_route = groupby(outcomes, key=lambda outcome: self._route_of(outcome, again))
        runs = [(route, list(batch)) for route, batch in by_route]
        if len(runs) > 1:  # lock the jobs of all runs before the consequences of the first
            self._held.lock(run, [outcome.lease for outcome in outcomes])
        states: list[JobState | None] = []
        for route, batch in runs:
            if route is _Route.COMMIT:
                states += self._commits.commit_in(run, [one for one in batch if isinstance(one, Commit)])
            elif route is _Route.RENEW:
                states += self._renew(run, [one for one in batch if isinstance(one, Extend | Progress)])
            elif route is _Route.MOVE:
                states += self._move(run, [one for one in batch if isinstance(one, Move)])
            elif route is _Route.PASS:
                states += self._pass(run, [one for one in batch if isinstance(one, Pass)])
            else:
                states += self._apply(run, [one for one in batch if not isinstance(one, Extend | Progress)], again)
        return states

    def _renew(self, run: Runner, renewals: Sequence[Renewal]) -> list[JobState | None]:
        # All callers lock jobs in this order; renewals of one job keep theirs.
        ordered = sorted(enumerate(renewals), key=lambda one: one[1].lease.id)
        states = {index: self._held.renew(run, one) for index, one in ordered}
        return [states[index] for index in range(len(renewals))]

    def _route_of(self, outcome: Outcome, again: bool) -> _Route:
        if isinstance(outcome, Extend | Progress):
            return _Route.RENEW
        if again:
            return _Route.ROW_BY_ROW
        if self._moves is not None and isinstance(outcome, Move) and is_plain_move(outcome):
            return _Route.MOVE
        if self._passes is not None and is_plain_pass(outcome):
            return _Route.PASS
        return _Route.COMMIT if is_plain(outcome) else _Route.ROW_BY_ROW

    def _move(self, run: Runner, moves: Sequence[Move]) -> Sequence[JobState | None]:
        at_once = None if self._moves is None else self._moves.move_in(run, moves)
        return self._apply(run, moves, again=False) if at_once is None else at_once

    def _pass(self, run: Runner, passes: Sequence[Pass]) -> Sequence[JobState | None]:
        at_once = None if self._passes is None else self._passes.pass_in(run, passes)
        return self._apply(run, passes, again=False) if at_once is None else at_once

    def _apply(self, run: Runner, outcomes: Sequence[Ending], again: bool) -> list[JobState | None]:
        leases = [outcome.lease for outcome in outcomes]
        # What an earlier try left may be in another queue.
        rows = self._jobs.lock(run, [one.id for one in leases]) if again else self._jobs.lock_leased(run, leases)
        now = self._db.clock(run)
        settings = self._queues.settings_of(
            run, {*map(outcome_rules.ends_in, outcomes), *(map(QUEUE_OF, rows.values()))}
        )
        before: list[JobRow] = []
        after: list[Transition] = []
        states: list[JobState | None] = []
        continued: list[Continue] = []
        fanned_out: list[NewJob] = []
        written: list[TableRows] = []
        for outcome in outcomes:
            row = rows.get(outcome.lease.id)
            if row is None or not holds(row, outcome.lease, now):
                states.append(self._applied_before(run, row, outcome, now) if again else None)
                continue
            del rows[row.id]
            step = settled(row, outcome, settings[outcome_rules.ends_in(outcome)], now)
            before.append(row)
            after.append(step)
            states.append(step.state(now))
            if isinstance(outcome, Continue) and not step.final:
                continued.append(outcome)
            if step.row.state == JobState.DONE:
                fanned_out += outcome_rules.fanned_out(outcome)
                written += outcome_rules.rows_with(outcome)
            if not step.final and step.row.run_at <= now:
                run.woken.add(step.row.queue)
        self._flows.put(run, before, after)
        for one in continued:  # after the job is stored, as it may wait for a node that is done immediately
            self._flows.open_in(run, one.nodes, one.jobs)
        push_all(self._push, run, fanned_out)
        if written:
            self._writes_rows.write(run, written)
        run.woken.update(job.queue for job in fanned_out)
        return states

    def _applied_before(self, run: Runner, row: JobRow | None, outcome: Outcome, now: int) -> JobState | None:
        """Return the state that an earlier try led to, if its reply was lost; None if there was none."""
        if row is None:
            row = self._jobs.finished(run, [outcome.lease.id]).get(outcome.lease.id)
        return left_in(row, outcome.lease, now)


class _Route(Enum):
    """The route that applies an outcome."""

    COMMIT = auto()
    RENEW = auto()
    MOVE = auto()
    PASS = auto()
    ROW_BY_ROW = auto()


def plain_commits(outcomes: Sequence[Outcome]) -> Sequence[Commit] | None:
    """Return the outcomes if all of them are commits that store no jobs or rows, and change no chunk, else None."""
    if set(map(type, outcomes)) - {Commit}:
        return None
    commits = cast("Sequence[Commit]", outcomes)
    if any(map(_JOBS, commits)) or any(map(_ROWS, commits)) or bytes in set(map(type, map(_PAYLOAD, commits))):
        return None
    return commits


def is_plain(outcome: Outcome) -> bool:
    """Return whether the outcome is a commit that stores no jobs or rows, and changes no chunk."""
    return type(outcome) is Commit and not (outcome.jobs or outcome.rows or isinstance(outcome.payload, bytes))


_DONE = JobRow("", "", UNLANED, JobState.DONE.value, 0, 0, 0, 0, "", finished_at=0)
"""The fields of a committed job, besides the result, that the consequences of its end depend on."""
