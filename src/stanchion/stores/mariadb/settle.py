"""Settling on MariaDB and MySQL: few round trips, and whole sets in each."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence

from sqlalchemy import TextClause, text

from stanchion.stores.mariadb.packets import packets
from stanchion.stores.mariadb.statements import LISTED, NOW, TEXT, by_ids, given_ids, names_of
from stanchion.stores.records.jobs import JobState
from stanchion.stores.records.leases import Lease
from stanchion.stores.records.outcomes import Commit, Ties
from stanchion.stores.records.queues import QueueSettings
from stanchion.stores.rules.outcomes import counted_as
from stanchion.stores.sql.engine.dialect import Dialect
from stanchion.stores.sql.engine.runner import Runner
from stanchion.stores.sql.engine.schema import HELD_COLUMNS, HISTORY_COLUMNS, queues
from stanchion.stores.sql.jobs.settle import HeldJob, HeldJobs, HeldStatements, TransactionCommits
from stanchion.stores.sql.rows.jobs import Jobs
from stanchion.stores.sql.rows.queues import QueueRow

_IN_TIME = f"job.state = 'running' AND (job.lease_until IS NULL OR job.lease_until > {NOW})"

_HELD = text(f"""
    SELECT job.queue, COUNT(*),
        coalesce((SELECT history_ttl > 0 FROM stanchion_queues AS settings WHERE settings.name = job.queue), TRUE),
        (SELECT max_running FROM stanchion_queues AS settings WHERE settings.name = job.queue) IS NOT NULL
    FROM {LISTED}
    WHERE job.id IN :ids AND (job.queue, job.id) IN :jobs AND job.token = :token AND {_IN_TIME}
        AND job.order_key IS NULL AND job.limits IS NULL AND job.flow_node IS NULL
    GROUP BY job.queue FOR UPDATE
""")


_SETTINGS = text(f"""
    SELECT {names_of(tuple(queues.columns.keys()))} FROM stanchion_queues
    WHERE name IN :queues
""")


def _keep(payload: str, result: str, source: str) -> TextClause:
    done = names_of(HISTORY_COLUMNS, "job.", state="'done'", payload=payload, finished_at=NOW, result=result)
    return text(f"INSERT INTO stanchion_history ({names_of(HISTORY_COLUMNS)}) SELECT {done} FROM {source}")


_WITH_RESULTS = f"""
    id {{}} '$[0]',
    result LONGTEXT {TEXT} PATH '$[1]',
    payload LONGTEXT {TEXT} PATH '$[2]'
"""

_KEEP = _keep("job.payload", "NULL", f"{LISTED} WHERE job.id IN :ids AND job.queue IN :queues")
_KEEP_RESULTS = _keep(
    "coalesce(given.payload, job.payload)",
    "given.result",
    f"{given_ids(_WITH_RESULTS, 'commits')} STRAIGHT_JOIN {LISTED} ON job.id = given.id AND job.queue IN :queues",
)


class MariaDBHeldStatements(HeldStatements):
    """The shared statements; one has another form."""

    def __init__(self, dialect: Dialect) -> None:
        super().__init__(dialect)
        self.lock = text(f"""
            SELECT {names_of(HELD_COLUMNS, "job.")}, job.token
            FROM {by_ids("stanchion_jobs")} WHERE job.queue IN :queues AND {_IN_TIME} FOR UPDATE
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
        settings = {row[0]: QueueRow(*row).settings for row in rows}
        return held, {job.queue: settings.get(job.queue, QueueSettings(job.queue)) for job in held}

    def keep_done(self, run: Runner, commits: Sequence[Commit]) -> None:
        queues = sorted({one.lease.queue for one in commits})
        bare = [one.lease.id for one in commits if one.result is None and one.payload is None]
        if bare:
            run.send(_KEEP, {"ids": bare, "queues": queues})
        given = (
            (one.lease.id, one.result, one.payload) for one in commits if (one.result, one.payload) != (None, None)
        )
        for some in packets(given, lambda one: len(one[1] or "") + len(one[2] or "")):
            run.send(_KEEP_RESULTS, {"commits": json.dumps(some, ensure_ascii=False), "queues": queues})


class MariaDBCommits:
    """Commits the untied jobs of one claim without reading them."""

    def __init__(self, held: MariaDBHeldRows, jobs: Jobs, general: TransactionCommits) -> None:
        self._held, self._jobs, self._general = held, jobs, general

    def commit_in(self, run: Runner, commits: Sequence[Commit]) -> list[JobState | None]:
        leases = [one.lease for one in commits]
        ids, tokens = [lease.id for lease in leases], {lease.token for lease in leases}
        tied = any(one.ties not in (None, Ties.NONE) for one in commits)
        if tied or len(set(ids)) < len(ids) or len(tokens) > 1:
            return self._general.commit_in(run, commits)
        jobs = sorted((lease.queue, lease.id) for lease in leases)
        held = run.rows(_HELD, {"ids": sorted(ids), "jobs": jobs, "token": tokens.pop()})
        kept = {bool(keeps) for _, _, keeps, _ in held}
        if sum(count for _, count, _, _ in held) < len(ids) or len(kept) > 1:
            return self._general.commit_in(run, commits)  # some are lost or tied, or their queues differ
        run.ended.update(ids)
        run.woken.update(queue for queue, _, _, bounded in held if bounded)  # room for another
        if kept == {True}:
            self._held.keep_done(run, commits)
        self._jobs.remove(run, ids, {queue for queue, *_ in jobs})
        counted = counted_as(commits[0])  # all of them have one token
        self._jobs.count_events(run, [(queue, counted) for queue, count, _, _ in held for _ in range(count)])
        return [JobState.DONE] * len(ids)
