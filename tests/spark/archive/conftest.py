"""A store with finished jobs, and what an archive of it must hold."""

import random
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from stanchion import Stanchion
from stanchion.spark.archiving.files import End
from stanchion.spark.archiving.table import existing_archive
from stanchion.stores.protocol import Store, pages
from stanchion.stores.records.jobs import SECOND, UNLANED, JobRow, JobState
from stanchion.stores.records.query import Query

FINAL = (JobState.DONE, JobState.DONE, JobState.DONE, JobState.DEAD, JobState.CANCELLED)
DAY = 86_400


def finished(app: Stanchion, count: int, queue: str = "orders", days: float = 3, seed: int = 7) -> list[JobRow]:
    """Adopt jobs that finished over the last `days`, from two hours ago back; return them."""
    from stanchion.core.ids import new_ids

    chance, now = random.Random(seed), app.store.now()
    rows = []
    for number, job_id in enumerate(new_ids(count)):
        ended = now - 2 * 3600 * SECOND - int(chance.random() * days * DAY * SECOND)
        rows.append(
            JobRow(
                job_id,
                queue,
                UNLANED,
                chance.choice(FINAL).value,
                priority := chance.choice((-30, 0, 30, 70)),
                priority,
                ended - 3 * SECOND,
                ended - 4 * SECOND,
                f'{{"n":{number}}}',
                task=chance.choice(("mail", "bill", None)),
                tenant=chance.choice(("acme", "bolt", None)),
                attempts=chance.randint(1, 4),
                started_at=ended - SECOND,
                finished_at=ended,
                result=str(number),
            )
        )
    for first in range(0, count, 1000):
        assert all(app.store.adopt(rows[first : first + 1000]))
    return rows


def ends(rows: list[JobRow]) -> Counter[End]:
    """Return the finishes of jobs."""
    return Counter((row.id, row.finished_at or 0) for row in rows)


def archived(folder: Path) -> Counter[End]:
    """Return the finishes in an archive, as any reader of Delta sees them."""
    table = pa.table(existing_archive(folder)._delta.to_pyarrow_table(columns=["id", "finished_at"]))
    return Counter(zip(table["id"].to_pylist(), table["finished_at"].cast(pa.int64()).to_pylist(), strict=True))


def left(store: Store) -> list[JobRow]:
    """Return what is in history."""
    return [row for page in pages(store, Query("history")) for row in page]


@pytest.fixture(params=["memory", "sqlite"])
def app(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Stanchion]:
    """An app on an empty store."""
    url = "memory://" if request.param == "memory" else f"sqlite:///{tmp_path}/jobs.db"
    app = Stanchion(url)
    yield app
    app.close()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Where the archive is to be."""
    return tmp_path / "archive"


Step = Callable[..., object]
