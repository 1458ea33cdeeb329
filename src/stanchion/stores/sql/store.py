"""The verbs that all SQL stores share: each is carried out by one collaborator."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from stanchion.stores.ports import Extensible, ResultTables, as_port

if TYPE_CHECKING:
    from stanchion.stores.protocol import Port
    from stanchion.stores.records.claims import Claim
    from stanchion.stores.records.jobs import NewJob, Pushed
    from stanchion.stores.rules.leases.lost_leases import LostLeaseDelay
    from stanchion.stores.sql.engine.setup import Setup
    from stanchion.stores.sql.parts import Parts


class SqlStore(Extensible):
    """Jobs in an SQL database; the part that all databases share. Each verb delegates to a collaborator."""

    def __init__(self, parts: Parts, schema: Setup) -> None:
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

        self._parts, db = parts, parts.db
        self.database, self.dialect = db, db.dialect
        self.capabilities = db.dialect.capabilities
        transactions, flows, staging = parts.transactions, parts.flows, parts.staging
        queues, workers = Queues(db, parts.queues), Workers(db)
        semaphores = Semaphores(db, transactions, parts.slots)
        operations = Operations(db, transactions, parts.jobs, flows, parts.inserts)
        expiring = ExpiringQueues(db, transactions, parts.queues, flows)
        forget = (
            workers.forget_dead,
            lambda: db.write(lambda run, _again: parts.slots.forget_rates(run, db.clock(run))),
            *(flows.forget_old, staging.forget_old),
        )
        counted, shapes = CounterEvents(db, parts.queues), Shapes(db, parts.queues)
        upkeep = Upkeep(db, counted, queues, parts.purges, expiring, shapes, operations, forget)

        self.setup, self.check, self.now = schema.setup, schema.check, db.now
        self.transaction, self.listen = db.transaction, db.dialect.signals.listen
        self.configure, self.queues = queues.configure, queues.queues
        self.drop_queue = QueueDrop(transactions, parts.queues, flows, parts.live_drop).drop_queue
        self.push, self.claim, self.settle = self._general_push, parts.claims.claim, parts.outcomes.settle
        self.stage, self.publish, self.unstage = staging.stage, staging.publish, staging.unstage
        self.prepare, self.stage_prepared = staging.prepare, staging.stage_prepared
        self.publish_prepared = staging.publish_prepared
        self.beat, self.leave, self.workers = workers.beat, workers.leave, workers.workers
        self.recover = parts.recovery.recover
        self.fetch, self.select, self.partition = parts.queries.fetch, parts.queries.select, parts.queries.partition
        self.stats, self.lane_depths = parts.stats.stats, parts.stats.lane_depths
        self.cancel, self.retry = operations.cancel, operations.retry
        self.delete, self.adopt = parts.deletion.delete, Adoption(db, parts.jobs, parts.queues).adopt
        self.maintain = upkeep.maintain
        self.set_semaphore, self.semaphores = semaphores.set_semaphore, semaphores.semaphores
        self.change_flows, self.flow_nodes, self.flow_ends = flows.change_flows, flows.flow_nodes, flows.flow_ends
        self.make_table, self.table_rows = parts.result_tables.make_table, parts.result_tables.table_rows
        self.values = parts.values.values
        self.compare_and_set = with_signs(
            parts.rates.cached.noticing(parts.values.compare_and_set), db.dialect.announce
        )

    def _general_push(
        self, jobs: Sequence[NewJob], tx: object = None, claim: Claim | None = None, *, repeat: bool = False
    ) -> list[Pushed]:
        if claim is None:
            return self._parts.pushes.push(jobs, tx, repeat=repeat)
        return self._parts.starts.push(jobs, tx, claim, repeat=repeat)

    def extension(self, port: type[Port]) -> Port | None:
        return as_port(self, port) if port is ResultTables else super().extension(port)

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
        return self._parts.recovery.lost_lease_delay

    @lost_lease_delay.setter
    def lost_lease_delay(self, delay: LostLeaseDelay) -> None:
        self._parts.recovery.lost_lease_delay = delay

    def close(self) -> None:
        self.dialect.signals.close()
        self.database.close()
