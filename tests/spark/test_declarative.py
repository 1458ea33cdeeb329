"""The example of Spark Declarative Pipelines: a queue as the source of flows, and as a sink."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from stanchion import JobState, Push, Stanchion
from tests.spark.test_item_rows import push
from tests.worker.conftest import until

EXAMPLE = Path(__file__).parents[2] / "examples" / "declarative"
COMMAND = Path(sys.executable).parent / "spark-pipelines"

pytestmark = pytest.mark.nightly


@pytest.fixture
def app(tmp_path: Path) -> Iterator[Stanchion]:
    with closing(Stanchion(f"sqlite:///{tmp_path / 'jobs.db'}")) as one:
        one.setup()
        yield one


def update(folder: Path, app: Stanchion) -> None:
    """Run an update of the pipeline."""
    environment = {**os.environ, "DATABASE_URL": str(app.url), "PYSPARK_PYTHON": sys.executable}
    options = ["--conf", "spark.sql.catalogImplementation=hive", "--conf", "spark.ui.enabled=false"]
    subprocess.run(
        [COMMAND, "run", *options, "--spec", "spark-pipeline.yml"],
        cwd=folder,
        env=environment,
        check=True,
        capture_output=True,
    )


def test_orders(app: Stanchion, tmp_path: Path) -> None:
    folder = tmp_path / "declarative"
    shutil.copytree(EXAMPLE, folder)
    spec = folder / "spark-pipeline.yml"
    spec.write_text(spec.read_text().replace("file:///tmp/orders", f"file://{tmp_path}"))
    raw, clean = app.queue("raw"), app.queue("clean")
    raw.push_many([Push({"customer": f"c{n}", "items": n}, max_attempts=2) for n in range(3)])
    push(app, [{"customer": "d", "items": n} for n in range(100)], queue="raw", max_attempts=2)
    update(folder, app)
    assert (clean.counts().pushed, raw.counts().committed, raw.counts().buried) == (101, 101, 0)
    until(lambda: len(raw.find(state=JobState.READY)) == 2)
    update(folder, app)
    letters = raw.find(state=JobState.DEAD)
    assert sorted(job.payload["customer"] for job in letters) == ["c0", "d"]
    assert {job.errors[-1]["error"] for job in letters} == {"the number of items is missing"}
    assert clean.size().total == 0
    rows = pq.read_table(folder / "spark-warehouse" / "orders").to_pylist()
    assert sorted((row["customer"], row["items"]) for row in rows) == [
        ("C1", 1),
        ("C2", 2),
        *(("D", n) for n in range(1, 100)),
    ]
