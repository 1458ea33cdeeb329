"""What other processes do after a cut: they take back jobs, and finish what is live."""

from collections.abc import Callable

import pytest

from stanchion.core.ids import new_id
from stanchion.stores.protocol import Store
from stanchion.stores.records.claims import Claim
from stanchion.stores.records.jobs import JobRow
from stanchion.stores.records.outcomes import Commit
from stanchion.stores.records.workers import WorkerRow
from stanchion_conformance.harness import find_jobs, sizes_of
from tests.mongo.acts import World

ROUNDS = 100


def take_back(store: Store, world: World) -> None:
    """Take back the jobs of the dead, once it shows that they are dead."""
    world.clock.advance(1000)
    store.beat([WorkerRow("witness", "host", 1, (), 1, 10.0)])
    while store.recover():
        pass


def finish(store: Store, world: World, see: Callable[[list[JobRow]], None] = lambda _rows: None) -> None:
    """Commit all that is live and see each batch of it while it runs."""
    for _ in range(ROUNDS):
        for queue in (world.queue, world.other):
            rows = store.claim(Claim(queue, 50, new_id())).rows
            see(rows)
            assert None not in store.settle([Commit(row.lease, '"done"') for row in rows])
        if not sizes_of(store, world.queue).total + sizes_of(store, world.other).total:
            return
        world.clock.advance(1000)
    pytest.fail(f"stuck: {jobs(store, world)}")


def jobs(store: Store, world: World) -> list[JobRow]:
    """Return all jobs of the case."""
    return [row for queue in (world.queue, world.other) for row in find_jobs(store, queue=queue, limit=1000)]
