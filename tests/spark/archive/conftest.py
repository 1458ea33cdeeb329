"""A store with finished jobs, and what an archive of it must hold."""

import random
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from stanchion import Stanchion
from stanchion.core.chunks.chunk import Chunk
from stanchion.spark.archiving.files import End
from stanchion.spark.archiving.table import existing_archive
from stanchion.stores.protocol import Store, pages
from stanchion.stores.records.jobs import SECOND, UNLANED, JobRow, JobState
from stanchion.stores.records.query import Query

FINAL = (JobState.DONE, JobState.DONE, JobState.DONE, JobState.DEAD, JobState.CANCELLED)
DAY = 86_400


def finished(
    app: Stanchion, count: int, queue: str = "orders", days: float = 3, seed: int = 7, *, chunks: bool = False
) -> list[JobRow]:
    """Adopt jobs that finished over the last `days`, from two hours ago back; return them.

    `chunks`: a tenth of them carry chunks, of which one in five is divided.
    """
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
        if chunks and number % 10 == 3:
            rows[-1] = with_items(rows[-1], [{"n": number, "place": place} for place in range(2 + number % 7)])
            rows[-1] = rows[-1]._replace(items=0, result=None) if number % 50 == 13 else rows[-1]
    for first in range(0, count, 1000):
        assert all(app.store.adopt(rows[first : first + 1000]))
    return rows


def with_items(row: JobRow, items: list[Any]) -> JobRow:
    """Return a finished job that carries these items, each of which has a result."""
    results = [[number, "result"] for number in range(len(items))]
    return row._replace(
        payload=Chunk.of(items).encoded(), items=len(items), result=Chunk.of(results, "result").encoded()
    )


def ends(rows: list[JobRow]) -> Counter[End]:
    """Return the finishes of jobs."""
    return Counter((row.id, row.finished_at or 0) for row in rows)


def archived(folder: Path) -> Counter[End]:
    """Return the finishes in an archive, as any reader of Delta sees them; each has all of its items once."""
    columns = ["id", "finished_at", "item", "items"]
    table = pa.table(existing_archive(folder)._delta.to_pyarrow_table(columns=columns))
    moments = table["finished_at"].cast(pa.int64()).to_pylist()
    found: dict[End, list[int | None]] = {}
    items: dict[End, int | None] = {}
    for job_id, moment, place, count in zip(table["id"].to_pylist(), moments, *table.columns[2:], strict=True):
        found.setdefault((job_id, moment), []).append(place.as_py())
        items[job_id, moment] = count.as_py()
    for end, places in found.items():
        whole = range(items[end] or 1)
        assert set(places) == ({*whole} if items[end] else {None})
        assert len(places) % len(whole) == 0
    return Counter({end: len(places) // (items[end] or 1) for end, places in found.items()})


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
