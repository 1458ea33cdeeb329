"""Durable streams: micro-batches of jobs, each processed as if exactly once, over the verbs of any store.

A stream hands out the jobs of one queue in numbered batches, to one driver at a time. Somebody else, such as Spark,
keeps a log of what was begun and what was finished, and dies whenever it likes. What must outlive it is in the store.

    reserved == acked ──latest(start=acked): claim under a token──► reserved == acked + 1
         ▲                                                              │        │
         ├── sink: outputs, inputs and `acked` in one step ─────────────┘        │ replay: the same jobs, never more
         └── latest(start=reserved): it is in the log, so it is finished ────────┘

What makes it safe:

* **A versioned value per stream** (kind "stream") holds `acked` and `reserved`, which is ahead by one at the most. It
  is changed by compare-and-set alone.
* **A token per claim.** Batch n is claimed under uuid5(stream, n : epoch), with the epoch of the driver that claims.
  No two processes claim under one token, and a claim under a token that holds jobs adds none. So the jobs in hand of a
  batch only ever become fewer, and *as many as before* means *the same as before*.
* **A worker per epoch.** Jobs are held by the worker `stream:<name>:<epoch>`, whose row its driver keeps alive; it
  beats also for that of an earlier epoch whose batch it replays. What is claimed by a driver that was thought dead, and
  knows nothing of its successor, is kept alive by nobody, and goes back like the jobs of any dead worker.
* **A run per batch.** Whoever reads a batch first writes into the value in which run of which query that is, and how
  many jobs were in hand then. A sink acknowledges what its own run has read and nothing else: neither a batch of
  another driver, nor that of a stream which its query doesn't read.
"""

from __future__ import annotations

from stanchion.streams.operate import StreamInfo, forget, release, streams
from stanchion.streams.sink import SinkBatch
from stanchion.streams.source import StreamSource
from stanchion.streams.state import Part, Position

__all__ = ["Part", "Position", "SinkBatch", "StreamInfo", "StreamSource", "forget", "release", "streams"]
