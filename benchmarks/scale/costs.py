"""What is put into the simulation: measured costs, and sizes.

"Study": measured on two shared cores with PostgreSQL 15 and grpcio 1.85, producers, managers, receivers and database on
them together. Counts hold; CPU holds within about 1.5 times. Where the study gives a range, its middle is taken.
"""

from __future__ import annotations

from typing import NamedTuple


class Costs(NamedTuple):
    """Seconds, bytes and counts of one thing each."""

    # CPU of a manager
    message: float = 100e-6
    """A message on a stream, either way. Study: 164 to 224 µs for a job down and its outcome up, one a message."""
    manager_job: float = 45e-6
    """A job through all of its groups. Study: 37 to 67 µs per job with 500 in flight, messages included."""
    manager_statement: float = 400e-6
    """A statement, besides its jobs: thread, driver, transaction. Assumed: the study has no figure for it alone."""
    look_slice: float = 17.5e-6
    """A slice in an iteration of leadership. Measured with `Leadership` over the memory store, 1,000 slices."""
    score: float = 1.7e-6
    """A slice and a session, each time who is alive changes. Measured with `assignment`: 1,000 slices, 100 sessions."""

    # CPU of the database
    database_statement: float = 450e-6
    """A transaction, besides its jobs. Study: 430 to 550 µs for a single push, 28 to 47 µs per job in groups."""
    database_push: float = 20e-6
    database_claim: float = 25e-6
    database_settle: float = 25e-6
    """Study: 46 to 60 µs per job for claim and settlement in large groups."""

    # time until a statement is answered
    durable_wait: float = 3e-3
    """A push or a settlement, which wait for the disk. Study: 2.7 to 3.5 ms for a plain insert."""
    claim_wait: float = 1.5e-3
    """A claim, which does not. Study: 1.9 to 3.7 ms from push to start without the disk, two trips and a send."""
    job_wait: float = 60e-6
    """Each job of a statement; about the CPU that it takes."""

    # leadership and the network
    call_wait: float = 1e-3
    """A call of the store by leadership. Assumed: a network within a region."""
    row_wait: float = 2e-6
    """A row that it reads. Assumed."""
    take_wait: float = 5e-3
    """Reading the running rows of slices that are taken. Assumed: one query by an index."""
    signal_wait: float = 1e-3
    """A signal to another manager, or a message to a receiver. Assumed."""
    unanswered: float = 1.0
    """Until a receiver takes an outcome without an answer to another manager, and a producer its push."""

    # memory and traffic
    idle_receiver: int = 32 * 1024
    """Bytes of a manager for a receiver. Study: 32 KiB."""
    waiting_job: int = 239
    """Bytes of a manager for a job in its window. Study: 206 to 239."""
    held_slice: int = 1000
    """Bytes of a manager for a slice that it looks at. Assumed."""
    group_most: int = 500
    """Jobs in a group at most."""
    lease: float = 5.0
    """Lease of a session, in seconds; a manager iterates every third of it, and receivers send a stamp every sixth."""


class Size(NamedTuple):
    """How much is simulated."""

    shards: int = 1000
    receivers: int = 1_000_000
    managers: tuple[int, ...] = (9, 30, 99)
    """Multiples of the zones."""
    rates: tuple[float, ...] = (2.0, 20.0, 200.0, 1000.0)
    """Jobs per second and shard, in the runs that count what a job costs."""
    jobs: int = 50_000
    """Jobs of each of these runs."""
    loaded: int = 30
    """Managers in these runs."""
    moving_rate: float = 0.5
    """Jobs per second and shard while slices move."""
    seconds: float = 0.02
    """How long a job runs."""
    producers: int = 50
    """Processes that push to a shard; the pushes of one in a group are one message."""
    room: int = 1
    """Jobs that a receiver takes at once."""
    routed: bool = True
    """Whether producers push to the manager that has the job's slice, as the topology tells them, or to any."""
    zones: int = 3
    slices: int = 64
    """Slices of a shard that is a database of its own."""
    serving: int = 3
    """Managers that serve such a shard."""


SMALL = Size(
    shards=12, receivers=12_000, managers=(3, 6), loaded=3, rates=(20.0, 200.0), jobs=2000, moving_rate=20.0, slices=8
)
"""For tests."""
