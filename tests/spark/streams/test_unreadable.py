"""Batches of streams have no jobs that workers could not run: these are dead, with the reason."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from stanchion.core.ids import new_id
from stanchion.errors import StoreUnavailable
from stanchion.stores.cas.settle import Outcomes as CasOutcomes
from stanchion.stores.protocol import Store
from stanchion.stores.records.claims import Claim
from stanchion.stores.records.jobs import JobRow, JobState, NewJob
from stanchion.stores.registry import open_store
from stanchion.stores.rules.lifecycle.error_entries import entries_of
from stanchion.stores.sql.jobs.settle import Outcomes as SqlOutcomes
from stanchion.streams import StreamSource
from stanchion.streams.state import reserved_ids

LATIN = 'München "1"'.encode("latin-1")


def in_file(path: Path, job: str) -> None:
    """Write bytes of another encoding into a job, as another program does."""
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE stanchion_jobs SET tenant = CAST(? AS TEXT) WHERE id = ?", (LATIN, job))


def row_of(store: Store, job: str) -> JobRow:
    return store.fetch([job])[job]


@pytest.mark.parametrize("lanes", [None, (0, 3)])
@pytest.mark.parametrize("before", [0, 2])
def test_no_batch_has_text_that_is_not_utf8(tmp_path: Path, lanes: tuple[int, int] | None, before: int) -> None:
    path = tmp_path / "jobs.db"
    with closing(open_store(f"sqlite:///{path}")) as store:
        store.setup()
        jobs = [NewJob(new_id(), "q", "1", lane=-1 if lanes is None else 2) for _ in range(2 * before + 6)]
        store.push(jobs)
        odd = [jobs[before].id, jobs[before + 1].id, jobs[-1].id]
        for one in odd:
            in_file(path, one)
        source = StreamSource(store, "s", "q", lanes=lanes)
        source.stop_after_ready()
        place, found = source.initial(), list[str]()
        for _ in range(len(jobs)):
            end = source.latest(place, 2)
            if end == place:
                break
            source.parts(place, end, 1)
            found += reserved_ids(store, "q", source.state().token)
            place = end
        assert sorted(found) == sorted({job.id for job in jobs} - {*odd})
        for row in map(row_of, [store] * len(odd), odd):
            assert row.state == JobState.DEAD
            assert entries_of(row)[-1]["error"].startswith("the job has text that is not UTF-8, in tenant")


@pytest.mark.parametrize("kind", ["sqlite", "redis"])
def test_a_repeated_claim_checks_what_a_failed_one_did_not(
    tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    url = f"sqlite:///{tmp_path / 'jobs.db'}" if kind == "sqlite" else request.getfixturevalue("redis_url")
    owner: Any = SqlOutcomes if kind == "sqlite" else CasOutcomes
    with closing(open_store(url)) as store:
        store.setup()
        odd, fine = NewJob(new_id(), "q", "1", limits="smtp"), NewJob(new_id(), "q", "1")
        store.push([odd, fine])
        claim = Claim("q", 10, new_id(), worker="w", rows=False, repeat=True)

        def fails(*_: Any, **_options: Any) -> None:
            raise StoreUnavailable("the server has gone")

        with monkeypatch.context() as failing:
            failing.setattr(owner, "settle", fails)
            with pytest.raises(StoreUnavailable):
                store.claim(claim)
        assert store.claim(claim).reserved == 1
        assert reserved_ids(store, "q", claim.token) == [fine.id]
        assert row_of(store, odd.id).state == JobState.DEAD
