"""The figures of queues for a page: read now, or of the last reading where that takes long."""

from __future__ import annotations

from collections.abc import Sequence

from stanchion.ops.reads.queues import QueueFigures, figures, figures_as_seen
from stanchion.ops.web.live.sampler import Sample
from stanchion.stores.protocol import Store
from stanchion.stores.records.queues import QueueSettings

QUICK = 0.2
"""Maximum seconds of a reading for each page to read the figures of queues again."""


def is_quick(sample: Sample) -> bool:
    """Return whether the figures of queues can be read for each page."""
    return sample.seconds <= QUICK


def figures_of(store: Store, sample: Sample, settings: Sequence[QueueSettings], now: int) -> list[QueueFigures]:
    """Return the figures of these queues, the ones in trouble first; from the last reading if that took long."""
    if is_quick(sample):
        seen = sample.seen
        return figures(store, settings, store.workers(), now, seen.streams, seen.letters)
    return figures_as_seen(store, sample.seen, settings, now)
