"""Names and texts on MariaDB keep each byte."""

from __future__ import annotations

import pymysql
import pytest
from tests.sql.mariadb.sessions import connect

from stanchion import Stanchion
from stanchion.core.ids import new_id, new_ids
from stanchion.errors import InvalidInput
from stanchion.stores.protocol import Store
from stanchion.stores.records.claims import Claim
from stanchion.stores.records.jobs import NewJob
from stanchion.stores.records.outcomes import Commit
from stanchion_conformance.harness import sizes_of


@pytest.mark.parametrize("other", ["Ab", "ab ", " ab", "áb"])
def test_names_differ_if_a_byte_does(app: Stanchion, other: str) -> None:
    queue = app.queue("ab")
    first = queue.push(1, key="ab")
    second = queue.push(2, key=other)
    assert not second.duplicate
    assert queue.push(3, key="ab").id == first.id
    assert queue.push(3, key=other).id == second.id
    app.queue(other).push("elsewhere")
    assert queue.size().total == 2
    assert [job.payload for job in app.queue(other).reserve(5)] == ["elsewhere"]


def test_long_texts(store: Store) -> None:
    long = '"' + "ü🚧\\\\'" * 200_000 + '"'
    jobs = [NewJob(one, "orders", long) for one in new_ids(3)]
    store.push(jobs)
    rows = store.claim(Claim("orders", 3, "t")).rows
    assert [row.payload for row in rows] == [long] * 3
    store.settle([Commit(rows[0].lease, result=long), Commit(rows[1].lease, payload=long), Commit(rows[2].lease)])
    found = store.fetch([row.id for row in rows])
    assert [found[row.id].result for row in rows] == [long, None, None]
    assert [found[row.id].payload for row in rows] == [long] * 3


def test_a_value_that_was_cut_is_refused(store: Store, mariadb_url: str) -> None:
    too_long = NewJob(new_id(), "orders", "1", tenant="t" * 201)
    with pytest.raises(InvalidInput, match=r"can't hold a value: .*'tenant'.*; make the value smaller"):
        store.push([too_long])
    with connect(mariadb_url, sql_mode="") as lenient:
        with pytest.raises(pymysql.DataError, match="tenant"):
            store.push([too_long], tx=lenient)
        lenient.rollback()
    assert sizes_of(store, "orders").total == 0
