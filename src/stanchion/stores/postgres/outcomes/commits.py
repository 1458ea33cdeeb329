"""PostgreSQL's commits: one statement that commits itself."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from operator import attrgetter

from sqlalchemy import TextClause, text

from stanchion.core.values.framing import as_text
from stanchion.stores.fields.jobs import TIES
from stanchion.stores.fields.sql import in_time, missing
from stanchion.stores.postgres.claims.admit import SEMAPHORES
from stanchion.stores.postgres.pick import AS_TEXT, HERE, ITEMS, NOW, ONCE, listed
from stanchion.stores.postgres.push import CONTENTS, Contents, content
from stanchion.stores.records.claims import POPPED
from stanchion.stores.records.jobs import JobState, Lease
from stanchion.stores.records.outcomes import Commit, Ties
from stanchion.stores.sql.engine.database import Database
from stanchion.stores.sql.engine.joining import must_be_here
from stanchion.stores.sql.engine.runner import Params, Runner
from stanchion.stores.sql.engine.schema import HELD_COLUMNS, HISTORY_COLUMNS
from stanchion.stores.sql.jobs.settle import TransactionCommits
from stanchion.stores.sql.rows.held_job import HeldJob

_ARRIVAL = (
    "CASE WHEN given.payload IS NULL THEN job.arrival_payload ELSE coalesce(job.arrival_payload, job.payload) END"
)

_DONE = listed(
    [f"job.{name}" for name in HISTORY_COLUMNS if name not in ("finished_at", "result")],
    **{
        "job.payload": "coalesce(given.payload, job.payload) AS payload",
        "job.arrival_payload": f"{_ARRIVAL} AS arrival_payload",
        "job.state": "'done' AS state",
    },
)


_GIVEN = """
    given AS (
        SELECT * FROM jsonb_to_recordset(CAST(:commits AS jsonb)) AS given (
            queue text, id uuid, token text, result text, payload text
        ) {where}
    )
"""
_GIVEN, _GIVEN_JOINED = (_GIVEN.format(where=where) for where in ("", f"WHERE {HERE}"))
_GIVEN_CHUNKS = f"""
    {CONTENTS}, given AS (
        SELECT queue, id, token, coalesce(result, {content("content")}) AS result, payload
        FROM jsonb_to_recordset(CAST(:commits AS jsonb)) AS given (
            queue text, id uuid, token text, result text, payload text, content int
        )
    )
"""

_IN_TIME = f"job.token = given.token AND {in_time(NOW, 'job.')}"
# By id, never by the index of all running jobs, which may be full of entries that can't be removed yet: no planner can
# prove that a partial index covers these states.
HELD = f"job.id = ANY (ARRAY(SELECT id FROM given)) AND job.state IN ('running', '') AND {_IN_TIME}"

_FINISH = f"""
    gone AS (
        DELETE FROM stanchion_jobs AS job USING given
        WHERE job.id = given.id AND job.queue = given.queue AND {{which}}
        RETURNING {_DONE}, {ONCE} AS finished_at, given.result AS result, job.slots_held, job.delivery,
            given.payload IS NOT NULL AS is_other
    ), kept AS (
        INSERT INTO stanchion_history ({listed(HISTORY_COLUMNS)})
        SELECT {listed(HISTORY_COLUMNS, items="CASE WHEN NOT is_other THEN items END")} FROM gone
        WHERE NOT EXISTS (SELECT 1 FROM stanchion_queues WHERE name = gone.queue AND history_ttl <= 0)
    ), counted AS (
        INSERT INTO stanchion_counter_events (queue, what, n)
        SELECT queue, CASE WHEN delivery = '{POPPED}' THEN 'popped' ELSE 'committed' END AS what, {ITEMS}
        FROM gone GROUP BY queue, what
    )
    SELECT {listed(HELD_COLUMNS, **AS_TEXT)}, token, delivery,
        queue IN (SELECT name FROM stanchion_queues WHERE max_running IS NOT NULL) AS bounded
    FROM gone
"""

PLAIN = missing((name for name in TIES if name != "items"), "job.")
"""The condition that the end of a job has no consequence for others; the statements count the items of chunks."""

_COMMIT, _COMMIT_JOINED = (text(f"WITH {given}, {_FINISH.format(which=HELD)}") for given in (_GIVEN, _GIVEN_JOINED))
_COMMIT_PLAIN, _COMMIT_CHUNKS = (
    text(f"WITH {given}, {_FINISH.format(which=f'{HELD} AND {PLAIN}')}") for given in (_GIVEN, _GIVEN_CHUNKS)
)

# Commits jobs that hold semaphores: all if the slots have no waiters, else none. The rows of the slots are locked
# before they are read, and so are current regardless of the snapshot. Waiters can't be read like that, so there is a
# `waited` flag.
_SLOTS = "jsonb_array_elements_text(CAST(mine.limits AS jsonb) -> 'hold') WITH ORDINALITY AS slot (name, nth)"
_COMMIT_SLOTS = text(f"""
    WITH {_GIVEN}, mine AS MATERIALIZED (
        SELECT job.id, job.limits, job.slots_held FROM stanchion_jobs AS job JOIN given
            ON job.id = given.id AND job.queue = given.queue
        WHERE job.id = ANY (ARRAY(SELECT id FROM given)) AND {_IN_TIME}
            AND job.order_key IS NULL AND job.flow_node IS NULL
            AND job.state IN ('running', '')  -- spelled so that no planner uses the index of all running jobs
        FOR UPDATE OF job
    ), freed AS MATERIALIZED (
        SELECT slot.name, count(*) AS n FROM mine CROSS JOIN LATERAL {_SLOTS}
        WHERE slot.nth <= mine.slots_held GROUP BY 1
    ), locked AS MATERIALIZED (
        SELECT name, waited FROM stanchion_slots
        WHERE {SEMAPHORES} AND name = ANY (ARRAY(SELECT name FROM freed))
        ORDER BY name COLLATE "C" FOR UPDATE
    ), allowed AS MATERIALIZED (
        SELECT
            NOT EXISTS (SELECT 1 FROM freed LEFT JOIN locked USING (name) WHERE coalesce(waited, true))
            AS all_of_them
    ), used AS (
        UPDATE stanchion_slots AS slot SET used = used - n FROM freed
        WHERE {SEMAPHORES} AND slot.name = ANY (ARRAY(SELECT name FROM freed WHERE (SELECT all_of_them FROM allowed)))
            AND slot.name = freed.name
    ), {_FINISH.format(which="job.id = ANY (ARRAY(SELECT id FROM mine WHERE (SELECT all_of_them FROM allowed)))")}
""")


# Called by built-ins, without a frame per job.
_TIES, _RESULT, _BOUNDED = map(attrgetter, ("ties", "result", "bounded"))
_LEASE = attrgetter(*Lease._fields)


class PostgresCommits:
    """Commits by one statement, on its own or within a transaction."""

    def __init__(self, db: Database, general: TransactionCommits) -> None:
        self._db, self._general = db, general

    def commit_untied(self, run: Runner, commits: Sequence[Commit]) -> list[JobState | None]:
        """Commit the jobs whose end at most frees slots without waiters, and has no other consequence."""
        if Ties.SLOTS in map(_TIES, commits):
            return _states(commits, self._committed(run, _COMMIT_SLOTS, commits))
        chunks = bytes in set(map(type, map(_RESULT, commits)))
        return _states(commits, self._committed(run, _COMMIT_CHUNKS if chunks else _COMMIT_PLAIN, commits))

    def commit_in(self, run: Runner, commits: Sequence[Commit]) -> list[JobState | None]:
        done = self._committed(run, _COMMIT_JOINED if run.guarded else _COMMIT, commits)
        if run.guarded and not done:
            must_be_here(self._db, run)
            done = self._committed(run, _COMMIT, commits)
        states = _states(commits, done)
        if any(job.tied for job in done.values()):
            ended = [commit for commit, state in zip(commits, states, strict=True) if state is not None]
            self._general.follow(run, [(commit, done[commit.lease.id]) for commit in ended])
        return states

    def _committed(self, run: Runner, statement: TextClause, commits: Sequence[Commit]) -> dict[str, HeldJob]:
        given: list[dict[str, object]] = [
            {"queue": queue, "id": job, "token": token, "result": result, "payload": payload}
            for (queue, job, token), result, payload, *_ in commits
        ]
        params: Params = {}
        if statement is _COMMIT_CHUNKS:
            contents = Contents()
            for one in given:
                if isinstance(result := one["result"], bytes):
                    one |= {"result": None, "content": contents.add(result)}
            params = contents.params
        params = {**params, "commits": json.dumps(given, default=as_text)}
        done = {row[0]: HeldJob(*row) for row in run.rows(statement, params)}
        run.ended.update(done)
        if any(map(_BOUNDED, done.values())):  # there is room for another
            run.woken.update(job.queue for job in done.values() if job.bounded)
        return done


def _states(commits: Sequence[Commit], done: Mapping[str, HeldJob]) -> list[JobState | None]:
    """Return the state of each commit; of several commits of one job, the first with the valid lease counts."""
    leases = set(map(_LEASE, done.values()))
    states: list[JobState | None] = []
    for commit in commits:
        if commit.lease in leases:
            leases.remove(commit.lease)
            states.append(JobState.DONE)
        else:
            states.append(None)
    return states
