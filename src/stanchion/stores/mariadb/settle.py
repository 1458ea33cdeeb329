"""Outcomes on MariaDB and MySQL: few round trips, and whole sets in each."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator, Sequence

from sqlalchemy import TextClause, text

from stanchion.stores.mariadb.statements import LISTED, NOW, TEXT, by_ids, given_ids, names_of
from stanchion.stores.records.jobs import JobState
from stanchion.stores.records.outcomes import Commit
from stanchion.stores.records.queues import QueueSettings
from stanchion.stores.rules.outcomes import counted_as
from stanchion.stores.sql.engine.dialect import Dialect
from stanchion.stores.sql.engine.runner import Runner
from stanchion.stores.sql.engine.schema import HELD_COLUMNS, HISTORY_COLUMNS, queues
from stanchion.stores.sql.jobs import Jobs
from stanchion.stores.sql.queue_rows import QueueRow
from stanchion.stores.sql.settle import Committed, HeldJob, HeldJobs, HeldStatements, TransactionCommits

_TIED_SECONDS = 0.5
"""So long commits are taken for such as have consequences, after some that had."""

_PACKET = 1_000_000
"""As many characters as the driver puts into one bulk insert; a server takes 16 MiB, escaped, if not told otherwise."""


_IN_TIME = f"job.state = 'running' AND (job.lease_until IS NULL OR job.lease_until > {NOW})"

_HELD = text(f"""
    SELECT job.queue, COUNT(*),
        coalesce((SELECT history_ttl > 0 FROM stanchion_queues AS settings WHERE settings.name = job.queue), TRUE),
        (SELECT max_running FROM stanchion_queues AS settings WHERE settings.name = job.queue) IS NOT NULL
    FROM {LISTED} WHERE job.id IN :ids AND job.token = :token AND {_IN_TIME}
        AND job.order_key IS NULL AND job.limits IS NULL AND job.flow IS NULL
    GROUP BY job.queue FOR UPDATE
""")


_SETTINGS_OF_THESE = text(f"""
    SELECT {names_of(tuple(queues.columns.keys()))} FROM stanchion_queues
    WHERE name IN (SELECT queue FROM {by_ids("stanchion_jobs")})
""")


def _keep(payload: str, result: str, source: str) -> TextClause:
    done = names_of(HISTORY_COLUMNS, "job.", state="'done'", payload=payload, finished_at=NOW, result=result)
    return text(f"INSERT INTO stanchion_history ({names_of(HISTORY_COLUMNS)}) SELECT {done} FROM {source}")


_WITH_RESULTS = f"""
    id {{}} '$[0]',
    result LONGTEXT {TEXT} PATH '$[1]',
    payload LONGTEXT {TEXT} PATH '$[2]'
"""

_KEEP = _keep("job.payload", "NULL", f"{LISTED} WHERE job.id IN :ids")
_KEEP_RESULTS = _keep(
    "coalesce(given.payload, job.payload)",
    "given.result",
    f"{given_ids(_WITH_RESULTS, 'commits')} STRAIGHT_JOIN {LISTED} ON job.id = given.id",
)


class MariaDBHeldStatements(HeldStatements):
    """The shared statements, one in another form."""

    def __init__(self, dialect: Dialect) -> None:
        super().__init__(dialect)
        self.lock = text(f"""
            SELECT {names_of(HELD_COLUMNS, "job.")}, job.token
            FROM {by_ids("stanchion_jobs")} WHERE {_IN_TIME} FOR UPDATE
        """)


class MariaDBHeldRows:
    """Locks held jobs together with the settings of their queues, and copies whole sets into history."""

    def __init__(self, general: HeldJobs) -> None:
        self._general = general

    def lock_with_settings(self, run: Runner, ids: Iterable[str]) -> tuple[list[HeldJob], dict[str, QueueSettings]]:
        wanted = list(ids)
        settings_of = _SETTINGS_OF_THESE, {"ids": json.dumps(sorted(wanted))}
        found, rows = run.all_rows([self._general.asks(wanted), settings_of])
        held = [HeldJob(*row) for row in found]
        settings = {row[0]: QueueRow(*row).settings for row in rows}
        return held, {job.queue: settings.get(job.queue, QueueSettings(job.queue)) for job in held}

    def keep_done(self, run: Runner, commits: Sequence[Commit]) -> None:
        bare = [one.id for one in commits if one.result is None and one.payload is None]
        if bare:
            run.send(_KEEP, {"ids": bare})
        for given in _packets(one for one in commits if one.result is not None or one.payload is not None):
            run.send(_KEEP_RESULTS, {"commits": json.dumps(given, ensure_ascii=False)})


class MariaDBCommits:
    """Commits jobs of one claim that are tied to no others without reading them."""

    def __init__(self, held: MariaDBHeldRows, jobs: Jobs, general: TransactionCommits) -> None:
        self._held, self._jobs, self._general = held, jobs, general
        self._tied_until = 0.0

    def commit_in(self, run: Runner, commits: Sequence[Commit]) -> Committed:
        ids, tokens = [one.id for one in commits], {one.token for one in commits}
        if len(set(ids)) < len(ids) or len(tokens) > 1 or self._tied_until > time.monotonic():
            return self._commit_each(run, commits)
        held = run.rows(_HELD, {"ids": sorted(ids), "token": tokens.pop()})
        kept = {bool(keeps) for _, _, keeps, _ in held}
        if sum(count for _, count, _, _ in held) < len(ids) or len(kept) > 1:
            return self._commit_each(run, commits)  # some are lost, or not like the others
        run.ended.update(ids)
        run.woken.update(queue for queue, _, _, bounded in held if bounded)  # a place is free
        if kept == {True}:
            self._held.keep_done(run, commits)
        self._jobs.remove(run, ids)
        counted = counted_as(commits[0])  # of one token, as all of them
        self._jobs.tally(run, [(queue, counted) for queue, count, _, _ in held for _ in range(count)])
        return Committed([JobState.DONE] * len(ids))

    def _commit_each(self, run: Runner, commits: Sequence[Commit]) -> Committed:
        done = self._general.commit_in(run, commits)
        if done.tied:
            self._tied_until = time.monotonic() + _TIED_SECONDS
        return done


def _packets(commits: Iterable[Commit]) -> Iterator[list[tuple[str, str | None, str | None]]]:
    """Yield the commits in batches that fit into a packet."""
    batch: list[tuple[str, str | None, str | None]] = []
    size = 0
    for one in commits:
        length = len(one.result or "") + len(one.payload or "")
        if batch and size + length > _PACKET:
            yield batch
            batch, size = [], 0
        batch.append((one.id, one.result, one.payload))
        size += length
    if batch:
        yield batch
