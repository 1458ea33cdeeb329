"""SQLite's short ways: through lanes and semaphores by one statement each, as nobody else writes meanwhile."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from sqlalchemy import text

from stanchion.stores.records.claims import Claim
from stanchion.stores.records.jobs import SECOND, JobRow
from stanchion.stores.records.query import Query
from stanchion.stores.records.queues import QueueSettings
from stanchion.stores.rules.limits import limits_in
from stanchion.stores.rules.slots import semaphore_gate, semaphore_of
from stanchion.stores.sql.arrow import Arrow, from_sqlite
from stanchion.stores.sql.engine.database import Database
from stanchion.stores.sql.engine.runner import Runner
from stanchion.stores.sql.engine.schema import LIVE_COLUMNS
from stanchion.stores.sql.engine.setup import Setup
from stanchion.stores.sql.granting import Grants
from stanchion.stores.sql.lanes import Head, Turn
from stanchion.stores.sql.store import SqlStore
from stanchion.stores.sqlite.file import StoreFile

if TYPE_CHECKING:
    import pyarrow as pa

_PAUSE = 20
"""Claims that go the long way after one for which the short one was too short."""

_RESERVE = text(f"""
    UPDATE stanchion_jobs
    SET state = 'running', attempts = attempts + 1, token = :token, worker = :worker, progress = NULL,
        lease_until = :lease_until, started_at = :started_at,
        held = coalesce(json_array_length(limits, '$.hold'), 0), permit = iif(limits IS NULL, NULL, :token)
    WHERE id IN (SELECT value FROM json_each(:ids))
        AND order_key IS NULL AND held = 0 AND json_extract(limits, '$.rate') IS NULL
    RETURNING {", ".join(LIVE_COLUMNS)}
""")
_TAKE = text("""
    UPDATE stanchion_gates SET used = used + given.value FROM json_each(:slots) AS given
    WHERE name = given.key AND coalesce(capacity, 1) - used >= given.value
""")
_FREE = text("""
    UPDATE stanchion_gates SET used = used - given.value FROM json_each(:slots) AS given
    WHERE name = given.key AND NOT waited
    RETURNING name
""")
_PICK = text("""
    SELECT (
        SELECT group_concat(id) FROM (
            SELECT id FROM stanchion_jobs
            WHERE queue = :queue AND state = 'queued' AND lane = json_extract(head.value, '$[0]')
                AND priority = json_extract(head.value, '$[1]') AND run_at <= :now
            ORDER BY run_at, id LIMIT :most
        )
    ) FROM json_each(:heads) AS head ORDER BY head.key
""")
_SAVEPOINT, _BACK, _RELEASE = map(text, ("SAVEPOINT gates", "ROLLBACK TO gates", "RELEASE gates"))


class SqliteStore(SqlStore):
    """A file."""

    def __init__(self, database: Database, file: StoreFile) -> None:
        super().__init__(database)
        self._schema = Setup(database, before=file.accept)
        self._arrow = Arrow(database, from_sqlite)
        file.when_replaced(self._forget)
        self._long_way: Counter[str] = Counter()
        """How many of the next claims of a queue are not to try the short way, as it has just led nowhere."""

    def select_arrow(self, query: Query) -> Iterator[pa.RecordBatch]:
        return self._arrow.select_arrow(query)

    def _forget(self) -> None:
        """Know nothing of the file that was there before."""
        self.queue_rows.forget_known()
        self._long_way.clear()
        self.database.identity = None

    def reserve_with_slots(
        self, run: Runner, claim: Claim, settings: QueueSettings, ids: Sequence[str]
    ) -> list[JobRow]:
        if self._long_way[claim.queue]:
            self._long_way[claim.queue] -= 1
            return []
        lease = settings.lease if claim.lease is None else claim.lease
        now = self.clock(run)
        given = {
            "token": claim.token,
            "worker": claim.worker,
            "started_at": now,
            "lease_until": None if claim.worker else now + int(lease * SECOND),
            "ids": json.dumps(ids),
        }
        run.change(_SAVEPOINT)
        rows = [JobRow(*row) for row in run.rows(_RESERVE, given)]
        slots = Counter(semaphore_gate(name) for row in rows for name in limits_in(row.limits).semaphores)
        done = len(rows) == len(ids) and run.change(_TAKE, {"slots": json.dumps(slots)}) == len(slots)
        if not done:
            run.change(_BACK)
            self._long_way[claim.queue] = _PAUSE
        run.change(_RELEASE)
        return rows if done else []

    def pick_in_lanes(self, run: Runner, queue: str, heads: Sequence[Head], share: Mapping[int, int]) -> list[Turn]:
        given = {
            "queue": queue,
            "now": self.clock(run),
            "heads": json.dumps([head[:2] for head in heads]),
            "most": max(share[head.lane] for head in heads),
        }
        found = zip(heads, run.rows(_PICK, given), strict=True)
        return [Turn(head.lane, job) for head, (ids,) in found if ids for job in ids.split(",")[: share[head.lane]]]

    def make_grants(self) -> SqliteGrants:
        return SqliteGrants(Grants(self.database, self.slots))


class SqliteGrants:
    """Gives back slots of semaphores at which nobody waits, by one statement."""

    def __init__(self, general: Grants) -> None:
        self._general = general

    def pass_on(self, run: Runner) -> None:
        semaphores = {name: n for name, n in run.freed.items() if semaphore_of(name)}
        if semaphores:
            for (name,) in run.rows(_FREE, {"slots": json.dumps(semaphores)}):
                del run.freed[name]
        self._general.pass_on(run)
