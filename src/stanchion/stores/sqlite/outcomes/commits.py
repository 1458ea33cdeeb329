"""SQLite's commits: the untied jobs of one claim end by sets, without being read."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from operator import attrgetter

from sqlalchemy import Executable, String, and_, func, insert, literal, null, select

from stanchion.stores.fields.jobs import TIES
from stanchion.stores.records.jobs import JobState
from stanchion.stores.records.outcomes import Commit
from stanchion.stores.rules.capacity.slots import MAYBE_UNTIED
from stanchion.stores.rules.lifecycle.outcomes import counted_as
from stanchion.stores.sql.engine.columns import RUNS, in_time, param
from stanchion.stores.sql.engine.database import Database
from stanchion.stores.sql.engine.dialect import Dialect
from stanchion.stores.sql.engine.runner import Runner
from stanchion.stores.sql.engine.schema import HISTORY_COLUMNS, history, jobs, queues
from stanchion.stores.sql.jobs.settle import HeldJobs, TransactionCommits
from stanchion.stores.sql.rows.jobs import Jobs

CLAIMS_MOST = 4
"""Claims whose jobs are committed claim by claim; a batch from more is committed job by job."""

_LEASE, _TIES = attrgetter("lease"), attrgetter("ties")  # called by built-ins, without a frame for each job


class CommitStatements:
    """The statements about sets of untied jobs."""

    def __init__(self, dialect: Dialect) -> None:
        now, queue = dialect.now, param("queue", String)
        these = and_(jobs.c.id.in_(dialect.values("ids", jobs.c.id.type)), jobs.c.queue == queue)
        untied = (jobs.c[name].is_(None) for name in TIES)
        keeps, bounded = (
            select(setting).where(queues.c.name == queue).scalar_subquery()
            for setting in (queues.c.history_ttl > 0, queues.c.max_running.is_not(None))
        )
        self.held: Executable = select(func.count(), func.max(jobs.c.delivery), func.coalesce(keeps, 1), bounded).where(
            these, jobs.c.token == param("token", String), RUNS, in_time(now), *untied
        )
        as_done = {"result": null(), "finished_at": now, "state": literal(JobState.DONE.value)}
        done = (as_done[name] if name in as_done else jobs.c[name] for name in HISTORY_COLUMNS)
        self.keep: Executable = insert(history).from_select(list(HISTORY_COLUMNS), select(*done).where(these))


class SqliteCommits:
    """Commits the untied jobs of a claim by sets; others go the general way."""

    def __init__(self, db: Database, held: HeldJobs, jobs: Jobs, general: TransactionCommits) -> None:
        self._held, self._jobs, self._general = held, jobs, general
        self._statements = db.dialect.once(CommitStatements)

    def commit_in(self, run: Runner, commits: Sequence[Commit]) -> list[JobState | None]:
        names, ids, tokens = zip(*map(_LEASE, commits), strict=True)
        claims = set(zip(names, tokens, strict=True))
        if len(claims) > CLAIMS_MOST or len(set(ids)) < len(ids) or not MAYBE_UNTIED.issuperset(map(_TIES, commits)):
            return self._general.commit_in(run, commits)
        if len(claims) == 1:
            return self._commit_claim(run, commits, ids)
        states: dict[str, JobState | None] = {}
        for claim in claims:
            some = [one for one in commits if (one.lease.queue, one.lease.token) == claim]
            of_these = [one.lease.id for one in some]
            states.update(zip(of_these, self._commit_claim(run, some, of_these), strict=True))
        return [states[job] for job in ids]

    def _commit_claim(self, run: Runner, commits: Sequence[Commit], ids: Sequence[str]) -> list[JobState | None]:
        """Commit jobs under one token. If some are lost or tied after all, all of them go the general way."""
        lease, listed = commits[0].lease, json.dumps(ids)
        given = {"queue": lease.queue, "ids": listed}
        held, delivery, keeps, bounded = run.rows(self._statements.held, {**given, "token": lease.token})[0]
        if held < len(ids):
            return self._general.commit_in(run, commits)
        run.ended.update(ids)
        if bounded:
            run.woken.add(lease.queue)  # room for another
        if keeps:
            self._keep(run, commits, given)
        self._jobs.remove(run, ids, [lease.queue])
        self._jobs.count(run, Counter({(lease.queue, counted_as(commits[0], delivery)): held}))
        return [JobState.DONE] * len(ids)

    def _keep(self, run: Runner, commits: Sequence[Commit], given: dict[str, str]) -> None:
        """Copy live jobs of one queue to history, in the state done."""
        telling = [one for one in commits if one.result is not None or one.payload is not None]
        if telling:
            self._held.keep_done(run, telling)
            bare = [one.lease.id for one in commits if one.result is None and one.payload is None]
            given = {**given, "ids": json.dumps(bare)}
        if len(telling) < len(commits):
            run.send(self._statements.keep, given)
