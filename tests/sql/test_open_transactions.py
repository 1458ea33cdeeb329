"""PostgreSQL names the transactions that may still write jobs, so that a feed waits for them."""

from __future__ import annotations

import pytest
from sqlalchemy import text

from stanchion import Stanchion
from stanchion.feed.reader import NOW

pytestmark = pytest.mark.slow

BEFORE_JOBS = ["jobs", "history", "queues", "slots", "flow_nodes", "values"]
"""Tables of which a step may await a row after it has read the clock, and before it writes jobs."""


def writers(app: Stanchion) -> frozenset[str]:
    horizon = app.store.select(NOW).horizon
    assert horizon is not None
    assert horizon.writers is not None
    return horizon.writers


@pytest.mark.parametrize("table", BEFORE_JOBS)
def test_a_transaction_that_may_write_is_named_until_its_end(pg_app: Stanchion, table: str) -> None:
    assert writers(pg_app) == frozenset()
    with pg_app.transaction() as tx:
        tx.execute(text(f"SELECT 1 FROM stanchion_{table} FOR UPDATE"))
        (name,) = writers(pg_app)
        assert writers(pg_app) == {name}
    assert writers(pg_app) == frozenset()


def test_a_transaction_that_only_reads_is_not(pg_app: Stanchion) -> None:
    with pg_app.transaction() as tx:
        tx.execute(text("SELECT count(*) FROM stanchion_jobs, stanchion_history"))
        assert writers(pg_app) == frozenset()
