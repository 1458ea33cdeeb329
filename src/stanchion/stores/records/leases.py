"""Leases of jobs."""

from __future__ import annotations

from typing import NamedTuple


class Lease(NamedTuple):
    """What proves that a job is reserved: its queue, its id, and the fencing token of the claim."""

    queue: str
    id: str
    token: str
