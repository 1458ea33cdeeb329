"""PostgreSQL's commits that store jobs, such as the parts of a chunk, by one statement that commits itself."""

from __future__ import annotations

import json
from collections.abc import Sequence
from operator import itemgetter

from stanchion.stores.postgres.outcomes.commits import HELD, PLAIN
from stanchion.stores.postgres.outcomes.passes import (
    AS_IT_CAME,
    BROUGHT,
    BROUGHT_TYPES,
    CAME,
    COMES_WITH,
    HAS_ROOM,
    PASSES_COUNTED,
    WAYS,
    Ways,
)
from stanchion.stores.postgres.pick import ITEMS, ONCE, listed
from stanchion.stores.postgres.push import asked, part_in, pushes_of_parts
from stanchion.stores.records.jobs import JobState, NewJob
from stanchion.stores.records.outcomes import Commit, Outcome, Pass
from stanchion.stores.rules.lifecycle.outcomes import jobs_with, last_of
from stanchion.stores.sql.engine.runner import Params, Runner
from stanchion.stores.sql.engine.schema import HISTORY_COLUMNS
from stanchion.stores.sql.jobs.moves import is_plain_way
from stanchion.stores.sql.rows.queues import QueueRows

_PASSED = "given.way IS NOT NULL"
# Some of the jobs may have passed no queues; they keep their columns.
_AS_IT_CAME = {
    name: f"CASE WHEN {_PASSED} THEN {term.removesuffix(f' AS {name[4:]}')} ELSE {name} END AS {name[4:]}"
    for name, term in AS_IT_CAME.items()
}
_AS_ENDED = {
    **{name: f"CASE WHEN way IS NULL THEN {name} ELSE {term} END" for name, term in CAME.items()},
    "state": "'done'",
    "finished_at": ONCE,
    "result": "NULL",
    "items": "CASE WHEN divides THEN 0 ELSE items END",  # each item is counted where its part is
}
_ENDED = f"""
    given_ends AS (
        SELECT queue, id, token, divides, {BROUGHT} FROM jsonb_to_recordset(CAST(:ends AS jsonb)) AS given (
            queue text, id uuid, token text, divides boolean, {BROUGHT_TYPES}
        ) LEFT JOIN {WAYS} USING (way)
    ), gone AS (
        DELETE FROM stanchion_jobs AS job USING given_ends AS given
        WHERE job.id = given.id AND job.queue = given.queue AND NOT job.cancel_requested
            AND {HELD.replace("FROM given", "FROM given_ends")} AND {PLAIN} AND (given.way IS NULL OR {HAS_ROOM})
        RETURNING
            {listed([f"job.{name}" for name in COMES_WITH], **_AS_IT_CAME)},
            job.queue AS left_queue, given.divides, given.way
    ), kept AS (
        INSERT INTO stanchion_history ({listed(HISTORY_COLUMNS)})
        SELECT {listed(HISTORY_COLUMNS, **_AS_ENDED)} FROM gone
        WHERE NOT EXISTS (SELECT 1 FROM stanchion_queues WHERE name = gone.queue AND history_ttl <= 0)
    ),
"""
_TALLIED = f"""
    UNION ALL SELECT queue, 'moved', {ITEMS} FROM gone WHERE NOT divides GROUP BY queue
    UNION ALL SELECT told.queue, told.what, told.n
        FROM jsonb_to_recordset(CAST(:tallies AS jsonb)) AS told (parent uuid, queue text, what text, n bigint)
        WHERE told.parent IN (SELECT id FROM gone WHERE divides)
    UNION ALL {PASSES_COUNTED}
"""
_DIVIDE = pushes_of_parts(
    before=_ENDED,
    more=", parent uuid",
    where="WHERE parent IN (SELECT id FROM gone)",
    counts=_TALLIED,
    answer=""", (
        SELECT coalesce(CAST(jsonb_agg(jsonb_build_array(gone.left_queue, gone.id, gone.token,
            gone.left_queue IN (SELECT name FROM stanchion_queues WHERE max_running IS NOT NULL))) AS text), '[]')
        FROM gone
    )""",
)
_TYING = ("key", "order_key", "limits", "flow_node", "lane", "waits_kind", "dead_from")
"""Fields that give the push of a job consequences for other jobs, or for its queue."""
_tying = itemgetter(*map(NewJob._fields.index, _TYING))
_UNTIED = tuple(NewJob._field_defaults[name] for name in _TYING)


def is_plain_division(outcome: Outcome) -> bool:
    """Return whether a statement can apply the outcome: a commit whose jobs concern no others, and live; no rows."""
    last = last_of(outcome)
    return (
        type(last) is Commit
        and bool(last.jobs)
        and not last.rows
        and last.payload is None
        and last.result is None
        and {_UNTIED}.issuperset(map(_tying, last.jobs))
        and (type(outcome) is not Pass or is_plain_way(outcome))
    )


class PostgresDivisions:
    """Commits that store jobs, such as the parts of a chunk, by one statement."""

    def __init__(self, queues: QueueRows) -> None:
        self._queues = queues

    def prepare(self, ends: Sequence[Outcome]) -> None:
        """Make the missing rows of the queues of new jobs, and of queues that jobs passed."""
        passed = {passage.queue for one in ends if isinstance(one, Pass) for passage in one.passages}
        self._queues.make({job.queue for one in ends for job in jobs_with(one)} | passed)

    def divide_untied(self, run: Runner, ends: Sequence[Outcome]) -> list[JobState | None]:
        """Commit jobs on which no others depend; return None for jobs that another route must try."""
        ways = Ways()
        commits = [(one.lease, last) for one in ends if isinstance(last := last_of(one), Commit)]
        given = [
            {**ways.given(one), "divides": bool(last.tallies)} for one, (_, last) in zip(ends, commits, strict=True)
        ]
        parts = [
            {**part_in(job, ways.contents), "parent": lease.id} for lease, commit in commits for job in commit.jobs
        ]
        tallies = [
            {"parent": lease.id, "queue": queue, "what": what, "n": number}
            for lease, commit in commits
            for queue, what, number in commit.tallies
        ]
        statement, params = asked(_DIVIDE, [job for _, commit in commits for job in commit.jobs], parts)
        told: Params = {"ends": json.dumps(given), "tallies": json.dumps(tallies)}
        ((_, _, found),) = run.rows(statement, {**params, **told, **ways.params})
        done = {(queue, job, token): bounded for queue, job, token, bounded in json.loads(found)}
        run.ended.update(job for _, job, _ in done)
        run.woken.update(queue for (queue, *_), bounded in done.items() if bounded)  # there is room for another
        run.woken.update(job.queue for lease, commit in commits if lease in done for job in commit.jobs)
        return [JobState.DONE if one.lease in done else None for one in ends]
