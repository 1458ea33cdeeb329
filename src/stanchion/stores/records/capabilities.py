"""Capabilities: what a store can do beyond what all can."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What a store can do beyond the semantics that all of them share."""

    name: str
    joins_transactions: bool
    push_wakeup: bool
    wakeup: str
    atomic_batches: bool
    durable: str
    processes: bool
    extra: str | None = None
    """What is to be installed for it: `pip install 'stanchion[extra]'`."""
    arrow: bool = False
    """It gives queries as Arrow: see `ArrowReads`. The driver for that is installed."""
