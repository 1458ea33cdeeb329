"""The lanes served by workers, as a stored text, and the lanes that no worker serves."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Collection, Iterable
from typing import Any, TypedDict

from stanchion.core.names.partition_names import logical_name
from stanchion.stores.records.queues import QueueSettings
from stanchion.stores.records.workers import CONSUMER, LaneRange, WorkerRow
from stanchion.stores.rules.leases.liveness import alive, lanes_of


class Serving(TypedDict):
    """The fields of a WorkerRow in a stored text."""

    lanes: tuple[LaneRange, ...]
    order: str | None


def serving_text(worker: WorkerRow) -> str:
    """Return the lanes and the order of a worker as JSON; equal ones have equal texts."""
    return json.dumps({"lanes": sorted(worker.lanes), "order": worker.order}, ensure_ascii=False)


def serving_in(text: str | None) -> Serving:
    """Return the fields of a WorkerRow in a stored text; None, from a release that stores none: all lanes."""
    stored = json.loads(text) if text else {}
    return {"lanes": lanes_in(stored.get("lanes")), "order": stored.get("order")}


def lanes_in(stored: Any) -> tuple[LaneRange, ...]:
    """Return stored ranges of lanes."""
    return tuple(LaneRange(*one) for one in stored or ())


def by_served_queue(workers: Iterable[WorkerRow]) -> dict[str, list[WorkerRow]]:
    """Return the workers of each queue that they serve; a worker of several partitions serves their queue once."""
    found: defaultdict[str, list[WorkerRow]] = defaultdict(list)
    for worker in workers:
        for queue in dict.fromkeys(map(logical_name, worker.queues)):
            found[queue].append(worker)
    return dict(found)


def divided_queues(workers: Iterable[WorkerRow]) -> frozenset[str]:
    """Return the queues that workers, dead ones too, divide by lanes."""
    return frozenset(lanes.queue for worker in workers for lanes in worker.lanes)


def unserved(
    settings: QueueSettings, in_use: Collection[int], workers: Collection[WorkerRow], now: int
) -> list[tuple[int, int]]:
    """Return the ranges of a queue's lanes, including lanes with jobs, that no live worker serves.

    `in_use`: the lanes with jobs; those without a lane belong to lane 0.
    """
    live = [worker for worker in workers if alive(worker, now) and worker.state != CONSUMER]
    served = [lanes for worker in live for lanes in lanes_of(worker) if lanes.queue == settings.name]
    lanes = {*range(settings.lanes), *(max(0, lane) for lane in in_use)}
    missing = sorted(lane for lane in lanes if not any(one.first <= lane <= one.last for one in served))
    ranges: list[tuple[int, int]] = []
    for lane in missing:
        if ranges and ranges[-1][1] == lane - 1:
            ranges[-1] = ranges[-1][0], lane
        else:
            ranges.append((lane, lane))
    return ranges
