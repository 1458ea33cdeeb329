"""PostgreSQL and SQLite end jobs that passed queues in memory by a statement, without reading them; with exceptions."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from stanchion.stores.records.outcomes import Ending, Outcome, Pass
from stanchion.stores.registry import open_store
from stanchion.stores.sql.jobs.settle import Outcomes
from stanchion_conformance.jobs.passing_to_an_end import PATHS
from stanchion_conformance.jobs.passing_to_an_end import TestPassingToAnEnd as Passing

ROW_BY_ROW = {
    "as long as a trail",
    "longer than a trail",
    "a chunk that becomes an item",
    "an item that becomes a chunk",
}
OF_CHUNKS = {name for name in PATHS if "chunk" in name}


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[Outcome]:
    """The passes that read their jobs."""
    found: list[Outcome] = []
    apply = Outcomes._apply

    def applying(self: Outcomes, run: Any, outcomes: Sequence[Ending], again: bool) -> Any:
        found.extend(one for one in outcomes if isinstance(one, Pass))
        return apply(self, run, outcomes, again)

    monkeypatch.setattr(Outcomes, "_apply", applying)
    return found


@pytest.mark.parametrize("name", PATHS)
def test_on_postgresql(pg_store_url: str, read: list[Outcome], name: str) -> None:
    with closing(open_store(pg_store_url)) as store:
        Passing().test_is_as_if_it_had_been_stored_at_each(store, name)
    assert bool(read) == (name in ROW_BY_ROW)


@pytest.mark.parametrize("name", PATHS)
def test_on_sqlite(tmp_path: Path, read: list[Outcome], name: str) -> None:
    with closing(open_store(f"sqlite:///{tmp_path}/jobs.db")) as store:
        store.setup()
        Passing().test_is_as_if_it_had_been_stored_at_each(store, name)
    assert bool(read) == (name in ROW_BY_ROW | OF_CHUNKS)
