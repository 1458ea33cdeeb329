"""The outbox: follow-up work on slots and flows, written atomically with the state change, deleted once applied.

Every step is one atomic operation on one job, one slot or one node: (1) the step, and with it its entry, (2) the entry
is applied, (3) it is deleted. After a death in between, outbox recovery does (2) again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

from stanchion.stores.cas.entries import STALE, Entry, Hold, entailed_in
from stanchion.stores.cas.flows import Flows
from stanchion.stores.cas.jobs import Jobs
from stanchion.stores.cas.portions import portions
from stanchion.stores.cas.slots import Slots
from stanchion.stores.records.flows import FlowNode, MemberEnd
from stanchion.stores.records.jobs import NewJob


class PushOnce(Protocol):
    """Stores jobs of entries and of publications."""

    def push_once(self, batches: Iterable[tuple[str, Sequence[NewJob]]]) -> None:
        """Store jobs as `push` does, each batch under an idempotency key of its own.

        Within the hour, another call with this key stores none of them again, also of those that are gone by then:
        a history that is kept for a shorter time forgets that they ever were. No key that is taken is an error.
        """


class OpenNodes(Protocol):
    """Stores the rest of a flow."""

    def open_nodes(self, nodes: Sequence[FlowNode], jobs: Sequence[NewJob]) -> None:
        """Store nodes that are not there yet, and their jobs, those that wait first; complete those without members."""


class Outbox:
    """Applies entries."""

    def __init__(self, jobs: Jobs, slots: Slots, flows: Flows, opens: OpenNodes, pushes: PushOnce) -> None:
        self.jobs, self._slots, self._flows = jobs, slots, flows
        self._opens, self._pushes = opens, pushes

    def follow_up(self, entries: Sequence[Entry]) -> None:
        """Apply entries, and delete them."""
        self._apply(entries, self._slots.free)

    def recover(self) -> None:
        """Apply entries of processes that have died."""
        for entries in portions(self.jobs.entries(self.jobs.now() - STALE)):
            self._apply(entries, self._slots.free_forfeited)

    def _apply(self, entries: Sequence[Entry], free: Callable[[Sequence[Hold]], object]) -> None:
        freed: list[Hold] = []
        ended: dict[str, list[MemberEnd]] = {}
        fanned_out: list[tuple[str, Sequence[NewJob]]] = []
        for entry in entries:
            entailed = entailed_in(entry)
            freed += entailed.free
            for end in entailed.ends:
                ended.setdefault(end.node, []).append(end)
            if entailed.nodes:
                self._opens.open_nodes(entailed.nodes, entailed.jobs)
            elif entailed.jobs:
                fanned_out.append((entry.key, entailed.jobs))
        if fanned_out:
            self._pushes.push_once(fanned_out)
        free(freed)
        self._flows.end_all(ended)
        if entries:
            self.jobs.delete_entries(entries)
