"""Finished jobs that carry random items."""

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from stanchion import Stanchion
from stanchion.core.chunks.chunk import Chunk
from stanchion.core.chunks.stored import stored
from stanchion.core.values.codec import Codec
from tests.chunks.items import ITEMS
from tests.spark.archive.conftest import finished


def random_items(count: int) -> list[list[object]]:
    """Return lists of random items, in all so many or more."""
    found: list[list[object]] = []
    items = 0
    while items < count:

        @settings(
            max_examples=max(20, count // 10), deadline=None, database=None, suppress_health_check=list(HealthCheck)
        )
        @given(st.lists(ITEMS, min_size=4, max_size=6))
        def draw(lists: list[list[object]]) -> None:
            found.extend(one for one in lists if one)

        draw()
        items = sum(map(len, found))
    return found


def with_random_items(app: Stanchion, count: int) -> dict[str, list[object]]:
    """Let jobs finish that carry random items; return these by the ids of the jobs."""
    items = random_items(count)
    jobs = []
    for one, row in zip(items, finished(Stanchion("memory://"), len(items), "etl.raw"), strict=True):
        payload = stored(Codec(), Chunk.of(one))
        jobs.append(row._replace(payload=payload, items=len(one) if len(one) > 1 else None, task=None, state="done"))
    for first in range(0, len(jobs), 500):
        assert all(app.store.adopt(jobs[first : first + 500]))
    return {row.id: one for row, one in zip(jobs, items, strict=True)}
