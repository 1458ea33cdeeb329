"""What is stored, in plain dicts: cheap to copy, and comparable, so that a state is recognised when it is met again."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from stanchion.stores.cas.entries import Entry, Hold
from stanchion.stores.records.flows import FlowNode, MemberEnd
from stanchion.stores.records.jobs import SECOND, JobRow
from stanchion.stores.records.slots import Slot

START = 1_000_000 * SECOND


@dataclass(slots=True)
class World:
    """All that a store holds at one moment; every value in it is a tuple or a number."""

    now: int = START
    rows: dict[str, tuple[int, JobRow]] = field(default_factory=dict)
    """Jobs, live and finished, each with the number of its changes."""
    slots: dict[Hold, None] = field(default_factory=dict)
    capacity: dict[Slot, int] = field(default_factory=dict)
    outbox: dict[str, Entry] = field(default_factory=dict)
    nodes: dict[str, FlowNode] = field(default_factory=dict)
    ends: dict[tuple[str, int], MemberEnd] = field(default_factory=dict)
    followed: dict[str, None] = field(default_factory=dict)
    starts: dict[str, int] = field(default_factory=dict)
    """Starts left of each rate."""
    dead: dict[str, None] = field(default_factory=dict)
    """Workers that have missed their heartbeats; they need not be dead for that."""
    admitted: dict[tuple[str, str], None] = field(default_factory=dict)
    """Jobs that were handed out, and the token of each."""
    ended: dict[str, int] = field(default_factory=dict)
    """How often each job became final, and each node completed."""
    counts: dict[tuple[str, str], int] = field(default_factory=dict)
    """Items by queue and event, of the steps of jobs; claims are not counted."""
    _key: int | None = field(default=None, compare=False)

    def copy(self) -> World:
        """Return one that may be changed without changing this one."""
        return World(self.now, *[value.copy() for value in self._parts()])  # type: ignore[arg-type]  # of as many kinds

    def key(self) -> int:
        """Return what tells worlds apart; ask when nothing changes this one any more."""
        if self._key is None:
            self._key = hash((self.now, *[frozenset(value.items()) for value in self._parts()]))
        return self._key

    def live(self) -> list[JobRow]:
        """Return the jobs that are not final."""
        return [row for _, row in self.rows.values() if row.finished_at is None]

    def _parts(self) -> tuple[dict[Any, Any], ...]:
        stored = (self.rows, self.slots, self.capacity, self.outbox, self.nodes, self.ends, self.followed, self.starts)
        return (*stored, self.dead, self.admitted, self.ended, self.counts)
