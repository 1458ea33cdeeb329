"""Capabilities: features of a store beyond the common port."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Capabilities:
    """Features of a store beyond the semantics that all stores share."""

    name: str
    joins_transactions: bool
    push_wakeup: bool
    wakeup: str
    atomic_batches: bool
    durable: str
    processes: bool
    atomic_pushes: bool = False
    """True if a push is stored in one step, also one to several queues, as far as no key of its jobs is taken."""
    extra: str | None = None
    """The extra to install for it: `pip install 'stanchion[extra]'`."""
    arrow: bool = False
    """True if the store returns queries as Arrow, see `ArrowReads`, and the driver for that is installed."""
    feed: Literal["exact", "overlap"] = "overlap"
    """How a feed knows that it has seen all: `exact` as the store names its open transactions, see `Horizon`; `overlap`
    as it reads the last seconds again."""
    prepared_jobs: bool = False
    """True if plain jobs can be given as Arrow columns, see `PreparedJobs`."""
    claims_by_id: bool = False
    """True if jobs can be reserved by id, see `Claim.ids`, and pushed as running; a manager needs both."""
