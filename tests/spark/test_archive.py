"""The archive by the executors of Spark."""

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from stanchion import Stanchion
from stanchion.errors import InvalidInput
from stanchion.spark import archive
from stanchion.spark.archiving import parts, run
from stanchion.spark.archiving.files import Written, drop
from stanchion.spark.archiving.table import ArchiveTable, existing_archive
from tests.spark.archive.conftest import archived, ends, finished, left
from tests.spark.archive.test_deaths import Died, dying
from tests.spark.conftest import nightly

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "archive"


@pytest.mark.parametrize("address", [nightly("sqlite"), nightly("pg_url")])
def test_the_result_is_the_same(
    spark: "SparkSession", request: pytest.FixtureRequest, tmp_path: Path, folder: Path, address: str
) -> None:
    url = f"sqlite:///{tmp_path}/jobs.db" if address == "sqlite" else request.getfixturevalue(address)
    app = Stanchion(url)
    app.setup()
    rows = finished(app, 2_000, chunks=True)
    archive(app, tmp_path / "local", keep=True, engine="local")
    done = archive(app, folder, engine="spark", spark=spark)
    assert (done.engine, done.archived, done.purged) == ("spark", 2_000, 2_000)
    order = [("id", "ascending"), ("item", "ascending")]
    tables = [existing_archive(one)._delta.to_pyarrow_table().sort_by(order) for one in (folder, tmp_path / "local")]
    assert tables[0].equals(tables[1])
    more = finished(app, 500, seed=9)
    assert archive(app, folder, engine="spark", spark=spark).archived == 500
    assert archived(folder) == ends(rows + more)
    assert left(app.store) == []
    assert archive(app, folder, engine="spark", spark=spark).archived == 0
    app.close()


@pytest.mark.parametrize(
    ("owner", "name", "before"),
    [
        pytest.param(ArchiveTable, "commit", True, marks=pytest.mark.nightly),
        pytest.param(ArchiveTable, "commit", False, marks=pytest.mark.nightly),
        pytest.param(parts.Purger, "purge", True, marks=pytest.mark.nightly),
    ],
)
def test_after_a_death(
    spark: "SparkSession",
    tmp_path: Path,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    owner: type,
    name: str,
    before: bool,
) -> None:
    app = Stanchion(f"sqlite:///{tmp_path}/jobs.db")
    rows = finished(app, 300, chunks=True)
    with monkeypatch.context() as patched:
        patched.setattr(owner, name, dying(1, getattr(owner, name), before=before))
        with pytest.raises(Died):
            archive(app, folder, engine="spark", spark=spark)
    assert len(left(app.store)) == 300
    archive(app, folder, engine="spark", spark=spark)
    assert archived(folder) == ends(rows)
    assert left(app.store) == []
    app.close()


def test_what_is_in_one_process_alone_is_refused(folder: Path) -> None:
    with pytest.raises(InvalidInput, match="lives in one process"):
        archive(Stanchion("memory://"), folder, engine="spark")


@pytest.mark.nightly
def test_many_are_for_spark(
    spark: "SparkSession", tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from stanchion.spark.archiving import archive as archiving

    monkeypatch.setattr(archiving, "MANY", 2_000)
    monkeypatch.setattr(run, "BATCH", 2_000)
    app = Stanchion(f"sqlite:///{tmp_path}/jobs.db")
    rows = finished(app, 5_000, chunks=True)
    done = archive(app, folder, spark=spark)
    assert (done.engine, done.archived, done.purged) == ("spark", 5_000, 5_000)
    assert archived(folder) == ends(rows)
    app.close()


@pytest.mark.nightly
def test_files_that_only_an_executor_sees_are_refused(
    spark: "SparkSession", tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = Stanchion(f"sqlite:///{tmp_path}/jobs.db")
    rows = finished(app, 20)
    see = run.Run._check_visible

    def elsewhere(self: run.Run, written: list[Written]) -> None:
        drop(folder, written[:1])
        see(self, written)

    monkeypatch.setattr(run.Run, "_check_visible", elsewhere)
    with pytest.raises(InvalidInput, match="share under the same path"):
        archive(app, folder, engine="spark", spark=spark)
    assert ends(left(app.store)) == ends(rows)
    assert not (folder / "_delta_log").exists()
    app.close()
