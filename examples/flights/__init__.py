"""A year of flights through a pipeline of queues: the queue at its main job, on real input.

```
    file ──feed──► raw ──clean──► clean ──enrich──► enriched ──land──► history
                         └─over an hour late─► alerts ──► done
                                                 └─► dead
```

Workers run the stations, but for the enrichment: Spark joins whole batches of flights, where it is installed.
`stations` declares them; `pipeline` runs and measures them; `show` is what `stanchion demo` calls.
"""

from __future__ import annotations

from flights.show import run

__all__ = ["run"]
