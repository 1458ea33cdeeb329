"""Spark streams, as of the last reading."""

from __future__ import annotations

from typing import Literal, NamedTuple

from stanchion.alerts.snapshot import Snapshot
from stanchion.core.text.redaction import redacted
from stanchion.ops.words import plural
from stanchion.stores.protocol import Store
from stanchion.stores.records.jobs import SECOND
from stanchion.stores.rules.leases.liveness import alive
from stanchion.streams.state import KIND, StreamState, worker_id

State = Literal["fails", "no driver", "repeats", "reading", "idle"]


class StreamFigures(NamedTuple):
    """A stream: its driver, its last batch and its backlog.

    `host`: of the driver, empty if it is no longer known. `beat`: time of its last heartbeat. `size`: jobs of the last
    batch, None before it was read. `behind`: ready items of the queue. `lag`: seconds since the oldest became due.
    `ui`: address of the driver's own page. `jobs`, `seconds`: of the last finished batch, 0 before the first.
    """

    name: str
    queue: str
    state: State
    host: str
    beat: int | None
    reserved: int
    acked: int
    size: int | None
    behind: int
    lag: float
    replays: int
    epoch: int
    error: str
    ui: str
    jobs: int
    seconds: float

    @property
    def troubled(self) -> bool:
        """Whether it needs a person."""
        return self.state in ("fails", "no driver")

    @property
    def pending(self) -> bool:
        """Whether its last batch is not acknowledged."""
        return self.reserved > self.acked

    @property
    def batch(self) -> str:
        """Its last batch in words."""
        if not self.reserved:
            return "none yet"
        size = f" with {plural(self.size, 'job')}" if self.size else ""
        end = "reserved and not acknowledged" if self.pending else "acknowledged"
        return f"#{self.reserved:,}{size} is {end}"


_ORDER: tuple[State, ...] = ("fails", "no driver", "repeats", "reading", "idle")


def stream_figures(store: Store, seen: Snapshot) -> list[StreamFigures]:
    """Return all streams, the ones in trouble first. Reads their states; other figures are of the last reading."""
    workers = {one.id: one for one in seen.workers}
    queues = {one.settings.name: one for one in seen.queues}
    found = []
    for value in store.values(KIND):
        state = StreamState.of(value)
        driver = workers.get(worker_id(value.name, state.epoch))
        queue = queues.get(state.queue)
        behind = 0 if queue is None else queue.stats.items.ready
        run = state.run or state.begun
        lag = 0.0 if queue is None else max((-head.due_in / SECOND for _, head in seen.due(queue)), default=0.0)
        found.append(
            StreamFigures(
                value.name,
                state.queue,
                _state(state, behind, live=driver is not None and alive(driver, seen.at)),
                "" if driver is None else f"{driver.host}:{driver.pid}",
                None if driver is None else driver.last_seen_at,
                state.reserved,
                state.acked,
                run.size if run is not None and run.seq == state.reserved else None,
                behind,
                lag,
                state.replays,
                state.epoch,
                redacted(state.error or ""),
                state.ui if state.ui.startswith(("https://", "http://")) else "",
                state.jobs,
                state.seconds,
            )
        )
    return sorted(found, key=lambda one: (_ORDER.index(one.state), one.name))


def _state(state: StreamState, behind: int, *, live: bool) -> State:
    if state.stopped:
        return "fails"
    if not live:
        return "no driver" if behind or state.pending else "idle"
    if state.replays:
        return "repeats"
    return "reading" if behind or state.pending else "idle"
