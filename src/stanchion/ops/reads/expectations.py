"""Expectations of a pipeline's stations, and the number of items that failed each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from stanchion.core.times import iso, moment
from stanchion.ops.reads.pipelines import Known
from stanchion.stores.protocol import Store
from stanchion.telemetry.failures import OTHER, UNMET, Failures, tallied


class Expected(NamedTuple):
    """An expectation. `on_fail`: what becomes of an item, empty if the code of today does not declare it.

    `failed`: the items that did not meet it, so far as was tallied; `last`: when the last one did not, by the store's
    clock, None if all did; `ids`: the newest of them.
    """

    station: str
    queue: str
    condition: str
    on_fail: str
    failed: int
    last: int | None
    ids: Sequence[str]

    def as_json(self) -> dict[str, object]:
        """Return it as JSON values."""
        last = None if self.last is None else iso(moment(self.last))
        return {**self._asdict(), "last": last, "ids": list(self.ids)}


def read_expectations(store: Store, known: Known) -> list[Expected]:
    """Return the expectations of all stations in order: the declared ones, then undeclared ones that failed."""
    counted = tallied(store, [known.queue(one.name) for one in known.record.stations], UNMET)
    found = []
    for station in known.record.stations:
        queue = known.queue(station.name)
        groups = counted.get(queue, {})
        declared = dict(station.expectations)
        for condition in dict.fromkeys([*declared, *(text for text in groups if text != OTHER)]):
            on_fail = declared.get(condition, "")
            found.append(_expected(station.name, queue, condition, on_fail, groups.get(condition)))
    return found


def _expected(station: str, queue: str, condition: str, on_fail: str, failures: Failures | None) -> Expected:
    if failures is None:
        return Expected(station, queue, condition, on_fail, 0, None, ())
    return Expected(station, queue, condition, on_fail, failures.failed, failures.last, failures.ids)
