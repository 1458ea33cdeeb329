"""Recovery: takes jobs back from lost holders."""

from __future__ import annotations

from sqlalchemy import BigInteger, Executable, Integer, select, update

from stanchion.stores.records.jobs import SECOND, JobRow
from stanchion.stores.records.workers import WorkerRow
from stanchion.stores.rules.leases.liveness import MISSED_BEATS
from stanchion.stores.rules.leases.lost_leases import LostLeaseDelay, default_delay, had_begun
from stanchion.stores.rules.lifecycle.outcomes import lease_lost
from stanchion.stores.rules.set_back import AHEAD, Watch
from stanchion.stores.sql.engine.columns import BY_WORKER, RUNS, as_integer, live_row, param
from stanchion.stores.sql.engine.database import Database
from stanchion.stores.sql.engine.dialect import Dialect
from stanchion.stores.sql.engine.runner import Params, Row, Runner
from stanchion.stores.sql.engine.schema import jobs, workers
from stanchion.stores.sql.jobs.flows import Flows
from stanchion.stores.sql.limits.repair import SlotRepair
from stanchion.stores.sql.rows.contents import row_from
from stanchion.stores.sql.rows.queues import QueueRows
from stanchion.stores.sql.rows.transactions import Transactions
from stanchion.stores.sql.workers import began_in

_BATCH = 500


class RecoveryStatements:
    """The statements that find lost jobs, for one dialect."""

    def __init__(self, dialect: Dialect) -> None:
        most, as_of = param("most", Integer), param("as_of", BigInteger)
        self.expired = (
            select(*live_row())
            .where(jobs.c.lease_until <= dialect.now, RUNS)
            .order_by(jobs.c.lease_until)
            .limit(most)
            .with_for_update(skip_locked=True)
        )
        silence = as_integer(MISSED_BEATS * SECOND * workers.c.heartbeat)
        was_overdue = workers.c.last_seen_at <= as_of - silence
        lost = (
            select(*live_row())
            .where(BY_WORKER, jobs.c.worker.is_not(None))
            .limit(most)
            .with_for_update(skip_locked=True)
        )
        self.of_dead_workers = lost.where(jobs.c.worker.in_(select(workers.c.id).where(was_overdue)))
        self.begun = select(workers.c.id, workers.c.began)
        ahead = dialect.now + AHEAD
        self.judged = select(workers.c.heartbeat, was_overdue, workers.c.last_seen_at > ahead)
        self.seen_now = update(workers).where(workers.c.last_seen_at > ahead).values(last_seen_at=dialect.now)
        from_the_future = jobs.c.lease_until > dialect.now, RUNS, jobs.c.started_at > ahead
        self.started_ahead = select(jobs.c.id.label("job")).where(*from_the_future)
        self.started_now = (
            update(jobs)
            .where(jobs.c.id == param("job", jobs.c.id.type), *from_the_future)
            .values(
                lease_until=jobs.c.lease_until - jobs.c.started_at + dialect.now,
                started_at=dialect.now,
            )
        )
        self.orphans = lost.where(
            jobs.c.worker.not_in(select(workers.c.id)), jobs.c.started_at <= as_of - param("silence", BigInteger)
        )


class Recovery:
    """Frees the jobs of expired leases and of dead workers."""

    def __init__(
        self, db: Database, transactions: Transactions, queues: QueueRows, flows: Flows, repair: SlotRepair
    ) -> None:
        self._db, self._transactions, self._queues, self._flows, self._repair = db, transactions, queues, flows, repair
        self._statements = db.dialect.once(RecoveryStatements)
        self.lost_lease_delay: LostLeaseDelay = default_delay
        self._orphans_sought_at = 0
        self._watch = Watch()

    def recover(self, limit: int = _BATCH, as_of: int | None = None) -> list[JobRow]:
        # A repeat follows a lost connection: right after an outage, live workers look dead.
        freed = (
            self._transactions.write(lambda run, again: [] if again else self._recover_all(run, limit, as_of))
            if limit
            else []
        )
        if freed:
            self._db.dialect.announce({row.queue for row in freed})
        else:
            self._repair.repair()
        return freed

    def recover_expired(self, run: Runner) -> bool:
        """Free expired leases, before a claim that may want their jobs; return whether there were any."""
        rows = run.rows(*self.asks_expired)
        self.free_lost(run, rows)
        if len(rows) < _BATCH:
            self._db.locked_leases.confirm()
        return bool(rows)

    @property
    def asks_expired(self) -> tuple[Executable, Params]:
        """The query for jobs with expired leases, to be sent together with others."""
        return self._statements.expired, {"most": _BATCH}

    def _recover_all(self, run: Runner, limit: int, as_of: int | None) -> list[JobRow]:
        lost = [*run.rows(self._statements.expired, {"most": limit})]
        at = {"as_of": self._db.clock(run) if as_of is None else as_of}
        judged = run.rows(self._statements.judged, at)
        seen_ahead = any(ahead for *_, ahead in judged)
        if seen_ahead:
            run.change(self._statements.seen_now)
        if self._watch.set_back(at["as_of"]) or seen_ahead:
            # Read without locks first: MariaDB's UPDATE waits for each row that it reads, and there are mostly none.
            found = run.rows(self._statements.started_ahead)
            run.change_each(self._statements.started_now, [{"job": job} for (job,) in sorted(found)])
        # Both queries below read the index of all running jobs, which may be full of entries of removed jobs.
        if any(dead for _, dead, _ in judged):
            lost += run.rows(self._statements.of_dead_workers, {"most": limit - len(lost), **at})
        living = [heartbeat for heartbeat, dead, _ in judged if not dead]
        if living:
            lost += self._orphans(run, int(MISSED_BEATS * max(living) * SECOND), at["as_of"], limit - len(lost))
        return self.free_lost(run, lost)

    def _orphans(self, run: Runner, silence: int, as_of: int, most: int) -> list[Row]:
        """Return running jobs whose worker has no row; searched at most once in `silence` microseconds.

        A live worker rewrites a lost row within one heartbeat, so after three of the slowest heartbeats no worker holds
        the job. Without a live worker there is nothing to judge by.
        """
        if 0 <= as_of - self._orphans_sought_at < silence:
            return []
        rows = run.rows(self._statements.orphans, {"silence": silence, "most": most, "as_of": as_of})
        if len(rows) < most:
            self._orphans_sought_at = as_of
        return rows

    def _holders(self, run: Runner) -> dict[str, WorkerRow]:
        """Return all workers, with the jobs that each reported as begun."""
        return {
            name: WorkerRow(name, "", 0, (), 0, 0.0, began=began_in(began))
            for name, began in run.rows(self._statements.begun)
        }

    def free_lost(self, run: Runner, rows: list[Row]) -> list[JobRow]:
        """Return these locked jobs to their queues; return their rows after the change."""
        if not rows:
            return []
        before = list(map(row_from, rows))
        now, settings = self._db.clock(run), self._queues.settings_of(run, {row.queue for row in before})
        workers = self._holders(run) if any(row.worker for row in before) else {}
        after = [
            lease_lost(
                *(row, settings[row.queue], now),
                begun=had_begun(row, workers.get(row.worker or "")),
                delay=self.lost_lease_delay,
            )
            for row in before
        ]
        self._flows.put(run, before, after)
        return [step.row for step in after]
