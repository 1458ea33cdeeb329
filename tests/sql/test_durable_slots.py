"""On PostgreSQL, what passes on slots commits before the disk has it, and is answered afterwards."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from stanchion.core.ids import new_ids
from stanchion.stores.postgres.dialect import PostgresDialect
from stanchion.stores.records.claims import Claim
from stanchion.stores.records.jobs import JobState, NewJob
from stanchion.stores.records.outcomes import Commit
from stanchion.stores.registry import open_store
from stanchion.stores.rules.capacity.limits import Limits, limits_text
from stanchion.stores.sql.store import SqlStore


@pytest.fixture
def store(pg_url: str) -> Iterator[SqlStore]:
    with closing(open_store(pg_url)) as store:
        assert isinstance(store, SqlStore)
        store.setup()
        store.set_semaphore("slot", 1)
        yield store


def test_the_disk_is_waited_for_once_and_only_by_outcomes(store: SqlStore, monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[str] = []
    wait = PostgresDialect.see_to_disk

    def noted(self: PostgresDialect, cursor: Any) -> None:
        waits.append("")
        wait(self, cursor)

    monkeypatch.setattr(PostgresDialect, "see_to_disk", noted)
    ids = new_ids(3)
    store.push([NewJob(job, "q", "1", limits=limits_text(Limits(("slot",)))) for job in ids])
    for n, job in enumerate(ids):
        (row,) = store.claim(Claim("q", 3, f"t{n}", "w")).rows
        assert (row.id, len(waits)) == (job, n)
        assert store.settle([Commit(row.lease)]) == [JobState.DONE]
        assert len(waits) == n + 1
