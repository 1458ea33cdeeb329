"""Names that differ in case, accents, spaces or one character are different names."""

from __future__ import annotations

import pytest

from stanchion.stores.protocol import Store
from stanchion.stores.records.jobs import JobRow, JobState
from stanchion.stores.records.outcomes import Commit
from stanchion.stores.rules.capacity.limits import Rate
from stanchion_conformance.harness import claim, new_job
from stanchion_conformance.jobs.ordering import keyed
from stanchion_conformance.limits.semaphores import limited, push, usage

NAMES = (
    *("k", "K", "k ", " k", "\uff4b"),
    *("e", "é", "e\u0301", "E", "É"),
    *("ß", "ss", "SS", "ẞ", "i", "\u0131", "İ", "\u0434", "\u0414"),
    *("😀", "😁", "\U0001f600\ufe0f", "\u2400", '"', "\\", "'", "%", "_", "k:1", "1:k"),
)


def finish(store: Store, rows: list[JobRow]) -> None:
    """Commit reservations, all in one call."""
    assert store.settle([Commit(row.lease) for row in rows]) == [JobState.DONE] * len(rows)


class TestStrangeNames:
    @pytest.mark.parametrize("given", ["names", "names again"])
    def test_order_keys_in_one_claim(self, store: Store, given: str) -> None:
        names = NAMES if given == "names" else NAMES[::-1]
        first = push(store, *(keyed(name) for name in names))
        second = push(store, *(keyed(name) for name in names))
        rows = claim(store, 2 * len(names))
        assert [row.id for row in rows] == first
        finish(store, rows)
        rows = claim(store, 2 * len(names))
        assert [row.id for row in rows] == second
        finish(store, rows)

    def test_semaphores_in_one_claim(self, store: Store) -> None:
        for name in NAMES:
            store.set_semaphore(name, 1)
        first = push(store, *(limited(name) for name in NAMES))
        second = push(store, *(limited(name) for name in NAMES))
        rows = claim(store, 2 * len(NAMES))
        assert [row.id for row in rows] == first
        assert [usage(store, name) for name in NAMES] == [(1, 1)] * len(NAMES)
        finish(store, rows)
        rows = claim(store, 2 * len(NAMES))
        assert sorted(row.id for row in rows) == sorted(second)

    def test_rates_in_one_claim(self, store: Store) -> None:
        jobs = push(store, *(limited(rate=Rate(name, 0.01)) for name in NAMES))
        assert [row.id for row in claim(store, 2 * len(NAMES))] == jobs

    def test_unique_keys_in_one_push(self, store: Store) -> None:
        jobs = [new_job(key=name) for name in NAMES]
        assert [(one.id, one.duplicate) for one in store.push(jobs)] == [(job.id, False) for job in jobs]
        again = store.push([new_job(key=name) for name in NAMES])
        assert [(one.id, one.duplicate) for one in again] == [(job.id, True) for job in jobs]
