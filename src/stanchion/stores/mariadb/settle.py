"""Settling on MariaDB and MySQL: few round trips, and whole sets in each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from operator import attrgetter

from sqlalchemy import TextClause, text

from stanchion.stores.fields.jobs import TIES
from stanchion.stores.fields.sql import in_time, missing
from stanchion.stores.mariadb.packets import arrays
from stanchion.stores.mariadb.statements import LISTED, NOW, TEXT, by_ids, given_ids, names_of
from stanchion.stores.records.jobs import JobState, Lease
from stanchion.stores.records.outcomes import Commit
from stanchion.stores.records.queues import QueueSettings
from stanchion.stores.rules.capacity.slots import MAYBE_UNTIED
from stanchion.stores.rules.lifecycle.outcomes import counted_as
from stanchion.stores.sql.engine.dialect import Dialect
from stanchion.stores.sql.engine.runner import Runner
from stanchion.stores.sql.engine.schema import HELD_COLUMNS, HISTORY_COLUMNS, queues
from stanchion.stores.sql.jobs.settle import HeldJobs, HeldStatements, TransactionCommits
from stanchion.stores.sql.rows.held_job import HeldJob
from stanchion.stores.sql.rows.jobs import Jobs
from stanchion.stores.sql.rows.queue_row import queue_row

# Called by built-ins, without a frame for each job.
_ID, _CLAIM, _RESULT = attrgetter("lease.id"), attrgetter("lease.queue", "lease.token"), attrgetter("result", "payload")
_TIES, _OWN_RESULT = attrgetter("ties"), attrgetter("result")
IN_TIME = f"job.state = 'running' AND {in_time(NOW, 'job.')}"

PLAIN = missing((name for name in TIES if name != "items"), "job.")
"""The condition that the end of a job has no consequence for others; the items of chunks are counted."""

_HELD = text(f"""
    SELECT COUNT(*), SUM(coalesce(job.items, 1)), MAX(job.delivery),
        coalesce((SELECT history_ttl > 0 FROM stanchion_queues WHERE name = :queue), TRUE),
        (SELECT max_running FROM stanchion_queues WHERE name = :queue) IS NOT NULL
    FROM {LISTED}
    WHERE job.id IN :ids AND job.queue = :queue AND job.token = :token AND {IN_TIME}
        AND {PLAIN}
    FOR UPDATE
""")


_SETTINGS = text(f"""
    SELECT {names_of(tuple(queues.columns.keys()))} FROM stanchion_queues
    WHERE name IN :queues
""")


def _keep(result: str, source: str, **others: str) -> TextClause:
    done = names_of(HISTORY_COLUMNS, "job.", state="'done'", finished_at=NOW, result=result, **others)
    return text(f"INSERT INTO stanchion_history ({names_of(HISTORY_COLUMNS)}) SELECT {done} FROM {source}")


_WITH_RESULTS = f"""
    id {{}} '$[0]',
    result LONGTEXT {TEXT} PATH '$[1]',
    payload LONGTEXT {TEXT} PATH '$[2]'
"""

_KEEP = _keep("NULL", f"{LISTED} WHERE job.id IN :ids AND job.queue IN :queues")
_KEEP_RESULTS = _keep(
    "given.result",
    f"{given_ids(_WITH_RESULTS, 'commits')} STRAIGHT_JOIN {LISTED} ON job.id = given.id AND job.queue IN :queues",
    payload="coalesce(given.payload, job.payload)",
    items="if(given.payload IS NULL, job.items, NULL)",
    arrival_payload="if(given.payload IS NULL, job.arrival_payload, coalesce(job.arrival_payload, job.payload))",
)


class MariaDBHeldStatements(HeldStatements):
    """The shared statements; one has another form."""

    def __init__(self, dialect: Dialect) -> None:
        super().__init__(dialect)
        self.lock = text(f"""
            SELECT {names_of((*HELD_COLUMNS, "token", "delivery"), "job.")}
            FROM {by_ids("stanchion_jobs")} WHERE job.queue IN :queues AND {IN_TIME} FOR UPDATE
        """)


class MariaDBHeldRows:
    """Locks held jobs and reads the settings of their queues together, and copies whole sets to history."""

    def __init__(self, general: HeldJobs) -> None:
        self._general = general

    def lock_with_settings(
        self, run: Runner, leases: Collection[Lease]
    ) -> tuple[list[HeldJob], dict[str, QueueSettings]]:
        settings_of = _SETTINGS, {"queues": sorted({lease.queue for lease in leases})}
        found, rows = run.all_rows([self._general.asks(leases), settings_of])
        held = [HeldJob(*row) for row in found]
        settings = {row[0]: queue_row(row).settings for row in rows}
        return held, {job.queue: settings.get(job.queue, QueueSettings(job.queue)) for job in held}

    def keep_done(self, run: Runner, commits: Sequence[Commit]) -> None:
        queues = sorted({one.lease.queue for one in commits})
        if bytes in set(map(type, map(_OWN_RESULT, commits))):  # as JSON, they would take several times as long
            self._general.keep_done(run, [one for one in commits if isinstance(one.result, bytes)])
            commits = [one for one in commits if not isinstance(one.result, bytes)]
        given = [one for one in commits if _RESULT(one) != (None, None)]
        if len(given) < len(commits):
            bare = [one.lease.id for one in commits if _RESULT(one) == (None, None)]
            run.send(_KEEP, {"ids": bare, "queues": queues})
        results = ((one.lease.id, one.result, one.payload) for one in given)
        for some in arrays(results):
            run.send(_KEEP_RESULTS, {"commits": some, "queues": queues})


class MariaDBCommits:
    """Commits the untied jobs of one claim without reading them."""

    def __init__(self, held: MariaDBHeldRows, jobs: Jobs, general: TransactionCommits) -> None:
        self._held, self._jobs, self._general = held, jobs, general

    def commit_in(self, run: Runner, commits: Sequence[Commit]) -> list[JobState | None]:
        ids, claims = set(map(_ID, commits)), set(map(_CLAIM, commits))
        if len(ids) < len(commits) or len(claims) > 1 or not MAYBE_UNTIED.issuperset(map(_TIES, commits)):
            return self._general.commit_in(run, commits)
        ((queue, token),) = claims
        held, items, delivery, keeps, bounded = run.rows(_HELD, {"ids": sorted(ids), "queue": queue, "token": token})[0]
        if held < len(ids):
            return self._general.commit_in(run, commits)  # some are lost or tied
        run.ended.update(ids)
        if bounded:
            run.woken.add(queue)  # room for another
        if keeps:
            self._held.keep_done(run, commits)
        self._jobs.remove(run, ids, [queue])
        self._jobs.count(run, Counter({(queue, counted_as(commits[0], delivery)): int(items)}))
        return [JobState.DONE] * held
