"""An archive whose run dies, at any step, and is run again."""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from stanchion import Stanchion
from stanchion.spark import archive
from stanchion.spark.archiving import files as archive_files
from stanchion.spark.archiving import parts, run
from stanchion.spark.archiving.table import ArchiveTable
from stanchion.stores.protocol import Store
from tests.spark.archive.conftest import archived, ends, finished, left

ROWS = 3_000
KILLS, ATTEMPTS = 6, 24


class Died(BaseException):
    """The process is gone; nothing after this is done."""


def dying(calls: int, function: Any, *, before: bool) -> Any:
    """Return the function, which dies at its n-th call: before it does anything, or when it has done it."""
    seen = 0

    def call(*args: Any, **kwargs: Any) -> Any:
        nonlocal seen
        seen += 1
        if before and seen == calls:
            raise Died
        value = function(*args, **kwargs)
        if seen == calls:
            raise Died
        return value

    return call


STEPS = {
    "making the table": (run, "new_archive"),
    "writing a row group": (archive_files._File, "write"),
    "closing a file": (archive_files._File, "close"),
    "writing a part": (run, "write_part"),
    "committing": (ArchiveTable, "commit"),
    "purging a batch": (parts.Purger, "purge"),
    "purging some": (Store, "delete"),
}
MOMENTS = [(step, calls) for step in STEPS for calls in (1, 2) if (step, calls) != ("making the table", 2)]


@pytest.mark.one_in_each("step", "app", "before", "calls")
@pytest.mark.parametrize("before", [True, False], ids=["before", "after"])
@pytest.mark.parametrize(("step", "calls"), MOMENTS)
def test_each_finish_is_archived_once(
    app: Stanchion, folder: Path, monkeypatch: pytest.MonkeyPatch, step: str, calls: int, before: bool
) -> None:
    rows = finished(app, ROWS, days=1.2, chunks=True)
    with monkeypatch.context() as patched:
        patched.setattr(run, "BATCH", 1000)
        patched.setattr(parts, "PURGED_AT_ONCE", 400)
        patched.setattr(archive_files._File, "drop", lambda _file: None)
        owner, name = STEPS[step]
        owner = app.store if owner is Store else owner
        patched.setattr(owner, name, dying(calls, getattr(owner, name), before=before))
        with pytest.raises(Died):
            archive(app, folder)
    both = (archived(folder) if folder.exists() and any(folder.glob("_delta_log/*")) else ends([])) | ends(
        left(app.store)
    )
    assert both == ends(rows), "at no moment is one in neither"
    archive(app, folder)
    assert archived(folder) == ends(rows)
    assert left(app.store) == []


RUNS = """
import sys
from pathlib import Path
from stanchion import Stanchion
from stanchion.spark import archive
from stanchion.spark.archiving import parts, run

run.BATCH, parts.PURGED_AT_ONCE = 500, 50
app = Stanchion(sys.argv[1])
print("began", flush=True)
archive(app, sys.argv[2], compact=len(sys.argv) > 3)
"""


def killed_at_random(url: str, folder: Path, seed: int, longest: float) -> None:
    """Archive again and again, each time killed a moment after it has begun."""
    chance = random.Random(seed)
    source = Path(__file__).parents[3] / "src"
    died = 0
    for _ in range(ATTEMPTS):
        if died == KILLS:
            return
        process = subprocess.Popen(
            [sys.executable, "-c", RUNS, url, str(folder), *(["compact"] if chance.random() < 0.3 else [])],
            env={**os.environ, "PYTHONPATH": str(source)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert process.stdout is not None
        assert process.stdout.readline() == "began\n"
        time.sleep(chance.random() * longest)
        process.kill()
        error = process.communicate(timeout=60)[1]
        assert process.returncode in (0, -signal.SIGKILL), error
        if process.returncode == 0:  # it was done sooner than that
            longest /= 2
        else:
            died += 1
    assert died >= KILLS // 2


@pytest.mark.nightly
@pytest.mark.parametrize("address", ["sqlite", "pg_url"])
def test_killed_at_random(request: pytest.FixtureRequest, tmp_path: Path, folder: Path, address: str) -> None:
    url = f"sqlite:///{tmp_path}/jobs.db" if address == "sqlite" else request.getfixturevalue(address)
    app = Stanchion(url)
    app.setup()
    rows = finished(app, 12_000, chunks=True)
    killed_at_random(url, folder, seed=11, longest=1.5)
    there = archived(folder) if (folder / "_delta_log").exists() else ends([])
    assert set(there.values()) <= {1}
    assert there | ends(left(app.store)) == ends(rows)
    archive(app, folder, compact=True)
    assert archived(folder) == ends(rows)
    assert left(app.store) == []
    app.close()


@pytest.mark.nightly_except("redis_url")
@pytest.mark.parametrize("address", ["mariadb_url", "redis_url", "mongo_url"])
def test_other_stores(
    request: pytest.FixtureRequest, folder: Path, monkeypatch: pytest.MonkeyPatch, address: str
) -> None:
    app = Stanchion(request.getfixturevalue(address))
    app.setup()
    rows = finished(app, 3_000, chunks=True)
    monkeypatch.setattr(run, "BATCH", 2_000)
    with monkeypatch.context() as patched:
        patched.setattr(app.store, "delete", dying(2, app.store.delete, before=True))
        with pytest.raises(Died):
            archive(app, folder)
    assert 0 < archived(folder).total() < 3_000
    archive(app, folder)
    assert archived(folder) == ends(rows)
    assert left(app.store) == []
    app.close()
