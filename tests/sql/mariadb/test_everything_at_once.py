"""Pushes, claims, ends and recovery at the same time on MariaDB: all counts add up."""

from __future__ import annotations

import time
from concurrent.futures import ProcessPoolExecutor
from contextlib import closing
from multiprocessing import get_context
from random import Random

import pytest
from tests.sql.mariadb.sessions import at_once

from stanchion.core.ids import new_id, new_ids
from stanchion.stores.protocol import Store
from stanchion.stores.records.claims import Claim
from stanchion.stores.records.jobs import NewJob
from stanchion.stores.records.outcomes import Commit, Rollback
from stanchion.stores.registry import open_store
from stanchion_conformance.harness import counts_of, sizes_of


def churn(url: str, seed: int, seconds: float) -> int:
    """Push with keys that others use, claim, end and free jobs, all mixed; return the number of commits.

    On a slow machine it takes longer, until it has committed some.
    """
    dice, done, end = Random(seed), 0, time.monotonic() + seconds
    with closing(open_store(url)) as store:
        while time.monotonic() < end or done < 10:
            keys = dice.sample(range(12), 4)
            modes = dice.choices(["return", "replace"], k=4)
            store.push(
                [
                    NewJob(one, "orders", "1", key=str(key), on_duplicate=mode)
                    for one, key, mode in zip(new_ids(4), keys, modes, strict=True)
                ]
                + [NewJob(one, "orders", "1", priority=dice.randint(0, 2)) for one in new_ids(4)]
            )
            rows = store.claim(Claim("orders", dice.randint(1, 12), new_id(), lease=dice.choice([0.001, 30.0]))).rows
            dice.shuffle(rows)
            outcomes = [Commit(row.lease) if dice.random() < 0.7 else Rollback(row.lease, 0.0) for row in rows]
            done += [str(state) for state in store.settle(outcomes)].count("done")
            store.recover()
    return done


def test_everybody_at_once_in_threads(store: Store, mariadb_url: str) -> None:
    done: list[int] = []
    at_once([lambda seed=seed: done.append(churn(mariadb_url, seed, 1.5)) for seed in range(6)])  # type: ignore[misc]
    check_counts(store, sum(done))


@pytest.mark.nightly
def test_everybody_at_once_in_processes(store: Store, mariadb_url: str) -> None:
    with ProcessPoolExecutor(4, mp_context=get_context("spawn")) as processes:
        done = list(processes.map(churn, [mariadb_url] * 4, range(4), [1.5] * 4))
    check_counts(store, sum(done))


def check_counts(store: Store, done: int) -> None:
    """What came in is done, or still there; what is there can be had."""
    assert done
    store.clock_offset += 60
    store.recover()
    counts, sizes = counts_of(store, "orders"), sizes_of(store, "orders")
    assert counts.committed == done
    assert counts.pushed == counts.committed + counts.buried + sizes.total
    store.clock_offset += (
        100_000  # some have lost leases, and wait by their retry policy; each of these is handed out alone
    )
    claims = iter(lambda: len(store.claim(Claim("orders", 10_000, new_id(), lease=1e6)).rows), 0)
    assert sum(claims) == sizes.total
