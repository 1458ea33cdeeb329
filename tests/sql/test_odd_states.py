"""States that another program has made up: the jobs are listed, and can be cancelled."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy import text

from stanchion import Stanchion
from stanchion.stores.sql.engine.runner import Runner
from stanchion.stores.sql.store import SqlStore


@pytest.mark.parametrize("kind", ["sqlite", "pg_url", "mariadb_url"])
def test_no_list_fails(tmp_path: Path, request: pytest.FixtureRequest, kind: str) -> None:
    url = f"sqlite:///{tmp_path / 'jobs.db'}" if kind == "sqlite" else request.getfixturevalue(kind)
    with closing(Stanchion(url)) as app:
        app.setup()
        q = app.queue("q")
        live, ended, fine = q.push_many([1, 2, 3])
        app.cancel(ended.id)
        store = app.store
        assert isinstance(store, SqlStore)

        def spoil(run: Runner, _again: bool) -> None:
            for job, table in ((live, "jobs"), (ended, "history")):
                run.change(text(f"UPDATE stanchion_{table} SET state = 'made up' WHERE id = :job"), {"job": job.id})

        store.database.write(spoil)
        assert {job.id: job.state for job in q.find()} == {live.id: "ready", ended.id: "dead", fine.id: "ready"}
        assert [job.id for job in q.reserve(5)] == [fine.id]
        assert app.store.stats(["q"], ["states", "heads", "next_due", "totals"])
        assert app.store.cancel([live.id, ended.id]) == ["cancelled", "dead"]
