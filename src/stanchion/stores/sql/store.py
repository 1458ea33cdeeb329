"""The verbs that all SQL stores share: each is carried out by one collaborator."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from stanchion.stores.rules.lost_leases import LostLeaseDelay
    from stanchion.stores.sql.engine.database import Database
    from stanchion.stores.sql.engine.setup import Setup
    from stanchion.stores.sql.parts import Rows, Verbs
    from stanchion.stores.sql.values import Values


class SqlStore:
    """Jobs in an SQL database; the part that all databases share. Each verb delegates to a collaborator."""

    def __init__(self, db: Database, rows: Rows, verbs: Verbs, values: Values, schema: Setup) -> None:
        # Imported here, with SQLAlchemy: a SQLite store is made without it.
        from stanchion.stores.sql.jobs.adoption import Adoption
        from stanchion.stores.sql.jobs.operate import Operations
        from stanchion.stores.sql.limits.semaphores import Semaphores
        from stanchion.stores.sql.queues.drop import QueueDrop
        from stanchion.stores.sql.queues.expiry import ExpiringQueues
        from stanchion.stores.sql.queues.settings import Queues
        from stanchion.stores.sql.queues.shapes import Shapes
        from stanchion.stores.sql.queues.upkeep import CounterEvents, Upkeep
        from stanchion.stores.sql.workers import Workers
        from stanchion.stores.wakeup.values import with_signs

        self.database, self.dialect = db, db.dialect
        self.capabilities = db.dialect.capabilities
        self._rows, self._verbs = rows, verbs
        transactions, flows, queries, stats = rows.transactions, verbs.flows, verbs.queries, verbs.stats
        queues, workers = Queues(db, rows.queues), Workers(db)
        semaphores = Semaphores(db, transactions, rows.slots)
        operations = Operations(db, transactions, rows.jobs, flows, verbs.inserts)
        expiring = ExpiringQueues(db, transactions, rows.queues, flows)
        counted = CounterEvents(db, rows.queues)
        upkeep = Upkeep(
            *(db, counted, workers, rows.slots, flows),
            *(queues, verbs.purges, expiring, verbs.staging, Shapes(db, rows.queues)),
        )

        self.setup, self.check, self.now = schema.setup, schema.check, db.now
        self.transaction, self.listen = db.transaction, db.dialect.signals.listen
        self.configure, self.queues = queues.configure, queues.queues
        self.drop_queue = QueueDrop(transactions, rows.queues, flows, verbs.live_drop).drop_queue
        self.push, self.claim, self.settle = verbs.starts.push, verbs.claims.claim, verbs.outcomes.settle
        self.stage, self.publish, self.unstage = verbs.staging.stage, verbs.staging.publish, verbs.staging.unstage
        self.prepare, self.stage_prepared = verbs.staging.prepare, verbs.staging.stage_prepared
        self.publish_prepared = verbs.staging.publish_prepared
        self.beat, self.leave, self.workers = workers.beat, workers.leave, workers.workers
        self.recover = verbs.recovery.recover
        self.fetch, self.select, self.partition = queries.fetch, queries.select, queries.partition
        self.stats, self.lane_depths = stats.stats, stats.lane_depths
        self.cancel, self.retry = operations.cancel, operations.retry
        self.delete, self.adopt = verbs.deletion.delete, Adoption(db, rows.jobs, rows.queues).adopt
        self.maintain = upkeep.maintain
        self.set_semaphore, self.semaphores = semaphores.set_semaphore, semaphores.semaphores
        self.change_flows, self.flow_nodes, self.flow_ends = flows.change_flows, flows.flow_nodes, flows.flow_ends
        self.values = values.values
        self.compare_and_set = with_signs(verbs.rates.cached.noticing(values.compare_and_set), db.dialect.announce)

    @property
    def clock_offset(self) -> float:
        """Seconds added to the database's clock, for tests."""
        return self.database.clock_offset

    @clock_offset.setter
    def clock_offset(self, seconds: float) -> None:
        self.database.clock_offset = seconds

    @property
    def lost_lease_delay(self) -> LostLeaseDelay:
        """The delay of a job after its second lost lease, and each further one."""
        return self._verbs.recovery.lost_lease_delay

    @lost_lease_delay.setter
    def lost_lease_delay(self, delay: LostLeaseDelay) -> None:
        self._verbs.recovery.lost_lease_delay = delay

    def close(self) -> None:
        self.dialect.signals.close()
        self.database.close()
