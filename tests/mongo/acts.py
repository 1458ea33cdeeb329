"""Every verb that writes, ready to be done once: what the tests cut in pieces."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from stanchion.core.ids import new_id
from stanchion.jobs.lookup import push_copies
from stanchion.queues.operating import purge as by_age
from stanchion.stores.mongo.store import MongoStore
from stanchion.stores.protocol import Store
from stanchion.stores.records.claims import Claim
from stanchion.stores.records.jobs import QUEUED, SECOND, JobRef, JobRow, NewJob
from stanchion.stores.records.outcomes import Abandon, Bury, Commit, Extend, Move, Outcome, Progress, Rollback
from stanchion.stores.records.workers import WorkerRow
from stanchion.waits.pop import pop as popped
from stanchion_conformance.harness import StoreClock

DOOMED = "doomed"


@dataclass
class World:
    """The queues and jobs of one case."""

    store: Store
    clock: StoreClock
    queue: str = field(default_factory=lambda: f"queue-{new_id()}")
    ids: list[str] = field(default_factory=list)
    """Jobs that are stored for certain."""
    keys: set[str] = field(default_factory=set)
    adopted: frozenset[str] = frozenset()
    """Jobs that are never pushed."""
    may_vanish: bool = False

    @property
    def other(self) -> str:
        """Where jobs are moved, and dead letters go."""
        return f"{self.queue}-other"

    def new(self, **fields: Any) -> NewJob:
        job = NewJob(**{"id": new_id(), "queue": self.queue, "payload": '"x"', **fields})
        if job.key:
            self.keys.add(job.key)
        return job

    def push(self, count: int = 1, **fields: Any) -> list[str]:
        jobs = [self.new(**fields) for _ in range(count)]
        self.store.push(jobs)
        self.ids += [job.id for job in jobs]
        return [job.id for job in jobs]

    def claim(self, limit: int = 1, **fields: Any) -> list[JobRow]:
        return self.store.claim(Claim(**{"queue": self.queue, "limit": limit, "token": new_id(), **fields})).rows


def purged(store: Store, queue: str, limit: int = 500) -> int:
    """Purge a portion of a queue, as upkeep does, of all that has ended."""
    assert isinstance(store, MongoStore)
    return store._purges.purge(queue, 0.0, limit)


Act = Callable[[Store], Any]
"""Does it, once more at each call as a caller would after a lost answer; returns what can be compared."""


def settled(outcomes: Sequence[Outcome]) -> Act:
    """Settle these."""
    return lambda store: store.settle(outcomes, repeat=True)


def push(world: World) -> Act:
    jobs = [world.new(priority=number % 2) for number in range(5)]
    return lambda store: len(store.push(jobs))


def push_keyed(world: World) -> Act:
    world.push(key="taken", delay=50.0)
    jobs = [
        world.new(),
        world.new(key="taken"),
        world.new(key="new", on_duplicate="raise"),
        world.new(key="taken", on_duplicate="replace", payload='"replaced"'),
    ]
    return lambda store: [pushed.duplicate for pushed in store.push(jobs)]


def claim(world: World) -> Act:
    world.push(6)
    wish = Claim(world.queue, 4, new_id(), lease=30.0, repeat=True)
    return lambda store: len(store.claim(wish).rows)


def claim_for_a_worker(world: World) -> Act:
    world.store.beat([WorkerRow(DOOMED, "host", 1, (world.queue,), 1, 10.0)])
    world.push(6)
    wish = Claim(world.queue, 4, new_id(), DOOMED, repeat=True)
    return lambda store: len(store.claim(wish).rows)


def claim_after_leases_ran_out(world: World) -> Act:
    world.push(2, max_attempts=1)
    world.push(4)
    world.claim(4, lease=5.0)
    world.clock.advance(6)
    wish = Claim(world.queue, 6, new_id(), lease=30.0, repeat=True)
    return lambda store: len(store.claim(wish).rows)


def claim_under_limits(world: World) -> Act:
    world.push(6)
    world.store.configure(world.queue, {"max_running": 2, "max_rate": 50.0})
    wish = Claim(world.queue, 4, new_id(), lease=30.0, repeat=True)
    return lambda store: len(store.claim(wish).rows)


def pop(world: World) -> Act:
    world.push(4, key=None)
    return lambda store: len(popped(store, Claim(world.queue, 4, new_id())).rows)


def pop_without_history(world: World) -> Act:
    world.may_vanish = True
    world.store.configure(world.queue, {"history_ttl": 0.0})
    world.push(4)
    return lambda store: len(popped(store, Claim(world.queue, 4, new_id())).rows)


def settle(world: World) -> Act:
    world.push(6)
    world.push(1, key="k")
    rows = world.claim(7)
    return lambda store: store.settle(outcomes(world, rows), repeat=True)


def settle_without_history(world: World) -> Act:
    world.may_vanish = True
    world.store.configure(world.queue, {"history_ttl": 0.0})
    world.push(4)
    world.push(1, key="k")
    rows = world.claim(5)
    return lambda store: [state is not None for state in store.settle([Commit(row.lease) for row in rows])]


def settle_with_dead_letters(world: World) -> Act:
    world.store.configure(world.queue, {"dead_letter": world.other})
    world.push(6)
    world.push(1, key="k")
    rows = world.claim(7)
    return lambda store: store.settle(outcomes(world, rows), repeat=True)


def outcomes(world: World, rows: list[JobRow]) -> list[Outcome]:
    """Return one outcome of each kind."""
    one, two, three, four, five, six, seven = (row.lease for row in rows)
    return [
        Commit(one, '"done"'),
        Rollback(two, 60.0, "failed"),
        Rollback(three, 0.0, refund=True),
        Move(four, world.other, '"moved"'),
        Bury(five, "broken"),
        Abandon(six),
        Commit(seven),
    ]


def extend(world: World) -> Act:
    world.push(3)
    rows = world.claim(3, lease=30.0)
    return lambda store: store.settle([Extend(row.lease, 60.0) for row in rows])


def progress(world: World) -> Act:
    world.push(3)
    rows = world.claim(3)
    return lambda store: store.settle([Progress(row.lease, 0.5) for row in rows])


def recover(world: World) -> Act:
    world.push(4, key=None)
    world.push(1, key="k", max_attempts=1)
    world.claim(5, lease=5.0)
    world.clock.advance(6)
    return lambda store: len(store.recover())


def cancel(world: World) -> Act:
    ids = world.push(2) + world.push(1, key="k")
    world.claim(1)
    return lambda store: store.cancel(ids)


def retry(world: World) -> Act:
    world.store.configure(world.queue, {"dead_letter": world.other})
    buried, cancelled = world.push(2), world.push(1, key="k")
    rows = world.claim(2)
    world.store.settle([Bury(row.lease, "broken") for row in rows])
    world.store.cancel(cancelled)
    return lambda store: store.retry(buried + cancelled)


def replay(world: World) -> Act:
    ids = world.push(2)
    world.store.cancel(ids)
    copies = [new_id() for _ in ids]
    return lambda store: [copy is not None for copy in push_copies(store, ids, copies)]


def configure(world: World) -> Act:
    world.push(2)
    world.store.cancel(world.ids)
    return lambda store: store.configure(world.queue, {"lease": 7.0, "history_ttl": 1e6}).lease


def drop_queue(world: World) -> Act:
    world.may_vanish = True
    world.push(3, key=None)
    world.store.cancel(world.push(2))
    return lambda store: store.drop_queue(world.queue) in (0, 3)


def purge(world: World) -> Act:
    world.may_vanish = True
    world.store.cancel(world.push(4))
    world.push(1)
    return lambda store: purged(store, world.queue)


def purge_by_hand(world: World) -> Act:
    world.may_vanish = True
    world.store.cancel(world.push(4))
    world.push(1)
    return lambda store: by_age(store, world.queue, 0)


def maintain(world: World) -> Act:
    world.push(3)
    rows = world.claim(2)
    world.store.settle([Commit(row.lease) for row in rows])
    world.store.beat([WorkerRow(DOOMED, "host", 1, (world.queue,), 1, 10.0)])
    return lambda store: store.maintain()


def beat(world: World) -> Act:
    world.push(2)
    world.store.cancel([row.id for row in world.claim(1, worker=DOOMED)])
    return lambda store: len(store.beat([WorkerRow(DOOMED, "host", 1, (world.queue,), 1, 10.0)]).cancelled)


def adopt(world: World) -> Act:
    now = world.store.now()
    rows = [
        JobRow(new_id(), world.queue, 0, QUEUED, 0, 0, now, now, '"a"', key="k" if number == 1 else None)
        for number in range(4)
    ]
    ended = JobRow(new_id(), world.queue, 0, "done", 0, 0, now, now, '"a"', finished_at=now + SECOND)
    world.keys.add("k")
    world.adopted = frozenset(row.id for row in [*rows, ended])
    return lambda store: store.adopt([*rows, ended])


def delete_queued(world: World) -> Act:
    world.may_vanish = True
    world.push(3)
    world.claim(1)
    return lambda store: store.delete([JobRef(one) for one in world.ids])


def delete_finished(world: World) -> Act:
    world.may_vanish = True
    world.push(5)
    rows = world.claim(4)
    world.store.settle([Commit(row.lease) for row in rows[:3]])
    refs = [row.ref for row in world.store.fetch(world.ids).values() if row.finished_at is not None]
    return lambda store: store.delete(refs)


ACTS: list[Callable[[World], Act]] = [
    push,
    push_keyed,
    claim,
    claim_for_a_worker,
    claim_after_leases_ran_out,
    claim_under_limits,
    pop,
    pop_without_history,
    settle,
    settle_without_history,
    settle_with_dead_letters,
    extend,
    progress,
    recover,
    cancel,
    retry,
    replay,
    configure,
    drop_queue,
    purge,
    purge_by_hand,
    maintain,
    beat,
    adopt,
    delete_queued,
    delete_finished,
]
