"""A stream into a Delta table whose processes are killed, at any step: each row is there once, each input is done."""

import random
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from deltalake import DeltaTable

from stanchion import Stanchion
from tests.spark import killing
from tests.spark.supervision import supervised
from tests.spark.test_state_kills import QUERIES, item, wanted
from tests.spark.test_stream_kills import ZOMBIE, drive, to_the_end, until_done

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.slow, pytest.mark.nightly, pytest.mark.timeout(3600)]

BATCH = 20
READING = ["after latest", "before begin", "after rows"]
WRITING = [f"{when} {step}" for step in killing.LAKE_STEPS for when in ("before", "after")]
STEPS = [*READING, *WRITING, "before drop", "before acknowledge", "after acknowledge"]


class Source:
    """A queue that always has work for a query that writes into the table of a folder."""

    def __init__(self, spark: "SparkSession", app: Stanchion, folder: Path) -> None:
        killing.register(spark)
        self.spark, self.app, self.folder = spark, app, folder
        self.raw, self.pushed = app.queue("raw"), 0

    def run(self) -> None:
        killing.run(self.spark, self.app.url, self.folder, "delta", BATCH)

    def push_and_run(self) -> None:
        if self.raw.size().ready < 2 * BATCH:  # a step is come by only where there is work
            self.push(2 * BATCH)
        self.run()

    def push(self, count: int) -> None:
        self.raw.push_many(list(range(self.pushed, self.pushed + count)))
        self.pushed += count

    def check(self) -> None:
        """Every input is done, and has one row; the table names no file twice, and none that is gone."""
        assert self.raw.size().total == 0
        assert self.raw.counts().committed == self.pushed
        assert rows(self.folder) == Counter(str(n) for n in range(self.pushed))


def rows(folder: Path) -> Counter[str]:
    """Return the payloads in the table, as any reader of Delta sees them."""
    found: list[str] = DeltaTable(str(folder / killing.TABLE)).to_pyarrow_table()["payload"].to_pylist()
    return Counter(found)


def die_at(folder: Path, steps: list[str], run: Callable[[], Any]) -> None:
    """Run a query that dies at these steps, one after the other."""
    for step in steps:
        killing.kill_at(folder, step)
        until_done(folder, run)


def test_python_processes_die_at_each_step(spark: "SparkSession", app: Stanchion, tmp_path: Path) -> None:
    """Java lives on here, and starts the query again."""
    source = Source(spark, app, tmp_path)
    die_at(tmp_path, STEPS, source.push_and_run)
    to_the_end(source.run)
    source.check()


@pytest.mark.parametrize("address", ["pg_url", "mariadb_url", "redis_url", "mongo_url"])
def test_other_stores(spark: "SparkSession", request: pytest.FixtureRequest, tmp_path: Path, address: str) -> None:
    app = Stanchion(request.getfixturevalue(address))
    app.setup()
    source = Source(spark, app, tmp_path)
    die_at(tmp_path, ["after files", "before adding", "after adding", "before acknowledge"], source.push_and_run)
    to_the_end(source.run)
    source.check()
    app.close()


def test_all_of_a_driver_is_killed(spark: "SparkSession", pg_app: Stanchion, tmp_path: Path) -> None:
    """Java and Python at once. With `zombie` the process that is in the step goes on with it some seconds later."""
    source, harmless_from = Source(spark, pg_app, tmp_path), 0.0
    source.push(6 * BATCH)
    for n, step in enumerate(["after adding", "before adding", "after files", "after added"]):
        zombie = ZOMBIE if n % 2 else 0
        killing.kill_at(tmp_path, step, zombie=zombie)
        until_done(tmp_path, lambda: drive(pg_app, tmp_path, "delta"))
        harmless_from = time.monotonic() + zombie + 2
    to_the_end(source.run)
    time.sleep(max(0.0, harmless_from - time.monotonic()))  # for the zombies to have done their worst
    source.check()


def test_random_kills(spark: "SparkSession", app: Stanchion, tmp_path: Path) -> None:
    source, choose = Source(spark, app, tmp_path), random.Random(9)
    steps = [*killing.STEPS, *killing.LAKE_STEPS]
    for _ in range(15):
        source.push(30)
        killing.kill_at(tmp_path, f"{choose.choice(['before', 'after'])} {choose.choice(steps)}")
        with suppress(Exception):
            supervised(source.run)
    (tmp_path / "at").unlink(missing_ok=True)
    to_the_end(source.run)
    source.check()


@pytest.mark.parametrize("query", QUERIES)
def test_queries_with_state(spark: "SparkSession", app: Stanchion, tmp_path: Path, query: str) -> None:
    """The table has what a batch computation finds, each row once."""
    killing.register(spark)
    items: list[dict[str, Any]] = []
    queues = [app.queue(name) for name in (("raw", "others") if query == "joined" else ("raw",))]

    def push(count: int) -> None:
        new = [item(len(items) + n) for n in range(count)]
        items.extend(new)
        for queue in queues:
            queue.push_many(new)

    def run() -> None:
        if queues[0].size().ready < 2 * BATCH:
            push(2 * BATCH)
        killing.run(spark, app.url, tmp_path, "delta", make=QUERIES[query])

    die_at(tmp_path, ["after adding", "after latest", "after files", "before adding", "after added"], run)
    items.append({**item(0), "key": "last", "at": "2027-01-15T10:00:00Z"})  # closes all windows
    queues[0].push(items[-1])
    to_the_end(lambda: killing.run(spark, app.url, tmp_path, "delta", make=QUERIES[query]))
    found = rows(tmp_path)
    del found['{"key":"last"}']
    assert found == wanted(spark, query, items)
    assert all(queue.size().total == 0 for queue in queues)
