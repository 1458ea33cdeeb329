"""Durable streams: micro-batches of jobs with exactly-once results, on any store.

A stream delivers the jobs of one queue in numbered batches, to one driver at a time. The driver, such as Spark, keeps
a log of batches started and finished, and may die at any time. State that must survive it is in the store.

    reserved == acked ──latest(start=acked): claim under a token──► reserved == acked + 1
         ▲                                                              │        │
         ├── sink: outputs, inputs and `acked` in one step ─────────────┘        │ replay: the same jobs, never more
         └── latest(start=reserved): it is in the log, so it is finished ────────┘

What makes it safe:

* **A versioned value per stream** (kind "stream") holds `acked` and `reserved`, which is at most one higher. It
  changes only by compare-and-set.
* **A token per claim.** Batch n is claimed under uuid5(stream, n : epoch), with the epoch of the driver that claims.
  No two processes claim under one token, and a claim under a token that holds jobs adds none. So the reserved jobs of
  a batch only decrease, and *as many as before* means *the same as before*.
* **A worker per epoch.** The worker `stream:<name>:<epoch>` holds the jobs. Its driver sends its heartbeats, and the
  heartbeats of an earlier epoch whose batch it replays. If a driver was presumed dead and does not know its successor,
  no driver sends heartbeats for the jobs it claims, so these return like the jobs of any dead worker.
* **A run per batch.** The reader of a batch first stores in the value which run of which query it is, and how many
  jobs were reserved. A sink acknowledges only batches that its own run has read: no batch of another driver, and none
  of a stream that its query does not read.
"""

from __future__ import annotations

from stanchion.streams.operate import StreamInfo, forget, release, streams
from stanchion.streams.sink import SinkBatch
from stanchion.streams.source import StreamSource
from stanchion.streams.state import Part, Position

__all__ = ["Part", "Position", "SinkBatch", "StreamInfo", "StreamSource", "forget", "release", "streams"]
