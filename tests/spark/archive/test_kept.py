"""Archives of history that is kept: a run reads only what has finished since the last one."""

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from stanchion import Stanchion
from stanchion.spark import archive
from stanchion.spark.archiving import run
from stanchion.spark.archiving.table import ArchiveTable
from stanchion.stores.records.query import Query
from tests.spark.archive.conftest import archived, ends, finished, left
from tests.spark.archive.test_deaths import Died, dying

HOUR = 3600.0
SERVERS = ("pg_url", "mariadb_url", "redis_url", "mongo_url")


class Reads:
    """Counts what is read of history."""

    def __init__(self, app: Stanchion, monkeypatch: pytest.MonkeyPatch) -> None:
        self._rows = 0
        select = app.store.select

        def counted(query: Query) -> Any:
            page = select(query)
            self._rows += len(page.rows) if query.of == "history" else 0
            return page

        monkeypatch.setattr(app.store, "select", counted)

    def taken(self) -> int:
        """Return how many rows were read since the last call."""
        rows, self._rows = self._rows, 0
        return rows


@pytest.fixture(params=["sqlite"])
def app(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Stanchion]:
    url = f"sqlite:///{tmp_path}/jobs.db" if request.param == "sqlite" else request.getfixturevalue(request.param)
    app = Stanchion(url)
    app.setup()
    yield app
    app.close()


stores = pytest.mark.parametrize(
    "app", ["sqlite", *(pytest.param(one, marks=pytest.mark.nightly) for one in SERVERS)], indirect=True
)


@stores
def test_a_run_reads_what_is_new(app: Stanchion, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reads, rows = Reads(app, monkeypatch), finished(app, 500, days=30)
    assert archive(app, folder, keep=True).archived == 500
    assert reads.taken() == 500
    assert archive(app, folder, keep=True).archived == 0
    assert reads.taken() < 10, "those of the hour that is read again"
    app.store.clock_offset += 4 * HOUR
    rows += finished(app, 30, days=0.01, seed=8)
    assert archive(app, folder, keep=True).archived == 30
    assert reads.taken() < 40
    assert archived(folder) == ends(rows) == ends(left(app.store))
    reads.taken()
    assert archive(app, folder, keep=True, whole=True).archived == 0
    assert reads.taken() == 530


def test_what_becomes_visible_late(app: Stanchion, folder: Path) -> None:
    """A transaction took longer than the time by which jobs are older, and up to an hour more."""
    rows = finished(app, 50, days=3)
    archive(app, folder, older_than=2 * HOUR - 60, keep=True)
    rows += finished(app, 1, days=0.001, seed=9)  # two hours ago
    app.store.clock_offset += 60
    archive(app, folder, older_than=2 * HOUR - 60, keep=True)
    rows += finished(app, 1, days=0.001, seed=10)
    archive(app, folder, older_than=2 * HOUR - 60, keep=True)
    assert archived(folder) == ends(rows)


def test_each_queue_has_its_own_time(app: Stanchion, folder: Path) -> None:
    orders, mail = finished(app, 20), finished(app, 10, "mail")
    assert archive(app, folder, queues=["orders"], keep=True).archived == 20
    assert archive(app, folder, queues=["orders", "mail"], keep=True).archived == 10
    assert archived(folder) == ends(orders + mail)
    more = finished(app, 5, "more")
    assert archive(app, folder, keep=True).archived == 5
    assert archived(folder) == ends(orders + mail + more)


def test_a_run_that_dies_leaves_the_time_as_it_was(
    app: Stanchion, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = finished(app, 4500)
    monkeypatch.setattr(run, "BATCH", 1000)
    with monkeypatch.context() as patched:
        patched.setattr(ArchiveTable, "commit", dying(1, ArchiveTable.commit, before=False))
        with pytest.raises(Died):
            archive(app, folder, keep=True)
    archive(app, folder, keep=True)
    assert archived(folder) == ends(rows)


def test_it_is_purged_without_keep(app: Stanchion, folder: Path) -> None:
    finished(app, 40)
    archive(app, folder, keep=True)
    archive(app, folder, keep=True)
    assert archive(app, folder).purged == 40
    assert left(app.store) == []


@pytest.mark.nightly
def test_runs_at_any_moment(app: Stanchion, folder: Path) -> None:
    """Jobs finish in random order, in several queues; runs archive each finish once."""
    chance, rows = random.Random(3), []
    for seed in range(25):
        rows += finished(app, chance.randint(1, 20), chance.choice(("a", "b")), days=0.03, seed=seed)
        app.store.clock_offset += chance.random() * HOUR
        known = {settings.name for settings in app.store.queues()}
        queues = [one for one in chance.choice(((), (), ("a",), ("a", "b"))) if one in known]
        archive(app, folder, keep=True, older_than=2 * HOUR, queues=queues)
    archive(app, folder, keep=True)
    assert archived(folder) == ends(rows)
