"""PostgreSQL's commits: one statement, its own transaction."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import TextClause, text

from stanchion.stores.postgres.identity import HERE
from stanchion.stores.postgres.pick import NOW, ONCE, listed
from stanchion.stores.records.jobs import JobState
from stanchion.stores.records.outcomes import Commit, Outcome
from stanchion.stores.sql.engine.database import Database
from stanchion.stores.sql.engine.joining import must_be_here
from stanchion.stores.sql.engine.runner import Runner
from stanchion.stores.sql.engine.schema import HELD_COLUMNS, HISTORY_COLUMNS
from stanchion.stores.sql.settle import Committed, HeldJob, Outcomes, TransactionCommits, is_plain, note_ended
from stanchion.stores.sql.transactions import Transactions

_TRANSACTION_SECONDS = 0.5
"""So long commits are tried in a transaction at once, after some whose jobs were tied to others."""

_DONE = listed(
    [f"job.{name}" for name in HISTORY_COLUMNS if name not in ("finished_at", "result")],
    **{"job.payload": "coalesce(given.payload, job.payload) AS payload", "job.state": "'done' AS state"},
)


_GIVEN = """
    given AS (
        SELECT * FROM jsonb_to_recordset(CAST(:commits AS jsonb)) AS given (
            id uuid, token text, result text, payload text
        ) {where}
    )
"""
_GIVEN, _GIVEN_JOINED = (_GIVEN.format(where=where) for where in ("", f"WHERE {HERE}"))

_IN_TIME = f"job.token = given.token AND (job.lease_until IS NULL OR job.lease_until > {NOW})"
# By the ids, never by the index of all that runs, which may be full of entries that can't be removed yet: no planner
# can prove that a partial index has all of these states.
_HELD = f"job.id = ANY (ARRAY(SELECT id FROM given)) AND job.state IN ('running', '') AND {_IN_TIME}"

_FINISH = f"""
    gone AS (
        DELETE FROM stanchion_jobs AS job USING given
        WHERE job.id = given.id AND {{which}}
        RETURNING {_DONE}, {ONCE} AS finished_at, given.result AS result, job.held
    ), kept AS (
        INSERT INTO stanchion_history ({listed(HISTORY_COLUMNS)})
        SELECT {listed(HISTORY_COLUMNS)} FROM gone
        WHERE NOT EXISTS (SELECT 1 FROM stanchion_queues WHERE name = gone.queue AND history_ttl <= 0)
    ), counted AS (
        INSERT INTO stanchion_tallies (queue, what, n)
        SELECT queue, CASE WHEN right(token, 1) = '-' THEN 'popped' ELSE 'committed' END AS what, count(*)
        FROM gone GROUP BY queue, what
    )
    SELECT {listed(HELD_COLUMNS, id="CAST(id AS text)")}, token,
        queue IN (SELECT name FROM stanchion_queues WHERE max_running IS NOT NULL) AS bounded
    FROM gone
"""

PLAIN = "job.order_key IS NULL AND job.limits IS NULL AND job.flow IS NULL"  # the end of others has consequences

_COMMIT, _COMMIT_JOINED = (text(f"WITH {given}, {_FINISH.format(which=_HELD)}") for given in (_GIVEN, _GIVEN_JOINED))
_COMMIT_PLAIN = text(f"WITH {_GIVEN}, {_FINISH.format(which=f'{_HELD} AND {PLAIN}')}")

# Of jobs that hold semaphores: all of them, if nobody waits there, or none. The rows of the slots are locked before
# they are read, and so seen as they are, whatever the snapshot; who waits can't be seen like that, hence the mark.
_SLOTS = "jsonb_array_elements_text(CAST(mine.limits AS jsonb) -> 'hold') WITH ORDINALITY AS gate (name, nth)"
_COMMIT_SLOTS = text(f"""
    WITH {_GIVEN}, mine AS MATERIALIZED (
        SELECT job.id, job.limits, job.held FROM stanchion_jobs AS job JOIN given ON job.id = given.id
        WHERE job.id = ANY (ARRAY(SELECT id FROM given)) AND {_IN_TIME} AND job.order_key IS NULL AND job.flow IS NULL
            AND job.state IN ('running', '')  -- spelled so that no planner goes by the index of all that runs
        FOR UPDATE OF job
    ), freed AS MATERIALIZED (
        SELECT 's:' || gate.name AS name, count(*) AS n FROM mine CROSS JOIN LATERAL {_SLOTS}
        WHERE gate.nth <= mine.held GROUP BY 1
    ), locked AS MATERIALIZED (
        SELECT name, waited FROM stanchion_gates
        WHERE name = ANY (ARRAY(SELECT name FROM freed)) ORDER BY name FOR UPDATE
    ), allowed AS MATERIALIZED (
        SELECT
            NOT EXISTS (SELECT 1 FROM freed LEFT JOIN locked USING (name) WHERE coalesce(waited, true))
            AS all_of_them
    ), used AS (
        UPDATE stanchion_gates AS gate SET used = used - n FROM freed
        WHERE gate.name = ANY (ARRAY(SELECT name FROM freed WHERE (SELECT all_of_them FROM allowed)))
            AND gate.name = freed.name
    ), {_FINISH.format(which="job.id = ANY (ARRAY(SELECT id FROM mine WHERE (SELECT all_of_them FROM allowed)))")}
""")


class PostgresCommits:
    """Commits by one statement, alone or within a transaction, and knows what the last commits were like."""

    def __init__(self, db: Database, general: TransactionCommits) -> None:
        self._db, self._general = db, general
        self._slots_held = False
        """The last commits were of jobs that held semaphores."""
        self._tied_until = 0.0

    @property
    def tied_lately(self) -> bool:
        """True while a statement of its own is not likely to do, as jobs are tied to others."""
        return self._tied_until > time.monotonic()

    def commit_untied(self, run: Runner, commits: Sequence[Commit]) -> list[JobState | None]:
        """Commit the jobs whose end has no consequences but, for some, that slots are free that nobody waits for."""
        done = self._committed(run, _COMMIT_SLOTS if self._slots_held else _COMMIT_PLAIN, commits)
        if self._slots_held and not any(job.limits for job in done.values()):
            self._slots_held = False
        return _states(commits, done)

    def commit_in(self, run: Runner, commits: Sequence[Commit]) -> Committed:
        done = self._committed(run, _COMMIT_JOINED if run.guarded else _COMMIT, commits)
        if run.guarded and not done:
            must_be_here(self._db, run)
            done = self._committed(run, _COMMIT, commits)
        states = _states(commits, done)
        tied = any(job.tied for job in done.values())
        if tied:
            if self._slots_held or any(job.order_key or job.flow for job in done.values()):
                self._tied_until = time.monotonic() + _TRANSACTION_SECONDS
            self._slots_held = any(job.limits for job in done.values())
            ended = [commit for commit, state in zip(commits, states, strict=True) if state is not None]
            self._general.follow(run, [(commit, done[commit.id]) for commit in ended])
        return Committed(states, tied)

    def _committed(self, run: Runner, statement: TextClause, commits: Sequence[Commit]) -> dict[str, HeldJob]:
        given = [
            {"id": commit.id, "token": commit.token, "result": commit.result, "payload": commit.payload}
            for commit in commits
        ]
        done = {row[0]: HeldJob(*row) for row in run.rows(statement, {"commits": json.dumps(given)})}
        note_ended(run, done.values())
        return done


class PostgresOutcomes:
    """Applies plain commits by one statement that commits itself, all else in a transaction."""

    def __init__(self, db: Database, transactions: Transactions, commits: PostgresCommits, general: Outcomes) -> None:
        self._db, self._transactions, self._commits, self._general = db, transactions, commits, general
        self.settle_in = general.settle_in

    def settle(self, outcomes: Sequence[Outcome], tx: Any = None, *, repeat: bool = False) -> list[JobState | None]:
        plain = all(map(is_plain, outcomes))
        if tx is not None or repeat or not plain or self._commits.tied_lately:
            return self._general.settle(outcomes, tx, repeat=repeat, guarded=plain)
        commits = [outcome for outcome in outcomes if isinstance(outcome, Commit)]
        runs: list[Runner] = []

        def work(run: Runner, again: bool) -> list[JobState | None]:
            runs[:] = [run]
            if not again:
                return self._commits.commit_untied(run, commits)
            states = self._general.settle_in(run, commits, again=True)
            self._transactions.pass_on(run)
            return states

        states = self._db.statement(work)
        self._transactions.tell(runs[0])
        left = [commit for commit, state in zip(commits, states, strict=True) if state is None]
        if not left:
            return states
        others = iter(self._general.settle(left))
        return [next(others) if state is None else state for state in states]


def _states(commits: Sequence[Commit], done: Mapping[str, HeldJob]) -> list[JobState | None]:
    """Return the state that each commit led to: of those with one id, the first under the token in force."""
    tokens = {job.id: job.token for job in done.values()}
    states: list[JobState | None] = []
    for commit in commits:
        states.append(JobState.DONE if tokens.get(commit.id) == commit.token else None)
        if states[-1] is not None:
            del tokens[commit.id]
    return states
