"""What a job costs, by the load of its shard, while nothing moves."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from benchmarks.scale.costs import Costs, Size
from benchmarks.scale.moving import quantiles
from benchmarks.scale.world import DATABASES, LAYOUTS, PARTITIONS, World

MEASURED = Size(shards=1, receivers=4, room=250, producers=4, loaded=3, jobs=20_000)
"""As in the study: one shard, some processes, 8,500 jobs a second. There: 102 to 124 µs per job, 0.041 statements."""


class Load(NamedTuple):
    """Costs per job; CPU in seconds."""

    layout: str
    receivers: str
    """Of a shard, with the room of each."""
    pushes: str
    """Which manager gets them."""
    rate: float
    """Jobs per second and shard."""
    statements: float
    messages: float
    manager: float
    database: float
    starts: tuple[float, float, float]
    """Seconds from push to start: p50, p99, max."""
    managers: float
    """Cores for all jobs of all shards."""
    stamps: float
    """Cores for the stamps of all receivers, on top of it."""


def loads(size: Size, costs: Costs, seed: int) -> Iterator[Load]:
    """Yield the cost for all rates with the given receivers, then for some with few large ones, and unrouted pushes."""
    for layout in LAYOUTS:
        for rate in size.rates:
            yield load(layout, rate, size, costs, seed)
    yield load(PARTITIONS, size.rates[-2], size._replace(routed=False), costs, seed)
    yield load(PARTITIONS, 8500.0, MEASURED, costs, seed)
    large = size._replace(receivers=4 * size.shards, room=size.receivers // size.shards // 4, producers=4)
    for rate in size.rates[-2:]:
        yield load(DATABASES, rate, large, costs, seed)


def load(layout: str, rate: float, size: Size, costs: Costs, seed: int) -> Load:
    """Push jobs until all are done."""
    world = World(layout, size.loaded, size, costs, seed)
    world.settle()
    world.push(rate, each=size.jobs // size.shards)
    counts = world.jobs.counts
    pushed = size.jobs // size.shards * size.shards
    while counts["done"] < pushed:
        world.events.run(world.events.now + 1.0)
    world.jobs.check()
    statements, messages = counts["statements"] / pushed, counts["messages"] / pushed
    manager = messages * costs.message + statements * costs.manager_statement + costs.manager_job
    of_jobs = [(counts[kind], getattr(costs, f"database_{kind}")) for kind in ("push", "claim", "settle")]
    in_shard = size.receivers // size.shards
    return Load(
        layout,
        f"{in_shard:,} of {size.room}",
        "to the owner" if size.routed else "to any",
        rate,
        statements,
        messages,
        manager,
        statements * costs.database_statement + sum(number * cpu for number, cpu in of_jobs) / pushed,
        quantiles(world.jobs.starts),
        manager * rate * size.shards,
        size.receivers * world.owners_of_a_shard * costs.message / (costs.lease / 6),
    )
