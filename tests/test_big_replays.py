"""A replay of very many items of a pipeline, in bounded memory."""

import tracemalloc
from collections.abc import Iterator
from contextlib import closing

import pytest

from stanchion import Stanchion
from stanchion.core.ids import new_ids
from stanchion.jobs.insert import batches
from stanchion.pipelines.pipeline import plan_of
from stanchion.stores.protocol import Store
from stanchion.stores.records.jobs import JobRow, NewJob
from stanchion.stores.rules.lifecycle.jobs import created

pytestmark = pytest.mark.nightly

ITEMS = 100_000
MOST_BYTES = 45 * 1024 * 1024
"""What this process may need: less than half of the payloads of all items, which are 1 kB each."""


@pytest.fixture(params=["sqlite", "postgres", "mariadb", "redis", "mongo"])
def url(request: pytest.FixtureRequest, tmp_path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/jobs.db"
    name = {"postgres": "pg_url"}.get(request.param, f"{request.param}_url")
    return str(request.getfixturevalue(name))


def ran(store: Store, number: int) -> Iterator[JobRow]:
    """Yield items that have run through the pipeline."""
    now = store.now()
    trail = f'[["lines.raw",{now},1,1],["lines.end",{now}]]'
    for job_id in new_ids(number):
        item = created(NewJob(job_id, "lines.end", '"end"'), now)
        yield item._replace(state="done", finished_at=now, entry_payload=f'"{job_id}{"x" * 1000}"', trail=trail)


def test_goes_by_batches(url: str) -> None:
    with closing(Stanchion(url)) as app:
        app.setup()
        etl = app.pipeline("lines")
        etl.station("raw", to="end")(lambda _item: "end")
        etl.station("end")(lambda item: item)
        plan_of(etl).prepare()
        for batch in batches(ran(app.store, ITEMS), 500):
            assert all(app.store.adopt(batch))
        tracemalloc.start()
        try:
            assert etl.replay(from_="raw", state="done", write_id="fix") == ITEMS
            assert tracemalloc.get_traced_memory()[1] < MOST_BYTES
        finally:
            tracemalloc.stop()
        assert etl.queue("raw").size().ready == ITEMS
        assert etl.replay(from_="raw", state="done", write_id="fix") == 0
        (reserved,) = etl.queue("raw").reserve()
        assert reserved.payload.startswith(str(reserved.origin))
