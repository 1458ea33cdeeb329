"""Taking jobs back from holders that are gone."""

from __future__ import annotations

from sqlalchemy import Executable

from stanchion.stores.records.jobs import SECOND, JobRow
from stanchion.stores.records.workers import WorkerRow
from stanchion.stores.rules.liveness import MISSED_BEATS
from stanchion.stores.rules.lost_leases import had_begun
from stanchion.stores.rules.outcomes import lease_lost
from stanchion.stores.sql.base import SqlBase
from stanchion.stores.sql.engine.database import Database
from stanchion.stores.sql.engine.runner import Params, Row, Runner
from stanchion.stores.sql.repair import SlotRepair
from stanchion.stores.sql.workers import began_in

_BATCH = 500


class Recovery(SqlBase):
    """Frees the jobs of expired leases and of dead workers."""

    def __init__(self, database: Database) -> None:
        super().__init__(database)
        self._orphans_sought_at = 0
        self._repair = SlotRepair(database, self.transactions, self.slots)

    def recover(self, limit: int = _BATCH, as_of: int | None = None) -> list[JobRow]:
        # A repeat comes after a lost connection: right after an outage, live workers look dead.
        freed = (
            self.transactions.write(lambda run, again: [] if again else self._recover_all(run, limit, as_of))
            if limit
            else []
        )
        if freed:
            self.dialect.announce({row.queue for row in freed})
        else:
            self._repair.repair()
        return freed

    def recover_expired(self, run: Runner) -> bool:
        """Free expired leases, before a claim that may want their jobs; tell whether there were any."""
        rows = run.rows(*self.asks_expired)
        self.free_lost(run, rows)
        return bool(rows)

    @property
    def asks_expired(self) -> tuple[Executable, Params]:
        """The question for jobs of expired leases."""
        return self.statements.expired, {"most": _BATCH}

    def _recover_all(self, run: Runner, limit: int, as_of: int | None) -> list[JobRow]:
        lost = [*run.rows(self.statements.expired, {"most": limit})]
        at = {"as_of": self.clock(run) if as_of is None else as_of}
        judged = run.rows(self.statements.judged, at)
        # Each of these reads the index of all that runs, which may be full of entries of jobs that are gone.
        if any(dead for _, dead in judged):
            lost += run.rows(self.statements.of_dead_workers, {"most": limit - len(lost), **at})
        living = [heartbeat for heartbeat, dead in judged if not dead]
        if living:
            lost += self._orphans(run, int(MISSED_BEATS * max(living) * SECOND), at["as_of"], limit - len(lost))
        return self.free_lost(run, lost)

    def _orphans(self, run: Runner, patience: int, as_of: int, most: int) -> list[Row]:
        """Return jobs whose worker has no row: the row was lost; look for them once in `patience` microseconds.

        A live worker writes its row anew within one heartbeat, so after three of the slowest nobody holds the job. No
        live worker: nothing to judge by.
        """
        if 0 <= as_of - self._orphans_sought_at < patience:
            return []
        rows = run.rows(self.statements.orphans, {"orphan_micros": patience, "most": most, "as_of": as_of})
        if len(rows) < most:
            self._orphans_sought_at = as_of
        return rows

    def _holders(self, run: Runner) -> dict[str, WorkerRow]:
        """Return all workers by what they said to have begun."""
        return {
            name: WorkerRow(name, "", 0, (), 0, 0.0, began=began_in(began))
            for name, began in run.rows(self.statements.begun)
        }

    def free_lost(self, run: Runner, rows: list[Row]) -> list[JobRow]:
        """Give back these jobs, which are locked; return them as they are then."""
        if not rows:
            return []
        before = [JobRow(*row) for row in rows]
        now, settings = self.clock(run), self.queue_rows.settings_of(run, {row.queue for row in before})
        workers = self._holders(run) if any(row.worker for row in before) else {}
        after = [
            lease_lost(
                *(row, settings[row.queue], now),
                begun=had_begun(row, workers.get(row.worker or "")),
                delay=self.lost_lease_delay,
            )
            for row in before
        ]
        self.flows.put(run, before, after)
        return [step.row for step in after]
