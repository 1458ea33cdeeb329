"""Large tables of PostgreSQL are cut by a sample."""

from contextlib import closing

import pytest

from stanchion import Stanchion
from stanchion.stores.postgres import query as postgres_parts
from stanchion.stores.protocol import pages
from stanchion.stores.records.query import Condition, Query
from stanchion.stores.sql.reading.query import Queries


def test_parts_of_a_large_table_are_of_about_equal_size(pg_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postgres_parts, "BLOCKS", 300)
    monkeypatch.setattr(postgres_parts, "ENOUGH", 100)
    with closing(Stanchion(pg_url)) as app:
        app.setup()
        for queue in ("a", "b"):
            app.queue(queue).push_many([{"n": n, "text": "x" * 1000} for n in range(4000)])
        with monkeypatch.context() as exact:
            exact.setattr(Queries, "partition", lambda *_: pytest.fail("all jobs were looked at"))
            asked = (Query("live", order="id"), Query("live", (Condition("queue", "=", "b"),), order="id"))
            found = [app.store.partition(query, 4) for query in asked]
        for parts, total in zip(found, (8000, 4000), strict=True):
            ids = [[row.id for page in pages(app.store, part) for row in page] for part in parts]
            assert len(parts) == 4
            assert len({one for part in ids for one in part}) == sum(map(len, ids)) == total
            assert max(map(len, ids)) < total / 3
        assert len(app.store.partition(Query("live", (Condition("queue", "=", "none"),)), 4)) == 1
