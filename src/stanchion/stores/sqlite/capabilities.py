"""Capabilities of the SQLite store."""

from __future__ import annotations

from importlib.util import find_spec

from stanchion.stores.records.capabilities import Capabilities

CAPABILITIES = Capabilities(
    name="sqlite",
    joins_transactions=True,
    push_wakeup=True,
    wakeup="change counter of the file, read every few milliseconds",
    atomic_batches=True,
    atomic_pushes=True,
    durable="every commit reaches the disk (synchronous=FULL); ?synchronous=normal may lose the last commits "
    "when the machine loses power, never when a process dies",
    processes=True,
    arrow=find_spec("pyarrow") is not None,
    prepared_jobs=True,
    claims_by_id=True,
)
