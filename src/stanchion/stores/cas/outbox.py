"""The outbox: follow-up work on slots and flows, written atomically with the state change, deleted once applied.

Every step is one atomic operation on one job, slot or node: (1) the step, together with its entry, (2) the entry is
applied, (3) it is deleted. After a death in between, outbox recovery repeats (2).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

from stanchion.stores.cas.chunks import PastLocks, at_once, chunks
from stanchion.stores.cas.entries import STALE, Entry, Hold, entailed_in
from stanchion.stores.cas.flows import Flows
from stanchion.stores.cas.jobs import Jobs
from stanchion.stores.cas.slots import Slots
from stanchion.stores.records.flows import FlowNode, MemberEnd
from stanchion.stores.records.jobs import NewJob


class PushOnce(Protocol):
    """Stores the jobs of entries and publications."""

    def push_once(self, batches: Iterable[tuple[str, Sequence[NewJob]]]) -> None:
        """Store jobs as `push` does, each batch under an idempotency key.

        Within an hour, a repeated call with the same key stores no job again, even if it is gone from a history with a
        shorter retention. Taken unique keys are no error.
        """


class OpenNodes(Protocol):
    """Stores the rest of a flow."""

    def open_nodes(self, nodes: Sequence[FlowNode], jobs: Sequence[NewJob]) -> None:
        """Store missing nodes and their jobs, waiting jobs first; complete nodes without members."""


class Outbox:
    """Applies entries."""

    def __init__(
        self,
        jobs: Jobs,
        slots: Slots,
        flows: Flows,
        opens: OpenNodes,
        pushes: PushOnce,
        past_locks: PastLocks = at_once,
    ) -> None:
        self.jobs, self._slots, self._flows = jobs, slots, flows
        self._opens, self._pushes, self._past_locks = opens, pushes, past_locks

    def follow_up(self, entries: Sequence[Entry]) -> None:
        """Apply entries, then delete them."""
        self._apply(entries, self._slots.free)

    def recover(self) -> None:
        """Outbox recovery: apply the entries of dead processes."""
        for entries in chunks(self.jobs.entries(self.jobs.now() - STALE)):
            self._past_locks(entries, lambda some: self._apply(some, self._slots.free_forfeited))

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
