"""History brought into an archive, and out of the store."""

from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest

from stanchion import Stanchion
from stanchion.core.spark_errors import ArchiveBusy
from stanchion.errors import InvalidInput
from stanchion.spark import archive
from stanchion.spark.archiving import parts, run
from stanchion.spark.archiving.table import ArchiveTable, existing_archive, open_archive
from stanchion.stores.records.jobs import SECOND
from tests.spark.archive.conftest import archived, ends, finished, left


def test_all_that_is_old_enough_is_archived_and_purged(app: Stanchion, folder: Path) -> None:
    rows = finished(app, 300)
    young = app.queue("orders").push(1)
    app.queue("orders").reserve()[0].commit("late")
    live = app.queue("orders").push(2)
    seen: list[int] = []
    done = archive(app, folder, watch=seen.append)
    assert (done.archived, done.purged, done.engine) == (300, 300, "local")
    assert seen == [300]
    assert archived(folder) == ends(rows)
    assert [row.id for row in left(app.store)] == [young.id]
    assert app.get(live.id) is not None


def test_a_row_is_as_it_was_in_history(app: Stanchion, folder: Path) -> None:
    rows = {row.id: row for row in finished(app, 50)}
    archive(app, folder)
    table = pa.table(existing_archive(folder)._delta.to_pyarrow_table())
    assert table.num_rows == 50
    for one in table.to_pylist():
        row = rows[one["id"]]
        assert one["day"] == datetime.fromtimestamp((row.finished_at or 0) / SECOND, UTC).date()
        assert (one["state"], one["priority"], one["task"], one["tenant"]) == (
            row.state,
            row.priority,
            row.task,
            row.tenant,
        )
        assert (one["payload"], one["result"], one["attempts"]) == (row.payload, row.result, row.attempts)
        for name in ("enqueued_at", "run_at", "started_at", "finished_at"):
            assert one[name].timestamp() * SECOND == pytest.approx(getattr(row, name), abs=1)
        assert one["lane"] is None


def test_the_next_run_adds_what_has_come_since(app: Stanchion, folder: Path) -> None:
    first = finished(app, 40)
    archive(app, folder)
    second = finished(app, 30, seed=8)
    done = archive(app, folder)
    assert (done.archived, done.purged) == (30, 30)
    again = archive(app, folder)
    assert (again.archived, again.purged, again.files) == (0, 0, 0)
    assert archived(folder) == ends(first + second)


def test_keep_leaves_all_in_the_store(app: Stanchion, folder: Path) -> None:
    rows = finished(app, 40)
    assert archive(app, folder, keep=True).archived == 40
    done = archive(app, folder, keep=True)
    assert (done.archived, done.purged) == (0, 0)
    assert ends(left(app.store)) == archived(folder) == ends(rows)
    assert archive(app, folder).purged == 40
    assert left(app.store) == []


def test_only_some_queues_and_only_what_is_old_enough(app: Stanchion, folder: Path) -> None:
    orders, mail = finished(app, 60, days=2), finished(app, 20, "mail")
    limit = app.store.now() - 86_400 * SECOND
    old = [row for row in orders if (row.finished_at or 0) <= limit]
    assert 0 < len(old) < 60
    archive(app, folder, queues=["orders"], older_than=86_400)
    assert archived(folder) == ends(old)
    assert ends(left(app.store)) == ends([row for row in orders if row not in old] + mail)
    with pytest.raises(InvalidInput, match="no queue 'ordres'"):
        archive(app, folder, queues=["ordres"])


def test_batch_by_batch(app: Stanchion, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "BATCH", 100)
    monkeypatch.setattr(parts, "PURGED_AT_ONCE", 7)
    rows = finished(app, 4500)
    done = archive(app, folder)
    assert archived(folder) == ends(rows)
    assert (done.archived, done.purged) == (4500, 4500)
    table = existing_archive(folder)
    assert table.version > 2
    assert table.rows() == 4500


def test_large_jobs_make_small_batches(app: Stanchion, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = finished(app, 4500)
    monkeypatch.setattr(run, "_CHARACTERS", 100_000)
    archive(app, folder)
    assert archived(folder) == ends(rows)
    assert existing_archive(folder).version > 2


def test_compacted_it_holds_the_same(app: Stanchion, folder: Path) -> None:
    rows = []
    for seed in range(4):
        rows += finished(app, 30, seed=seed, days=1)
        archive(app, folder)
    before = len(existing_archive(folder).parts())
    done = archive(app, folder, compact=True)
    assert done.compacted == before - len(existing_archive(folder).parts()) > 0
    assert archived(folder) == ends(rows)
    app.store.adopt(rows)
    assert archive(app, folder).archived == 0, "what it holds is known by the bounds of the compacted files, too"
    assert left(app.store) == []


def test_each_finish_of_a_re_driven_job_is_archived(app: Stanchion, folder: Path) -> None:
    queue = app.queue("orders")
    job = queue.push(1)
    queue.reserve()[0].bury("no money")
    archive(app, folder, older_than=0)
    assert app.get(job.id) is None
    twice = queue.push(2)
    queue.reserve()[0].bury("no money")
    archive(app, folder, older_than=0, keep=True)
    queue.retry(twice.id)
    assert archive(app, folder, older_than=0).purged == 0
    assert app.get(twice.id) is not None, "it is live again"
    queue.reserve()[0].commit("paid")
    archive(app, folder, older_than=0)
    found = archived(folder)
    assert sorted(job_id for job_id, _ in found) == sorted([job.id, twice.id, twice.id])
    assert set(found.values()) == {1}
    assert left(app.store) == []


def test_one_that_is_re_driven_before_the_purge_stays_live(
    app: Stanchion, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = app.queue("orders").push(1)
    app.queue("orders").reserve()[0].bury("no money")
    commit = ArchiveTable.commit

    def redriven(self: ArchiveTable, written: list) -> None:  # type: ignore[type-arg]
        commit(self, written)
        app.queue("orders").retry(job.id)

    monkeypatch.setattr(ArchiveTable, "commit", redriven)
    done = archive(app, folder, older_than=0)
    assert (done.archived, done.purged) == (1, 0)
    assert app.queue("orders").size().ready == 1


def test_of_two_runs_at_once_one_is_refused(app: Stanchion, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = finished(app, 100)
    commit = ArchiveTable.commit

    def overtaken(self: ArchiveTable, written: list) -> None:  # type: ignore[type-arg]
        monkeypatch.setattr(ArchiveTable, "commit", commit)
        archive(app, folder, keep=True)
        commit(self, written)

    finished_first = finished(app, 5, "other")
    archive(app, folder, queues=["other"], keep=True)
    monkeypatch.setattr(ArchiveTable, "commit", overtaken)
    with pytest.raises(ArchiveBusy, match="run this again"):
        archive(app, folder)
    assert archived(folder) == ends(rows + finished_first)
    files = {Path(part.place) for part in existing_archive(folder).parts()}
    assert set(folder.glob("day=*/*.parquet")) == files, "the loser leaves nothing behind"
    archive(app, folder)
    assert archived(folder) == ends(rows + finished_first)
    assert left(app.store) == []


def test_what_is_encrypted_stays_so(folder: Path, tmp_path: Path) -> None:
    from cryptography.fernet import Fernet

    app = Stanchion(f"sqlite:///{tmp_path}/sealed.db", keys=[Fernet.generate_key()])
    app.queue("orders").push("secret")
    app.queue("orders").reserve()[0].commit("secret")
    archive(app, folder, older_than=0)
    (row,) = pa.table(existing_archive(folder)._delta.to_pyarrow_table()).to_pylist()
    assert row["payload"].startswith("enc:")
    assert row["result"].startswith("enc:")


def test_a_folder_with_something_else_is_refused(app: Stanchion, tmp_path: Path, folder: Path) -> None:
    finished(app, 1)
    (tmp_path / "notes.txt").write_text("mine")
    for place in (tmp_path, tmp_path / "notes.txt"):
        with pytest.raises(InvalidInput, match="something other than"):
            archive(app, place)
    from deltalake import write_deltalake

    write_deltalake(str(folder), pa.table({"n": [1]}))
    with pytest.raises(InvalidInput, match="not a Stanchion archive"):
        archive(app, folder)
    assert len(left(app.store)) == 1


def test_nothing_to_archive_makes_nothing(app: Stanchion, folder: Path) -> None:
    assert archive(app, folder, compact=True).archived == 0
    assert not folder.exists()
    assert open_archive(folder) is None
