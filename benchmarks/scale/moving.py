"""What happens to slices when managers come and go."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import NamedTuple

from benchmarks.scale.costs import Costs, Size
from benchmarks.scale.world import World

QUIET = 2.0
"""Leases between two events; a take-over is over in one and a third."""


class Quiet(NamedTuple):
    """Leadership while nothing changes."""

    layout: str
    managers: int
    reads: float
    """Calls per second and store that read."""
    writes: float
    rows: float
    """Rows read per second and store."""
    cpu: float
    """Cores of a manager."""
    slices: tuple[int, float, int]
    """Of a manager: least, mean, most."""
    sessions: float
    """Of a manager."""
    memory: int
    """Bytes of a manager."""


class Moved(NamedTuple):
    """What came of an event."""

    layout: str
    managers: int
    """Before it."""
    event: str
    share: float
    """Of the slices that changed hands."""
    until: float
    """Seconds from the event until all was served as assigned."""
    gaps: tuple[float, float, float]
    """Seconds in which no manager served a slice that changed hands: p50, p99, max."""
    waits: tuple[float, float, float]
    """Seconds from push to start of the jobs that were sent meanwhile: p50, p99, max."""
    reads: int
    """Calls of stores that read, from the event until then and in the leases after it."""
    rows: int


class Movement(NamedTuple):
    """All events with one number of managers."""

    quiet: Quiet
    moved: list[Moved]
    jobs: Counter[str]


def moving(layout: str, managers: int, size: Size, costs: Costs, seed: int) -> Movement:
    """Let a manager join, one leave, one die, and then a zone."""
    world = World(layout, managers, size, costs, seed)
    world.settle()
    world.push(size.moving_rate)
    world.check_assigned()
    quiet = _quiet(world)
    zone = world.zone
    happenings: list[tuple[str, Callable[[], object]]] = [
        ("joins", world.start),
        ("leaves", lambda: world.leave(zone(0)[-1])),
        ("dies", lambda: world.kill(zone(1)[-1:])),
        ("a zone dies", lambda: world.kill(zone(0))),
    ]
    moved = [_event(world, name, happen) for name, happen in happenings]
    world.jobs.pushing = False
    world.events.run(world.events.now + QUIET * costs.lease)
    world.jobs.check()
    return Movement(quiet, moved, world.jobs.counts)


def _quiet(world: World) -> Quiet:
    """Count what leadership does in some leases without a change."""
    seconds = 2 * world.costs.lease
    before = [(store.reads, store.writes, store.rows_read) for store in world.stores]
    iterations = [sum(leader.iterations for leader in leaders) for leaders in world.hosts.values()]
    world.events.run(world.events.now + seconds)
    after = [(store.reads, store.writes, store.rows_read) for store in world.stores]
    reads, writes, rows = (
        sum(new[n] - old[n] for old, new in zip(before, after, strict=True)) / seconds / len(world.stores)
        for n in range(3)
    )
    most = max(
        sum(leader.iterations for leader in leaders) - old
        for leaders, old in zip(world.hosts.values(), iterations, strict=True)
    )
    costs, served = world.costs, world.owners.by_host()
    looked_at = len(world.stores[0].slices)
    sessions = sum(map(len, world.hosts.values())) / len(world.hosts)
    shares = [served[host] for host in world.hosts]
    streams = world.size.receivers * world.owners_of_a_shard / len(world.hosts)
    return Quiet(
        world.layout,
        len(world.hosts),
        reads,
        writes,
        rows,
        most / seconds * looked_at * costs.look_slice,
        (min(shares), sum(shares) / len(shares), max(shares)),
        sessions,
        round(streams * costs.idle_receiver + sessions * looked_at * costs.held_slice),
    )


def _event(world: World, name: str, happen: Callable[[], object]) -> Moved:
    managers, at = len(world.hosts), world.events.now
    gaps, starts = len(world.owners.gaps), len(world.jobs.starts)
    reads, rows = (sum(getattr(store, of) for store in world.stores) for of in ("reads", "rows_read"))
    happen()
    world.events.run(at + QUIET * world.costs.lease)
    world.check_assigned()
    found = world.owners.gaps[gaps:]
    slices = sum(len(store.slices) for store in world.stores)
    return Moved(
        world.layout,
        managers,
        name,
        len({gap.name for gap in found}) / slices,
        max((gap.since + gap.seconds for gap in found), default=at) - at,
        quantiles([gap.seconds for gap in found]),
        quantiles(world.jobs.starts[starts:]),
        sum(store.reads for store in world.stores) - reads,
        sum(store.rows_read for store in world.stores) - rows,
    )


def quantiles(values: list[float]) -> tuple[float, float, float]:
    """Return the median, the 99th percentile and the highest."""
    if not values:
        return 0.0, 0.0, 0.0
    ordered = sorted(values)
    last = len(ordered) - 1
    return ordered[last // 2], ordered[round(last * 0.99)], ordered[last]
