"""The indexes by which stores find jobs; each store adds its own."""

from __future__ import annotations

from typing import Final, NamedTuple

from stanchion.stores.fields.jobs import DEATH, WAITS


class JobIndex(NamedTuple):
    """Fields in the order of an index. Only the jobs that have the field `of` are found by it."""

    fields: tuple[str, ...]
    of: str


KEYS: Final = JobIndex(("queue", "key"), of="key")
"""The live job of a key."""
ORDER_KEYS: Final = JobIndex(("queue", "order_key", "enqueued_at", "id"), of="order_key")
"""The live jobs of an order key by arrival; the first is its head of line."""
WAITERS: Final = JobIndex((*WAITS, "waits_since", "id"), of=WAITS[0])
"""The jobs that wait for a slot, by arrival."""
LEASES: Final = JobIndex(("lease_until",), of="lease_until")
"""Reserved jobs whose leases run out."""
ENDED: Final = JobIndex(("queue", "finished_at"), of="finished_at")
"""Finished jobs, the oldest first."""
ENDED_KEYS: Final = JobIndex(("queue", "key", "finished_at"), of="key")
"""The finished jobs of a key."""
FLOWS: Final = JobIndex(("flow_root", "flow_node"), of="flow_root")
"""The jobs of a flow, by its nodes."""
LETTERS: Final = JobIndex((DEATH[0], "id"), of=DEATH[0])
"""The dead letters of the queue where they died."""
